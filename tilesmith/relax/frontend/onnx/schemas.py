"""Looks operators up in ONNX's definitions, and checks nodes against them.

The checker of the package onnx does not look into subgraphs and functions; this check does, and it
comes after references to attributes of functions are resolved.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.support.errors import FrontendError, OpAttributeInvalid, OpAttributeRequired

__all__ = ["check_by_schema", "find_schema"]

_KINDS: dict[str, tuple[str, Any]] = {
    "INT": ("an integer", int),
    "FLOAT": ("a number", (int, float)),
    "STRING": ("a text", str),
    "TENSOR": ("a tensor", numpy.ndarray),
    "SPARSE_TENSOR": ("a tensor", numpy.ndarray),
    "INTS": ("a list of integers", int),
    "FLOATS": ("a list of numbers", (int, float)),
    "STRINGS": ("a list of texts", str),
    "TENSORS": ("a list of tensors", numpy.ndarray),
}
"""Kind of attribute → words, and the Python type of the value or of its items."""


@functools.cache
def find_schema(domain: str, operator: str, version: int) -> Any:
    """Return ONNX's definition of an operator in an opset version, or None."""
    onnx = require_onnx()
    try:
        return onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return None


_FLAGS = {
    "Attention": ("is_causal",),
    "BlackmanWindow": ("periodic",),
    "HammingWindow": ("periodic",),
    "HannWindow": ("periodic",),
    "RotaryEmbedding": ("interleaved",),
    "TopK": ("sorted",),
}
"""Attributes that are 0 or 1 and that no converter asks for: definitions of operators take any
number but 0 for yes, other runtimes only 1."""


def check_by_schema(node: Any) -> None:
    """Raise FrontendError or OpAttributeInvalid where inputs or attributes of a node are missing,
    or are not of the kind that its operator takes.
    """
    schema = find_schema(node.domain, node.operator, node.version)
    if schema is None:
        return
    for index, formal in enumerate(schema.inputs[: schema.min_input]):
        if formal.option == formal.option.Single and not node.has(index):
            raise FrontendError(f"its input {index} ('{formal.name}') is missing")
    if len(node.inputs) < schema.min_input:
        raise FrontendError(
            f"it has {len(node.inputs)} inputs, the operator needs {schema.min_input}"
        )
    if len(node.inputs) > schema.max_input:
        raise FrontendError(
            f"it has {len(node.inputs)} inputs, the operator takes at most {schema.max_input}"
        )
    for name, formal in schema.attributes.items():
        if name in node.attributes:
            _check_kind(name, formal.type, node.attributes[name])
        elif formal.required:
            raise OpAttributeRequired(f"it needs the attribute '{name}'")
    for name in _FLAGS.get(node.operator, ()):
        node.flag(name)


def _check_kind(name: str, kind: Any, value: Any) -> None:
    onnx = require_onnx()
    if kind == onnx.defs.OpSchema.AttrType.GRAPH:
        words, fits = "a graph", isinstance(value, onnx.GraphProto)
    elif kind.name not in _KINDS:
        return
    else:
        words, wanted = _KINDS[kind.name]
        fits = isinstance(value, wanted)
        if kind.name.endswith("S"):
            fits = isinstance(value, list) and all(isinstance(item, wanted) for item in value)
    if not fits:
        raise OpAttributeInvalid(
            f"its attribute '{name}' has to be {words}, got {describe_attribute(value)}"
        )


def describe_attribute(value: Any) -> str:
    """Describe the value of an attribute in few words."""
    if isinstance(value, (int, float, str)):
        return repr(value)[:80]
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, numpy.ndarray):
        return f"a tensor of the shape {value.shape}"
    return f"a {type(value).__name__}"


__all__ += ["describe_attribute"]
