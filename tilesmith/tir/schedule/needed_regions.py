"""Narrows the region that a block reads by the conditions around its loads.

    T.reads(B[vi])                                      over vi < 64 it needs B[60:64]
    C[vi] = T.if_then_else(60 <= vi, B[vi], 0.0)

A declared region names what a block may read; a load in a branch that is not taken reads nothing,
and no load leaves its buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilesmith.arith import IntervalSet, estimate_region_upper_bound
from tilesmith.ir import Call, IntImm, Let, Not, PrimExpr, Range, Var, Visitor
from tilesmith.ir.operators import all_of, is_const
from tilesmith.ir.queries import any_node, conjuncts, is_call
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.functor import Substitution
from tilesmith.tir.queries import reads_memory, uses_variable
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
)

__all__ = ["narrowed"]

Interval = tuple[PrimExpr, PrimExpr]  # both ends belong to it


def narrowed(
    block: Block,
    buffer: Buffer,
    intervals: Sequence[Interval],
    bind: Substitution,
    ranges: Mapping[Var, Range],
) -> list[Interval]:
    """Return what a block needs of ``intervals``, which it reads of a buffer.

    ``bind`` gives the iterators their values, ``ranges`` the variables that the intervals are
    taken over. Only constant bounds are narrowed.
    """
    found = list(intervals)
    for box in [_size_of(buffer), _conditional_box(block, buffer, bind, ranges)]:
        if box is not None:
            found = [_common(one, other) for one, other in zip(found, box)]
    return found


def _size_of(buffer: Buffer) -> list[tuple[int, int] | None]:
    return [(0, size.value - 1) if isinstance(size, IntImm) else None for size in buffer.shape]


def _common(interval: Interval, box: tuple[int, int] | None) -> Interval:
    """Return the common part of an interval and a box; the interval where there is none."""
    low, high = interval
    if box is None or not (isinstance(low, IntImm) and isinstance(high, IntImm)):
        return interval
    first, last = max(low.value, box[0]), min(high.value, box[1])
    if first > last:
        return interval
    return IntImm(low.dtype, first), IntImm(high.dtype, last)


def _conditional_box(
    block: Block, buffer: Buffer, bind: Substitution, ranges: Mapping[Var, Range]
) -> list[tuple[int, int] | None] | None:
    """Return a box around all elements that conditional loads of a buffer read; None where loads
    are not conditional, or something else uses the buffer.
    """
    if not any_node(block.body, _is_branch):
        return None
    finder = _ConditionalLoads(buffer)
    finder.visit(block.body)
    if block.init is not None:
        finder.visit(block.init)
    if not finder.is_known or not any(conditions for _, conditions in finder.found):
        return None
    boxes: list[list[IntervalSet]] = []
    for load, conditions in finder.found:
        if any(index.dtype.lanes != 1 for index in load.indices):
            return None
        indices = [Range.from_min_extent(bind.visit(index), 1) for index in load.indices]
        condition = all_of(*[bind.visit(one) for one in conditions]) if conditions else True
        boxes.append(estimate_region_upper_bound(indices, ranges, condition))
    return [_around(parts) for parts in zip(*boxes)]


def _is_branch(node: object) -> bool:
    return isinstance(node, IfThenElse) or is_call(node, "tir.if_then_else")


def _around(parts: Sequence[IntervalSet]) -> tuple[int, int] | None:
    """Return the first and the last of the values of some sets, if they are constant."""
    lows, highs = [], []
    for part in parts:
        if not (isinstance(part.min_value, IntImm) and isinstance(part.max_value, IntImm)):
            return None
        lows.append(part.min_value.value)
        highs.append(part.max_value.value)
    return min(lows), max(highs)


class _ConditionalLoads(Visitor):
    """The loads of a buffer, each with the conditions under which it is executed."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.conditions: list[PrimExpr] = []
        self.inner: set[Var] = set()  # variables that the body defines
        self.found: list[tuple[BufferLoad, tuple[PrimExpr, ...]]] = []
        self.is_known = True

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        if load.buffer is self.buffer:
            self.is_known = self.is_known and not uses_variable(load.indices, self.inner)
            known = [one for one in self.conditions if not uses_variable(one, self.inner)]
            self.found.append((load, tuple(known)))
        for index in load.indices:
            self.visit(index)
        if load.predicate is not None:
            self.visit(load.predicate)

    def visit_BufferStore(self, store: BufferStore) -> None:
        for part in (store.value, *store.indices):
            self.visit(part)
        if store.predicate is not None:
            self.visit(store.predicate)

    def visit_Buffer(self, buffer: Buffer) -> None:
        self.is_known = self.is_known and buffer.data is not self.buffer.data

    def visit_Var(self, var: Var) -> None:
        self.is_known = self.is_known and var is not self.buffer.data

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        self.is_known = False

    def visit_For(self, loop: For) -> None:
        self.inner.add(loop.loop_var)
        self.visit_children(loop)

    def visit_LetStmt(self, let: LetStmt) -> None:
        self.inner.add(let.var)
        self.visit_children(let)

    def visit_Let(self, let: Let) -> None:
        self.inner.add(let.var)
        self.visit_children(let)

    def visit_IfThenElse(self, branch: IfThenElse) -> None:
        self.visit(branch.condition)
        self.under(branch.condition, branch.then_case)
        if branch.else_case is not None:
            self.under(Not(branch.condition), branch.else_case)

    def visit_Call(self, call: Call) -> None:
        if not is_call(call, "tir.if_then_else"):
            self.visit_children(call)
            return
        condition, taken, other = call.args
        self.visit(condition)
        self.under(condition, taken)
        self.under(Not(condition), other)

    def under(self, condition: PrimExpr, node: object) -> None:
        """Visit what runs where a condition holds."""
        before = len(self.conditions)
        self.conditions += [one for one in conjuncts(condition) if not _is_data(one)]
        self.visit(node)
        del self.conditions[before:]


def _is_data(condition: PrimExpr) -> bool:
    return is_const(condition, 1) or reads_memory(condition)
