"""Numbers the fields of runtime structures that ``tvm_struct_get`` and ``tvm_struct_set`` access.

The structures are DLPack's ``DLTensor`` and tvm-ffi's ``TVMFFIAny`` (16 bytes: type index, padding,
value).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from tilesmith.runtime.devices import DEVICE_TYPES
from tilesmith.runtime.dtype import DataType

__all__ = [
    "DEVICE_NAMES", "DTYPE_NAMES", "OTHER_TYPE", "TYPE_MARK", "TYPE_NAMES", "StructField", "joined",
]  # fmt: skip

TYPE_MARK = "\x02"
"""At the end of a text in the message of an assertion: the number that follows is the type index of
a value, or that of a dtype (see ``DTYPE_NAMES``) or of a kind of device, and its name is shown."""

DTYPE_NAMES = 1 << 20
"""Where the numbers of dtypes begin in ``TYPE_NAMES``: there lie the vectors, and at
``DTYPE_NAMES + type code * 256 + bits`` the dtype of one element."""

DEVICE_NAMES = 1 << 21
"""Where those of the types of devices begin."""

TYPE_NAMES = {
    0: "None", 1: "an integer", 2: "a truth value", 3: "a float", 4: "a pointer",
    5: "a data type", 6: "a device", 7: "a tensor", 8: "a text", 9: "bytes", 11: "a text",
    12: "bytes", 65: "a text", 66: "bytes", 68: "a function", 69: "a shape", 70: "a tensor",
    71: "a list", 72: "a dictionary", 73: "a module",
}  # fmt: skip
"""What the values of tvm-ffi's type indices, and dtypes, are called in errors; at most 24
letters."""
_DTYPES = (
    "bool", "int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32",
    "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    "float4_e2m1fn", "complex64", "complex128",
)  # fmt: skip
_COMPLEX = {"complex64": (5, 64), "complex128": (5, 128)}  # in DLPack; no DataType


def _dtype_number(name: str) -> int:
    code, bits = _COMPLEX.get(name) or (DataType(name).type_code, DataType(name).bits)
    return DTYPE_NAMES + code * 256 + (8 if name == "bool" else bits)


TYPE_NAMES |= {DTYPE_NAMES: "a vector", **{_dtype_number(name): name for name in _DTYPES}}
TYPE_NAMES |= {DEVICE_NAMES + number: name for name, number in DEVICE_TYPES.items()}
OTHER_TYPE = "another object"


def joined(parts: Iterable[Any]) -> str:
    """Return the text of a message from its texts and numbers."""
    text = ""
    for part in parts:
        if text.endswith(TYPE_MARK):
            text, part = text[:-1], TYPE_NAMES.get(int(part), OTHER_TYPE)
        text += str(part)
    return text


class StructField(IntEnum):
    """The fields by number, as in the third argument of the two calls."""

    ARRAY_ADDRESS = 0
    ARRAY_DATA = 1
    ARRAY_SHAPE = 2
    ARRAY_STRIDES = 3
    ARRAY_NDIM = 4
    ARRAY_TYPE_CODE = 5
    ARRAY_TYPE_BITS = 6
    ARRAY_TYPE_LANES = 7
    ARRAY_BYTE_OFFSET = 8
    ARRAY_DEVICE_ID = 9
    ARRAY_DEVICE_TYPE = 10
    VALUE_CONTENT = 12
    ANY_TYPE_INDEX = 13
    ANY_ZERO_PADDING = 14
    ANY_UNION_VALUE = 15
