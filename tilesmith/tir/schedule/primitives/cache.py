"""Defines cache_read, cache_write, set_scope and storage_align, which set the storage of
buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PointerType, PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.operators import is_const
from tilesmith.ir.types import prim_type
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion
from tilesmith.tir.functor import Substitution
from tilesmith.tir.queries import is_used_as_pointer
from tilesmith.tir.schedule.blocks import (
    check_accessed_by_name,
    check_no_condition,
    check_not_a_pointer,
    is_declared_below,
    is_dominant,
    scope_of,
)
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import Redirect, rewrite
from tilesmith.tir.schedule.parameters import ReadBuffer, StorageScope, WrittenBuffer
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.copies import (
    analyzer_inside,
    box_around,
    check_fills,
    check_finished,
    check_made_at,
    check_outside_init,
    common_place,
    copy_nest,
    exact_region_at,
    hull,
    insert_nest,
    is_in_init,
    possible_region,
    region_at,
    statement_number,
    writes_before_reads,
)
from tilesmith.tir.schedule.primitives.reduction import add_allocation
from tilesmith.tir.schedule.primitives.written_elements import Writes, exact_box, writes_of
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, Stmt

__all__ = [
    "ThroughCopy",
    "buffer_with",
    "cache_of",
    "cache_read",
    "cache_write",
    "first_block",
    "part_written",
    "region_of",
    "set_scope",
    "storage_align",
    "writers_of",
]


class ThroughCopy(Redirect):
    """Lets a block access a copy of a buffer, or of its part from ``start`` on.

    ``only_reads`` leaves writes as they are. Views of the buffer move to the storage scope of the
    copy.
    """

    def __init__(
        self, old: Buffer, copy: Buffer, start: Sequence[PrimExpr] = (), only_reads: bool = False
    ) -> None:
        super().__init__(old, copy)
        self.start = start
        self.only_reads = only_reads
        self.analyzer = Analyzer() if start else None
        self.views: dict[Buffer, Buffer] = {}
        self.pointers = {old.data: copy.data}

    def redirected(self, buffer: Buffer) -> Buffer | None:
        """Return the copy, or a view of it."""
        return self.new if buffer is self.old else self.views.get(buffer)

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Sequence[PrimExpr]:
        """Return the indices in the copied part."""
        if self.analyzer is None or buffer is not self.old:
            return indices
        return [self.analyzer.simplify(index - low) for index, low in zip(indices, self.start)]

    def visit_Var(self, variable: Var) -> Var:
        """Return the pointer of the copy."""
        return self.pointers.get(variable, variable)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        """Rewrite a write, maybe at its old place."""
        if self.only_reads and store.buffer is self.old:
            return self.children(store)
        return super().visit_BufferStore(store)

    def visit_Block(self, block: Block) -> Block:
        """Rewrite the inside, and what the block declares."""
        for match in block.match_buffers:  # before the accesses to the view
            source, view = self.redirected(match.source.buffer), match.buffer
            if source is not None and source.scope() != view.scope():
                self.views[view] = moved = view.in_scope(source.scope())
                self.pointers[view.data] = moved.data
        new = super().visit_Block(block)
        if self.only_reads and new is not block:
            self.reuse[block] = new = new.with_fields(writes=block.writes)
        return new


def buffer_with(buffer: Buffer, name: str, scope: str | None = None, **changes: Any) -> Buffer:
    """Return a copy of a buffer with its own memory."""
    pointer = Var(
        name, PointerType(prim_type(buffer.dtype), buffer.scope() if scope is None else scope)
    )
    return buffer.with_fields(data=pointer, name=name, **changes)


def cache_of(buffer: Buffer, storage_scope: str) -> Buffer:
    """Return a compact buffer of the same shape in a storage scope."""
    name = f"{buffer.name}_{storage_scope}"
    offset = const(0, buffer.elem_offset.dtype)
    return buffer_with(buffer, name, storage_scope, strides=(), elem_offset=offset)


def region_of(cursor: BlockCursor, index: int, reads: bool) -> BufferRegion:
    """Return one of the regions that a block declares."""
    block = cursor.block
    regions = block.reads if reads else block.writes
    if not 0 <= index < len(regions):
        kind = "reads" if reads else "writes"
        raise refuse(
            f"block '{block.name_hint}' {kind} no buffer number {index}",
            cursor,
            f"it {kind}: " + ", ".join([f"{k} '{r.buffer.name}'" for k, r in enumerate(regions)]),
        )
    return regions[index]


@primitive()
def cache_read(
    block: BlockCursor,
    read_buffer_index: ReadBuffer,
    storage_scope: StorageScope,
    consumer_blocks: list[BlockCursor] | None = None,
) -> BlockCursor:
    """Read a buffer through a copy in another scope; returns the copying block.

    It is made after all that write the buffer before the readers; several of these have to be
    finished before the nest of the readers begins. What is written later is not for the readers of
    the copy. Made at the top of a block, the copy is as large as what the block reads.
    """
    consumers = consumer_blocks or []
    buffer = region_of(block, read_buffer_index, reads=True).buffer
    scope = scope_of(block)
    _check_consumers(scope, consumers)
    blocks = scope.blocks_below()
    wanted = consumers or [block]
    writers, later_writers = _before_and_after(scope, writers_of(scope, buffer), wanted)
    end = min([statement_number(scope, writer) for writer in later_writers], default=len(blocks))
    place = _place_between(scope, writers, wanted, buffer)
    if place != scope:
        _check_single(writers, buffer)
    last = max([statement_number(place, writer) for writer in writers], default=-1)
    inside = [other for other in blocks if place in set(other.ancestors())]
    later = [
        other
        for other in inside
        if _reads(other, buffer)
        and statement_number(place, other) > last
        and statement_number(scope, other) < end
    ]
    readers = wanted if consumers else later
    for reader in readers:
        if reader not in later:
            name = reader.block.name_hint
            reason = f"block '{name}' does not read '{buffer.name}' after all that write it"
            advice = "cache_inplace caches what a block updates" if reader in writers else ""
            raise refuse(reason, reader, advice)
        if is_in_init(place, reader):
            reason = (
                "an initialisation (T.init) reads it, and a copy cannot be inserted before that"
            )
            raise refuse(reason, reader)
    part, bounds = _part_read(readers, buffer, place)
    cache = cache_of(buffer, storage_scope)
    small = None
    if isinstance(place.stmt, BlockRealize):
        small = _holding(cache, buffer, part, [reader.block for reader in readers])
    cache, start = small or cache, [one.min for one in part] if small else []
    nest, realize = copy_nest(
        buffer, cache, part, bounds, analyzer_inside(place), cache.name, small=small
    )
    check_accessed_by_name(readers, buffer)
    for reader in readers:
        rewrite(reader, ThroughCopy(buffer, cache, start, only_reads=True))
    if not writers and not is_declared_below(place, buffer):
        insert_nest(place, nest, first_block(place), before=True)
    elif consumers or not writers:
        insert_nest(place, nest, _at(place, readers, 0), before=True)
    else:
        insert_nest(place, nest, _at(place, writers, -1), before=False)
    add_allocation(scope, [cache])
    return scope.block_of(realize.block)


def _check_single(writers: Sequence[BlockCursor], buffer: Buffer) -> None:
    """Check that what one iteration reads is known: a single block writes it there."""
    if len(writers) < 2:
        return
    names = " and ".join([f"'{writer.block.name_hint}'" for writer in writers])
    reason = (
        f"{names} write '{buffer.name}': a copy inside of the nest of its readers is made of what "
        "a single block writes"
    )
    raise refuse(reason, writers[1])


def _holding(
    cache: Buffer, buffer: Buffer, part: list[Range], blocks: list[Block]
) -> Buffer | None:
    """Return a cache of the size of the copied part; None if that is the whole buffer or not
    constant.
    """
    whole = all(
        is_const(one.min, 0) and structural_equal(one.extent, size)
        for one, size in zip(part, buffer.shape)
    )
    if whole or not all(is_const(one.extent) for one in part):
        return None
    if is_used_as_pointer(blocks, buffer):
        return None
    return cache.with_fields(shape=tuple([one.extent for one in part]))


def _before_and_after(
    scope: BlockCursor, writers: Sequence[BlockCursor], wanted: Sequence[BlockCursor]
) -> tuple[list[BlockCursor], list[BlockCursor]]:
    """Return the blocks that write a buffer up to the last statement of a scope that holds one of
    the wanted blocks, and those that write it after that."""
    last = max([statement_number(scope, cursor) for cursor in wanted])
    before = [writer for writer in writers if statement_number(scope, writer) <= last]
    return before, [writer for writer in writers if writer not in before]


def _check_consumers(scope: BlockCursor, consumers: Sequence[BlockCursor]) -> None:
    """Check that the named consumers belong to the scope of the block."""
    blocks = scope.blocks_below()
    for consumer in consumers:
        if consumer not in blocks:
            name = consumer.block.name_hint
            raise refuse(
                f"the consumer '{name}' and the block are not in the same block scope",
                consumer,
                "name the block around it",
            )


def _at(place: Cursor, cursors: Sequence[BlockCursor], which: int) -> BlockCursor:
    """Return the first (``which`` 0) or last (-1) of some blocks below a place."""
    return sorted(cursors, key=lambda cursor: statement_number(place, cursor))[which]


def _place_between(
    scope: BlockCursor,
    writers: Sequence[BlockCursor],
    readers: Sequence[BlockCursor],
    buffer: Buffer,
) -> Cursor:
    """Return the outermost loop or block below which all writers precede all readers."""
    place: Cursor = scope
    for _ in range(2):
        if not writers:
            return place
        last = max([statement_number(place, writer) for writer in writers])
        early = [r for r in readers if statement_number(place, r) <= last]
        if not early:
            return place
        place = common_place(scope, [*writers, *readers])
    name = early[0].block.name_hint
    reason = f"block '{name}' does not read '{buffer.name}' after all that write it"
    advice = "cache first, then move blocks into one nest"
    if early[0] in writers:
        advice = "cache_inplace caches what a block updates"
    raise refuse(reason, early[0], advice)


def _part_read(
    readers: Sequence[BlockCursor], buffer: Buffer, place: Cursor
) -> tuple[list[Range], list[Range]]:
    """Return the region that readers access in one iteration of a place, and its bounding box over
    all iterations.
    """
    analyzer = analyzer_inside(place)
    read = [(one, region) for one in readers for region in one.block.reads
            if region.buffer is buffer]  # fmt: skip
    if not read:
        raise refuse(f"nothing reads '{buffer.name}' here after it is written", place)
    bounds = hull(analyzer, [possible_region(analyzer, one.block, region) for one, region in read])
    if isinstance(place, BlockCursor):
        return bounds, bounds
    if isinstance(place, LoopCursor):
        for one, _ in read:
            check_made_at(one, buffer, place)
    return hull(analyzer, [region_at(one, region, place) for one, region in read]), bounds


@primitive()
def cache_write(
    block: BlockCursor,
    write_buffer_index: WrittenBuffer,
    storage_scope: StorageScope,
    consumer_blocks: list[BlockCursor] | None = None,
) -> BlockCursor:
    """Write a buffer through a copy in another scope; returns the block that copies back."""
    consumers = consumer_blocks or []
    region = region_of(block, write_buffer_index, reads=False)
    buffer = region.buffer
    scope = scope_of(block)
    _check_consumers(scope, consumers)
    number = statement_number(scope, block)
    if not is_dominant(block, scope):
        others = [other for other in writers_of(scope, buffer) if other != block]
        shares = any(statement_number(scope, other) == number for other in others)
        # The copy holds what this block alone writes, where that is certainly all of its region
        if shares or consumers or buffer in scope.block.alloc_buffers:
            reason = f"another block writes buffer '{buffer.name}' too"
            raise refuse(reason, block)
    if (
        block.block.init is None
        and _reads(block, buffer)
        and not writes_before_reads(block, buffer)
    ):
        reason = f"the block reads what is in '{buffer.name}' before it writes, the copy is empty"
        raise refuse(reason, block, "cache_inplace copies both ways")
    readers = [
        other
        for other in scope.blocks_below()
        if other != block
        and other not in consumers
        and _reads(other, buffer)
        and statement_number(scope, other) >= number  # those before read the buffer itself
    ]
    place = _place_between(scope, [block], readers, buffer)
    check_outside_init(place, [block])
    check_finished(block, place)
    part, bounds = part_written(block, region, place)
    cache = cache_of(buffer, storage_scope)
    small = None
    if isinstance(place.stmt, BlockRealize) and not consumers:
        small = _holding(cache, buffer, part, [block.block])
    cache, start = small or cache, [one.min for one in part] if small else []
    nest, realize = copy_nest(
        cache, buffer, part, bounds, analyzer_inside(place), cache.name, small=small
    )
    check_accessed_by_name([block, *consumers], buffer)
    rewrite(block, ThroughCopy(buffer, cache, start))
    for consumer in consumers:
        rewrite(consumer, ThroughCopy(buffer, cache, only_reads=True))
    insert_nest(place, nest, block, before=False)
    add_allocation(scope, [cache])
    return scope.block_of(realize.block)


def part_written(
    cursor: BlockCursor, region: BufferRegion, place: Cursor
) -> tuple[list[Range], list[Range]]:
    """Return the region that a block writes in one iteration of a place, and its bounding box over
    all iterations.

    All of the copied part must have been written, or the copy would overwrite other contents. Only
    at the top of the scope that allocates the buffer there are no other contents.
    """
    block = cursor.block
    scope = scope_of(cursor)
    domains = {iterator.var: iterator.domain for iterator in block.iter_vars}
    writes = writes_of(block, region.buffer)
    always = writes is Writes.ALWAYS
    bounds = exact_box(region.region, domains) if always else None
    if bounds is not None:  # the block's condition may cut off what lies outside of the buffer
        bounds = box_around(analyzer_inside(place), bounds, {}, region.buffer.shape)
    part = bounds
    if place != scope and always:
        part = exact_region_at(cursor, region, place)
    elif place == scope and bounds is None and region.buffer in scope.block.alloc_buffers:
        part = bounds = possible_region(analyzer_inside(place), block, region)
    elif bounds is not None and region.buffer in scope.block.alloc_buffers:
        return bounds, bounds
    if part is None or bounds is None:
        reason = (
            f"block '{block.name_hint}' leaves gaps in the part of '{region.buffer.name}' that it "
            "writes, and the copy would fill them"
        )
        if writes is Writes.CONDITIONALLY:
            reason = f"block '{block.name_hint}' writes '{region.buffer.name}' under a condition"
        raise refuse(reason, cursor)
    if place != scope:
        check_no_condition(cursor)
    check_fills(cursor, region.buffer, place)
    return part, bounds


def writers_of(scope: BlockCursor, buffer: Buffer) -> list[BlockCursor]:
    """Return the blocks of a scope that write a buffer."""
    return [
        cursor
        for cursor in scope.blocks_below()
        if any(region.buffer is buffer for region in cursor.block.writes)
    ]


def first_block(place: Cursor) -> BlockCursor:
    """Return the block that a loop or block runs first."""
    return _at(place, place.blocks_below(), 0)


def _reads(cursor: BlockCursor, buffer: Buffer) -> bool:
    return any(region.buffer is buffer for region in cursor.block.reads)


@primitive()
def set_scope(block: BlockCursor, buffer_index: WrittenBuffer, storage_scope: StorageScope) -> None:
    """Set the storage scope of a buffer that a block writes."""
    buffer = region_of(block, buffer_index, reads=False).buffer
    if buffer.scope() == storage_scope:
        return
    owner = _allocating_block(block, buffer)
    new = buffer_with(buffer, buffer.name, storage_scope)
    rewrite(owner, Substitution({}, {buffer: new}))


def _allocating_block(cursor: BlockCursor, buffer: Buffer) -> Cursor:
    for ancestor in cursor.ancestors():
        stmt = ancestor.stmt
        if isinstance(stmt, BlockRealize) and buffer in stmt.block.alloc_buffers:
            return ancestor
    raise refuse(
        f"buffer '{buffer.name}' is a parameter: its memory is the caller's",
        cursor,
        "cache_write and cache_read make a copy in other memory",
    )


@primitive()
def storage_align(
    block: BlockCursor, buffer_index: WrittenBuffer, axis: int, factor: int, offset: int
) -> None:
    """Require that the stride of a buffer's axis is ``k * factor + offset`` elements."""
    buffer = region_of(block, buffer_index, reads=False).buffer
    if not -len(buffer.shape) <= axis < len(buffer.shape):
        raise refuse(
            f"buffer '{buffer.name}' has no axis {axis}",
            block,
            f"its axes are 0 to {len(buffer.shape) - 1}",
        )
    if factor <= 0:
        raise refuse(f"factor {factor} is not positive", block)
    check_not_a_pointer(_allocating_block(block, buffer), buffer, block)
    axis = axis % len(buffer.shape)
    realize = block.stmt
    rows = [
        row
        for row in realize.block.annotations.get("buffer_dim_align", ())
        if tuple(row[:2]) != (buffer_index, axis)
    ]
    annotations = {
        **realize.block.annotations,
        "buffer_dim_align": (*rows, (buffer_index, axis, factor, offset)),
    }
    node = realize.block.with_fields(annotations=annotations)
    block.replace(realize.with_fields(block=node), {realize.block: node})
