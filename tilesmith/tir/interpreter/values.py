"""The representation of values while a program is interpreted.

Integers are Python ints within the range of their dtype, booleans Python bools, floats numpy
scalars of their dtype (so that each operation rounds as the dtype says), vectors numpy arrays of
one dimension. Memory is an array of bytes; a pointer is a place in one; a buffer is a numpy array
that views such memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import PrimExpr
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ExecutionError, TypeMismatchError

Environment = list[Any]
Evaluate = Callable[[Environment], Any]
"""The closure of an expression or of a statement."""
RunGroup = Callable[[list[Environment]], Any]
"""The closure of a statement for a group of threads."""
CompileExpr = Callable[[PrimExpr], Evaluate]
Place = tuple[Any, ...]
"""The indices of an access: numbers, or an array of them for the lanes of a vector."""


def element_type(dtype: DataType) -> numpy.dtype:
    """Return the numpy dtype of one lane; pointers are Python objects."""
    dtype = dtype.element
    return numpy.dtype(object) if dtype.is_handle else dtype.numpy()


def wrap_int(value: int, dtype: DataType) -> int:
    """Wrap a Python int around in the range of an integer dtype (modulo ``2 ** bits``)."""
    bits = dtype.bits
    value &= (1 << bits) - 1
    if dtype.is_int and value >> (bits - 1):
        value -= 1 << bits
    return value


def scalar(value: Any, dtype: DataType) -> Any:
    """Return a Python or numpy number as a value of a scalar dtype."""
    if dtype.is_bool:
        return bool(value)
    if dtype.is_integer:
        return wrap_int(int(value), dtype)
    if dtype.is_float:
        return dtype.numpy().type(value)
    return value


def truncate(value: Any) -> int:
    """Round a float toward zero; NaN and infinities become 0."""
    value = float(value)
    if value != value or value in (float("inf"), float("-inf")):
        return 0
    return int(value)


def convert_value(source: DataType, target: DataType) -> Callable[[Any], Any]:
    """Return the function that casts values of one dtype to another, scalar or vector."""
    if source.lanes > 1:
        return _convert_vector(source.element, target.element)
    if source.is_handle or target.is_handle or target.is_void:
        return lambda value: value
    if target.is_bool:
        return lambda value: bool(value != 0)
    if target.is_integer:
        if source.is_float:
            return lambda value: wrap_int(truncate(value), target)
        low, high = target.min_value, target.max_value
        return lambda value: int(value) if low <= value <= high else wrap_int(int(value), target)
    kind = target.numpy().type
    if target.bits > 16 or target.code == "float":
        return kind
    return lambda value: kind(float(value))  # ml_dtypes takes neither large integers nor its own


def _convert_vector(source: DataType, target: DataType) -> Callable[[Any], Any]:
    kind = element_type(target)
    if source.is_float and target.is_integer:
        return lambda value: numpy.array([wrap_int(truncate(v), target) for v in value], kind)
    if target.is_bool:
        return lambda value: value != 0
    if source.is_integer and target.is_integer and min(source.bits, target.bits) < 8:
        return lambda value: numpy.array([wrap_int(int(v), target) for v in value], kind)
    if target.is_float and target.bits <= 8:
        make = kind.type
        return lambda value: numpy.array([make(float(v)) for v in value], kind)
    return lambda value: value.astype(kind)


class Pointer:
    """A place in memory: an array of bytes and an offset in bytes. ``owner`` keeps memory alive."""

    __slots__ = ("copies", "memory", "offset", "owner")

    def __init__(self, memory: numpy.ndarray, offset: int = 0, owner: Any = None) -> None:
        self.memory = memory
        self.offset = offset
        self.owner = owner
        # The memory of single threads, and what was here when they were launched last.
        self.copies: dict[Any, tuple[Pointer, numpy.ndarray]] | None = None

    def moved(self, nbytes: int) -> Pointer:
        """Return the pointer so many bytes further."""
        return Pointer(self.memory, self.offset + nbytes, self.owner)

    def view(
        self, dtype: DataType, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int
    ) -> numpy.ndarray:
        """Return an array over the memory; strides and offset are in elements.

        A flat view ends with the memory: that of strided rows counts the gap behind the last one,
        which need not belong to it. Accesses there are errors all the same.

        Raises ExecutionError where the memory does not hold it.
        """
        kind = element_type(dtype)
        size = kind.itemsize * dtype.lanes
        start = self.offset + offset * size
        if len(shape) == 1 and strides is None and start < self.memory.nbytes:
            shape = (min(shape[0], (self.memory.nbytes - start) // size),)
        if dtype.lanes > 1:
            shape = (*shape, dtype.lanes)
        byte_strides = None
        if strides is not None:
            byte_strides = tuple([stride * size for stride in strides])
            if dtype.lanes > 1:
                byte_strides = (*byte_strides, kind.itemsize)
        try:
            return numpy.ndarray(shape, kind, self.memory, start, byte_strides)
        except (TypeError, ValueError) as error:
            held = self.memory.nbytes - self.offset
            raise ExecutionError(
                f"a view of shape {shape} of {dtype} does not fit into {held} bytes: {error}"
            ) from None

    @property
    def address(self) -> int:
        """Return the address as a number, for programs that look at alignment."""
        return int(self.memory.__array_interface__["data"][0]) + self.offset

    def address_of(self, array: numpy.ndarray, indices: tuple[int, ...]) -> Pointer:
        """Return the pointer to an element of an array over this memory."""
        base = self.memory.__array_interface__["data"][0]
        start = array.__array_interface__["data"][0]
        for index, stride in zip(indices, array.strides):
            start += index * stride
        return Pointer(self.memory, start - base, self.owner)

    def window(self, count: int) -> numpy.ndarray:
        """Return the next ``count`` bytes, as an array of bytes over the memory.

        Raises ExecutionError where the memory ends before.
        """
        end = self.offset + count
        if self.offset < 0 or end > self.memory.nbytes:
            raise ExecutionError(
                f"a copy of {count} bytes at {self.offset} leaves memory of "
                f"{self.memory.nbytes} bytes"
            )
        return self.memory[self.offset : end]

    def __repr__(self) -> str:
        return f"Pointer({self.memory.nbytes} bytes, offset {self.offset})"


def pointer_to(array: numpy.ndarray) -> Pointer:
    """Return a pointer to the first element of an array, contiguous or not. Memory after a part of
    an array is the rest of that array: flat views count whole rows, the last one too."""
    if array.flags.c_contiguous:
        return Pointer(array.reshape(-1).view(numpy.uint8), 0, array)
    span = array.itemsize
    for size, stride in zip(array.shape, array.strides):
        if stride < 0:
            raise TypeMismatchError("arrays with negative strides are not supported; copy them")
        span += (size - 1) * stride
    address = array.__array_interface__["data"][0]
    if isinstance(array.base, numpy.ndarray) and array.base.flags.c_contiguous:
        end = array.base.__array_interface__["data"][0] + array.base.nbytes
        span = max(span, end - address)
    raw = (ctypes.c_uint8 * span).from_address(address)
    return Pointer(numpy.ctypeslib.as_array(raw), 0, array)


def poison(dtype: DataType) -> Any:
    """Return the content of fresh memory: NaN for floats, a conspicuous number for integers."""
    if dtype.is_float:
        return float("nan")
    if dtype.is_bool:
        return False
    return wrap_int(0x5A5A5A5A5A5A5A5A, dtype)


def allocate(dtype: DataType, count: int) -> Pointer:
    """Return fresh memory for ``count`` elements."""
    if dtype.is_handle:
        array = numpy.zeros(max(count, 1) * dtype.lanes, numpy.uint64)
    else:
        array = numpy.empty(max(count, 1) * dtype.lanes, element_type(dtype))
        array.fill(poison(dtype.element))
    return Pointer(array.view(numpy.uint8), 0, array)


def as_array(value: Any) -> numpy.ndarray:
    """Return an argument as a numpy array over the same memory."""
    if isinstance(value, numpy.ndarray):
        return value
    if getattr(value, "requires_grad", False):
        value = value.detach()
    return numpy.asarray(value)
