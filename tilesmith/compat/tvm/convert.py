"""``tvm.convert``: values of Python as what the interfaces take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import convert as expression_of
from tilesmith.runtime import DataType, Device, Module, NDArray, PackedFunc, ShapeTuple, String
from tilesmith.runtime.packed_func import convert_to_packed

__all__ = ["convert"]

_AS_THEY_ARE = (NDArray, Module, Device, DataType, PackedFunc, ShapeTuple, String, type(None))


def convert(value: Any) -> Any:
    """Numbers and truth values as constants (int32, float32, bool), texts as they are, sequences
    and dictionaries item by item, Python functions as packed functions, anything that the
    compiler or the runtime has made as it is.

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
