"""cache_inplace: a buffer that a block reads and writes goes through one copy in and one out."""

from __future__ import annotations

from tilesmith.ir import Range
from tilesmith.tir.schedule.primitives.blocks import scope_blocks, scope_of
from tilesmith.tir.schedule.primitives.cache import (
    ReplaceBuffer,
    cache_of,
    check_storage_scope,
    region_of,
    replace_buffer,
)
from tilesmith.tir.schedule.primitives.common import refuse_at
from tilesmith.tir.schedule.primitives.copies import (
    analyzer_inside,
    check_outside_init,
    copy_nest,
    hull,
    insert_nest,
    possible_region,
    statement_number,
)
from tilesmith.tir.schedule.primitives.reduction import add_allocation
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef
from tilesmith.tir.stmt import Block

__all__ = ["cache_inplace"]


def cache_inplace(
    state: ScheduleState, sref: StmtSRef, index: int, storage_scope: str
) -> tuple[StmtSRef, StmtSRef]:
    """Copy in, work, copy out; see ``Schedule.cache_inplace``."""
    primitive = "cache_inplace"
    buffer = region_of(state, primitive, sref, index, reads=True).buffer
    check_storage_scope(state, primitive, sref, storage_scope)
    scope = scope_of(state, sref, primitive)
    check_outside_init(state, primitive, scope, [sref])
    block: Block = state.stmt(sref).block
    if not any(region.buffer is buffer for region in block.writes):
        raise refuse_at(
            state,
            primitive,
            f"block '{block.name_hint}' does not write '{buffer.name}', which it reads",
            sref,
            "use cache_read",
        )
    number = statement_number(state, scope, sref)
    for other in scope_blocks(state, scope):
        if other is sref or statement_number(state, scope, other) != number:
            continue
        inner: Block = state.stmt(other).block
        if any(region.buffer is buffer for region in (*inner.reads, *inner.writes)):
            reason = f"block '{inner.name_hint}' uses '{buffer.name}' in the same nest"
            raise refuse_at(state, primitive, reason, other)
    part: list[Range] | None = None
    analyzer = analyzer_inside(state, scope)
    for region in (*block.reads, *block.writes):
        if region.buffer is buffer:
            possible = possible_region(analyzer, block, region)
            part = possible if part is None else hull(analyzer, part, possible)
    cache = cache_of(buffer, storage_scope)
    into, read = copy_nest(buffer, cache, part, part, analyzer_inside(state, scope), cache.name)
    back, write = copy_nest(
        cache, buffer, part, part, analyzer_inside(state, scope), cache.name + "_out"
    )
    replace_buffer(state, sref, ReplaceBuffer({buffer: cache}))
    insert_nest(state, scope, into, sref, before=True)
    insert_nest(state, scope, back, sref, before=False)
    add_allocation(state, scope, [cache])
    return state.block_of(read.block, scope), state.block_of(write.block, scope)
