"""Runs an ONNX graph with jax, compiled as one function: the rival "jax" on the very same model.

Weights are arguments of the function, on jax's device; what decides shapes (axes, targets of
reshapes) stays numpy, as tracing wants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax
from onnx import helper, numpy_helper

Operator = Callable[..., Any]
OPERATORS: dict[str, Operator] = {
    "Add": jnp.add,
    "Sub": jnp.subtract,
    "Mul": jnp.multiply,
    "Div": jnp.divide,
    "Pow": jnp.power,
    "Sqrt": jnp.sqrt,
    "Exp": jnp.exp,
    "Tanh": jnp.tanh,
    "Erf": jax.scipy.special.erf,
    "Sigmoid": jax.nn.sigmoid,
    "Relu": jax.nn.relu,
    "MatMul": jnp.matmul,
    "Identity": lambda x: x,
    "Equal": jnp.equal,
    "Where": jnp.where,
}


def operator(name: str) -> Callable[[Operator], Operator]:
    """Register the jax version of one ONNX operator: (inputs…, **attributes) → output."""

    def register(function: Operator) -> Operator:
        OPERATORS[name] = function
        return function

    return register


def _pairs(pads: list[int] | None, rank: int) -> list[tuple[int, int]]:
    pads = list(pads) if pads else [0] * (2 * rank)
    return list(zip(pads[:rank], pads[rank:], strict=True))


@operator("Conv")
def _conv(x, weight, bias=None, *, strides=None, pads=None, dilations=None, group=1, **_):
    rank = x.ndim - 2
    letters = "DHW"[3 - rank :]
    y = lax.conv_general_dilated(
        x, weight, tuple(strides or [1] * rank), _pairs(pads, rank),
        rhs_dilation=tuple(dilations or [1] * rank), feature_group_count=group,
        dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"),
    )  # fmt: skip
    return y if bias is None else y + bias.reshape(1, -1, *[1] * rank)


@operator("MaxPool")
def _max_pool(x, *, kernel_shape, strides=None, pads=None, **_):
    rank = x.ndim - 2
    steps = (1, 1, *(strides or [1] * rank))
    padding = [(0, 0), (0, 0), *_pairs(pads, rank)]
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *kernel_shape), steps, padding)


@operator("GlobalAveragePool")
def _global_average_pool(x):
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


@operator("BatchNormalization")
def _batch_norm(x, scale, shift, mean, variance, *, epsilon=1e-5, **_):
    factor = scale * lax.rsqrt(variance + epsilon)
    offset = shift - mean * factor
    shape = (1, -1, *[1] * (x.ndim - 2))
    return x * factor.reshape(shape) + offset.reshape(shape)


@operator("LayerNormalization")
def _layer_norm(x, scale, shift, *, epsilon=1e-5, **_):
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + epsilon) * scale + shift


@operator("Clip")
def _clip(x, low=None, high=None):
    return jnp.clip(x, low, high)


@operator("Flatten")
def _flatten(x, *, axis=1):
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


@operator("Gemm")
def _gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = alpha * ((a.T if transA else a) @ (b.T if transB else b))
    return y if c is None else y + beta * c


@operator("Softmax")
def _softmax(x, *, axis=-1):
    return jax.nn.softmax(x, axis)


@operator("ReduceMean")
def _reduce_mean(x, given=None, *, axes=None, keepdims=1):
    chosen = axes if given is None else given.tolist()
    return x.mean(tuple(chosen) if chosen else None, keepdims=bool(keepdims))


@operator("ReduceSum")
def _reduce_sum(x, axes=None, *, keepdims=1):
    return x.sum(None if axes is None else tuple(axes.tolist()), keepdims=bool(keepdims))


@operator("Reshape")
def _reshape(x, shape, **_):
    sizes = [x.shape[place] if size == 0 else int(size) for place, size in enumerate(shape)]
    return x.reshape(sizes)


@operator("Transpose")
def _transpose(x, *, perm=None):
    return jnp.transpose(x, perm)


@operator("Unsqueeze")
def _unsqueeze(x, axes):
    return jnp.expand_dims(x, tuple(axes.tolist()))


@operator("Squeeze")
def _squeeze(x, axes=None):
    return jnp.squeeze(x, None if axes is None else tuple(axes.tolist()))


@operator("Concat")
def _concat(*parts, axis):
    return jnp.concatenate(parts, axis)


@operator("Gather")
def _gather(x, indices, *, axis=0):
    return jnp.take(x, indices, axis, mode="wrap")  # negative ones count from the end


@operator("GatherElements")
def _gather_elements(x, indices, *, axis=0):
    return jnp.take_along_axis(x, indices, axis)


@operator("Cast")
def _cast(x, *, to):
    return x.astype(helper.tensor_dtype_to_np_dtype(to))


# Inputs that tracing wants as numbers: operator → positions.
_AS_NUMBERS = {
    "Reshape": (1,), "Unsqueeze": (1,), "Squeeze": (1,), "ReduceSum": (1,), "ReduceMean": (1,),
}  # fmt: skip


class JaxGraph:
    """An ONNX model as a compiled function; `precision` is the type of its floats."""

    def __init__(self, model: onnx.ModelProto, precision: str = "float32") -> None:
        self.precision = precision
        self.arrays = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
        self.outputs = [output.name for output in model.graph.output]
        self.steps: list[tuple[Operator, list[str], dict[str, Any], str]] = []
        numbers: set[str] = set()
        for node in model.graph.node:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Constant":
                self.arrays[node.output[0]] = numpy_helper.to_array(attributes["value"])
                continue
            if node.op_type not in OPERATORS:
                raise ValueError(f"no jax version of the operator {node.op_type}")
            inputs = list(node.input)
            numbers |= {inputs[place] for place in _AS_NUMBERS.get(node.op_type, ())
                        if place < len(inputs)}  # fmt: skip
            self.steps.append((OPERATORS[node.op_type], inputs, attributes, node.output[0]))
        self.numbers = {name: self.arrays[name] for name in numbers if name in self.arrays}
        self._compiled = jax.jit(self._compute)

    def _on_device(self, array: np.ndarray) -> Any:
        is_real = array.dtype == np.float32
        return jnp.asarray(array, dtype=self.precision if is_real else None)

    def prepare(self, feed: dict[str, np.ndarray]) -> dict[str, Any]:
        """Return the inputs and the weights on jax's device."""
        weights = {name: one for name, one in self.arrays.items() if name not in self.numbers}
        return {name: self._on_device(one) for name, one in {**weights, **feed}.items()}

    def _compute(self, values: dict[str, Any]) -> list[Any]:
        known: dict[str, Any] = {**values, **self.numbers}
        for function, inputs, attributes, output in self.steps:
            arguments = [known[name] if name else None for name in inputs]
            known[output] = function(*arguments, **attributes)
        return [known[name] for name in self.outputs]

    def __call__(self, values: dict[str, Any]) -> list[np.ndarray]:
        results = jax.block_until_ready(self._compiled(values))
        return [
            np.asarray(one.astype("float32") if one.dtype == jnp.bfloat16 else one)
            for one in results
        ]
