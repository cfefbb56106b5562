"""What a block says of its buffers: regions given by hand or hidden, dtypes, axis separators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PointerType, PrimExpr, Range, Var, convert
from tilesmith.ir.operators import cast
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.schedule.primitives.cache import ReplaceBuffer
from tilesmith.tir.schedule.primitives.common import refuse_at
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore

__all__ = [
    "annotate_buffer_access",
    "as_region_map",
    "set_axis_separator",
    "unsafe_hide_buffer_access",
    "unsafe_set_dtype",
]


def _regions(
    state: ScheduleState, primitive: str, sref: StmtSRef, kind: str
) -> tuple[BufferRegion, ...]:
    if kind not in ("read", "write"):
        raise refuse_at(state, primitive, f"buf_type is 'read' or 'write', got '{kind}'", sref)
    block: Block = state.stmt(sref).block
    return block.reads if kind == "read" else block.writes


def _region(
    state: ScheduleState, primitive: str, sref: StmtSRef, index: int, kind: str
) -> BufferRegion:
    regions = _regions(state, primitive, sref, kind)
    if not 0 <= index < len(regions):
        name = state.stmt(sref).block.name_hint
        reason = f"block '{name}' {kind}s {len(regions)} buffers, there is no number {index}"
        raise refuse_at(state, primitive, reason, sref)
    return regions[index]


def _put(
    state: ScheduleState, sref: StmtSRef, kind: str, regions: Sequence[BufferRegion], **more: Any
) -> None:
    realize: BlockRealize = state.stmt(sref)
    more["reads" if kind == "read" else "writes"] = tuple(regions)
    block = realize.block.with_fields(**more)
    state.replace(sref, realize.with_fields(block=block), {realize.block: block})


# --- regions --------------------------------------------------------------------------------------


def as_region_map(state: ScheduleState, sref: StmtSRef, index: int, kind: str, given: Any) -> Any:
    """New ranges given as a function of the iterators, as a map of these to starts and ends."""
    if isinstance(given, IndexMap):
        return given
    block: Block = state.stmt(sref).block
    region = _region(state, "annotate_buffer_access", sref, index, kind)
    variables = [Var(i.var.name, i.var.dtype) for i in block.iter_vars]
    ranges = given(*variables)
    if len(ranges) != len(region.region):
        reason = (
            f"gen_new_ranges gives {len(ranges)} ranges, buffer '{region.buffer.name}' has "
            f"{len(region.region)} dimensions"
        )
        raise refuse_at(state, "annotate_buffer_access", reason, sref)
    ends: list[PrimExpr] = []
    for part, size in zip(ranges, region.buffer.shape):
        if isinstance(part, (tuple, list)):
            low, high = part
        else:
            low, high = part, part + 1
        ends += [cast(size.dtype, convert(low)), cast(size.dtype, convert(high))]
    return IndexMap(variables, ends, None)


def annotate_buffer_access(
    state: ScheduleState, sref: StmtSRef, index: int, kind: str, ranges: IndexMap
) -> None:
    """Let a block declare another region of a buffer, and note that it was given by hand."""
    old = _region(state, "annotate_buffer_access", sref, index, kind)
    block: Block = state.stmt(sref).block
    ends = ranges.map_indices([iterator.var for iterator in block.iter_vars])
    if len(ends) != 2 * len(old.region):
        reason = f"{len(ends)} starts and ends for {len(old.region)} dimensions"
        raise refuse_at(state, "annotate_buffer_access", reason, sref)
    analyzer = Analyzer()
    parts = [
        Range.from_min_extent(low, analyzer.simplify(high - low))
        for low, high in zip(ends[::2], ends[1::2])
    ]
    regions = list(_regions(state, "annotate_buffer_access", sref, kind))
    regions[index] = BufferRegion(old.buffer, tuple(parts))
    key = f"explicit_{kind}_region"
    given = tuple(block.annotations.get(key, ()))
    noted = given if index in given else (*given, index)
    _put(state, sref, kind, regions, annotations={**block.annotations, key: noted})
    state.state_of(sref).regions_hold = False  # from now on they are what the user says


def unsafe_hide_buffer_access(
    state: ScheduleState, sref: StmtSRef, kind: str, indices: Sequence[int]
) -> None:
    """Let a block keep quiet about some of the buffers that it reads or writes."""
    regions = _regions(state, "unsafe_hide_buffer_access", sref, kind)
    for index in indices:
        _region(state, "unsafe_hide_buffer_access", sref, index, kind)
    left = [number for number in range(len(regions)) if number not in indices]
    if kind == "write":
        _renumber_alignments(state, sref, left)
    _put(state, sref, kind, [regions[number] for number in left])
    state.state_of(sref).regions_hold = False


def _renumber_alignments(state: ScheduleState, sref: StmtSRef, left: list[int]) -> None:
    """What ``storage_align`` has noted names buffers by their numbers among those written."""
    realize: BlockRealize = state.stmt(sref)
    rows = realize.block.annotations.get("buffer_dim_align")
    if not rows:
        return
    kept = tuple([(left.index(int(row[0])), *row[1:]) for row in rows if int(row[0]) in left])
    annotations = {k: v for k, v in realize.block.annotations.items() if k != "buffer_dim_align"}
    if kept:
        annotations["buffer_dim_align"] = kept
    block = realize.block.with_fields(annotations=annotations)
    state.replace(sref, realize.with_fields(block=block), {realize.block: block})


# --- the buffer itself ----------------------------------------------------------------------------


def _owner(state: ScheduleState, sref: StmtSRef, buffer: Buffer) -> tuple[StmtSRef, bool]:
    """The block that allocates a buffer; for a parameter, the root and True."""
    last = sref
    for ancestor in [sref, *state.ancestors(sref)]:
        stmt = state.stmt(ancestor)
        if isinstance(stmt, BlockRealize):
            last = ancestor
            if buffer in stmt.block.alloc_buffers:
                return ancestor, False
    return last, True


class _Retype(ReplaceBuffer):
    """Values are cast on their way into the buffer and back out of it."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        super().__init__({old: new})
        self.old = old
        self.new = new

    def visit_BufferLoad(self, load: BufferLoad) -> Any:
        """A load gives what it gave before, as far as the new dtype can hold it."""
        new = super().visit_BufferLoad(load)
        return cast(load.dtype, new) if load.buffer is self.old else new

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        """A store casts."""
        value = self.visit(store.value)
        indices = [self.visit(index) for index in store.indices]
        if store.buffer is self.old:
            lanes = value.dtype.lanes
            kind = self.new.dtype.with_lanes(lanes) if lanes > 1 else self.new.dtype
            return BufferStore(self.new, cast(kind, value), indices, store.predicate, store.span)
        if value is store.value and all(a is b for a, b in zip(indices, store.indices)):
            return store
        return BufferStore(store.buffer, value, indices, store.predicate, store.span)


