"""Which field of a runtime structure ``tvm_struct_get`` and ``tvm_struct_set`` mean.

The structures are DLPack's ``DLTensor`` and tvm-ffi's ``TVMFFIAny`` (16 bytes: type index, padding,
value).
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["StructField"]


class StructField(IntEnum):
    """Fields by number, as they stand in the third argument of the two calls."""

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
