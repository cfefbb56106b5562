"""Verifies a schedule after each primitive, if ``debug_mask`` requests it.

The function is well formed; the schedule's tables and the flags of its blocks agree with those made
afresh from the whole function; the regions that a block declares hold all that it touches.
"""

from __future__ import annotations

from tilesmith.arith import Analyzer
from tilesmith.ir import IRModule, PrimExpr, Range
from tilesmith.ir.operators import is_const
from tilesmith.support.errors import InternalError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.analysis import regions_within_iterators, verify_well_formed
from tilesmith.tir.expr import BufferRegion
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.flags import block_flags, cached_flags, kept_flags
from tilesmith.tir.schedule.state import (
    FunctionState,
    ScheduleDebugMask,
    ScheduleState,
    child_statements,
)
from tilesmith.tir.stmt import Block, BlockRealize, Stmt

__all__ = ["undeclared_access", "verify_state"]


def verify_state(state: ScheduleState) -> None:
    """Check each function that has changed since the last check."""
    for variable, function_state in state.function_states():
        function = function_state.function
        if function_state.verified is function:
            continue
        name = variable.name_hint
        mask = state.debug_mask
        if mask & ScheduleDebugMask.VERIFY_WELL_FORMED:
            verify_well_formed(function, strict=False, seen=function_state.seen)
        if mask & ScheduleDebugMask.VERIFY_SREF_TREE:
            _verify_tables(name, function_state)
        if mask & ScheduleDebugMask.VERIFY_CACHED_FLAGS:
            _verify_flags(name, state, function_state)
        if mask & ScheduleDebugMask.VERIFY_REGIONS:
            _verify_regions(name, function_state)
        function_state.verified = function


def _verify_tables(name: str, state: FunctionState) -> None:
    fresh = FunctionState(state.function)
    now = {key: state.stmt_of.get(sref) for key, sref in state.sref_of.items()}
    then = {key: fresh.stmt_of[sref] for key, sref in fresh.sref_of.items()}
    if now.keys() != then.keys() or any(now[key] is not then[key] for key in then):
        raise InternalError(f"the schedule's tables of '{name}' do not agree with the function")
    for key, sref in fresh.sref_of.items():
        parent = fresh.parent_of[sref]
        own = state.parent_of[state.sref_of[key]]
        if parent is None and own is None:
            continue
        if parent is None or own is None or fresh.stmt_of[parent] is not state.stmt_of[own]:
            raise InternalError(f"a parent in the schedule's tables of '{name}' is wrong")


def _verify_flags(name: str, state: ScheduleState, function_state: FunctionState) -> None:
    """Check that cached flags equal those of the current function."""
    fresh: ScheduleState | None = None
    for sref, stmt in list(function_state.stmt_of.items()):
        if not isinstance(stmt, BlockRealize):
            continue
        cursor = BlockCursor(state, sref)
        flags = kept_flags(cursor)
        if flags is None:
            scope = cursor.scope()
            # The next change makes another root block: flags inside of it would not be kept.
            if scope is not None and scope.scope() is not None:
                cached_flags(cursor)
            continue
        if fresh is None:
            fresh = ScheduleState(IRModule({name: function_state.function}), debug_mask=0)
            fresh_state = fresh.function_state(fresh.mod.get_global_var(name))
        expected = block_flags(BlockCursor(fresh, fresh_state.sref_of[stmt.block]))
        if flags != expected:
            raise InternalError(
                f"block '{stmt.block.name_hint}' of '{name}' is said to be {flags}, "
                f"it is {expected}"
            )


def _verify_regions(name: str, state: FunctionState) -> None:
    """Check that blocks declare all their accesses, if the blocks of the user's program did."""
    if state.regions_hold is None:
        state.regions_hold = _first_undeclared(state.original.body, state) is None
    if not state.regions_hold:
        return
    broken = _first_undeclared(state.function.body, state)
    if broken is not None:
        block, region, kind = broken
        raise InternalError(
            f"block '{block.name_hint}' of '{name}' {kind}s {_text(region)}, which it does not "
            "declare"
        )


def _text(region: BufferRegion) -> str:
    parts = [f"{part.min}:{part.min + part.extent}" for part in region.region]
    return f"{region.buffer.name}[{', '.join(parts)}]"


def _first_undeclared(body: Stmt, state: FunctionState) -> tuple[Block, BufferRegion, str] | None:
    stack = [body] if isinstance(body, BlockRealize) else child_statements(body)
    with deep_recursion():
        while stack:
            stmt = stack.pop()
            stack += child_statements(stmt)
            if not isinstance(stmt, BlockRealize) or id(stmt.block) in state.checked:
                continue
            # The root block need not declare anything: there is no block around it.
            found = None if stmt is body else undeclared_access(stmt.block)
            if found is not None:
                return (stmt.block, *found)
            state.checked[id(stmt.block)] = stmt.block
    return None


def undeclared_access(block: Block) -> tuple[BufferRegion, str] | None:
    """Return a region that a block accesses but does not declare, or None.

    Accesses under a condition count with the part inside of the buffer. Undecidable cases count as
    declared.
    """
    reads, writes = regions_within_iterators(block)
    analyzer = Analyzer()
    for iterator in block.iter_vars:
        if iterator.dom is not None:
            analyzer.bind(iterator.var, iterator.dom)
    # What a block has written itself, by a block inside of it, it may read.
    readable = (*block.reads, *block.writes) if _holds_blocks(block.body) else block.reads
    for found, declared, kind in ((reads, readable, "read"), (writes, block.writes, "write")):
        for region in found:
            same = [other for other in declared if other.buffer is region.buffer]
            if not any(_may_hold(analyzer, other, region) for other in same):
                return region, kind
    return None


def _holds_blocks(stmt: Stmt) -> bool:
    if isinstance(stmt, BlockRealize):
        return True
    return any(_holds_blocks(inner) for inner in child_statements(stmt))


def _may_hold(analyzer: Analyzer, outer: BufferRegion, inner: BufferRegion) -> bool:
    if any(is_const(part.extent, 0) for part in inner.region):
        return True  # a loop without iterations
    return all(
        _part_may_hold(analyzer, a, b, size)
        for a, b, size in zip(outer.region, inner.region, inner.buffer.shape)
    )


def _part_may_hold(analyzer: Analyzer, outer: Range, inner: Range, size: PrimExpr) -> bool:
    """Return False if a part of ``inner`` within the buffer is proven to be outside of
    ``outer``.
    """
    if outer.min is inner.min and outer.extent is inner.extent:
        return True
    end, inner_end = outer.min + outer.extent, inner.min + inner.extent
    if analyzer.can_prove_equal(inner.min, 0) and analyzer.can_prove_equal(inner_end, size):
        return True  # the whole dimension: nothing is known of the index
    below = analyzer.can_prove(inner.min < outer.min) and analyzer.can_prove(inner.min >= 0)
    above = analyzer.can_prove(inner_end > end) and analyzer.can_prove(inner_end <= size)
    return not (below or above)
