"""Reads ONNX's stored tensors and attributes as numpy arrays and Python values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy

from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.support.errors import FrontendError, UnsupportedError

__all__ = ["attribute_value", "dtype_name", "tensor_array"]

_NAMES = {
    "FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8",
    "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "BOOL": "bool",
    "FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2", "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "FLOAT8E8M0": "float8_e8m0fnu", "FLOAT4E2M1": "float4_e2m1fn", "INT4": "int4",
    "UINT4": "uint4", "INT2": "int2", "UINT2": "uint2",
}  # fmt: skip


def is_packed(element_type: int) -> bool:
    """Return whether elements of a type are smaller than a byte."""
    name = require_onnx().TensorProto.DataType.Name(element_type)
    return name in ("FLOAT4E2M1", "INT4", "UINT4", "INT2", "UINT2")


def dtype_name(element_type: int, what: str) -> str:
    """Return the dtype of one of ONNX's element types."""
    onnx = require_onnx()
    try:
        name = onnx.TensorProto.DataType.Name(element_type)
    except ValueError:
        name = f"number {element_type}"
    if name in _NAMES:
        return _NAMES[name]
    if name == "UNDEFINED":
        raise FrontendError(f"{what} has no element type")
    raise UnsupportedError(
        f"{what} has elements of the type {name.lower()}, which is not supported",
        notes=("export the model with one of: " + ", ".join(sorted(_NAMES.values())),),
    )


def tensor_array(tensor: Any) -> Any:
    """Return a stored tensor as a dense numpy array."""
    onnx = require_onnx()
    if isinstance(tensor, onnx.SparseTensorProto):
        return _dense(tensor)
    what = f"the tensor '{tensor.name}'"
    name = dtype_name(tensor.data_type, what)
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # sizes that do not fit the data, wrong fields
        raise FrontendError(
            f"{what} cannot be read: {' '.join(str(error).split())}",
            notes=("the model is broken; export it again",),
        ) from None
    from tilesmith.runtime.dtype import DataType

    return array.astype(DataType(name).numpy(), copy=False)


def _dense(sparse: Any) -> Any:
    values, indices = tensor_array(sparse.values), tensor_array(sparse.indices)
    shape = tuple(sparse.dims)
    what = f"the sparse tensor '{sparse.values.name}'"
    broken = ("the model is broken; export it again",)
    if any(size < 0 for size in shape):
        raise FrontendError(f"{what} has the sizes {shape}", notes=broken)
    limits = (math.prod(shape),) if indices.ndim == 1 else shape
    places = indices[:, None] if indices.ndim == 1 else indices
    if values.ndim != 1 or places.shape != (len(values), len(limits)):
        raise FrontendError(
            f"{what} has values of the shape {values.shape} at places of the shape {indices.shape}",
            notes=broken,
        )
    if ((places < 0) | (places >= numpy.array(limits, "int64"))).any():
        raise FrontendError(f"{what} has values outside of its sizes {shape}", notes=broken)
    try:
        array = numpy.zeros(shape, values.dtype)
    except (MemoryError, ValueError):
        raise FrontendError(f"{what} has the sizes {shape}: there is no memory for that") from None
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        array[tuple(indices.T)] = values
    return array


def attribute_value(attribute: Any, outer: Mapping[str, Any] | None) -> Any:
    """Return the value of an attribute: number, text, list, numpy array, or subgraph.

    One that refers to an attribute of the function around it has the value of that one (``outer``),
    None where that one is not given.
    """
    onnx = require_onnx()
    if attribute.ref_attr_name:
        return None if outer is None else outer.get(attribute.ref_attr_name)
    kind = onnx.AttributeProto
    if attribute.type in (kind.TENSOR, kind.SPARSE_TENSOR):
        return tensor_array(
            attribute.t if attribute.type == kind.TENSOR else attribute.sparse_tensor
        )
    if attribute.type == kind.TENSORS:
        return [tensor_array(tensor) for tensor in attribute.tensors]
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type in (kind.INTS, kind.FLOATS, kind.STRINGS):
        return [
            item.decode("utf-8", "replace") if isinstance(item, bytes) else item for item in value
        ]
    return value
