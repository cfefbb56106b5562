"""Defines read_at and write_at, which add a copy of the accessed part of a buffer under a loop.

The block is marked ``auto_copy``: LowerAutoCopy divides the copy later. Its body is plain loops,
its iterators are the loops around it on which the part depends.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.arith import Analyzer, eval_set
from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, is_const, moved
from tilesmith.ir.queries import mentions, variables
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.functor import Substitution
from tilesmith.tir.schedule.blocks import check_accessed_by_name, scope_of
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import analyzer_for, loop_range, rewrite
from tilesmith.tir.schedule.parameters import ReadBuffer, StorageScope, WrittenBuffer
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.cache import (
    ThroughCopy,
    cache_of,
    part_written,
    region_of,
)
from tilesmith.tir.schedule.primitives.copies import (
    analyzer_inside,
    check_finished,
    check_made_at,
    hull,
    insert_nest,
    possible_region,
    region_at,
    statement_number,
)
from tilesmith.tir.schedule.primitives.reduction import add_allocation
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, Stmt

__all__ = ["read_at", "write_at"]


@primitive()
def read_at(
    loop: LoopCursor, block: BlockCursor, read_buffer_index: ReadBuffer, storage_scope: StorageScope
) -> BlockCursor:
    """Read a buffer through a copy that is filled in each iteration of a loop around the block.

    The copy holds what all blocks under the loop read of the buffer; the block that makes it
    is marked ``auto_copy``, and its inside is plain loops.
    """
    buffer = region_of(block, read_buffer_index, reads=True).buffer
    scope = _check_around(loop, block)
    readers = []
    for other in loop.blocks_below():
        node = other.block
        if any(region.buffer is buffer for region in node.writes):
            reason = f"block '{node.name_hint}' writes '{buffer.name}' under the loop"
            raise refuse(reason, other, "use cache_read")
        if any(region.buffer is buffer for region in node.reads):
            readers.append(other)
    analyzer = analyzer_inside(loop)
    read = [(one, region) for one in readers for region in one.block.reads
            if region.buffer is buffer]  # fmt: skip
    for reader in readers:
        check_made_at(reader, buffer, loop)
    bounds = hull(analyzer, [possible_region(analyzer, one.block, region) for one, region in read])
    part = hull(analyzer, [region_at(one, region, loop) for one, region in read])
    cache = cache_of(buffer, storage_scope)
    realize = _copy(loop, buffer, cache, part, bounds, cache.name)
    first = sorted(readers, key=lambda one: statement_number(loop, one))[0]
    check_accessed_by_name(readers, buffer)
    for reader in readers:
        rewrite(reader, ThroughCopy(buffer, cache, only_reads=True))
    insert_nest(loop, realize, first, before=True)
    add_allocation(scope, [cache])
    return scope.block_of(realize.block)


@primitive()
def write_at(
    loop: LoopCursor,
    block: BlockCursor,
    write_buffer_index: WrittenBuffer,
    storage_scope: StorageScope,
) -> BlockCursor:
    """Write a buffer through a copy that is written back in each iteration of a loop around the
    block.

    As ``read_at``; the block must have finished what it writes in one iteration.
    """
    region = region_of(block, write_buffer_index, reads=False)
    buffer = region.buffer
    scope = _check_around(loop, block)
    below = loop.blocks_below()
    users = []
    for other in scope.blocks_below():
        node = other.block
        reads = any(region.buffer is buffer for region in node.reads)
        writes = any(region.buffer is buffer for region in node.writes)
        if other != block and writes:
            reason = f"block '{node.name_hint}' writes '{buffer.name}' too"
            raise refuse(reason, other)
        if other in below and (reads or writes):
            users.append(other)
    own = block.block
    if own.init is None and any(one.buffer is buffer for one in own.reads):
        reason = f"the block reads what is in '{buffer.name}' before it writes, the copy is empty"
        raise refuse(reason, block)
    check_finished(block, loop)
    part, bounds = part_written(block, region, loop)
    cache = cache_of(buffer, storage_scope)
    _check_reads_own(block, users, buffer, loop, part)
    realize = _copy(loop, cache, buffer, part, bounds, cache.name)
    last = sorted(users, key=lambda one: statement_number(loop, one))[-1]
    check_accessed_by_name(users, buffer)
    for user in users:
        rewrite(user, Substitution({}, {buffer: cache}))
    insert_nest(loop, realize, last, before=False)
    add_allocation(scope, [cache])
    return scope.block_of(realize.block)


def _check_around(loop_cursor: LoopCursor, cursor: BlockCursor) -> BlockCursor:
    scope = scope_of(cursor)
    if loop_cursor not in cursor.loops():
        name = cursor.block.name_hint
        raise refuse(f"the loop is not an ancestor of block '{name}'", loop_cursor)
    return scope


def _check_reads_own(
    cursor: BlockCursor,
    users: Sequence[BlockCursor],
    buffer: Buffer,
    loop_cursor: LoopCursor,
    part: list[Range],
) -> None:
    """Check that readers under the loop, which will read the copy, need no elements of other
    iterations.
    """
    analyzer = analyzer_inside(loop_cursor)
    for user in users:
        if user == cursor:
            continue
        block = user.block
        if users.index(user) < users.index(cursor):
            name = cursor.block.name_hint
            reason = f"block '{block.name_hint}' reads '{buffer.name}' before '{name}' writes it"
            raise refuse(reason, user)
        for region in block.reads:
            if region.buffer is not buffer:
                continue
            needed = region_at(user, region, loop_cursor)
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
                raise refuse(reason, user)


def _whole_domain(cursor: LoopCursor) -> Range:
    """Return the values of a loop's variable over all iterations of the loops around it."""
    loop = cursor.stmt
    low, last = loop.min, moved(loop.min + loop.extent, -1)
    for outer in reversed([around.stmt for around in cursor.loops()]):
        # From the inside out: the range of an inner loop may depend on an outer one.
        if not mentions([low, last], {outer.loop_var}):
            continue
        ranges = {outer.loop_var: loop_range(outer)}
        first, end = eval_set(low, ranges), eval_set(last, ranges)
        if not (first.has_lower_bound() and end.has_upper_bound()):
            reason = f"the range of loop '{loop.loop_var.name}' is not known outside of the others"
            raise refuse(reason, cursor)
        low, last = first.min_value, end.max_value
    analyzer = analyzer_for(cursor)
    low = analyzer.simplify(low)
    return Range.from_min_extent(low, analyzer.simplify(moved(last - low, 1)))


def _copy(
    loop_cursor: LoopCursor,
    source: Buffer,
    target: Buffer,
    part: list[Range],
    bounds: list[Range],
    name: str,
) -> BlockRealize:
    """Return the block that copies a part, which depends on the loops around it."""
    mapping: dict[Var, PrimExpr] = {}
    iterators: list[IterVar] = []
    values: list[Var] = []
    inner = Analyzer()
    used = set(variables(part))
    for cursor in (*loop_cursor.loops(), loop_cursor):
        loop = cursor.stmt
        if loop.loop_var in used:
            own = Var(f"v{len(iterators)}", loop.loop_var.dtype)
            mapping[loop.loop_var] = own
            domain = _whole_domain(cursor)
            iterators.append(IterVar(domain, own, IterVar.DataPar))
            values.append(loop.loop_var)
            inner.bind(own, domain)
    rename = Substitution(mapping)
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
