"""Converters as classes: what users derive from, and how the importer calls what they wrote.

    class Scaled(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, bb, inputs, attr, params):
            return relax.op.multiply(inputs[0], relax.const(attr["scale"], "float32"))

    onnx_frontend._get_convert_map()["Scaled"] = Scaled

Such a class converts the nodes of its operator, in any domain, before the table of converters is
asked. It gets operands as expressions, and attributes as ONNX stores them: texts are bytes, lists
are tuples, tensors are TensorProtos.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from tilesmith.ir import FloatImm
from tilesmith.relax.expr import PrimValue, RelaxExpr, ShapeExpr, Tuple, TupleGetItem
from tilesmith.relax.expr import known_struct_info as info_of
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.relax.frontend.onnx.symbolic import as_value
from tilesmith.relax.frontend.values import integer, scalar
from tilesmith.relax.struct_info import TupleStructInfo
from tilesmith.support.errors import FrontendError, OpNotImplemented

__all__ = ["OnnxOpConverter", "convert_by_class", "offer_classes", "onnx_input", "own_classes"]


class OnnxOpConverter:
    """The conversion of an operator; a method ``_impl_vN`` holds from the opset version N on."""

    operator = ""
    """The operator of ONNX that the class stands for; empty in a class of one's own."""

    @classmethod
    def get_converter(cls, opset: int) -> Callable[..., Any]:
        """Return the function of (block builder, inputs, attributes, params) for an opset version.

        What a class itself says comes before what it has from its bases.
        """
        for owner in cls.__mro__:
            names = [name for name in vars(owner) if re.fullmatch(r"_impl_v\d+", name)]
            versions = [int(name.removeprefix("_impl_v")) for name in names]
            fitting = [version for version in versions if version <= opset]
            if fitting:
                found: Callable[..., Any] = getattr(cls, f"_impl_v{max(fitting)}")
                return found
        raise OpNotImplemented(
            f"{cls.__name__} has no method _impl_vN with an N up to the opset version {opset}"
        )


class onnx_input(list[Any]):
    """The inputs of a node; one that is not there is None."""

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            stop = len(self) if place.stop is None else place.stop
            return [self[index] for index in range(stop)[place]]
        return super().__getitem__(place) if -len(self) <= place < len(self) else None


_sources: list[Callable[[], Mapping[str, Any]]] = []


def offer_classes(source: Callable[[], Mapping[str, Any]]) -> None:
    """Ask a function for the classes by operator whenever a model is imported."""
    _sources.append(source)


def own_classes() -> dict[str, Any]:
    """Return operator → class for the classes that are not the table's own view."""
    return {
        name: found
        for source in _sources
        for name, found in source().items()
        if vars(found).get("operator") != name
    }


def convert_by_class(importer: Any, node: OnnxNode, found: Any) -> list[Any]:
    """Return the outputs of a node that a class converts."""
    opset = importer.versions.get("", node.version)
    count = max(node.outputs, 1)
    attributes = {name: _stored(value) for name, value in node.attributes.items()}
    attributes["tvm_custom"] = {"name": node.proto.name, "num_outputs": count}
    inputs = onnx_input([_operand(importer, value) for value in node.inputs])
    weights = {
        weight.variable.name_hint: (weight.variable, weight.array)
        for weight in importer.weights
        if weight.variable is not None
    }
    convert = found.get_converter(opset)
    results = _outputs(
        importer, convert(importer.builder, inputs, attributes, [{}, weights]), count
    )
    if len(results) < count:
        raise FrontendError(
            f"the converter {found.__name__} gives {len(results)} outputs, the node has {count}"
        )
    return results


def _stored(value: Any) -> Any:
    """Return the value of an attribute as ONNX stores it."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return tuple([_stored(item) for item in value])
    return (
        require_onnx().numpy_helper.from_array(value) if isinstance(value, numpy.ndarray) else value
    )


def _operand(importer: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return Tuple([importer.tensor(item) for item in value])
    return importer.tensor(value)


def _outputs(importer: Any, result: Any, count: int) -> list[Any]:
    """Return what a converter gives as the values of a node's outputs."""
    if isinstance(result, (list, tuple)):
        return [value_of(item) for item in result]
    if isinstance(result, Tuple):
        values = [value_of(field) for field in result.fields]
        return values if count > 1 or len(values) == 1 else [values]
    info = info_of(result) if isinstance(result, RelaxExpr) else None
    if isinstance(info, TupleStructInfo):
        whole = importer.builder.emit(result)
        values = [TupleGetItem(whole, index) for index in range(len(info.fields))]
        return values if count > 1 or len(values) == 1 else [values]
    return [value_of(result)]


def value_of(expr: Any) -> Any:
    """Return an expression as the importer's value: sizes and numbers are known ones."""
    if isinstance(expr, ShapeExpr):
        return as_value([integer(size) for size in expr.values])
    if isinstance(expr, PrimValue):
        number = expr.value
        if isinstance(number, FloatImm):
            return scalar(number.value, number.dtype)
        return as_value(integer(number), number.dtype)
    if not isinstance(expr, RelaxExpr):
        raise FrontendError(f"the converter gives a {type(expr).__name__}, not an expression")
    return expr


__all__ += ["value_of"]
