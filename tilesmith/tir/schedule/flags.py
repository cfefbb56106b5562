"""Computes and caches properties of blocks: affine binding, region cover, stage pipeline.

They are computed on demand, and cached as long as the scope around the block is the same object:
statements are immutable, so any change below a scope makes another block of it.
"""

from __future__ import annotations

from tilesmith.arith import Analyzer, IntervalSet, estimate_region_strict_bound, eval_set
from tilesmith.ir import PrimExpr, Range, Var
from tilesmith.ir.operators import moved
from tilesmith.tir.expr import BufferRegion
from tilesmith.tir.functor import Substitution
from tilesmith.tir.schedule.blocks import (
    has_affine_binding,
    own_condition,
    producers_of,
    ranges_between,
    why_not_complete,
    why_not_reduction,
)
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor
from tilesmith.tir.schedule.needed_regions import narrowed
from tilesmith.tir.schedule.nests import analyzer_for
from tilesmith.tir.schedule.state import BlockFlags
from tilesmith.tir.stmt import Block, BlockRealize, For

__all__ = ["block_flags", "cached_flags", "is_stage_pipeline", "kept_flags"]


def cached_flags(cursor: BlockCursor) -> BlockFlags:
    """Return the flags of a block, from the cache if its scope has not changed since they were
    computed."""
    flags = kept_flags(cursor)
    if flags is None:
        flags = block_flags(cursor)
        cursor.tables.flags[cursor.sref] = (_anchor(cursor), flags)
    return flags


def kept_flags(cursor: BlockCursor) -> BlockFlags | None:
    """Return the flags of a block from the cache; None if there are none for its scope as it is."""
    known = cursor.tables.flags.get(cursor.sref)
    return known[1] if known is not None and known[0] is _anchor(cursor) else None


def _anchor(cursor: BlockCursor) -> Block:
    """Return the scope around a block, itself for the root."""
    scope = cursor.scope()
    return (cursor if scope is None else scope).block


def block_flags(cursor: BlockCursor) -> BlockFlags:
    """Return the flags of a block, computed anew."""
    return BlockFlags(has_affine_binding(cursor), is_covered(cursor), is_stage_pipeline(cursor))


def is_stage_pipeline(scope: BlockCursor) -> bool:
    """Return whether the blocks of a scope are complete or reductions, and read only elements that
    were written.
    """
    return all(
        (not why_not_complete(cursor, scope) or not why_not_reduction(cursor, scope))
        and is_covered(cursor)
        for cursor in scope.blocks_below()
    )


def is_covered(cursor: BlockCursor) -> bool:
    """Return whether producers have written all elements that a block reads of their buffers before
    it runs.

    In one iteration of the innermost loop around both, each region read must lie in what one of
    the producers writes for certain.
    """
    scope = cursor.scope()
    if scope is None:
        return True
    producers = producers_of(cursor, scope)
    realize = cursor.stmt
    for region in realize.block.reads:
        writers = [
            (producer, written)
            for producer in producers
            for written in producer.block.writes
            if written.buffer is region.buffer
        ]
        if writers and not any(
            _covers(cursor, region, producer, written) for producer, written in writers
        ):
            return False
    return True


def _covers(
    cursor: BlockCursor, read: BufferRegion, producer: BlockCursor, made: BufferRegion
) -> bool:
    common = _common_ancestor(cursor, producer)
    analyzer = analyzer_for(common)
    stmt = common.stmt
    if isinstance(stmt, For):
        analyzer.bind(stmt.loop_var, Range.from_min_extent(stmt.min, stmt.extent))
    realize = producer.stmt
    ranges = ranges_between(producer, common)
    region = _bound(realize, made)
    # A condition that only cuts off values outside of the iterators' ranges takes nothing away.
    condition = realize.predicate if own_condition(producer) is not None else True
    written = estimate_region_strict_bound(region, ranges, condition)
    if written is None:
        return False
    needed = _around(cursor, read, common)
    return all(
        _within(analyzer, inner, outer, size)
        for inner, outer, size in zip(needed, written, read.buffer.shape)
    )


def _common_ancestor(one: Cursor, other: Cursor) -> Cursor:
    around = set(one.ancestors())
    return next(cursor for cursor in other.ancestors() if cursor in around)


def _bound(realize: BlockRealize, region: BufferRegion) -> list[Range]:
    values = {i.var: v for i, v in zip(realize.block.iter_vars, realize.iter_values)}
    bind = Substitution(values)
    return [Range.from_min_extent(bind.visit(r.min), bind.visit(r.extent)) for r in region.region]


def _around(cursor: BlockCursor, region: BufferRegion, common: Cursor) -> list[IntervalSet]:
    """Return a bounding box of a block's reads while the loops inside ``common`` run."""
    realize = cursor.stmt
    domains: dict[Var, Range] = {i.var: i.domain for i in realize.block.iter_vars}
    ranges = ranges_between(cursor, common)
    found = []
    for loose, tight in zip(region.region, _bound(realize, region)):
        by_loops = eval_set(tight, ranges)
        # The iterators stay within their ranges whatever the loops do: the smaller box counts.
        by_iterators = eval_set(loose, domains)
        found.append(by_loops if by_loops.has_upper_bound() else by_iterators)
    intervals = [(one.min_value, one.max_value) for one in found]
    bind = Substitution({i.var: v for i, v in zip(realize.block.iter_vars, realize.iter_values)})
    needed = narrowed(realize.block, region.buffer, intervals, bind, ranges)
    return [IntervalSet(low, high) for low, high in needed]


def _within(analyzer: Analyzer, inner: IntervalSet, outer: IntervalSet, size: PrimExpr) -> bool:
    if not (inner.has_lower_bound() and inner.has_upper_bound()):
        return analyzer.can_prove(outer.min_value <= 0) and analyzer.can_prove(
            outer.max_value >= moved(size, -1)
        )
    low = analyzer.can_prove(outer.min_value <= inner.min_value) or analyzer.can_prove(
        outer.min_value <= 0
    )
    high = analyzer.can_prove(outer.max_value >= inner.max_value) or analyzer.can_prove(
        outer.max_value >= moved(size, -1)
    )
    return low and high
