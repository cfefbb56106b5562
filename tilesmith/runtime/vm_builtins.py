"""``vm.builtin.*``: what lowered graph functions call for sizes, checks and memory.

``BUILTINS`` holds the functions on numpy arrays (tensors), tuples (shapes, tuples) and numbers, as
the graph's interpreter calls them; registered under the same names they take tensors, whose memory
they share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import NDArray, from_numpy
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import ShapeError, TypeMismatchError

__all__ = [
    "ASSERT_EQUAL_TO_IMM", "ASSERT_EQUAL_TO_LOAD", "BUILTINS", "LOAD_SHAPE", "NO_OP",
    "STORE_TO_HEAP", "USE_IMM",
]  # fmt: skip

ASSERT_EQUAL_TO_IMM, STORE_TO_HEAP, NO_OP, ASSERT_EQUAL_TO_LOAD = range(4)
"""What ``match_shape`` does with a size, by its code: compare with a number, store at a place of
the heap, nothing, compare with a place of the heap."""
USE_IMM, LOAD_SHAPE = range(2)
"""Where ``make_shape`` gets a size from, by its code: a number, a place of the heap."""

BUILTINS: dict[str, Callable[..., Any]] = {}


def _builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    BUILTINS[f"vm.builtin.{function.__name__.rstrip('_')}"] = function
    return function


def _at(context: str) -> str:
    return f"{context}: " if context else ""


# Sizes


@_builtin
def alloc_shape_heap(size: int) -> Any:
    """Return memory for so many sizes."""
    return numpy.zeros(size, "int64")


def _match(value: int, heap: Any, code: int, wanted: int, what: str) -> None:
    if code == STORE_TO_HEAP:
        heap[wanted] = value
    elif code in (ASSERT_EQUAL_TO_IMM, ASSERT_EQUAL_TO_LOAD):
        expected = int(heap[wanted]) if code == ASSERT_EQUAL_TO_LOAD else wanted
        if value != expected:
            raise ShapeError(f"{what} is {value}, expected {expected}")


@_builtin
def match_shape(value: Any, heap: Any, count: int, *rest: Any) -> tuple[()]:
    """Compare the sizes of a tensor (or a shape) with what is known, and store the others: a code
    and a number for each, then a text for errors. Raises ShapeError.
    """
    shape = value.shape if isinstance(value, numpy.ndarray) else tuple(value)
    *codes, context = rest
    if len(shape) != count:
        raise ShapeError(f"{_at(context)}the shape {tuple(shape)} has not {count} dimensions")
    for axis, size in enumerate(shape):
        what = f"{_at(context)}the size along axis {axis}"
        _match(int(size), heap, codes[2 * axis], codes[2 * axis + 1], what)
    return ()


@_builtin
def match_prim_value(value: int, heap: Any, code: int, wanted: int, context: str) -> tuple[()]:
    """Compare a number with what is known, or store it. Raises ShapeError."""
    _match(int(value), heap, code, wanted, f"{_at(context)}the number")
    return ()


@_builtin
def make_shape(heap: Any, count: int, *codes: int) -> tuple[int, ...]:
    """Return a shape, by a code and a number for each size."""
    pairs = [(codes[2 * axis], codes[2 * axis + 1]) for axis in range(count)]
    return tuple([int(heap[one]) if code == LOAD_SHAPE else one for code, one in pairs])


@_builtin
def make_prim_value(heap: Any, code: int, value: int) -> int:
    """Return a number, or one of the heap."""
    return int(heap[value]) if code == LOAD_SHAPE else value


# Checks


@_builtin
def check_tensor_info(value: Any, ndim: int, *rest: Any) -> tuple[()]:
    """Check that a value is a tensor of a rank (-1: any) and, if one is given, of a dtype.

    Raises TypeMismatchError.
    """
    *dtypes, context = rest
    if not isinstance(value, numpy.ndarray):
        raise TypeMismatchError(f"{_at(context)}expected a tensor, got {type(value).__name__}")
    if ndim not in (-1, value.ndim):
        raise ShapeError(f"{_at(context)}a tensor of rank {value.ndim}, expected {ndim}")
    if dtypes and not DataType(dtypes[0]).is_void:
        wanted = DataType(dtypes[0]).numpy()
        if value.dtype != wanted:
            raise TypeMismatchError(f"{_at(context)}a tensor of {value.dtype}, expected {wanted}")
    return ()


@_builtin
def check_shape_info(value: Any, ndim: int, context: str) -> tuple[()]:
    """Check that a value is a shape of a rank (-1: any). Raises TypeMismatchError."""
    if not isinstance(value, (tuple, list)):
        raise TypeMismatchError(f"{_at(context)}expected a shape, got {type(value).__name__}")
    if ndim not in (-1, len(value)):
        raise ShapeError(f"{_at(context)}a shape of rank {len(value)}, expected {ndim}")
    return ()


@_builtin
def check_prim_value_info(value: Any, dtype: Any, context: str) -> tuple[()]:
    """Check that a value is a number of a dtype. Raises TypeMismatchError."""
    wanted = DataType(dtype)
    is_number = isinstance(value, (int, float, numpy.number))
    if not is_number or (isinstance(value, float) and wanted.is_integer):
        raise TypeMismatchError(f"{_at(context)}expected {wanted}, got {type(value).__name__}")
    return ()


@_builtin
def check_tuple_info(value: Any, count: int, context: str) -> tuple[()]:
    """Check that a value is a tuple of so many fields. Raises TypeMismatchError."""
    if not isinstance(value, (tuple, list)) or len(value) != count:
        raise TypeMismatchError(f"{_at(context)}expected a tuple of {count} fields")
    return ()


@_builtin
def check_func_info(value: Any, context: str) -> tuple[()]:
    """Check that a value is there to be called. Raises TypeMismatchError."""
    if value is None or isinstance(value, (numpy.ndarray, tuple, int, float, str)):
        raise TypeMismatchError(f"{_at(context)}expected a function, got {type(value).__name__}")
    return ()


# Values


@_builtin
def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a tensor."""
    return tuple([int(size) for size in value.shape])


