"""Defines ``tvm.convert``: converts Python values to those that the interfaces accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import convert as expression_of
from tilesmith.runtime import DataType, Device, Module, NDArray, PackedFunc, ShapeTuple, String
from tilesmith.runtime.packed_func import convert_to_packed

__all__ = ["convert"]

_AS_THEY_ARE = (NDArray, Module, Device, DataType, PackedFunc, ShapeTuple, String, type(None))


def convert(value: Any) -> Any:
    """Convert numbers and booleans to constants (int32, float32, bool), sequences and dictionaries
    item by item, and Python functions to packed functions. Texts and objects of the compiler or the
    runtime are returned as they are.

    Raises TypeMismatchError for anything else.
    """
    if isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, str):
        return String(value)
    if isinstance(value, (list, tuple)):
        return tuple([convert(item) for item in value])
    if isinstance(value, Mapping):
        return {convert(key): convert(item) for key, item in value.items()}
    if not hasattr(value, "asobject") and type(value).__module__.startswith("tilesmith."):
        return value
    if callable(value):
        return convert_to_packed(value)
    return expression_of(value)
