"""read_at and write_at: a block under a loop that copies what the loop reads or has written.

The block is marked ``auto_copy``: how the copy is carried out is left to later passes. Its inside
is plain loops, its iterators are the loops around it on which the part depends.
"""

from __future__ import annotations

from tilesmith.arith import Analyzer, eval_set
from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, is_const
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.schedule.primitives.blocks import scope_blocks, scope_of
from tilesmith.tir.schedule.primitives.cache import (
    ReplaceBuffer,
    cache_of,
    check_storage_scope,
    part_written,
    region_of,
    replace_buffer,
)
from tilesmith.tir.schedule.primitives.common import (
    Replace,
    analyzer_for,
    loop_range,
    refuse_at,
    variables_in,
)
from tilesmith.tir.schedule.primitives.copies import (
    analyzer_inside,
    check_finished,
    hull,
    insert_nest,
    possible_region,
    region_at,
    statement_number,
)
from tilesmith.tir.schedule.primitives.reduction import add_allocation
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, Stmt

__all__ = ["read_at", "write_at"]


def read_at(
    state: ScheduleState, loop_sref: StmtSRef, sref: StmtSRef, index: int, storage_scope: str
) -> StmtSRef:
    """Read a buffer through a copy made in each iteration of a loop; see ``Schedule.read_at``."""
    buffer = region_of(state, "read_at", sref, index, reads=True).buffer
    check_storage_scope(state, "read_at", sref, storage_scope)
    scope = _check_around(state, "read_at", loop_sref, sref)
    readers = []
    for other in state.blocks_below(loop_sref):
        block: Block = state.stmt(other).block
        if any(region.buffer is buffer for region in block.writes):
            reason = f"block '{block.name_hint}' writes '{buffer.name}' under the loop"
            raise refuse_at(state, "read_at", reason, other, "use cache_read")
        if any(region.buffer is buffer for region in block.reads):
            readers.append(other)
    analyzer = analyzer_inside(state, loop_sref)
    part: list[Range] | None = None
    bounds: list[Range] | None = None
    for reader in readers:
        block = state.stmt(reader).block
        for region in block.reads:
            if region.buffer is buffer:
                possible = possible_region(analyzer, block, region)
                bounds = possible if bounds is None else hull(analyzer, bounds, possible)
                needed = region_at(state, reader, region, loop_sref, exact=False)
                part = needed if part is None else hull(analyzer, part, needed)
    cache = cache_of(buffer, storage_scope)
    realize = _copy(state, loop_sref, buffer, cache, part, bounds, cache.name)
    first = sorted(readers, key=lambda one: statement_number(state, loop_sref, one))[0]
    for reader in readers:
        replace_buffer(state, reader, ReplaceBuffer({buffer: cache}, only_reads=True))
    insert_nest(state, loop_sref, realize, first, before=True)
    add_allocation(state, scope, [cache])
    return state.block_of(realize.block, scope)


def write_at(
    state: ScheduleState, loop_sref: StmtSRef, sref: StmtSRef, index: int, storage_scope: str
) -> StmtSRef:
    """Write a buffer through a copy, put back in each iteration of a loop; see
    ``Schedule.write_at``."""
    region = region_of(state, "write_at", sref, index, reads=False)
    check_storage_scope(state, "write_at", sref, storage_scope)
    buffer = region.buffer
    scope = _check_around(state, "write_at", loop_sref, sref)
    below = state.blocks_below(loop_sref)
    users = []
    for other in scope_blocks(state, scope):
        block: Block = state.stmt(other).block
        reads = any(region.buffer is buffer for region in block.reads)
        writes = any(region.buffer is buffer for region in block.writes)
        if other is not sref and writes:
            reason = f"block '{block.name_hint}' writes '{buffer.name}' too"
            raise refuse_at(state, "write_at", reason, other)
        if other in below and (reads or writes):
            users.append(other)
    own: Block = state.stmt(sref).block
    if own.init is None and any(one.buffer is buffer for one in own.reads):
        reason = f"the block reads what is in '{buffer.name}' before it writes, the copy is empty"
        raise refuse_at(state, "write_at", reason, sref)
    check_finished(state, "write_at", sref, loop_sref)
    part, bounds = part_written(state, "write_at", sref, region, loop_sref)
    cache = cache_of(buffer, storage_scope)
    _check_reads_own(state, sref, users, buffer, loop_sref, part)
    realize = _copy(state, loop_sref, cache, buffer, part, bounds, cache.name)
    last = sorted(users, key=lambda one: statement_number(state, loop_sref, one))[-1]
    for user in users:
        replace_buffer(state, user, ReplaceBuffer({buffer: cache}))
    insert_nest(state, loop_sref, realize, last, before=False)
    add_allocation(state, scope, [cache])
    return state.block_of(realize.block, scope)


