"""rolling_buffer: a circular buffer for a producer whose parts overlap from iteration to iteration.

A producer under a loop of its consumers writes rows ``[i * s + c, i * s + c + e)`` of a buffer in
iteration i. Where e > s, the first e - s of them have been computed in the iteration before. The
buffer shrinks to e rows, row r lies at ``r % e``, and only new rows are computed.
"""

from __future__ import annotations

from typing import NamedTuple

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, any_of, floormod, is_const
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.schedule.primitives.blocks import (
    NOT_AFFINE,
    check_covers_domain,
    is_output_block,
    ranges_between,
    scope_blocks,
    scope_of,
    why_not_complete,
    why_not_reduction,
)
from tilesmith.tir.schedule.primitives.cache import buffer_with, region_of
from tilesmith.tir.schedule.primitives.common import Rebuild, Replace, refuse_at, variables_in
from tilesmith.tir.schedule.primitives.compute_inline import check_plain_access
from tilesmith.tir.schedule.primitives.copies import (
    analyzer_inside,
    bound_region,
    common_place,
    region_at,
    writes_always,
)
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind

__all__ = ["rolling_buffer"]


class _Rolling(NamedTuple):
    """The dimension that rolls, the loop that rolls it, the rows of one iteration, the new ones."""

    axis: int
    loop: For
    low: PrimExpr
    rows: int
    new_rows: int


def rolling_buffer(state: ScheduleState, sref: StmtSRef, index: int) -> None:
    """Keep only the rows in use; see ``Schedule.rolling_buffer``."""
    primitive = "rolling_buffer"
    region = region_of(state, primitive, sref, index, reads=False)
    buffer = region.buffer
    scope = scope_of(state, sref, primitive)
    block: Block = state.stmt(sref).block
    if is_output_block(state, sref, scope):
        reason = f"block '{block.name_hint}' writes an output of its scope"
        raise refuse_at(state, primitive, reason, sref)
    _check_kind(state, sref, scope)
    check_covers_domain(state, primitive, sref)
    consumers = [
        other
        for other in scope_blocks(state, scope)
        if other is not sref and any(r.buffer is buffer for r in state.stmt(other).block.reads)
    ]
    place = common_place(state, scope, [sref, *consumers]) if consumers else scope
    if not isinstance(state.stmt(place), For):
        raise refuse_at(
            state,
            primitive,
            f"block '{block.name_hint}' and its consumers share no loop",
            sref,
            "move it under a loop of its consumers first (compute_at)",
        )
    for user in (sref, *consumers):
        check_plain_access(state, primitive, user, buffer)
    rolling = _find(state, sref, region, place)
    _check_consumers(state, sref, consumers, buffer, region, place)
    _apply(state, sref, scope, buffer, rolling)


def _check_kind(state: ScheduleState, sref: StmtSRef, scope: StmtSRef) -> None:
    """A complete block or a reduction; parts that overlap need not be bound affinely."""
    first = why_not_complete(state, sref, scope)
    second = why_not_reduction(state, sref, scope) if first else ""
    if second and second != NOT_AFFINE:
        name = state.stmt(sref).block.name_hint
        reason = f"block '{name}' is neither complete ({first}) nor a reduction block ({second})"
        raise refuse_at(state, "rolling_buffer", reason, sref)


def _find(state: ScheduleState, sref: StmtSRef, region: BufferRegion, place: StmtSRef) -> _Rolling:
    """The first dimension in which the parts of successive iterations overlap."""
    name = region.buffer.name
    part = region_at(state, sref, region, place, exact=True)
    if part is None or not writes_always(state.stmt(sref).block, region.buffer):
        reason = f"the part of '{name}' that one iteration writes is no full box"
        raise refuse_at(state, "rolling_buffer", reason, sref)
    around = [place, *state.ancestors(place)]
    loops = {
        stmt.loop_var: stmt
        for stmt in [state.stmt(ancestor) for ancestor in around]
        if isinstance(stmt, For)
    }
    # The innermost loop first: where a row depends on several, rows roll with that one.
    order = list(loops)
    analyzer = analyzer_inside(state, place)
    for axis, one in enumerate(part):
        used = [variable for variable in order if variable in variables_in(one.min)]
        if not used or not isinstance(one.extent, IntImm):
            continue
        loop = loops[used[0]]
        step = _step(analyzer, one.min, loop.loop_var)
        if step is None or not 0 < step < one.extent.value or is_const(loop.extent, 1):
            continue
        rolling = _Rolling(axis, loop, one.min, one.extent.value, step)
        _check_loops(state, sref, place, rolling, part)
        return rolling
    raise refuse_at(
        state,
        "rolling_buffer",
        f"the parts of '{name}' in successive iterations do not overlap",
        place,
        "rolling serves constant steps that are smaller than the part",
    )


def _step(analyzer: Analyzer, low: PrimExpr, variable: Var) -> int | None:
    """How far a part moves from one iteration to the next, if that is constant."""
    after = Replace({variable: variable + 1}).visit(low)
    step = analyzer.simplify(after - low)
    return step.value if isinstance(step, IntImm) else None


