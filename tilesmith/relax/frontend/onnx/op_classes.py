"""The table of converters as classes, one for each operator.

    Add.get_converter(14)(bb, [x, y], {}, {})

gives the expression for a node of `Add` in opset 14, made by the converter in the table. Operators
of com.microsoft have classes, too; one that both domains know is ONNX's own where that has a
converter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    Constant,
    PrimValue,
    RelaxExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.frontend.folding import fold
from tilesmith.relax.frontend.onnx.importer import ONNXGraphImporter
from tilesmith.relax.frontend.onnx.model import NEWEST_OPSET
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
from tilesmith.relax.frontend.onnx.op_converter import OnnxOpConverter, value_of
from tilesmith.relax.frontend.onnx.op_values import stored_value
from tilesmith.relax.frontend.onnx.ops.convolution import AUTO_PAD, same_padding_of_axis
from tilesmith.relax.frontend.onnx.registry import (
    MICROSOFT,
    find_converter,
    supported_operators,
)
from tilesmith.relax.frontend.onnx.schemas import find_schema
from tilesmith.relax.frontend.onnx.tensors import tensor_array
from tilesmith.relax.frontend.values import Sizes, Weight, dtype_of
from tilesmith.relax.struct_info import TupleStructInfo
from tilesmith.support.errors import (
    FrontendError,
    OpAttributeInvalid,
    OpNotImplemented,
    TypeMismatchError,
)

__all__ = ["BinaryBase", "BitwiseBase", "MultiInputBase", "Pool", "classes"]


class BinaryBase(OnnxOpConverter):
    """Operators of two tensors. In a class of one's own ``relax_op`` is the operator, and
    ``numpy_op``, if given, computes constants.
    """

    relax_op: Any = None
    numpy_op: Any = None

    @classmethod
    def base_impl(cls, bb: BlockBuilder, inputs: Sequence[Any], attr: Any, params: Any) -> Any:
        """Return the operator of two tensors; that of constants is a constant."""
        if cls.relax_op is None:
            if not cls.operator:
                raise OpNotImplemented(f"{cls.__name__}.relax_op says which operator it is")
            return convert_call(cls.operator, NEWEST_OPSET, bb, inputs, attr, params)
        left, right = inputs[0], inputs[1]
        if cls.numpy_op is not None and isinstance(left, Constant) and isinstance(right, Constant):
            return Constant(numpy.asarray(cls.numpy_op(left.data, right.data)))
        return fold(cls.relax_op(left, right))


class BitwiseBase(BinaryBase):
    """Operators of the bits of integers."""

    @classmethod
    def base_impl(cls, bb: BlockBuilder, inputs: Sequence[Any], attr: Any, params: Any) -> Any:
        """Return the operator of two tensors of integers."""
        for tensor in inputs:
            if not (dtype_of(tensor).is_int or dtype_of(tensor).is_uint):
                raise TypeMismatchError(f"it takes tensors of integers, got {dtype_of(tensor)}")
        return super().base_impl(bb, inputs, attr, params)


class MultiInputBase(OnnxOpConverter):
    """Operators of any number of tensors."""


class Pool(OnnxOpConverter):
    """Operators of windows."""

    @classmethod
    def get_pad_pair(cls, input1d: int, kernel1d: int, stride1d: int, mode: str) -> tuple[int, int]:
        """Return the padding before and after one axis by which the result has as many elements as
        there are strides in the input. ``mode``: "SAME_UPPER" or "SAME_LOWER".
        """
        if mode not in AUTO_PAD[1:3]:
            raise OpAttributeInvalid(f"the mode is 'SAME_UPPER' or 'SAME_LOWER', got {mode!r}")
        return same_padding_of_axis(input1d, kernel1d, stride1d, mode == "SAME_LOWER")


_BASES: dict[str, type[OnnxOpConverter]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor"), BinaryBase),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), BinaryBase),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), BitwiseBase),
    "BitShift": BitwiseBase,
    **dict.fromkeys(("Min", "Max", "Mean", "Sum"), MultiInputBase),
    **dict.fromkeys(("MaxPool", "AveragePool"), Pool),
}
"""Operator → the class that its class derives from, where that is no plain converter."""


def _implementation(version: int) -> Any:
    def convert(
        cls: type[OnnxOpConverter], bb: BlockBuilder, inputs: Any, attr: Any, params: Any = None
    ) -> Any:
        return convert_call(cls.operator, version, bb, inputs, attr, params)

    convert.__doc__ = f"Return the expression for a node of opset version {version}."
    return classmethod(convert)


_IMPLEMENTATIONS = {f"_impl_v{n}": _implementation(n) for n in range(1, NEWEST_OPSET + 1)}


def classes() -> dict[str, type[OnnxOpConverter]]:
    """Return operator → class for all operators in the table of converters."""
    names = {name for domain in supported_operators().values() for name in domain}
    return {
        name: type(
            name,
            (_BASES.get(name, OnnxOpConverter),),
            {
                **_IMPLEMENTATIONS,
                "operator": name,
                "__doc__": f"The converter of ONNX's {name}.",
                "__module__": "tilesmith.relax.frontend.onnx.onnx_frontend",
            },
        )
        for name in sorted(names)
    }


def convert_call(
    operator: str, version: int, bb: BlockBuilder, inputs: Any, attr: Any, params: Any
) -> Any:
    """Return the expression for a node of an operator whose inputs are expressions; what has to be
    computed before it is emitted by the block builder.

    ``attr`` has what ONNX stores, or plain Python values; ``attr["tvm_custom"]["num_outputs"]`` is
    the number of outputs, where the operator leaves it open. Several outputs are a tuple. Values in
    ``params`` (as for `get_constant`) are known.
    """
    onnx = require_onnx()
    is_own = find_converter("", operator, version) is not None
    domain = "" if is_own or find_converter(MICROSOFT, operator, 1) is None else MICROSOFT
    importer = ONNXGraphImporter(None)
    importer.own_classes = {}
    importer.builder = bb
    importer.versions = {"": version, MICROSOFT: 1}
    given = {name: value for name, value in dict(attr or {}).items() if value is not None}
    custom = given.pop("tvm_custom", {})
    attributes = {name: _plain(value) for name, value in given.items()}
    values = [_given(value, params) for value in inputs]
    count = custom.get("num_outputs") or _output_count(
        operator, domain, version, attributes, values
    )
    proto = onnx.helper.make_node(
        operator,
        ["" if value is None else f"input{i}" for i, value in enumerate(values)],
        [f"output{i}" for i in range(count)],
        custom.get("name", ""),
        domain=domain,
    )
    try:
        for name, value in attributes.items():
            stored = _tensor(value) if isinstance(value, numpy.ndarray) else value
            proto.attribute.append(onnx.helper.make_attribute(name, stored))
    except (TypeError, ValueError) as error:
        raise OpAttributeInvalid(f"{operator}: its attribute '{name}' is none: {error}") from None
    node = OnnxNode(importer, proto, values, attributes, importer.versions)
    results = [_expression(importer, value) for value in importer.results(node)[:count]]
    return fold(results[0] if count == 1 else Tuple(results))


def _output_count(
    operator: str, domain: str, version: int, attributes: Mapping[str, Any], values: list[Any]
) -> int:
    """Return how many outputs a node has at least."""
    if operator == "Split":
        sizes = attributes.get("split")
        if sizes is None and len(values) > 1 and isinstance(values[1], (Constant, Weight)):
            sizes = values[1].data if isinstance(values[1], Constant) else values[1].array
        if sizes is None and "num_outputs" not in attributes:
            raise FrontendError(
                "Split does not say how many parts it makes",
                notes=("attr['tvm_custom'] = {'num_outputs': 2} does",),
            )
        return int(attributes["num_outputs"]) if sizes is None else len(sizes)
    schema = find_schema(domain, operator, version)
    return 1 if schema is None else max(1, int(schema.min_output))


def _tensor(array: Any) -> Any:
    return require_onnx().numpy_helper.from_array(array)


def _plain(value: Any) -> Any:
    """Return the value of an attribute as converters take it."""
    onnx = require_onnx()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, onnx.TensorProto):
        return tensor_array(value)
    if isinstance(value, numpy.generic):
        return value.item()
    return numpy.asarray(value.data) if isinstance(value, Constant) else value


def _given(value: Any, params: Any) -> Any:
    """Return an input of a call as the importer's value."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_given(item, params) for item in value]
    if isinstance(value, Tuple):
        return [_given(field, params) for field in value.fields]
    if isinstance(value, Var):
        array = stored_value(value, params)
        if array is not None:
            weight = Weight(value.name_hint, array)
            weight.variable = value
            return weight
    if isinstance(value, RelaxExpr):
        info = known_struct_info(value)
        if isinstance(info, TupleStructInfo):
            return [TupleGetItem(value, index) for index in range(len(info.fields))]
        return value_of(value) if isinstance(value, (ShapeExpr, PrimValue)) else value
    return Constant(value.numpy() if hasattr(value, "numpy") else numpy.asarray(value))


def _expression(importer: ONNXGraphImporter, value: Any) -> Any:
    """Return a value of the importer as an expression."""
    if value is None:
        raise FrontendError("the operator gives an empty optional value")
    if isinstance(value, list):
        return Tuple([_expression(importer, item) for item in value])
    return value.tensor() if isinstance(value, Sizes) else importer.tensor(value)
