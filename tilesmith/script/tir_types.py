"""Defines words that stand for types, and converts the values of scripts to nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import (
    IntImm,
    PointerType,
    PrimExpr,
    Ramp,
    Range,
    SizeVar,
    TupleType,
    Type,
    Var,
    VoidType,
    const,
    convert,
    is_const,
    operators,
)
from tilesmith.ir.queries import calls
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.script.builder import IRBuilder, name_fresh
from tilesmith.script.diagnostics import error_at_caller
from tilesmith.support.errors import ScriptError, ShapeError, TilesmithError, TypeMismatchError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, check_rank
from tilesmith.tir.ranges import extent_between

__all__ = [
    "BufferDeclWord", "BufferWord", "DTypeWord", "HandleWord", "PtrWord", "as_type", "check_kept",
    "index_vectors", "load_of",
    "parameter_of", "region_of", "subscript_buffer",
]  # fmt: skip


class DTypeWord:
    """``T.int32``: a type in annotations; called, a constant, a conversion, or a new variable."""

    def __init__(self, dtype: str) -> None:
        self.dtype = DataType(dtype)

    def __call__(self, expr: Any = None, *, is_size_var: bool = False) -> PrimExpr:
        """Return for ``T.int32()`` a variable, for ``T.int32(5)`` a constant, for ``T.int32(x)`` a
        conversion.
        """
        if expr is None:
            return (SizeVar if is_size_var else Var)("", self.dtype)
        if isinstance(expr, str):
            if expr not in ("inf", "-inf", "nan") or not self.dtype.is_float:
                raise TypeMismatchError(f"'{expr}' is not a value of {self.dtype}")
            return const(float(expr), self.dtype)
        if isinstance(expr, (bool, int, float)):
            if self.dtype.is_integer and int(expr) != operators.wrap(int(expr), self.dtype.element):
                raise TypeMismatchError(f"{expr} does not fit into {self.dtype}")
            return const(expr, self.dtype)
        return operators.cast(self.dtype, convert(expr))

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


class HandleWord(DTypeWord):
    """``T.handle``: a pointer to anything; ``T.handle("float32", "global")`` to elements."""

    def __init__(self) -> None:
        super().__init__("handle")

    def __call__(
        self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False
    ) -> PrimExpr:
        """Return a new pointer."""
        if dtype is None:
            return Var("", "handle")
        if isinstance(dtype, (int, float, PrimExpr)) and not isinstance(dtype, Var):
            return super().__call__(dtype)
        element = as_type(dtype) if not isinstance(dtype, str) else prim_type(DataType(dtype))
        return Var("", PointerType(element, storage_scope))


class PtrWord:
    """``T.Ptr``: a pointer to elements of a dtype, as a call or with brackets."""

    def __call__(self, dtype: Any, storage_scope: str = "global", is_size_var: bool = False) -> Var:
        """Return a new pointer."""
        dtype = dtype.dtype if isinstance(dtype, DTypeWord) else DataType(dtype)
        if is_size_var:
            raise ScriptError("a pointer is not a size: leave is_size_var out")
        return Var("", PointerType(prim_type(dtype), storage_scope))

    def __getitem__(self, keys: Any) -> Var:
        return self(*keys) if isinstance(keys, tuple) else self(keys)

    def __repr__(self) -> str:
        return "T.Ptr"


class BufferWord:
    """``T.Buffer``: makes a buffer, called or with the brackets of older programs."""

    def __call__(
        self,
        shape: Any,
        dtype: Any = "float32",
        data: Var | None = None,
        strides: Any = None,
        elem_offset: Any = None,
        scope: str = "global",
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Any = None,
    ) -> Buffer:
        """Return a buffer of a shape and dtype, over the memory behind ``data`` if given."""
        dtype = dtype.dtype if isinstance(dtype, DTypeWord) else dtype
        kind = "" if buffer_type == "default" else buffer_type
        try:
            if not isinstance(dtype, str):
                raise TypeMismatchError(f"the dtype of a buffer is a text, got {dtype!r}")
            if data is not None and not isinstance(data, Var):
                raise TypeMismatchError("the data of a buffer is a pointer variable")
            if isinstance(strides, (list, tuple)):
                strides = _named_strides(strides, shape)
            return decl_buffer(
                shape, dtype, "", data, strides, elem_offset, scope, align, offset_factor, kind,
                axis_separators, IRBuilder.current().span if IRBuilder.is_in_scope() else None,
            )  # fmt: skip
        except TilesmithError as error:
            if IRBuilder.is_in_scope():
                raise  # the parser knows the place
            raise error_at_caller(error) from None

    def __getitem__(self, keys: Any) -> Buffer:
        if not isinstance(keys, tuple):
            return self(keys)
        if len(keys) >= 2 and not isinstance(keys[1], str):
            return self(keys)  # only the shape, as a tuple
        return self(*keys)

    def __repr__(self) -> str:
        return "T.Buffer"


class BufferDeclWord(BufferWord):
    """``T.buffer_decl``: what older programs call ``T.buffer``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Buffer:
        """Return the buffer that ``T.buffer`` makes of the same arguments."""
        return super().__call__(*args, **kwargs)