def _check_loops(
    state: ScheduleState,
    sref: StmtSRef,
    place: StmtSRef,
    rolling: _Rolling,
    part: list[Range],
) -> None:
    """From one iteration of the rolled loop to the next, all else happens again in the same way."""
    loop = rolling.loop
    if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
        reason = f"loop '{loop.loop_var.name}' does not run in order, so that rows cannot be kept"
        raise refuse_at(state, "rolling_buffer", reason, state.loop_of(loop.loop_var, sref))
    for ancestor in (place, *state.ancestors(place)):
        inner = state.stmt(ancestor)
        if inner is loop:
            break
        if loop.loop_var in variables_in(inner.min, inner.extent):
            reason = f"loop '{inner.loop_var.name}' depends on '{loop.loop_var.name}'"
            raise refuse_at(state, "rolling_buffer", reason, ancestor)
    for axis, other in enumerate(part):
        if axis != rolling.axis and loop.loop_var in variables_in(other.min, other.extent):
            reason = f"two dimensions of the buffer move with loop '{loop.loop_var.name}'"
            raise refuse_at(state, "rolling_buffer", reason, sref)


def _check_consumers(
    state: ScheduleState,
    sref: StmtSRef,
    consumers: list[StmtSRef],
    buffer: Buffer,
    region: BufferRegion,
    place: StmtSRef,
) -> None:
    """Consumers need only rows that the same iteration would have written without rolling."""
    analyzer = analyzer_inside(state, place)
    part = region_at(state, sref, region, place, exact=True)
    blocks = state.blocks_below(place)
    for consumer in consumers:
        block: Block = state.stmt(consumer).block
        if any(other.buffer is buffer for other in block.writes):
            reason = f"block '{block.name_hint}' writes '{buffer.name}' too"
            raise refuse_at(state, "rolling_buffer", reason, consumer)
        if blocks.index(consumer) < blocks.index(sref):
            reason = f"block '{block.name_hint}' reads '{buffer.name}' before it is written"
            raise refuse_at(state, "rolling_buffer", reason, consumer)
        for read in block.reads:
            if read.buffer is not buffer:
                continue
            needed = region_at(state, consumer, read, place, exact=False)
            for inner, outer in zip(needed, part):
                within = analyzer.can_prove(inner.min >= outer.min) and analyzer.can_prove(
                    inner.min + inner.extent <= outer.min + outer.extent
                )
                if not within:
                    reason = (
                        f"block '{block.name_hint}' reads parts of '{buffer.name}' that are not "
                        "written in the same iteration"
                    )
                    raise refuse_at(state, "rolling_buffer", reason, consumer)


class _Circular(Rebuild):
    """Takes one index of every access to a buffer modulo the number of rows kept."""

    def __init__(self, old: Buffer, new: Buffer, axis: int, rows: int) -> None:
        super().__init__()
        self.old = old
        self.new = new
        self.axis = axis
        self.rows = rows

    def _indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        made = list(indices)
        made[self.axis] = floormod(made[self.axis], const(self.rows, made[self.axis].dtype))
        return tuple(made)

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        """A read."""
        load = self.children(load)
        if load.buffer is not self.old:
            return load
        return BufferLoad(self.new, self._indices(load.indices), load.predicate, load.span)

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        """A write."""
        store = self.children(store)
        if store.buffer is not self.old:
            return store
        indices = self._indices(store.indices)
        return BufferStore(self.new, store.value, indices, store.predicate, store.span)

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        """A region: a row stays a row, several rows may be any."""
        if region.buffer is not self.old:
            return region
        parts = list(region.region)
        rows = parts[self.axis]
        dtype = rows.min.dtype
        if is_const(rows.extent, 1):
            parts[self.axis] = Range.from_min_extent(
                floormod(rows.min, const(self.rows, dtype)), const(1, dtype)
            )
        else:
            parts[self.axis] = Range.from_min_extent(const(0, dtype), const(self.rows, dtype))
        return BufferRegion(self.new, tuple(parts))

    def visit_Block(self, block: Block) -> Block:
        """The accesses and the allocation."""
        new = self.children(block)
        if any(buffer is self.old for buffer in new.alloc_buffers):
            allocations = [self.new if b is self.old else b for b in new.alloc_buffers]
            new = new.with_fields(alloc_buffers=tuple(allocations))
        if new is not block:
            self.reuse[block] = new
        return new


def _apply(
    state: ScheduleState, sref: StmtSRef, scope: StmtSRef, buffer: Buffer, rolling: _Rolling
) -> None:
    """Shrink the buffer, and let the producer run for new rows only."""
    realize: BlockRealize = state.stmt(sref)
    analyzer = analyzer_inside(state, state.parent(sref))
    for variable, domain in ranges_between(state, sref, scope).items():
        analyzer.bind(variable, domain)
    region = next(r for r in realize.block.writes if r.buffer is buffer)
    row = bound_region(realize, region)[rolling.axis]
    # Of a part of several rows (a block that writes some at once) the last one tells.
    last = row.min + row.extent - 1
    offset = analyzer.simplify(last - rolling.low)
    overlap = const(rolling.rows - rolling.new_rows, offset.dtype)
    is_first = rolling.loop.loop_var < rolling.loop.min + 1
    condition = any_of(is_first, overlap <= offset)
    predicate = all_of(realize.predicate, condition)
    # From here on the order counts: rows are overwritten.
    rows = variables_in(region.region[rolling.axis].min)
    iterators = [
        i.with_fields(iter_type=IterVar.Ordered) if i.var in rows else i
        for i in realize.block.iter_vars
    ]
    block = realize.block.with_fields(iter_vars=tuple(iterators))
    new_realize = realize.with_fields(predicate=predicate, block=block)
    state.replace(sref, new_realize, {realize.block: block})
    shape = list(buffer.shape)
    shape[rolling.axis] = const(rolling.rows, shape[rolling.axis].dtype)
    new = buffer_with(buffer, buffer.name, shape=tuple(shape), strides=())
    rewrite = _Circular(buffer, new, rolling.axis, rolling.rows)
    before = state.stmt(scope)
    state.replace(scope, rewrite.visit(before), rewrite.reuse)