def unsafe_set_dtype(state: ScheduleState, sref: StmtSRef, index: int, dtype: Any) -> None:
    """Keep a buffer in another dtype; see ``Schedule.unsafe_set_dtype``."""
    primitive = "unsafe_set_dtype"
    buffer = _region(state, primitive, sref, index, "write").buffer
    kind = DataType(dtype)
    owner, is_parameter = _owner(state, sref, buffer)
    if is_parameter:
        reason = f"buffer '{buffer.name}' is a parameter: its dtype is the callers'"
        raise refuse_at(state, primitive, reason, sref, "copy it with cache_write first")
    if kind.lanes != 1 or buffer.dtype.lanes != 1:
        raise refuse_at(state, primitive, f"{kind} is no dtype of single elements", sref)
    if kind is buffer.dtype:
        return
    pointer = Var(buffer.data.name, PointerType(prim_type(kind), buffer.scope()))
    rewrite = _Retype(buffer, buffer.with_fields(data=pointer, dtype=kind))
    state.replace(owner, rewrite.visit(state.stmt(owner)), rewrite.reuse)


def set_axis_separator(
    state: ScheduleState, sref: StmtSRef, index: int, kind: str, separators: Sequence[int]
) -> None:
    """Say between which dimensions of a buffer its physical axes are separated."""
    primitive = "set_axis_separator"
    buffer = _region(state, primitive, sref, index, kind).buffer
    axes = [int(axis) for axis in separators]
    if axes != sorted(set(axes)) or any(not 0 < axis < len(buffer.shape) for axis in axes):
        reason = (
            f"axis separators of '{buffer.name}' are increasing numbers from 1 to "
            f"{len(buffer.shape) - 1}, got {axes}"
        )
        raise refuse_at(state, primitive, reason, sref)
    if tuple(axes) == buffer.axis_separators:
        return
    if buffer.strides:
        raise refuse_at(state, primitive, f"buffer '{buffer.name}' has strides", sref)
    owner, is_parameter = _owner(state, sref, buffer)
    data = buffer.data if is_parameter else Var(buffer.data.name, buffer.data.type_annotation)
    new = buffer.with_fields(data=data, axis_separators=tuple(axes))
    rewrite = ReplaceBuffer({buffer: new})
    variable = state.variable_of(sref)
    state.replace(owner, rewrite.visit(state.stmt(owner)), rewrite.reuse)
    if is_parameter:
        function = state.function_state(variable).function
        buffers = {p: new if b is buffer else b for p, b in function.buffer_map.items()}
        state.replace_function(variable, function.with_fields(buffer_map=buffers))