def _named_strides(strides: Sequence[Any], shape: Any) -> list[Any]:
    """Make new variables for strides given as texts."""
    sizes = shape if isinstance(shape, (list, tuple)) else [shape]
    dtype = getattr(sizes[0], "dtype", "int32") if sizes else "int32"
    return [Var(stride, dtype) if isinstance(stride, str) else stride for stride in strides]


def as_type(value: Any) -> Type:
    """Convert how scripts write a type: a word, a text, a variable of that type, None."""
    if value is None:
        return VoidType()
    if isinstance(value, Type):
        return value
    if isinstance(value, DTypeWord):
        return VoidType() if value.dtype.is_void else prim_type(value.dtype)
    if isinstance(value, str):
        return prim_type(DataType(value))
    if isinstance(value, Var):
        return value.type_annotation
    if isinstance(value, (tuple, list)):
        return TupleType(tuple([as_type(item) for item in value]))
    raise TypeMismatchError(f"a type is needed here, got {value!r}")


def parameter_of(annotation: Any, name: str) -> tuple[Var, Any]:
    """Return the parameter that an annotation stands for, and what its name means in the body."""
    if isinstance(annotation, BufferWord):
        raise ScriptError(
            f"T.Buffer without a shape for parameter '{name}'",
            notes=('write T.Buffer((16, 16), "float32")',),
        )
    if isinstance(annotation, Buffer):
        name_fresh(annotation, name)
        return Var(name + "_handle", "handle"), annotation
    if isinstance(annotation, Var):
        param = annotation
        if param.name and param.name != name:
            param = type(param)(name, param.type_annotation)
        name_fresh(param, name)
        return param, param
    param = Var(name, as_type(annotation))
    return param, param


def region_of(value: Any) -> BufferRegion:
    """Return a region from ``A[0:4, i]``, ``A[i, j]`` or ``A``."""
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, BufferLoad):
        return BufferRegion(
            value.buffer, tuple([_range_of_index(index) for index in value.indices])
        )
    if isinstance(value, Buffer):
        return BufferRegion.full_region(value)
    got = value.name if isinstance(value, Var) else value
    raise TypeMismatchError(
        f"a region of a buffer is needed here, got {got}",
        notes=("write the part of the buffer that is accessed: A[vi, 0:16], or A for all of it",),
    )


def _range_of_index(index: PrimExpr) -> Range:
    if isinstance(index, Ramp) and not is_const(index.stride, 1):
        raise TypeMismatchError("a region of a buffer has no steps")
    if isinstance(index, Ramp):
        return Range.from_min_extent(index.base, const(index.lanes, index.base.dtype))
    return Range.from_min_extent(index, const(1, index.dtype))


