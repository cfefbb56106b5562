"""Primitives that change a block's declared buffers: regions, hidden accesses, dtypes, axis
separators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PointerType, PrimExpr, Range, Var, convert
from tilesmith.ir.operators import cast
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.functor import Substitution
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.schedule.blocks import check_not_a_pointer
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import Redirect, rewrite
from tilesmith.tir.schedule.parameters import (
    Adapted,
    BlockBuffer,
    DtypeText,
    NamedBuffer,
    WrittenBuffer,
)
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.stmt import BufferStore

__all__ = [
    "annotate_buffer_access",
    "as_region_map",
    "set_axis_separator",
    "unsafe_hide_buffer_access",
    "unsafe_set_dtype",
]


def _regions(cursor: BlockCursor, kind: str) -> tuple[BufferRegion, ...]:
    if kind not in ("read", "write"):
        raise refuse(f"buf_type is 'read' or 'write', got '{kind}'", cursor)
    block = cursor.block
    return block.reads if kind == "read" else block.writes


def _region(cursor: BlockCursor, index: int, kind: str) -> BufferRegion:
    regions = _regions(cursor, kind)
    if not 0 <= index < len(regions):
        name = cursor.block.name_hint
        reason = f"block '{name}' {kind}s {len(regions)} buffers, there is no number {index}"
        raise refuse(reason, cursor)
    return regions[index]


def _put(cursor: BlockCursor, kind: str, regions: Sequence[BufferRegion], **more: Any) -> None:
    realize = cursor.stmt
    more["reads" if kind == "read" else "writes"] = tuple(regions)
    block = realize.block.with_fields(**more)
    cursor.replace(realize.with_fields(block=block), {realize.block: block})


# --- regions --------------------------------------------------------------------------------------


def as_region_map(known: Mapping[str, Any], given: Any) -> IndexMap:
    """Convert new ranges, given as a function of the iterators, to an index map from the iterators
    to starts and ends.
    """
    if isinstance(given, IndexMap):
        return given
    cursor: BlockCursor = known["block"]
    block = cursor.block
    region = _region(cursor, known["buffer_index"], known["buf_type"])
    variables = [Var(i.var.name, i.var.dtype) for i in block.iter_vars]
    ranges = given(*variables)
    if len(ranges) != len(region.region):
        reason = (
            f"gen_new_ranges gives {len(ranges)} ranges, buffer '{region.buffer.name}' has "
            f"{len(region.region)} dimensions"
        )
        raise refuse(reason, cursor)
    ends: list[PrimExpr] = []
    for part, size in zip(ranges, region.buffer.shape):
        if isinstance(part, (tuple, list)):
            low, high = part
        else:
            low, high = part, part + 1
        ends += [cast(size.dtype, convert(low)), cast(size.dtype, convert(high))]
    return IndexMap(variables, ends, None)


_RANGES = "a function of the block's iterators that gives the new ranges"
RegionMap = Annotated[IndexMap, Adapted(as_region_map, "Callable[..., Any]", wanted=_RANGES)]


@primitive()
def annotate_buffer_access(
    block: BlockCursor, buffer_index: NamedBuffer, buf_type: str, gen_new_ranges: RegionMap
) -> None:
    """Let a block declare another region of the buffer that it reads or writes.

    ``gen_new_ranges`` takes the block's iterators and gives for each dimension a pair (start,
    end) or a single index. The annotation ``explicit_read_region`` or ``explicit_write_region``
    notes which regions were given so.
    """
    old = _region(block, buffer_index, buf_type)
    node = block.block
    ends = gen_new_ranges.map_indices([iterator.var for iterator in node.iter_vars])
    if len(ends) != 2 * len(old.region):
        reason = f"{len(ends)} starts and ends for {len(old.region)} dimensions"
        raise refuse(reason, block)
    analyzer = Analyzer()
    parts = [
        Range.from_min_extent(low, analyzer.simplify(high - low))
        for low, high in zip(ends[::2], ends[1::2])
    ]
    regions = list(_regions(block, buf_type))
    regions[buffer_index] = BufferRegion(old.buffer, tuple(parts))
    key = f"explicit_{buf_type}_region"
    given = tuple(node.annotations.get(key, ()))
    noted = given if buffer_index in given else (*given, buffer_index)
    _put(block, buf_type, regions, annotations={**node.annotations, key: noted})
    block.tables.regions_hold = False  # from now on they are what the user says


@primitive()
def unsafe_hide_buffer_access(
    block: BlockCursor, buf_type: str, buf_index_array: list[int]
) -> None:
    """Drop declared accesses of a block: buffers in its reads ("read") or writes ("write").

    Unsafe: later primitives and passes go by what blocks declare.
    """
    regions = _regions(block, buf_type)
    for index in buf_index_array:
        _region(block, index, buf_type)
    left = [number for number in range(len(regions)) if number not in buf_index_array]
    if buf_type == "write":
        _renumber_alignments(block, left)
    _put(block, buf_type, [regions[number] for number in left])
    block.tables.regions_hold = False


def _renumber_alignments(cursor: BlockCursor, left: list[int]) -> None:
    """Renumber the entries of ``storage_align``, which name buffers by their index among the
    writes."""
    realize = cursor.stmt
    rows = realize.block.annotations.get("buffer_dim_align")
    if not rows:
        return
    kept = tuple([(left.index(int(row[0])), *row[1:]) for row in rows if int(row[0]) in left])
    annotations = {k: v for k, v in realize.block.annotations.items() if k != "buffer_dim_align"}
    if kept:
        annotations["buffer_dim_align"] = kept
    block = realize.block.with_fields(annotations=annotations)
    cursor.replace(realize.with_fields(block=block), {realize.block: block})


# --- the buffer itself ----------------------------------------------------------------------------


def _owner(cursor: BlockCursor, buffer: Buffer) -> tuple[BlockCursor, bool]:
    """Return the block that allocates a buffer; for a parameter, the root and True."""
    last = cursor
    for ancestor in [cursor, *cursor.ancestors()]:
        if isinstance(ancestor, BlockCursor):
            last = ancestor
            if buffer in ancestor.block.alloc_buffers:
                return ancestor, False
    return last, True


class _Retype(Redirect):
    """Casts values on their way into the buffer and back out of it."""

    def visit_Var(self, variable: Var) -> Var:
        """Return the pointer of the new buffer."""
        return self.new.data if variable is self.old.data else variable

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        """Cast a load back to the old dtype."""
        new = super().visit_BufferLoad(load)
        return cast(load.dtype, new) if load.buffer is self.old else new

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        """Cast a stored value to the new dtype."""
        new = self.children(store)
        if store.buffer is not self.old:
            return new
        lanes = new.value.dtype.lanes
        kind = self.new.dtype.with_lanes(lanes) if lanes > 1 else self.new.dtype
        return new.with_fields(buffer=self.new, value=cast(kind, new.value))


@primitive(trace="UnsafeSetDType")
def unsafe_set_dtype(block: BlockCursor, buffer_index: WrittenBuffer, dtype: DtypeText) -> None:
    """Store a buffer that a block writes in another dtype; values are cast on access.

    Unsafe: results lose what the new dtype cannot hold.
    """
    buffer = _region(block, buffer_index, "write").buffer
    kind = DataType(dtype)
    owner, is_parameter = _owner(block, buffer)
    if is_parameter:
        reason = f"buffer '{buffer.name}' is a parameter: its dtype is the callers'"
        raise refuse(reason, block, "copy it with cache_write first")
    if kind.lanes != 1 or buffer.dtype.lanes != 1:
        raise refuse(f"{kind} is not a dtype of single elements", block)
    if kind is buffer.dtype:
        return
    check_not_a_pointer(owner, buffer, block)
    pointer = Var(buffer.data.name, PointerType(prim_type(kind), buffer.scope()))
    rewrite(owner, _Retype(buffer, buffer.with_fields(data=pointer, dtype=kind)))


@primitive()
def set_axis_separator(block: BlockCursor, buffer: BlockBuffer, axis_separators: list[int]) -> None:
    """Set the separators between the physical axes of a buffer.

    Flattening makes one axis of each group of dimensions. ``buffer`` is ``("read", k)``,
    ``("write", k)``, a name or a Buffer.
    """
    kind, index = buffer
    old = _region(block, index, kind).buffer
    axes = [int(axis) for axis in axis_separators]
    if axes != sorted(set(axes)) or any(not 0 < axis < len(old.shape) for axis in axes):
        reason = (
            f"axis separators of '{old.name}' are increasing numbers from 1 to "
            f"{len(old.shape) - 1}, got {axes}"
        )
        raise refuse(reason, block)
    if tuple(axes) == old.axis_separators:
        return
    if old.strides:
        raise refuse(f"buffer '{old.name}' has strides", block)
    owner, is_parameter = _owner(block, old)
    check_not_a_pointer(owner, old, block)
    data = old.data if is_parameter else Var(old.data.name, old.data.type_annotation)
    new = old.with_fields(data=data, axis_separators=tuple(axes))
    variable = block.variable
    rewrite(owner, Substitution({}, {old: new}))
    if is_parameter:
        function = block.function
        buffers = {p: new if b is old else b for p, b in function.buffer_map.items()}
        block.state.replace_function(variable, function.with_fields(buffer_map=buffers))
