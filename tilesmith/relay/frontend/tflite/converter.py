"""`OperatorConverter`: the operators of a subgraph as expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relay import op as operators
from tilesmith.relay.expr import Constant, TupleWrapper, const
from tilesmith.relay.frontend.common import ExprTable, infer_value, set_span, unbind
from tilesmith.relay.frontend.known_types import KnownTypes
from tilesmith.relay.frontend.missing import raise_missing
from tilesmith.relay.frontend.tflite import (
    detection,
    elementwise,
    forms,
    products,
    recurrent,
    windows,
)
from tilesmith.relay.frontend.tflite.reading import (
    TensorWrapper,
    build_str_map,
    get_tensor_name,
    require_tflite,
)
from tilesmith.relay.frontend.tflite.registry import CONVERTERS, METHODS
from tilesmith.relay.frontend.tflite.subgraph import SubgraphTables
from tilesmith.relay.op.tensor import constant_like, dtype_of
from tilesmith.relay.op.view import rank_of, sizes
from tilesmith.relay.qnn import op as qnn
from tilesmith.support.errors import OpAttributeUnImplemented, TilesmithError

__all__ = ["OperatorConverter"]

_REGISTERED = (detection, elementwise, forms, products, recurrent, windows)
"""Modules whose converters have to be there."""

_FOLDED = 256
"""Integers that depend on constants alone are computed at once up to so many: they are shapes."""

_ADVICE = (
    "python -m tf2onnx.convert --tflite model.tflite --output model.onnx, then "
    "relay.frontend.from_onnx('model.onnx')"
)
_ACTIVATIONS = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
"""Fused activation → its bounds."""


class OperatorConverter(SubgraphTables):
    """Converts the operators of a subgraph.

    A subclass may change a converter (they are methods: ``convert_add(self, op)``, which return an
    expression, or a list for several results) or add some for custom operators:
    ``self.convert_map["NAME"] = function`` in its constructor.
    """

    def __init__(self, model: Any, subgraph: Any, exp_tab: ExprTable) -> None:
        super().__init__(model, subgraph, exp_tab)
        self.activation_fn_type = build_str_map(require_tflite().ActivationFunctionType)
        self.convert_map: dict[str, Callable[[Any], Any]] = {
            name: getattr(self, method) for name, method in METHODS.items()
        }
        self._types = KnownTypes()

    # The walk

    def check_unsupported_ops(self) -> None:
        """Raise OpNotImplemented with all operators that have no converter."""
        missing = []
        for number in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(number)
            name = self.get_op_code_str(op)
            if name not in self.convert_map:
                missing.append((get_tensor_name(self.subgraph, op.Outputs(0)), name))
        raise_missing("TensorFlow Lite", "operators", missing, _ADVICE)

    def convert_op_to_relay(self) -> None:
        """Convert all operators; their results join the table of expressions."""
        for number in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(number)
            name = self.get_op_code_str(op)
            outputs = self.get_output_tensors(op)
            try:
                found = self.convert_map[name](op)
            except TilesmithError as error:
                error.notes += (f"while the operator {name} '{outputs[0].name}' was imported",)
                raise
            if isinstance(found, TupleWrapper):
                found = list(found)
            results = found if isinstance(found, (list, tuple)) else [found]
            for wrapper, result in zip(outputs, results):
                self._finish(op, wrapper, result)

    def _finish(self, op: Any, wrapper: TensorWrapper, result: Any) -> None:
        result = set_span(result, wrapper.name)
        self._types.add(result)
        if self._depends_on_constants(op, result):
            result = const(infer_value(result, {}).numpy(), str(dtype_of(result)))
        self.exp_tab.set_expr(self.key(wrapper.tensor_idx), result, force_override=True)

    def _depends_on_constants(self, op: Any, result: Any) -> bool:
        dtype = dtype_of(result)
        if isinstance(result, Constant) or dtype is None or dtype.is_float:
            return False
        if not all(self.known_value(one) is not None for one in self.get_input_tensors(op) if one):
            return False
        whole = sizes(result)
        return all(isinstance(one, int) for one in whole) and numpy.prod(whole) <= _FOLDED

    # Quantisation

    def is_quantized(self, op: Any) -> bool:
        """Return whether the first operand of an operator is quantised."""
        return self.get_input_tensors(op)[0].qnn_params is not None

    def has_same_qnn_params(self, lhs_tensor: TensorWrapper, rhs_tensor: TensorWrapper) -> bool:
        """Return whether two tensors' integers stand for the same numbers."""
        left, right = lhs_tensor.qnn_params, rhs_tensor.qnn_params
        if left is None or right is None:
            return left is right
        return all(numpy.array_equal(left[name], right[name]) for name in ("scale", "zero_point"))

    def quantize(self, expr: Any, tensor_to_quantize: TensorWrapper) -> Any:
        """Return floats as the integers that a tensor wants."""
        scale, zero, axis = parameters(tensor_to_quantize)
        if rank_of(expr) == 0:
            return operators.reshape(
                self.quantize(operators.reshape(expr, (1,)), tensor_to_quantize), ()
            )
        return qnn.quantize(expr, scale, zero, axis, tensor_to_quantize.dtype)

    def dequantize(self, expr: Any, tensor: TensorWrapper) -> Any:
        """Return the numbers that the integers of a tensor stand for."""
        scale, zero, axis = parameters(tensor)
        if rank_of(expr) == 0:
            return operators.reshape(self.dequantize(operators.reshape(expr, (1,)), tensor), ())
        return qnn.dequantize(expr, scale, zero, axis)

    def number(self, tensor: TensorWrapper) -> Any:
        """Return a tensor's numbers: what its integers stand for, if it is quantised."""
        expr = self.get_tensor_expr(tensor)
        return expr if tensor.qnn_params is None else self.dequantize(expr, tensor)

    def as_outputs(self, op: Any, found: Any) -> Any:
        """Return numbers as the results of an operator: quantised ones as integers."""
        if isinstance(found, TupleWrapper):
            found = list(found)
        outputs = self.get_output_tensors(op)
        results = found if isinstance(found, list) else [found]
        made = [
            self.quantize(result, wrapper)
            if wrapper.qnn_params is not None and dtype_of(result).is_float and is_stored(wrapper)
            else result
            for wrapper, result in zip(outputs, results)
        ]
        return made if isinstance(found, list) else made[0]

    def requantised(self, op: Any, source: TensorWrapper, found: Any) -> Any:
        """Return the results of an operator that moves elements, in their own quantisation."""
        results = list(found) if isinstance(found, (list, tuple, TupleWrapper)) else [found]
        made = []
        for wrapper, result in zip(self.get_output_tensors(op), results):
            same = self.has_same_qnn_params(source, wrapper) or wrapper.qnn_params is None
            if not same and source.qnn_params is not None:
                result = self.quantize(self.dequantize(result, source), wrapper)
            made.append(result)
        return made if len(made) > 1 else made[0]

    # What operators have in common

    def convert_fused_activation_function(self, in_expr: Any, fused_activation_fn: int) -> Any:
        """Return the activation that follows an operator on floats."""
        name = self.activation_fn_type[fused_activation_fn]
        if name == "NONE":
            return in_expr
        if name == "TANH":
            return operators.tanh(in_expr)
        if name not in _ACTIVATIONS:
            raise OpAttributeUnImplemented(f"the fused activation {name} is not imported")
        low, high = _ACTIVATIONS[name]
        found = operators.maximum(in_expr, constant_like(low, in_expr))
        return found if high is None else operators.minimum(found, constant_like(high, in_expr))

    def convert_qnn_fused_activation_function(
        self, expr: Any, fused_activation_fn: int, scale: float, zero_point: int, dtype: str
    ) -> Any:
        """Return the activation that follows an operator on integers: bounds on the integers."""
        name = self.activation_fn_type[fused_activation_fn]
        if name == "NONE":
            return expr
        if name not in _ACTIVATIONS:
            raise OpAttributeUnImplemented(f"the fused activation {name} of integers")
        limits = numpy.iinfo(dtype)
        low, high = _ACTIVATIONS[name]
        least = max(limits.min, round(low / scale) + zero_point)
        most = limits.max if high is None else min(limits.max, round(high / scale) + zero_point)
        return operators.clip(expr, float(least), float(most))

    def convert_conv(self, op: Any, conv_type: str) -> Any:
        """Return a convolution: ``conv_type`` is "conv2d" or "depthwise"."""
        name = "DEPTHWISE_CONV_2D" if conv_type == "depthwise" else "CONV_2D"
        return CONVERTERS[name](self, op)

    def convert_pool2d(self, op: Any, pool_type: str) -> Any:
        """Return a pool: ``pool_type`` is "average", "max" or "l2"."""
        return CONVERTERS[f"{pool_type.upper()}_POOL_2D"](self, op)

    def unbind(self, data: Any, axis: int = 1) -> Any:
        """Cut a tensor into its slices along an axis."""
        return unbind(data, axis)

    def flatten_to_nd(self, x: Any, nd: int = 3) -> Any:
        """Return a tensor with ``nd`` axes, the first ones as one."""
        whole = sizes(x)
        return x if len(whole) == nd else operators.reshape(x, (-1, *whole[len(whole) - nd + 1 :]))


def is_stored(wrapper: TensorWrapper) -> bool:
    """Return whether the results of a tensor are integers that stand for numbers."""
    return wrapper.dtype in ("int8", "uint8", "int16", "int32")


def parameters(tensor: TensorWrapper) -> tuple[Any, Any, int]:
    """Return scale and zero point of a tensor as constants, and their axis."""
    given: dict[str, Any] = tensor.qnn_params or {}
    scale, zero = given["scale"], given["zero_point"]
    if scale.size == 1:
        return const(scale.reshape(()), "float32"), const(zero.reshape(()), "int32"), -1
    return const(scale, "float32"), const(zero, "int32"), given["axis"]


for _method, _refusal in detection.REFUSED.items():
    setattr(OperatorConverter, _method, _refusal)
for _name, _method in METHODS.items():
    if not hasattr(OperatorConverter, _method):
        setattr(OperatorConverter, _method, CONVERTERS[_name])