def subscript_buffer(buffer: Buffer, indices: Any) -> Any:
    """Evaluate ``A[i, j]`` as a load, ``A[0:4, i]`` as a region, a slice with a step as a vector
    load.
    """
    indices = indices if isinstance(indices, tuple) else (indices,)
    indices = tuple([load_of(one) if isinstance(one, BufferRegion) else one for one in indices])
    check_rank(buffer, indices)
    slices = [index for index in indices if isinstance(index, slice)]
    if not slices:
        return BufferLoad(buffer, indices)
    if any(index.step is not None for index in slices):
        return BufferLoad(buffer, index_vectors(buffer, indices))
    region = []
    for index, size in zip(indices, buffer.shape):
        if isinstance(index, slice):
            low, stop = _bounds(index, size)
            region.append(Range.from_min_extent(low, extent_between(low, stop)))
        else:
            region.append(_range_of_index(convert(index)))
    return BufferRegion(buffer, tuple(region))


def _bounds(index: slice, size: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return where a slice starts and stops; a missing bound is the end of the dimension."""
    low: Any = const(0, size.dtype) if index.start is None else index.start
    stop: Any = size if index.stop is None else index.stop
    if not isinstance(low, PrimExpr) and not isinstance(stop, PrimExpr):
        return convert(low), convert(stop)
    return operators.match_types(low, stop)


def index_vectors(buffer: Buffer, indices: Sequence[Any]) -> list[PrimExpr]:
    """Return the indices of an access: slices become vectors."""
    if len(indices) != len(buffer.shape):
        raise ShapeError(
            f"buffer '{buffer.name}' has {len(buffer.shape)} dimensions, got {len(indices)} indices"
        )
    result = []
    for index, size in zip(indices, buffer.shape):
        if isinstance(index, slice):
            low, stop = _bounds(index, size)
            step = 1 if index.step is None else index.step
            extent = extent_between(low, stop)
            if not is_const(convert(step)):
                raise ScriptError("the step of a vector access must be constant")
            if int(convert(step)) < 1:
                raise ScriptError(
                    "the step of a slice is positive; backwards: T.Ramp(start, -1, n)"
                )
            lanes = _lanes_of(extent, int(convert(step)))
            index = low if is_const(convert(lanes), 1) else Ramp(low, step, lanes)
        elif isinstance(index, BufferRegion):
            index = load_of(index)
        result.append(convert(index))
        if result[-1].dtype.is_handle:
            raise TypeMismatchError(f"buffer '{buffer.name}' has no element {index!r}")
    return result


def _lanes_of(extent: PrimExpr, step: int) -> int | PrimExpr:
    """Return the lanes of a vector access: a number, or a multiple of ``T.vscale()``."""
    if isinstance(extent, IntImm):
        return -(-extent.value // step)
    if step == 1 and next(calls(extent, "tir.vscale"), None) is not None:
        return extent
    raise ScriptError("the length of a vector access must be constant, or a multiple of T.vscale()")


def load_of(region: BufferRegion) -> BufferLoad:
    """Convert a region beside an operator to the vector of its elements."""
    indices = [
        slice(item.min, operators.add(item.min, item.extent))
        if not is_const(item.extent, 1)
        else item.min
        for item in region.region
    ]
    return BufferLoad(region.buffer, index_vectors(region.buffer, indices))


def check_kept(value: Any, dtype: DataType, what: str) -> None:
    """Refuse a float where an integer is kept (``what`` says where): it would lose its fraction.

    A number of Python that is whole is one of every dtype.
    """
    if not (dtype.is_integer or dtype.is_bool):
        return
    if isinstance(value, PrimExpr):
        given = value.dtype
        loses = not (given.is_integer or given.is_bool or given.is_handle or given.is_void)
        shown = f"a value of {given}"
    else:
        loses = isinstance(value, float) and not value.is_integer()
        shown = f"the number {value}"
    if loses:
        raise TypeMismatchError(
            f"{shown} is {what}, which would drop its fraction",
            notes=(f'say that it is meant: T.Cast("{dtype.element}", value)',),
        )
