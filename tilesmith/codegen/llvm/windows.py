"""Loads of elements that lie close together: the whole window, of which a shuffle picks them.

    A[p * 104 + lane // 8 * 8 + c] for 16 lanes, 0 <= c < 8   is   permute(A[p * 104 + 0…15], …)

That is several times faster than gathering them. A window is widened to whole groups of elements,
where the buffer has whole groups only, and where the lanes reach its first and its last group
wherever they are moved to: no element outside of the buffer is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from tilesmith.codegen.facts import Facts
from tilesmith.codegen.lane_offsets import lane_offsets
from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Add, PrimExpr, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer

__all__ = ["Window", "pick", "window_of"]


@dataclass(frozen=True)
class Window:
    """A row of elements, and which of them the lanes of a vector are."""

    base: PrimExpr
    lanes: int
    """Elements of the row."""
    picked: tuple[int, ...]
    """For each lane the number of an element of the row, without what ``moved`` adds."""
    moved: PrimExpr | None
    """How far all lanes are moved at run time; None if they are not."""


def window_of(emit: Values, buffer: Buffer, index: PrimExpr, dtype: DataType) -> Window | None:
    """Return the window that the elements of an index lie in; None if it is wider than two vectors,
    or the target cannot pick them.
    """
    found = lane_offsets(index, emit.facts)
    if found is None:
        return None
    base, offsets = found
    fixed, moving = _addends(base, emit.facts, 2 * dtype.lanes)
    multiples = [emit.facts.multiple_of(one) for one in fixed]
    group = gcd(2 * dtype.lanes, _size(buffer, emit.facts), *multiples)
    first = min(offsets) // group * group
    reach = sum([emit.facts.below[one] - 1 for one in moving])
    last = max(offsets) + reach
    lanes = -(-(last + 1 - first) // group) * group
    if lanes > 2 * dtype.lanes:
        return None
    if (min(offsets) + reach) // group * group != first or last // group != max(offsets) // group:
        return None  # of a group that only some values reach, a condition may keep the others
    if moving and _permutation(emit, dtype, lanes) is None:
        return None
    start = _sum([*fixed, const(first, base.dtype)] if first or not fixed else fixed)
    moved = _sum([*moving]) if moving else None
    return Window(start, lanes, (*[one - first for one in offsets],), moved)


def _size(buffer: Buffer, facts: Facts) -> int:
    size = 1
    for extent in buffer.shape:
        size *= facts.multiple_of(extent)
    return size


def _addends(base: PrimExpr, facts: Facts, most: int) -> tuple[list[PrimExpr], list[Var]]:
    """Return the addends of an index: those that are any numbers, and variables that are small."""
    fixed: list[PrimExpr] = []
    moving: list[Var] = []
    stack = [base]
    while stack:
        one = stack.pop()
        if isinstance(one, Add):
            stack += [one.b, one.a]
        elif isinstance(one, Var) and 1 < facts.below.get(one, 0) <= most:
            moving.append(one)
        else:
            fixed.append(one)
    return fixed, moving


def _sum(addends: list[PrimExpr]) -> PrimExpr:
    total, *others = addends
    for one in others:
        total = total + one
    return total


def _permutation(emit: Values, dtype: DataType, lanes: int) -> str | None:
    """Return the instruction that picks elements of a row by an index vector, if there is one."""
    if dtype.element != "float32" or lanes != dtype.lanes:
        return None
    if lanes == 16 and "avx512f" in emit.machine.features:
        return "llvm.x86.avx512.permvar.sf.512"
    if lanes == 8 and "avx2" in emit.machine.features:
        return "llvm.x86.avx2.permps"
    return None


def pick(emit: Values, window: Window, dtype: DataType, row: str) -> str:
    """Return the elements of a row that was loaded."""
    kind = register_type(dtype.with_lanes(window.lanes))
    if window.moved is None:
        return emit.out.shuffle(kind, row, "poison", [*window.picked])
    name = _permutation(emit, dtype, window.lanes)
    if name is None:  # window_of has asked for it
        raise emit.out.unsupported("it picks lanes of a vector by an index vector")
    places = DataType("int32").with_lanes(dtype.lanes)
    indices = register_type(places)
    moved = emit.out.broadcast(emit.value(window.moved.astype("int32")), places)
    known = ", ".join([f"i32 {one}" for one in window.picked])
    chosen = emit.define(f"add {indices} {moved}, <{known}>")
    function = emit.text.declare(name, kind, [kind, indices])
    return emit.define(f"call {kind} {function}({kind} {row}, {indices} {chosen})")
