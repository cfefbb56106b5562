"""Runtime structures (DLTensor, packed arguments) as Python objects, for lowered host code.

An array of packed arguments is a list of their values, a DLTensor is a numpy array.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.runtime.dtype import DLPACK_CODES, DataType
from tilesmith.support.errors import ExecutionError
from tilesmith.tir.interpreter.values import Pointer, pointer_to, scalar
from tilesmith.tir.struct_fields import StructField

# Type indices of the calling convention (tvm-ffi).
NONE, INTEGER, BOOLEAN, FLOAT, POINTER, TENSOR_POINTER, RAW_TEXT = 0, 1, 2, 3, 4, 7, 8


def type_index(value: Any) -> int:
    """Return the type index of a packed argument."""
    if value is None:
        return NONE
    if isinstance(value, (bool, numpy.bool_)):
        return BOOLEAN
    if isinstance(value, (int, numpy.integer)):
        return INTEGER
    if isinstance(value, (float, numpy.floating)):
        return FLOAT
    if isinstance(value, numpy.ndarray):
        return TENSOR_POINTER
    if isinstance(value, str):
        return RAW_TEXT
    return POINTER


def _numbers(values: tuple[int, ...]) -> Pointer:
    return pointer_to(numpy.array(values, numpy.int64))


def _array_field(array: numpy.ndarray, field: StructField) -> Any:
    dtype = DataType(array.dtype)
    if field is StructField.ARRAY_ADDRESS:
        return array
    if field is StructField.ARRAY_DATA:
        return pointer_to(array)
    if field is StructField.ARRAY_SHAPE:
        return _numbers(array.shape)
    if field is StructField.ARRAY_STRIDES:
        return _numbers(tuple([stride // array.itemsize for stride in array.strides]))
    if field is StructField.ARRAY_NDIM:
        return array.ndim
    if field is StructField.ARRAY_TYPE_CODE:
        return dtype.type_code
    if field is StructField.ARRAY_TYPE_BITS:
        return 8 if dtype.is_bool else dtype.bits
    if field is StructField.ARRAY_TYPE_LANES:
        return 1
    if field in (StructField.ARRAY_BYTE_OFFSET, StructField.ARRAY_DEVICE_ID):
        return 0
    if field is StructField.ARRAY_DEVICE_TYPE:
        return 1
    raise ExecutionError(f"a tensor has no field {field.name}")


def get_field(handle: Any, index: int, field: int, dtype: DataType) -> Any:
    """Return a field of element ``index`` of an array of structures."""
    field = StructField(field)
    if isinstance(handle, numpy.ndarray):
        return _array_field(handle, field)
    if isinstance(handle, list) and field is StructField.ARRAY_ADDRESS:
        return _tensor(handle[index])
    if not isinstance(handle, list):
        raise ExecutionError(
            f"field {field.name} is read from {handle!r}, which is not a structure"
        )
    value = handle[index]
    if field is StructField.ANY_TYPE_INDEX:
        return type_index(value)
    if field is StructField.ANY_ZERO_PADDING:
        return 0
    if field in (StructField.ANY_UNION_VALUE, StructField.VALUE_CONTENT):
        if isinstance(value, (numpy.ndarray, str)) or value is None:
            return value
        return scalar(value, dtype)
    raise ExecutionError(f"a packed argument has no field {field.name}")


def set_field(handle: Any, index: int, field: int, value: Any) -> int:
    """Set a field of element ``index`` of an array of packed values."""
    field = StructField(field)
    if not isinstance(handle, list):
        raise ExecutionError(
            f"field {field.name} is written to {handle!r}, which is not a structure"
        )
    if field in (StructField.ANY_UNION_VALUE, StructField.VALUE_CONTENT):
        handle[index] = value
    elif field in _ARRAY_FIELDS:
        fields = handle[index] if isinstance(handle[index], dict) else {}
        handle[index] = {**fields, field: value}
    return 0


_ARRAY_FIELDS = {field for field in StructField if field.name.startswith("ARRAY_")}
_CODES = {number: code for code, number in DLPACK_CODES.items()}


def _tensor(fields: dict[StructField, Any]) -> numpy.ndarray:
    """Return the array that the fields of a tensor on the stack describe."""
    code, bits = _CODES[fields[StructField.ARRAY_TYPE_CODE]], fields[StructField.ARRAY_TYPE_BITS]
    dtype = DataType.make(code, bits, fields[StructField.ARRAY_TYPE_LANES])
    count, wide = fields[StructField.ARRAY_NDIM], DataType("int64")
    shape = tuple(fields[StructField.ARRAY_SHAPE].view(wide, (count,), None, 0).tolist())
    strides = fields[StructField.ARRAY_STRIDES]
    if isinstance(strides, Pointer):
        strides = tuple(strides.view(wide, (count,), None, 0).tolist())
    offset = fields[StructField.ARRAY_BYTE_OFFSET] // dtype.nbytes
    data: Pointer = fields[StructField.ARRAY_DATA]
    return data.view(dtype, shape, strides or None, offset)
