"""Buffers: typed, shaped views of memory."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    IntImm,
    Node,
    PointerType,
    PrimExpr,
    Var,
    child,
    const,
    convert,
    is_const,
    note,
)
from tilesmith.ir import data as data_field
from tilesmith.ir.operators import maximum
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError

__all__ = ["Buffer", "DataProducer", "decl_buffer"]


def _shape(values: Any) -> tuple[PrimExpr, ...]:
    if isinstance(values, (int, PrimExpr)):
        values = (values,)
    return tuple(
        [
            value if isinstance(value, PrimExpr) else const(value, _index_dtype(value))
            for value in values
        ]
    )


def _index_dtype(value: Any) -> str:
    if isinstance(value, (str, float)):
        raise TypeMismatchError(f"sizes and strides are integers or expressions, got {value!r}")
    return str(getattr(value, "dtype", "int32")) if -(2**31) <= int(value) < 2**31 else "int64"


class DataProducer(Node, key="tir.DataProducer"):
    """A buffer, or a tensor of a tensor expression: both can be read elementwise."""


class Buffer(Node, key="tir.Buffer"):
    """A view of the memory behind ``data``: element type, shape, strides, offset, alignment.

    A buffer is compared by identity. ``strides`` are in elements, empty when the buffer is compact
    and row-major; ``elem_offset`` is in elements; ``data_alignment`` in bytes (64 by default),
    ``offset_factor`` promises that the offset is a multiple of it.
    """

    is_leaf = True
    READ = 1
    WRITE = 2

    data: Var = child()
    dtype: DataType = data_field(convert=DataType)
    shape: tuple[PrimExpr, ...] = child()
    strides: tuple[PrimExpr, ...] = child()
    elem_offset: PrimExpr = child()
    name: str = note()
    data_alignment: int = data_field()
    offset_factor: int = data_field()
    buffer_type: str = data_field(default="")
    axis_separators: tuple[int, ...] = data_field(default=())
    span: Any = note(default=None)

    def scope(self) -> str:
        """Return the storage scope of the memory ("global" by default)."""
        return self.data.storage_scope or "global"

    def in_scope(self, storage_scope: str) -> Buffer:
        """Return a buffer like this one in a storage scope, with a pointer of its own."""
        pointer = PointerType(prim_type(self.dtype), storage_scope)
        return self.with_fields(data=Var(self.data.name, pointer))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    # Without this, Python would iterate over the elements without end.
    __iter__ = None

    def __getitem__(self, indices: Any) -> Any:
        """Return a load of one element (or a vector), or a region where slices are given."""
        from tilesmith.tir.expr import BufferLoad, buffer_slice

        if not isinstance(indices, (tuple, list)):
            indices = (indices,)
        if any(isinstance(index, slice) for index in indices):
            return buffer_slice(self, indices)
        return BufferLoad(self, indices)

    def vload(self, begin: Any, dtype: str | None = None, predicate: Any = None) -> Any:
        """Return a load that starts at ``begin``; a vector dtype reads that many elements in a
        row."""
        from tilesmith.ir import Ramp
        from tilesmith.tir.expr import BufferLoad

        begin = list(begin) if isinstance(begin, (tuple, list)) else [begin]
        wanted = self.dtype if dtype is None else DataType(dtype)
        if wanted.element is not self.dtype.element or wanted.lanes % self.dtype.lanes:
            raise TypeMismatchError(
                f"cannot load {wanted} from buffer '{self.name}' of {self.dtype}"
            )
        lanes, last = wanted.lanes // self.dtype.lanes, convert(begin[-1])
        if lanes > 1 and last.dtype.lanes == 1:
            begin[-1] = Ramp(last, 1, lanes)
        return BufferLoad(self, begin, predicate)

    def vstore(self, begin: Any, value: Any, predicate: Any = None) -> Any:
        """Return a store that starts at ``begin``; a vector value writes that many elements in a
        row."""
        from tilesmith.ir import Ramp
        from tilesmith.tir.stmt import BufferStore

        begin = list(begin) if isinstance(begin, (tuple, list)) else [begin]
        value = convert(value)
        lanes = value.dtype.lanes // self.dtype.lanes
        last = convert(begin[-1])
        if lanes > 1 and last.dtype.lanes == 1:
            begin[-1] = Ramp(last, 1, lanes)
        return BufferStore(self, value, begin, predicate)

    def access_ptr(
        self,
        access_mask: Any,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> Any:
        """Return a pointer to the data, with the accesses through it: "r", "w", "rw" or their bit
        mask."""
        from tilesmith.ir import Call

        if isinstance(access_mask, str):
            if set(access_mask) - {"r", "w"}:
                raise TypeMismatchError(f"unknown access '{access_mask}': r, w or rw")
            access_mask = sum(
                {"r": Buffer.READ, "w": Buffer.WRITE}[letter] for letter in access_mask
            )
        offset, given = convert(offset), extent
        if extent is None:
            extent = const(1, self.elem_offset.dtype)
            for size in self.shape:
                extent = extent * size
            if self.strides:
                extent = _strided_size(self.shape, self.strides)
            extent = extent - offset
        element = self.dtype.with_lanes(self.dtype.lanes * content_lanes)
        annotation = Call(element, "tir.type_annotation", ())
        offset = self.elem_offset + offset
        if content_lanes > 1:
            offset = offset // content_lanes
            extent = extent // content_lanes if given is None else extent
        arguments = (annotation, self.data, offset, convert(extent), const(access_mask, "int32"))
        return Call(ptr_type, "tir.tvm_access_ptr", arguments)

    def offset_of(self, indices: Any) -> list[PrimExpr]:
        """Return the flat offset, in elements, of a tuple of indices."""
        indices = [convert(index) for index in indices]
        if len(indices) != len(self.shape):
            raise ShapeError(
                f"buffer '{self.name}' has {len(self.shape)} dimensions, got {len(indices)} indices"
            )
        if self.strides:
            offset: PrimExpr = const(0, self.elem_offset.dtype)
            for index, stride in zip(indices, self.strides):
                offset = offset + index * stride
        else:
            offset = indices[0] if indices else const(0, self.elem_offset.dtype)
            for index, size in zip(indices[1:], self.shape[1:]):
                offset = offset * size + index
        return [offset + self.elem_offset]

    def get_flattened_buffer(self) -> Buffer:
        """Return a one-dimensional view of the same memory (one dimension more for each axis
        separator)."""
        groups: list[PrimExpr] = []
        separators = [0, *self.axis_separators, len(self.shape)]
        for start, stop in zip(separators, separators[1:]):
            size: PrimExpr = const(1, self.shape[0].dtype if self.shape else "int32")
            for extent in self.shape[start:stop]:
                size = size * extent
            groups.append(size)
        if self.strides and not self.axis_separators and self.shape:
            groups = [_strided_size(self.shape, self.strides)]
        separators_after = tuple(range(1, len(groups)))
        if len(self.shape) == len(groups) and not self.strides:
            return self
        return self.with_fields(shape=tuple(groups), strides=(), axis_separators=separators_after)


def _strided_size(shape: tuple[PrimExpr, ...], strides: tuple[PrimExpr, ...]) -> PrimExpr:
    """Return the number of elements from the first of a strided buffer to the end of its last row.

    Mostly the first dimension has the largest stride and determines the size. Where other strides
    are unknown or larger, the size is the maximum over those dimensions.
    """
    from tilesmith.arith import Analyzer  # most buffers have no strides

    known = [value.value for value in (*shape, *strides) if isinstance(value, IntImm)]
    if len(known) == 2 * len(shape):
        steps = [(size - 1) * step for size, step in zip(known, known[len(shape) :])]
        needed = max(known[0] * known[len(shape)], 1 + sum(steps))
        return const(needed, strides[0].dtype)
    analyzer = Analyzer()
    size, slowest = strides[0] * shape[0], strides[0]
    for extent, stride in zip(shape[1:], strides[1:]):
        reach = stride * extent
        if is_const(extent, 1) or analyzer.can_prove(slowest >= reach):
            continue
        if isinstance(stride, IntImm) and not isinstance(slowest, IntImm):
            continue  # rows that the caller places: not closer than one behind the other
        if analyzer.can_prove(stride >= size):
            size, slowest = reach, stride
        else:
            size = maximum(size, reach)
    return size


_KINDS = {
    "": "", "default": "", "auto": "auto_broadcast", "auto_broadcast": "auto_broadcast",
}  # fmt: skip
"""What users call a kind of buffer, and what it is kept as."""


def decl_buffer(
    shape: Any,
    dtype: Any = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
    span: Any = None,
) -> Buffer:
    """Declare a buffer; makes the pointer variable unless ``data`` is given.

    ``offset_factor`` other than 0 without ``elem_offset`` gives the buffer a symbolic offset.
    """
    dtype = DataType("float32" if dtype is None else dtype)
    shape = _shape(shape)
    for size in shape:
        if isinstance(size, IntImm) and size.value < 0:
            raise ShapeError(f"a size of a buffer cannot be negative, got {size.value}")
    if data is None:
        # A boolean lies in memory as a byte, the pointer says so like users know it.
        storage = DataType("int8") if dtype.is_bool else dtype
        data = Var(name, PointerType(prim_type(storage), scope), span)
    elif not isinstance(getattr(data, "type_annotation", None), PointerType):
        raise TypeMismatchError(f"the data of buffer '{name}' must be a pointer, got {data!r}")
    index_dtype = shape[0].dtype if shape else DataType("int32")
    if elem_offset is None:
        elem_offset = (
            Var(f"{name}_elem_offset", index_dtype) if offset_factor else const(0, index_dtype)
        )
    else:
        elem_offset = (
            elem_offset if isinstance(elem_offset, PrimExpr) else const(elem_offset, index_dtype)
        )
    return Buffer(
        data,
        dtype,
        shape,
        _shape(strides) if strides is not None else (),
        elem_offset,
        name,
        64 if data_alignment is None or data_alignment <= 0 else int(data_alignment),
        1 if not offset_factor else int(offset_factor),
        _KINDS[buffer_type],
        tuple([int(axis) for axis in axis_separators or ()]),
        span,
    )
