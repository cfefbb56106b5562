"""Expands operators without a converter by the definitions that ONNX gives for them."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.relax.frontend.onnx.schemas import find_schema
from tilesmith.relax.frontend.onnx.tensors import attribute_value
from tilesmith.relax.frontend.values import Sizes, Weight
from tilesmith.relax.relations import sizes_of
from tilesmith.relax.struct_info import TensorStructInfo

__all__ = ["default_attributes", "definition_of", "has_definition"]


def has_definition(domain: str, operator: str, version: int) -> bool:
    """Return whether ONNX defines an operator by other operators."""
    schema = find_schema(domain, operator, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def definition_of(node: Any) -> Any:
    """Return the FunctionProto that defines the operator of a node, or None."""
    onnx = require_onnx()
    schema = find_schema(node.domain, node.operator, node.version)
    if schema is None:
        return None
    if schema.has_function:
        return _newest(schema, node.version)
    if not schema.has_context_dependent_function:
        return None
    types = [_type_of(value).SerializeToString() for value in node.inputs]
    versions = schema.context_dependent_function_opset_versions
    usable = [version for version in versions if version <= node.version] or [min(versions)]
    data = schema.get_context_dependent_function_with_opset_version(
        max(usable), _with_own_attributes(node).SerializeToString(), types
    )
    if not data:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    return function


def _with_own_attributes(node: Any) -> Any:
    """Return the node with references to attributes of the enclosing function resolved."""
    onnx = require_onnx()
    if not any(item.ref_attr_name for item in node.proto.attribute):
        return node.proto
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.attribute[:]
    for item in node.proto.attribute:
        if not item.ref_attr_name:
            proto.attribute.append(item)
        elif item.name in node.attributes:
            value = node.attributes[item.name]
            proto.attribute.append(onnx.helper.make_attribute(item.name, value))
    return proto


def default_attributes(node: Any) -> dict[str, Any]:
    """Return the default attributes of a node's operator."""
    schema = find_schema(node.domain, node.operator, node.version)
    if schema is None:
        return {}
    return {
        name: attribute_value(attribute.default_value, None)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }


def _newest(schema: Any, version: int) -> Any:
    onnx = require_onnx()
    usable = [item for item in schema.function_opset_versions if item <= version]
    if not usable:
        return schema.function_body
    function = onnx.FunctionProto()
    function.ParseFromString(schema.get_function_with_opset_version(max(usable)))
    return function


def _type_of(value: Any) -> Any:
    """Return the known type and shape of a value as a TypeProto."""
    onnx = require_onnx()
    if isinstance(value, Weight):
        element = onnx.helper.np_dtype_to_tensor_dtype(value.array.dtype)
        return onnx.helper.make_tensor_type_proto(element, value.array.shape)
    if isinstance(value, Sizes):
        element = onnx.helper.np_dtype_to_tensor_dtype(value.dtype.numpy())
        return onnx.helper.make_tensor_type_proto(element, value.values.shape)
    if value is None or isinstance(value, list):
        return onnx.TypeProto()
    info = known_struct_info(value)
    if not isinstance(info, TensorStructInfo) or info.dtype.is_void:
        return onnx.TypeProto()
    sizes = sizes_of(info)
    shape = None
    if sizes is not None:
        shape = [size.value if hasattr(size, "value") else None for size in sizes]
    elif info.ndim >= 0:
        shape = [None] * info.ndim
    element = onnx.helper.np_dtype_to_tensor_dtype(info.dtype.numpy())
    return onnx.helper.make_tensor_type_proto(element, shape)
