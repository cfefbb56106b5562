"""What the runtime itself does in programs of steps (`runtime.program`), by the names that these
use: memory, shapes, messages, values of types of data, references.

    ["make_data", 7, x, rest]          a value of a type of data: its constructor's number, fields
    ["fits", value, "[7, null, [8]]"]  whether a value looks like a pattern
    ["field_of", value, 0]             a field
    ["make_reference", x]              a place whose value can be replaced
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy

from tilesmith.runtime.container import ADT, RefValue, ShapeTuple
from tilesmith.runtime.devices import Device, cpu
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import NDArray, array, empty, empty_cpu, from_dlpack
from tilesmith.runtime.observation import copy_between_devices
from tilesmith.support.errors import (
    ArtifactError,
    ExecutionError,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)

__all__ = ["HOST", "OPERATIONS", "alloc_storage", "fits", "on_device", "tensor_in_storage", "view"]


def alloc_storage(size: Sequence[int], device: int = 0, scope: str = "", dtype: Any = None) -> Any:
    """Return new memory of so many bytes."""
    (count,) = size
    return empty_cpu((count,), DataType("uint8"))


def tensor_in_storage(storage: NDArray, offset: int, shape: Sequence[int], dtype: DataType) -> Any:
    """Return the tensor at an offset of a storage."""
    kind = dtype.numpy()
    count = int(numpy.prod(shape, dtype="int64")) * kind.itemsize
    data = numpy.from_dlpack(storage).reshape(-1).view("uint8")
    if offset < 0 or offset + count > data.size:
        raise ShapeError(
            f"a tensor of {count} bytes at {offset} leaves its storage of {data.size} bytes"
        )
    return from_dlpack(data[offset : offset + count].view(kind).reshape(tuple(shape)))


def view(
    data: NDArray, shape: Sequence[int], dtype: DataType | None = None, offset: int | None = None
) -> Any:
    """Return the same memory as a tensor of another shape and type."""
    return tensor_in_storage(data, offset or 0, shape, DataType(dtype or data.dtype))


def _print(template: str, *values: Any) -> None:
    print(template.format(*values) if template else " ".join([str(value) for value in values]))


def _assert(condition: Any, template: str, *values: Any) -> None:
    holds = numpy.asarray(condition.numpy() if isinstance(condition, NDArray) else condition).all()
    if not holds:
        raise AssertionError(template.format(*values) or "assertion failed")


def _one_of(sizes: NDArray) -> ShapeTuple:
    return ShapeTuple(sizes.numpy().reshape(-1).tolist())


# Values of types of data, and references

_TUPLE = -1  # stands for the number of a constructor in patterns of tuples


@lru_cache(maxsize=4096)
def _pattern(text: str) -> Any:
    """Read a pattern: null for any value, else a list of a number and the fields' patterns."""
    try:
        pattern = json.loads(text)
        pending = [pattern]
        while pending:
            one = pending.pop()
            if one is not None:
                number, *fields = one
                if type(number) is not int:
                    raise ValueError(number)
                pending += fields
    except (ValueError, TypeError, RecursionError) as error:
        raise ArtifactError(f"'{text:.80}' is not a pattern") from error
    return pattern


def fits(value: Any, pattern: str) -> bool:
    """Return whether a value looks like a pattern."""
    pending = [(value, _pattern(pattern))]
    while pending:
        one, wanted = pending.pop()
        if wanted is None:
            continue
        number, *fields = wanted
        if number != _TUPLE and (not isinstance(one, ADT) or one.tag != number):
            return False
        if not isinstance(one, tuple) or len(one) != len(fields):
            raise TypeMismatchError(f"a value of {len(fields)} fields is needed, got {one!r:.80}")
        pending += zip(one, fields)
    return True


def _field(value: Any, index: int) -> Any:
    if not isinstance(value, tuple) or not 0 <= index < len(value):
        raise TypeMismatchError(f"the value {value!r:.80} has no field {index}")
    return value[index]


def _no_clause(value: Any) -> Any:
    shown = f"the constructor {value.tag}" if isinstance(value, ADT) else f"{value!r:.80}"
    raise ExecutionError(
        f"no clause of a match fits a value of {shown}",
        notes=("`match?` allows that clauses are missing; the program needs one more here",),
    )


