"""Converts between Python functions and packed functions (callables of the tvm-ffi convention).

`PackedFunc` is `tvm_ffi.Function` itself, so that a call costs nothing more. Arguments may be
tensors (NDArray, numpy, torch, anything with DLPack), numbers, strings, devices, data types, None,
lists, and functions; tensors come back as NDArray.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tilesmith.runtime.ndarray  # tvm-ffi makes NDArray objects from here on
from tilesmith.runtime.devices import Device
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ffi import Function, tvm_ffi

if TYPE_CHECKING:
    from tvm_ffi import Function as PackedFunc
else:
    PackedFunc = Function
NDArray = tilesmith.runtime.ndarray.NDArray


def _device(value: Any) -> Device:
    return Device(int(value.dlpack_device_type()), int(value.index))


def _list(value: Any) -> list[Any]:
    return [from_ffi(item) for item in value]


def _dict(value: Any) -> dict[Any, Any]:
    return {from_ffi(key): from_ffi(item) for key, item in value.items()}


_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    tvm_ffi.Tensor: tilesmith.runtime.ndarray.as_ndarray,
    tvm_ffi.Device: _device,
    tvm_ffi.dtype: lambda value: DataType(str(value)),
    tvm_ffi.Array: _list,
    tvm_ffi.Map: _dict,
    tvm_ffi.core.String: str,
    tvm_ffi.core.Bytes: bytes,
    tvm_ffi.Shape: tuple,
    tvm_ffi.core.OpaquePyObject: lambda value: value.pyobject(),
}


def from_ffi(value: Any) -> Any:
    """Convert a value of tvm-ffi to Tilesmith's or Python's own: Device, DataType, list, dict,
    str.
    """
    convert = _CONVERTERS.get(type(value))
    if convert is None:
        # another runtime may have told tvm-ffi to make tensors of its own class
        if isinstance(value, tvm_ffi.Tensor) and not isinstance(value, NDArray):
            return tilesmith.runtime.ndarray.as_ndarray(value)
        return value
    return convert(value)


def keep_class(kind: type[BaseException]) -> None:
    """Let errors of a class keep it across native code, which only passes on the class's name."""
    if kind in tvm_ffi.core.ERROR_TYPE_TO_NAME:
        return
    try:
        kind("a message")  # tvm-ffi recreates the error so
    except Exception:
        return  # the user's class needs more arguments: its errors arrive as RuntimeError
    is_own = kind.__module__ == "builtins"
    tvm_ffi.register_error(
        kind.__name__ if is_own else f"{kind.__module__}.{kind.__qualname__}", kind
    )


def convert_to_packed(function: Callable[..., Any]) -> Any:
    """Return a packed function that calls a Python function with its arguments converted to
    Tilesmith's and Python's own values.
    """
    if isinstance(function, Function):
        return function

    def call(*arguments: Any) -> Any:
        try:
            result = function(*[from_ffi(argument) for argument in arguments])
        except BaseException as error:  # not caught here: the caller should see the original class
            keep_class(type(error))
            raise
        return as_ffi_list(result) if isinstance(result, (list, tuple)) else result

    return tvm_ffi.convert(call)


def as_ffi_list(values: Sequence[Any]) -> list[Any]:
    """Return a list whose items tvm-ffi hands on as what they are, even where they can be called;
    it looks for this by itself only in arguments.
    """
    return [
        value.__tvm_ffi_object__() if hasattr(value, "__tvm_ffi_object__") else value
        for value in values
    ]