@_builtin
def reshape(value: Any, shape: Any) -> Any:
    """Return a view of a tensor in another shape. Raises ShapeError."""
    if math.prod(shape) != value.size:
        raise ShapeError(f"{value.size} elements do not fit the shape {tuple(shape)}")
    return value.reshape(tuple(shape))


@_builtin
def tensor_to_shape(value: Any) -> tuple[int, ...]:
    """Return the elements of a vector as a shape."""
    return tuple([int(one) for one in value])


@_builtin
def copy(value: Any) -> Any:
    """Return the value itself: bindings are copies of references."""
    return value


@_builtin
def read_if_cond(value: Any) -> bool:
    """Return a condition (a tensor of rank 0, or a number)."""
    return bool(value)


@_builtin
def tuple_getitem(value: Any, index: int) -> Any:
    """Return a field of a tuple."""
    return value[index]


@_builtin
def null_value() -> None:
    """Return the absence of a value."""


@_builtin
def to_device(value: Any, device_type: int, device_id: int) -> Any:
    """Return a tensor on a device; all are the host's memory so far."""
    return value


@_builtin
def alloc_storage(shape: Any, device_index: int, dtype: Any, scope: str = "global") -> Any:
    """Return new memory for so many elements, filled with a pattern that shows reads before
    writes.
    """
    nbytes = math.prod(shape) * DataType(dtype).numpy().itemsize
    return numpy.full(nbytes, 0xA5, "uint8")


@_builtin
def alloc_tensor(storage: Any, offset: int, shape: Any, dtype: Any) -> Any:
    """Return a tensor in a storage, at an offset in bytes. Raises ShapeError if it does not fit."""
    kind = DataType(dtype).numpy()
    end = offset + math.prod(shape) * kind.itemsize
    if end > storage.nbytes:
        raise ShapeError(f"a tensor that ends at byte {end} of a storage of {storage.nbytes}")
    return storage[offset:end].view(kind).reshape(tuple(shape))


def _on_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        given = [one.numpy_view() if isinstance(one, NDArray) else one for one in arguments]
        found = function(*given)
        return from_numpy(found) if isinstance(found, numpy.ndarray) else found

    return call


for _name, _function in BUILTINS.items():
    register_func(_name, _on_tensors(_function), override=True)