def _reference(value: Any) -> RefValue:
    if not isinstance(value, RefValue):
        raise TypeMismatchError(f"a reference is needed, got {type(value).__name__}")
    return value


def _write(reference: Any, value: Any) -> tuple[()]:
    _reference(reference).value = value
    return ()


def _on_axis(tensor: NDArray, axis: int) -> tuple[int, ...]:
    """Return the sizes from an axis on."""
    sizes: tuple[int, ...] = tuple(tensor.shape)
    if not 0 <= axis < len(sizes):
        raise ShapeError(f"a tensor of rank {len(sizes)} has no axis {axis}")
    return sizes[axis:]


HOST: dict[str, Callable[..., Any]] = {
    "nothing": lambda *values: (),
    "null": lambda: None,
    "same": lambda value: value,
    "to_device": lambda value, place: value,
    "print": _print,
    "assert": _assert,
    "shape_of": lambda tensor: ShapeTuple(tensor.shape),
    "tensor_to_shape": _one_of,
    "shape_to_tensor": lambda shape: array(numpy.asarray(shape, "int64")),
    "append": lambda data, row: array(numpy.concatenate([data.numpy(), row.numpy()[None]])),
    "alloc_storage": alloc_storage,
    "alloc_tensor": lambda shape, dtype, *place: empty_cpu(tuple(shape), DataType(dtype)),
    "tensor_in_storage": tensor_in_storage,
    "view": view,
    "make_data": lambda tag, *fields: ADT(tag, fields),
    "fits": fits,
    "field_of": _field,
    "no_clause": _no_clause,
    "make_reference": RefValue,
    "read_reference": lambda reference: _reference(reference).value,
    "write_reference": _write,
    "tensor_ndim": lambda tensor: len(tensor.shape),
    "tensor_shape_i": lambda tensor, axis: _on_axis(tensor, axis)[0],
    "tensor_stride_i": lambda tensor, axis: math.prod(_on_axis(tensor, axis)[1:]),
    "tensor_byte_offset": lambda tensor: 0,
    "tensor_elem_offset": lambda tensor: 0,
    "tensor_dtype_code": lambda tensor: int(DataType(tensor.dtype).type_code),
    "tensor_dtype_bits": lambda tensor: DataType(tensor.dtype).bits,
    "tensor_dtype_lanes": lambda tensor: DataType(tensor.dtype).lanes,
}
"""Operations by the names that programs give them."""

_MAKE_TENSORS = frozenset(["append", "shape_to_tensor"])
_OF_HOST_MEMORY = frozenset(["alloc_storage", "tensor_in_storage", "view"])


def moved(value: NDArray, device: Device) -> NDArray:
    """Return a tensor on a device: itself, or a copy."""
    return value if value.device == device else array(value, device)


def on_device(name: str, devices: Sequence[Device]) -> Callable[..., Any]:
    """Return the operation of a name for a program whose tensors are on devices, on the first one
    unless something else is said.
    """
    operation, device = HOST[name], devices[0]
    if device.device_type == 1:
        return operation
    if name in _MAKE_TENSORS:
        return lambda *values: array(operation(*values), device)
    if name == "to_device":

        def to_device(value: NDArray, place: Any) -> NDArray:
            target = cpu() if place is True else devices[int(place)]
            return value if value.device == target else copy_between_devices(value, target)

        return to_device
    if name == "alloc_tensor":
        return lambda shape, dtype, *place: empty(tuple(shape), dtype, device)
    if name in _OF_HOST_MEMORY:

        def refuse(*values: Any) -> Any:
            raise UnsupportedError(
                f"'{name}' divides memory of the host, and this program runs on {device}",
                notes=("build the module before memory is planned: relax.build plans it",),
            )

        return refuse
    return operation


# Sizes


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _divided(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def run(a: int, b: int) -> int:
        if b == 0:
            raise ExecutionError("a size is divided by zero")
        return function(a, b)

    return run


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": _divided(operator.floordiv),
    "floormod": _divided(operator.mod),
    "div": _divided(_truncated),
    "mod": _divided(lambda a, b: a - b * _truncated(a, b)),
    "min": min,
    "max": max,
    "eq": operator.eq,
    "or": lambda a, b: a or b,
    "select": lambda condition, a, b: a if condition else b,
}
"""Operations of sizes by the names that programs give them."""
