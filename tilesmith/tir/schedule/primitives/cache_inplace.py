"""Defines cache_inplace, which copies a buffer that a block reads and writes in and out once."""

from __future__ import annotations

from tilesmith.tir.functor import Substitution
from tilesmith.tir.schedule.blocks import scope_of
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import rewrite
from tilesmith.tir.schedule.parameters import ReadBuffer, StorageScope
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.cache import (
    cache_of,
    region_of,
)
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

__all__ = ["cache_inplace"]


@primitive()
def cache_inplace(
    block: BlockCursor, read_buffer_index: ReadBuffer, storage_scope: StorageScope
) -> list[BlockCursor]:
    """Let a block that reads and writes the same buffer work on a copy of it.

    Gives two blocks: the one that copies in, and the one that copies back.
    """
    buffer = region_of(block, read_buffer_index, reads=True).buffer
    scope = scope_of(block)
    check_outside_init(scope, [block])
    node = block.block
    if not any(region.buffer is buffer for region in node.writes):
        raise refuse(
            f"block '{node.name_hint}' does not write '{buffer.name}', which it reads",
            block,
            "use cache_read",
        )
    number = statement_number(scope, block)
    for other in scope.blocks_below():
        if other == block or statement_number(scope, other) != number:
            continue
        inner = other.block
        if any(region.buffer is buffer for region in (*inner.reads, *inner.writes)):
            reason = f"block '{inner.name_hint}' uses '{buffer.name}' in the same nest"
            raise refuse(reason, other)
    analyzer = analyzer_inside(scope)
    regions = [one for one in (*node.reads, *node.writes) if one.buffer is buffer]
    part = hull(analyzer, [possible_region(analyzer, node, region) for region in regions])
    cache = cache_of(buffer, storage_scope)
    into, read = copy_nest(buffer, cache, part, part, analyzer_inside(scope), cache.name)
    back, write = copy_nest(cache, buffer, part, part, analyzer_inside(scope), cache.name + "_out")
    rewrite(block, Substitution({}, {buffer: cache}))
    insert_nest(scope, into, block, before=True)
    insert_nest(scope, back, block, before=False)
    add_allocation(scope, [cache])
    return [scope.block_of(read.block), scope.block_of(write.block)]
