"""Finds values that the blocks of one kernel exchange through global memory.

    M[bx * 32 + tx] = ...
    B[bx * 32 + tx] = M[127 - bx * 32 - tx]         block 0 reads what only block 3 writes

The blocks of a kernel run in any order, and no barrier lets one wait for another. What is found is
certain: the elements that each block writes and reads are counted. Memory whose accesses cannot be
counted (places read from memory, pointers given to calls, loops that wait for other blocks, too
many elements) is taken as good.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy

from tilesmith.ir import IntImm, PrimExpr, Ramp, StringImm, Var, Visitor
from tilesmith.ir.queries import conjuncts, is_call, variables
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.index_map_values import NumpyValue
from tilesmith.tir.queries import reads_memory
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)

__all__ = ["refuse_exchange_between_blocks"]

MOST_POINTS = 1 << 18
"""How many iterations of all threads are counted for one access."""


class _Access(NamedTuple):
    pointer: Var
    place: PrimExpr
    conditions: tuple[PrimExpr, ...]
    loops: tuple[tuple[Var, int, int], ...]  # variable, first value, number of values
    span: Any


class _Collector(Visitor):
    """Collects the accesses of global memory in a kernel."""

    def __init__(self) -> None:
        self.reads: list[_Access] = []
        self.writes: list[_Access] = []
        self.unknown: set[Var] = set()  # pointers that are used otherwise
        self.blocks: list[Var] = []
        self.loops: list[tuple[Var, int, int]] = []
        self.conditions: list[PrimExpr] = []
        self.whiles = 0
        self.choices = 0  # expressions around that evaluate only some of their parts
        self.has_barrier = False

    def access(self, buffer: Any, indices: Any, span: Any, writes: bool) -> None:
        pointer = buffer.data
        if pointer.storage_scope not in ("", "global"):
            return
        known = {var for var, _, _ in self.loops}
        parts = [*indices, *self.conditions]
        is_known = (
            len(indices) == 1
            and not reads_memory(parts)
            and known.issuperset(variables(parts))
            and not self.whiles
            and prod([count for _, _, count in self.loops]) <= MOST_POINTS
        )
        if is_known and not (self.choices and not writes):
            found = _Access(pointer, indices[0], tuple(self.conditions), tuple(self.loops), span)
            (self.writes if writes else self.reads).append(found)
        elif writes or self.whiles:
            self.unknown.add(pointer)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit_children(node)
        self.access(node.buffer, node.indices, None, False)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.visit_children(node)
        if node.predicate is not None:
            self.unknown.add(node.buffer.data)
        self.access(node.buffer, node.indices, node.span, True)

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle:
            self.unknown.add(node)

    def visit_Call(self, node: Any) -> None:
        if is_call(node, "tir.tvm_storage_sync"):
            scope = node.args[0]
            self.has_barrier |= isinstance(scope, StringImm) and scope.value == "global"
        if is_call(node, "tir.address_of") and isinstance(node.args[0], BufferLoad):
            self.unknown.add(node.args[0].buffer.data)
        self.choose(node) if is_call(node, "tir.if_then_else") else self.visit_children(node)

    def choose(self, node: Any) -> None:
        self.choices += 1
        self.visit_children(node)
        self.choices -= 1

    visit_Select = visit_And = visit_Or = choose

    def visit_Allocate(self, node: Allocate) -> None:
        self.visit(node.body)

    visit_AllocateConst = visit_DeclBuffer = visit_Allocate

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)  # what depends on the variable cannot be counted
        self.visit(node.body)

    def visit_While(self, node: While) -> None:
        self.whiles += 1
        self.visit_children(node)
        self.whiles -= 1

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.visit(node.condition)
        kept = self.conditions
        clauses = [
            one.args[0] if is_call(one, "tir.likely") else one for one in conjuncts(node.condition)
        ]
        self.conditions = [*kept, *clauses]
        self.visit(node.then_case)
        if node.else_case is not None:
            self.conditions = [*kept, node.condition.equal(False)]
            self.visit(node.else_case)
        self.conditions = kept

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.loop(node.loop_var, node.min, node.extent, node.body)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        thread = node.node
        if node.attr_key != "thread_extent" or not isinstance(thread, IterVar):
            self.visit(node.body)
            return
        if thread.thread_tag.startswith("blockIdx"):
            self.blocks.append(thread.var)
        self.loop(thread.var, IntImm("int32", 0), node.value, node.body)

    def loop(self, var: Var, first: PrimExpr, count: PrimExpr, body: Stmt) -> None:
        is_known = isinstance(first, IntImm) and isinstance(count, IntImm)
        if is_known:
            self.loops.append((var, first.value, count.value))  # type: ignore[attr-defined]
        self.visit(body)
        if is_known:
            self.loops.pop()


def refuse_exchange_between_blocks(kernel: Stmt) -> None:
    """Raise UnsupportedError if a block reads an element that only other blocks write."""
    found = _Collector()
    found.visit(kernel)
    if found.has_barrier:
        return
    read = {access.pointer for access in found.reads} - found.unknown
    for pointer in {access.pointer: None for access in found.writes}:
        if pointer not in read:
            continue
        writes = [access for access in found.writes if access.pointer is pointer]
        reads = [access for access in found.reads if access.pointer is pointer]
        counted = [_elements(access, found.blocks) for access in writes]
        if any(one is None for one in counted):
            continue
        written = numpy.unique(numpy.concatenate(counted), axis=0)
        for access in reads:
            _refuse_foreign(access, found.blocks, written)


def _refuse_foreign(access: _Access, blocks: list[Var], written: Any) -> None:
    """Raise UnsupportedError if a read has an element that is written, but not by its block."""
    elements = _elements(access, blocks)
    if elements is None:
        return
    first = min(elements[:, 1].min(initial=0), written[:, 1].min(initial=0))
    size = max(elements[:, 1].max(initial=0), written[:, 1].max(initial=0)) - first + 1
    keys, own = [pairs[:, 0] * size + pairs[:, 1] - first for pairs in (elements, written)]
    foreign = numpy.isin(elements[:, 1], written[:, 1]) & ~numpy.isin(keys, own)
    for block, element in elements[foreign][:1]:
        writer = int(written[written[:, 1] == element][0, 0])
        name = access.pointer.name
        raise UnsupportedError(
            f"the blocks of threads exchange values through '{name}' in one kernel: block "
            f"{int(block)} reads element {int(element)}, which only block {writer} writes",
            span=access.span,
            notes=(
                "no barrier orders the blocks of a kernel: end the loops over blocks between the "
                "two, so that there are two kernels, or set tir.detect_global_barrier",
            ),
        )


def _elements(access: _Access, blocks: list[Var]) -> Any:
    """Return pairs of a block's number and an element that it accesses; None if they cannot be
    counted."""
    if not access.loops:
        return None
    grids = numpy.ogrid[tuple([slice(low, low + count) for _, low, count in access.loops])]
    values = {var: grid for (var, _, _), grid in zip(access.loops, grids)}
    sizes = {var: count for var, _, count in access.loops}
    shape = tuple(sizes.values())
    index, lanes = access.place, 1
    if isinstance(index, Ramp):
        if not isinstance(index.stride, IntImm) or index.stride.value != 1:
            return None
        index, lanes = index.base, index.dtype.lanes
    number: Any = 0
    for var in blocks:
        if var in values:
            number = number * sizes[var] + values[var]
    evaluate = NumpyValue(values).visit
    try:
        place = numpy.broadcast_to(evaluate(index), shape).ravel()
        mask = numpy.ones(shape, bool)
        for condition in access.conditions:
            mask = mask & numpy.asarray(evaluate(condition), bool)
    except UnsupportedError:
        return None
    block = numpy.broadcast_to(number, shape).ravel()[mask.ravel()]
    place = place[mask.ravel()]
    return numpy.concatenate(
        [numpy.stack([block, place + lane], axis=1) for lane in range(lanes)]
    ).astype(numpy.int64)
