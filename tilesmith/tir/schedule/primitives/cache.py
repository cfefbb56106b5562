"""cache_read, cache_write, set_scope, storage_align: where buffers live."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PointerType, PrimExpr, Range, Var, const
from tilesmith.ir.operators import is_const
from tilesmith.ir.types import prim_type
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.schedule.primitives.blocks import is_dominant, scope_blocks, scope_of
from tilesmith.tir.schedule.primitives.common import Rebuild, refuse_at
from tilesmith.tir.schedule.primitives.reduction import add_allocation
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef, child_statements
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    MatchBufferRegion,
    Stmt,
    stmt_list,
    stmt_seq,
)

__all__ = [
    "ReplaceBuffer",
    "buffer_with",
    "cache_read",
    "cache_write",
    "set_scope",
    "storage_align",
]


class ReplaceBuffer(Rebuild):
    """Replaces buffers wherever they are used, and where blocks allocate them.

    ``only_reads`` or ``only_writes`` leaves the other kind of access as it is.
    """

    def __init__(
        self, mapping: dict[Buffer, Buffer], only_reads: bool = False, only_writes: bool = False
    ) -> None:
        super().__init__()
        self.mapping = mapping
        self.data = {old.data: new.data for old, new in mapping.items()}
        self.reads = not only_writes
        self.writes = not only_reads

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        """The replacement."""
        return self.mapping.get(buffer, buffer)

    def visit_Var(self, variable: Var) -> Var:
        """The pointer of the replacement."""
        return self.data.get(variable, variable)

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        """A read."""
        indices = [self.visit(index) for index in load.indices]
        buffer = self.mapping.get(load.buffer, load.buffer) if self.reads else load.buffer
        if buffer is load.buffer and all(a is b for a, b in zip(indices, load.indices)):
            return load
        return BufferLoad(buffer, indices, load.predicate, load.span)

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        """A write."""
        value = self.visit(store.value)
        indices = [self.visit(index) for index in store.indices]
        buffer = self.mapping.get(store.buffer, store.buffer) if self.writes else store.buffer
        unchanged = value is store.value and all(a is b for a, b in zip(indices, store.indices))
        if buffer is store.buffer and unchanged:
            return store
        return BufferStore(buffer, value, indices, store.predicate, store.span)

    def _regions(self, regions: tuple[BufferRegion, ...], wanted: bool) -> tuple[BufferRegion, ...]:
        if not wanted:
            return regions
        new = [
            BufferRegion(self.mapping[region.buffer], region.region)
            if region.buffer in self.mapping
            else region
            for region in regions
        ]
        return tuple(new) if any(a is not b for a, b in zip(new, regions)) else regions

    def visit_Block(self, block: Block) -> Block:
        """The accesses inside, the regions, the allocations."""
        reads = self._regions(block.reads, self.reads)
        writes = self._regions(block.writes, self.writes)
        body = self.visit(block.body)
        init = None if block.init is None else self.visit(block.init)
        matches = tuple([self._match(match) for match in block.match_buffers])
        allocations = block.alloc_buffers
        if self.reads and self.writes:
            allocations = tuple([self.mapping.get(buffer, buffer) for buffer in allocations])
        same = (
            body is block.body
            and init is block.init
            and reads is block.reads
            and writes is block.writes
        )
        if same and all(a is b for a, b in zip(matches, block.match_buffers)):
            if all(a is b for a, b in zip(allocations, block.alloc_buffers)):
                return block
        new = block.with_fields(
            reads=reads,
            writes=writes,
            body=body,
            init=init,
            match_buffers=matches,
            alloc_buffers=allocations,
        )
        self.reuse[block] = new
        return new

    def _match(self, match: MatchBufferRegion) -> MatchBufferRegion:
        if match.source.buffer not in self.mapping:
            return match
        source = BufferRegion(self.mapping[match.source.buffer], match.source.region)
        return match.with_fields(source=source)


def buffer_with(buffer: Buffer, name: str, scope: str | None = None, **changes: Any) -> Buffer:
    """A buffer like another one with memory of its own."""
    pointer = Var(
        name, PointerType(prim_type(buffer.dtype), buffer.scope() if scope is None else scope)
    )
    return buffer.with_fields(data=pointer, name=name, **changes)


def _cache_of(buffer: Buffer, storage_scope: str) -> Buffer:
    """A compact buffer of the same shape in a storage scope."""
    name = f"{buffer.name}_{storage_scope}"
    offset = const(0, buffer.elem_offset.dtype)
    return buffer_with(buffer, name, storage_scope, strides=(), elem_offset=offset)


def _statement_number(state: ScheduleState, scope: StmtSRef, sref: StmtSRef) -> int:
    """Which of the statements right below a scope holds a block."""
    chain = [sref, *state.ancestors(sref)]
    top = chain[chain.index(scope) - 1]
    return state.child_srefs(scope).index(top)


def _copy_block(
    source: Buffer, target: Buffer, region: list[Range], name: str
) -> tuple[Stmt, BlockRealize]:
    """A nest that copies a region of one buffer to the same place of another one."""
    loops: list[tuple[Var, PrimExpr]] = []
    iterators, values = [], []
    for number, (part, size) in enumerate(zip(region, source.shape)):
        dtype = part.extent.dtype
        variable = Var(f"ax{number}", dtype)
        loops.append((variable, part.extent))
        values.append(variable if is_const(part.min, 0) else part.min + variable)
        domain = Range.from_min_extent(const(0, size.dtype), size)
        iterators.append(IterVar(domain, Var(f"v{number}", dtype), IterVar.DataPar))
    indices = [iterator.var for iterator in iterators]
    block = Block(
        iterators,
        [BufferRegion.from_point(source, indices)],
        [BufferRegion.from_point(target, indices)],
        name,
        BufferStore(target, BufferLoad(source, indices), indices),
    )
    realize = BlockRealize(values, const(True, "bool"), block)
    nest: Stmt = realize
    for variable, extent in reversed(loops):
        nest = For(variable, const(0, variable.dtype), extent, ForKind.SERIAL, nest)
    return nest, realize


def _region_of(
    state: ScheduleState, primitive: str, sref: StmtSRef, index: int, reads: bool
) -> BufferRegion:
    block: Block = state.stmt(sref).block
    regions = block.reads if reads else block.writes
    if not 0 <= index < len(regions):
        kind = "reads" if reads else "writes"
        raise refuse_at(
            state,
            primitive,
            f"block '{block.name_hint}' {kind} {len(regions)} buffers, there is no number {index}",
            sref,
        )
    return regions[index]


def _whole(buffer: Buffer) -> list[Range]:
    return list(BufferRegion.full_region(buffer).region)


def cache_read(
    state: ScheduleState, sref: StmtSRef, index: int, storage_scope: str, consumers: list[StmtSRef]
) -> StmtSRef:
    """Read a buffer through a copy; see ``Schedule.cache_read``."""
    buffer = _region_of(state, "cache_read", sref, index, reads=True).buffer
    scope = scope_of(state, sref, "cache_read")
    cache = _cache_of(buffer, storage_scope)
    nest, realize = _copy_block(buffer, cache, _whole(buffer), cache.name)
    writers = [s for s in scope_blocks(state, scope) if _writes(state, s, buffer)]
    last = max([_statement_number(state, scope, s) for s in writers], default=-1)
    later = [
        s
        for s in scope_blocks(state, scope)
        if _reads(state, s, buffer) and _statement_number(state, scope, s) > last
    ]
    readers = [*consumers, *([] if sref in consumers else [sref])] if consumers else later
    for reader in (sref, *readers):
        if reader not in later:
            name = state.stmt(reader).block.name_hint
            raise refuse_at(
                state,
                "cache_read",
                f"block '{name}' does not read '{buffer.name}' after all that write it",
                reader,
                "cache first, then move blocks into one nest",
            )
    for reader in readers:
        rewrite = ReplaceBuffer({buffer: cache}, only_reads=True)
        before = state.stmt(reader)
        state.replace(reader, rewrite.visit(before), rewrite.reuse)
    if writers:
        _insert(state, scope, nest, after=writers[-1])
    else:
        _insert(state, scope, nest, before=_first(state, scope, readers))
    add_allocation(state, scope, [cache])
    return state.block_of(realize.block, scope)


def cache_write(
    state: ScheduleState, sref: StmtSRef, index: int, storage_scope: str, consumers: list[StmtSRef]
) -> StmtSRef:
    """Write a buffer through a copy; see ``Schedule.cache_write``."""
    buffer = _region_of(state, "cache_write", sref, index, reads=False).buffer
    scope = scope_of(state, sref, "cache_write")
    if not is_dominant(state, sref, scope):
        raise refuse_at(
            state, "cache_write", f"another block writes buffer '{buffer.name}' too", sref
        )
    number = _statement_number(state, scope, sref)
    for other in scope_blocks(state, scope):
        if other is sref or other in consumers or not _reads(state, other, buffer):
            continue
        if _statement_number(state, scope, other) == number:
            name = state.stmt(other).block.name_hint
            raise refuse_at(
                state,
                "cache_write",
                f"block '{name}' reads '{buffer.name}' in the same nest, before the copy",
                other,
                "name it in consumer_blocks to let it read the cache",
            )
    cache = _cache_of(buffer, storage_scope)
    nest, realize = _copy_block(cache, buffer, _whole(buffer), cache.name)
    rewrite = ReplaceBuffer({buffer: cache})
    before = state.stmt(sref)
    state.replace(sref, rewrite.visit(before), rewrite.reuse)
    for consumer in consumers:
        rewrite = ReplaceBuffer({buffer: cache}, only_reads=True)
        before = state.stmt(consumer)
        state.replace(consumer, rewrite.visit(before), rewrite.reuse)
    _insert(state, scope, nest, after=sref)
    add_allocation(state, scope, [cache])
    return state.block_of(realize.block, scope)


def _writes(state: ScheduleState, sref: StmtSRef, buffer: Buffer) -> bool:
    return any(region.buffer is buffer for region in state.stmt(sref).block.writes)


def _reads(state: ScheduleState, sref: StmtSRef, buffer: Buffer) -> bool:
    return any(region.buffer is buffer for region in state.stmt(sref).block.reads)


def _first(state: ScheduleState, scope: StmtSRef, srefs: list[StmtSRef]) -> StmtSRef:
    wanted = set(srefs)
    return next(sref for sref in scope_blocks(state, scope) if sref in wanted)


def _insert(
    state: ScheduleState,
    scope: StmtSRef,
    nest: Stmt,
    before: StmtSRef | None = None,
    after: StmtSRef | None = None,
) -> None:
    """Put a nest right below a scope, before or after the statement that holds a block."""
    inner = before if before is not None else after
    chain = [inner, *state.ancestors(inner)]
    top = chain[chain.index(scope) - 1]
    anchor = state.stmt(top)
    statements = [nest, anchor] if before is not None else [anchor, nest]
    realize: BlockRealize = state.stmt(scope)
    new: list[Stmt] = []
    for stmt in stmt_list(realize.block.body):
        if stmt is anchor:
            new += statements
        elif any(child is anchor for child in child_statements(stmt)) and not isinstance(
            stmt, (For, BlockRealize)
        ):
            new += [nest, stmt] if before is not None else [stmt, nest]
        else:
            new.append(stmt)
    block = realize.block.with_fields(body=stmt_seq(*new))
    state.replace(scope, realize.with_fields(block=block), {realize.block: block})


def set_scope(state: ScheduleState, sref: StmtSRef, index: int, storage_scope: str) -> None:
    """Put a buffer into another storage scope."""
    buffer = _region_of(state, "set_scope", sref, index, reads=False).buffer
    if buffer.scope() == storage_scope:
        return
    owner = _allocating_block(state, "set_scope", sref, buffer)
    new = buffer_with(buffer, buffer.name, storage_scope)
    rewrite = ReplaceBuffer({buffer: new})
    before = state.stmt(owner)
    state.replace(owner, rewrite.visit(before), rewrite.reuse)


def _allocating_block(
    state: ScheduleState, primitive: str, sref: StmtSRef, buffer: Buffer
) -> StmtSRef:
    for ancestor in state.ancestors(sref):
        stmt = state.stmt(ancestor)
        if isinstance(stmt, BlockRealize) and buffer in stmt.block.alloc_buffers:
            return ancestor
    raise refuse_at(
        state, primitive, f"buffer '{buffer.name}' is a parameter: its memory is the caller's", sref
    )


def storage_align(
    state: ScheduleState, sref: StmtSRef, index: int, axis: int, factor: int, offset: int
) -> None:
    """Ask for the stride of an axis to be ``k * factor + offset``."""
    buffer = _region_of(state, "storage_align", sref, index, reads=False).buffer
    if not -len(buffer.shape) <= axis < len(buffer.shape):
        raise refuse_at(state, "storage_align", f"buffer '{buffer.name}' has no axis {axis}", sref)
    if factor <= 0:
        raise refuse_at(state, "storage_align", f"factor {factor} is not positive", sref)
    _allocating_block(state, "storage_align", sref, buffer)
    axis = axis % len(buffer.shape)
    realize: BlockRealize = state.stmt(sref)
    rows = [
        row
        for row in realize.block.annotations.get("buffer_dim_align", ())
        if tuple(row[:2]) != (index, axis)
    ]
    annotations = {
        **realize.block.annotations,
        "buffer_dim_align": (*rows, (index, axis, factor, offset)),
    }
    block = realize.block.with_fields(annotations=annotations)
    state.replace(sref, realize.with_fields(block=block), {realize.block: block})