def _check_around(
    state: ScheduleState, primitive: str, loop_sref: StmtSRef, sref: StmtSRef
) -> StmtSRef:
    scope = scope_of(state, sref, primitive)
    if loop_sref not in state.loops(sref):
        name = state.stmt(sref).block.name_hint
        raise refuse_at(state, primitive, f"the loop is not around block '{name}'", loop_sref)
    return scope


def _check_reads_own(
    state: ScheduleState,
    sref: StmtSRef,
    users: list[StmtSRef],
    buffer: Buffer,
    loop_sref: StmtSRef,
    part: list[Range],
) -> None:
    """Readers under the loop, which will read the copy, need nothing from other iterations."""
    analyzer = analyzer_inside(state, loop_sref)
    for user in users:
        if user is sref:
            continue
        block: Block = state.stmt(user).block
        if users.index(user) < users.index(sref):
            name = state.stmt(sref).block.name_hint
            reason = f"block '{block.name_hint}' reads '{buffer.name}' before '{name}' writes it"
            raise refuse_at(state, "write_at", reason, user)
        for region in block.reads:
            if region.buffer is not buffer:
                continue
            needed = region_at(state, user, region, loop_sref, exact=False)
            for inner, outer in zip(needed, part):
                end, outer_end = inner.min + inner.extent, outer.min + outer.extent
                if analyzer.can_prove(inner.min >= outer.min) and analyzer.can_prove(
                    end <= outer_end
                ):
                    continue
                reason = (
                    f"block '{block.name_hint}' reads parts of '{buffer.name}' that this iteration "
                    "of the loop does not write"
                )
                raise refuse_at(state, "write_at", reason, user)


def _whole_domain(state: ScheduleState, sref: StmtSRef) -> Range:
    """The values of a loop's variable over all iterations of the loops around it."""
    loop: For = state.stmt(sref)
    low, last = loop.min, loop.min + loop.extent - 1
    for outer in reversed([state.stmt(around) for around in state.loops(sref)]):
        # From the inside out: the range of an inner loop may depend on an outer one.
        if outer.loop_var not in variables_in(low, last):
            continue
        ranges = {outer.loop_var: loop_range(outer)}
        first, end = eval_set(low, ranges), eval_set(last, ranges)
        if not (first.has_lower_bound() and end.has_upper_bound()):
            reason = f"the range of loop '{loop.loop_var.name}' is not known outside of the others"
            raise refuse_at(state, "read_at", reason, sref)
        low, last = first.min_value, end.max_value
    analyzer = analyzer_for(state, sref)
    low = analyzer.simplify(low)
    return Range.from_min_extent(low, analyzer.simplify(last - low + 1))


def _copy(
    state: ScheduleState,
    loop_sref: StmtSRef,
    source: Buffer,
    target: Buffer,
    part: list[Range],
    bounds: list[Range],
    name: str,
) -> BlockRealize:
    """The block that copies a part, which depends on the loops around it."""
    mapping: dict[Var, PrimExpr] = {}
    iterators: list[IterVar] = []
    values: list[Var] = []
    inner = Analyzer()
    used = variables_in(*part)
    for sref in (*state.loops(loop_sref), loop_sref):
        loop: For = state.stmt(sref)
        if loop.loop_var in used:
            own = Var(f"v{len(iterators)}", loop.loop_var.dtype)
            mapping[loop.loop_var] = own
            domain = _whole_domain(state, sref)
            iterators.append(IterVar(domain, own, IterVar.DataPar))
            values.append(loop.loop_var)
            inner.bind(own, domain)
    rename = Replace(mapping)
    indices: list[PrimExpr] = []
    conditions: list[PrimExpr] = []
    loops: list[tuple[Var, PrimExpr]] = []
    region: list[Range] = []
    for number, (one, bound) in enumerate(zip(part, bounds)):
        low, extent = rename.visit(one.min), rename.visit(one.extent)
        variable = Var(f"ax{number}", source.shape[number].dtype)
        loops.append((variable, extent))
        inner.bind(variable, Range.from_min_extent(const(0, variable.dtype), extent))
        index = variable if is_const(low, 0) else low + variable
        indices.append(index)
        region.append(Range.from_min_extent(low, extent))
        for condition in (index >= bound.min, index < bound.min + bound.extent):
            if not inner.can_prove(condition):
                conditions.append(condition)
    body: Stmt = BufferStore(target, BufferLoad(source, indices), indices)
    if conditions:
        body = IfThenElse(all_of(*conditions), body)
    for variable, extent in reversed(loops):
        body = For(variable, const(0, variable.dtype), extent, ForKind.SERIAL, body)
    block = Block(
        iterators,
        [BufferRegion(source, tuple(region))],
        [BufferRegion(target, tuple(region))],
        name,
        body,
        annotations={"auto_copy": 1},
    )
    return BlockRealize(values, const(True, "bool"), block)
