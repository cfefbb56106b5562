"""Numbers the fields of runtime structures that ``tvm_struct_get`` and ``tvm_struct_set`` access.

The structures are DLPack's ``DLTensor`` and tvm-ffi's ``TVMFFIAny`` (16 bytes: type index, padding,
value).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

__all__ = ["OTHER_TYPE", "TYPE_MARK", "TYPE_NAMES", "StructField", "joined"]

TYPE_MARK = "\x02"
"""At the end of a text in the message of an assertion: the number that follows is the type index of
a value, and its name is shown."""

TYPE_NAMES = {
    0: "None", 1: "an integer", 2: "a truth value", 3: "a float", 4: "a pointer",
    5: "a data type", 6: "a device", 7: "a tensor", 8: "a text", 9: "bytes", 11: "a text",
    12: "bytes", 65: "a text", 66: "bytes", 68: "a function", 69: "a shape", 70: "a tensor",
    71: "a list", 72: "a dictionary", 73: "a module",
}  # fmt: skip
"""What the values of tvm-ffi's type indices are called in errors; at most 24 letters."""
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
