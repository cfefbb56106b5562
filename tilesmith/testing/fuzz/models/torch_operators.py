"""What the operators of drawn graphs are in torch: functions of their inputs and attributes.

Inputs are tensors, or plain numbers and lists where the graph stores them and ``NUMBERS`` says so
(bytes are scalars of numpy); sizes that a model computes are lists, whose elements torch may know
as symbols.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnx import TensorProto
from torch.nn import functional as F

__all__ = ["NUMBERS", "OPERATORS"]

Operator = Callable[..., Any]

NUMBERS: dict[str, tuple[int, ...]] = {
    "Add": (1,), "Sub": (1,), "Mul": (1,), "Div": (1,), "Pow": (1,), "Greater": (1,),
    "LessOrEqual": (1,), "Where": (2,), "Clip": (1, 2), "ReduceSum": (1,), "ReduceMean": (1,),
    "ReduceMax": (1,), "ReduceMin": (1,), "ReduceL2": (1,), "ReduceSumSquare": (1,),
    "ReduceLogSumExp": (1,), "ReduceProd": (1,), "TopK": (1,), "CumSum": (1,), "Reshape": (1,),
    "Squeeze": (1,), "Unsqueeze": (1,), "Split": (1,), "Slice": (1, 2, 3, 4), "Pad": (1,),
    "Expand": (1,), "Tile": (1,), "Resize": (2,), "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2), "Trilu": (1,),
}  # fmt: skip
"""Places of inputs that torch takes as numbers, where the graph stores them as numbers or as
vectors of integers."""

OPERATORS: dict[str, Operator] = {
    "Abs": torch.abs,
    "Add": torch.add,
    "Atan": torch.atan,
    "Ceil": torch.ceil,
    "Celu": F.celu,
    "Cos": torch.cos,
    "Div": torch.div,
    "Elu": F.elu,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "Greater": torch.gt,
    "HardSwish": F.hardswish,
    "Identity": lambda x: x,
    "LeakyRelu": F.leaky_relu,
    "LessOrEqual": torch.le,
    "Log": torch.log,
    "MatMul": torch.matmul,
    "Max": torch.maximum,
    "Min": torch.minimum,
    "Mish": F.mish,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Pow": torch.pow,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Round": torch.round,
    "Selu": F.selu,
    "Shape": lambda x: list(x.shape),
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Sqrt": torch.sqrt,
    "Sub": torch.sub,
    "Tanh": torch.tanh,
    "Where": torch.where,
}
"""Functions of torch by the name of the operator."""


def _operator(name: str) -> Callable[[Operator], Operator]:
    def register(function: Operator) -> Operator:
        OPERATORS[name] = function
        return function

    return register


# Elementwise


@_operator("HardSigmoid")
def _hard_sigmoid(x: Any) -> Any:
    return torch.clamp(0.2 * x + 0.5, 0, 1)


@_operator("Clip")
def _clip(x: Any, low: float, high: float) -> Any:
    return x.clamp(low, high)


@_operator("PRelu")
def _prelu(x: Any, slope: Any) -> Any:
    if slope.numel() == 1:
        return F.prelu(x, slope.reshape(1))
    return torch.where(x < 0, slope * x, x)


@_operator("Cast")
def _cast(x: Any, *, to: int) -> Any:
    return x.to(
        {int(TensorProto.FLOAT): torch.float32, int(TensorProto.FLOAT16): torch.float16}[to]
    )


@_operator("QuantizeLinear")
def _quantize(x: Any, scale: float, zero: Any) -> Any:
    dtype = getattr(torch, zero.dtype.name)
    limits = torch.iinfo(dtype)
    return (torch.round(x / scale) + float(zero)).clamp(limits.min, limits.max).to(dtype)


@_operator("DequantizeLinear")
def _dequantize(x: Any, scale: float, zero: Any) -> Any:
    return (x.float() - float(zero)) * scale


# Products and windows


@_operator("Gemm")
def _gemm(a: Any, b: Any, c: Any, *, beta: float) -> Any:
    return torch.addmm(c, a, b, beta=beta)


@_operator("Einsum")
def _einsum(*operands: Any, equation: bytes) -> Any:
    return torch.einsum(equation.decode(), *operands)


@_operator("Conv")
def _conv(
    x: Any, weight: Any, bias: Any = None, *, strides: Any, pads: Any, dilations: Any, group: int,
    kernel_shape: Any,
) -> Any:  # fmt: skip
    function = (F.conv1d, F.conv2d)[x.ndim - 3]
    return function(x, weight, bias, strides, pads[: len(strides)], dilations, group)


@_operator("ConvTranspose")
def _transposed(x: Any, weight: Any, *, strides: Any) -> Any:
    return (F.conv_transpose1d, F.conv_transpose2d)[x.ndim - 3](x, weight, None, strides)


@_operator("MaxPool")
def _max_pool(x: Any, *, kernel_shape: Any, strides: Any, pads: Any, dilations: Any) -> Any:
    function = (F.max_pool1d, F.max_pool2d)[x.ndim - 3]
    return function(x, kernel_shape, strides, pads[: len(strides)], dilations)


@_operator("AveragePool")
def _average_pool(
    x: Any, *, kernel_shape: Any, strides: Any, pads: Any, count_include_pad: int
) -> Any:
    function = (F.avg_pool1d, F.avg_pool2d)[x.ndim - 3]
    padding = pads[: len(strides)]
    return function(
        x, kernel_shape, strides, padding, count_include_pad=bool(count_include_pad)
    )  # fmt: skip


@_operator("GlobalAveragePool")
def _mean_of_pixels(x: Any) -> Any:
    return (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d)[x.ndim - 3](x, 1)


@_operator("GlobalMaxPool")
def _maximum_of_pixels(x: Any) -> Any:
    return x.amax(list(range(2, x.ndim)), keepdim=True)


@_operator("Resize")
def _resize(x: Any, regions: Any, scales: Any, *, mode: bytes, **_: Any) -> Any:
    factors = [float(one) for one in scales[2:]]
    if mode == b"nearest":
        return F.interpolate(x, scale_factor=factors, mode="nearest")
    return F.interpolate(x, scale_factor=factors, mode="bilinear", align_corners=False)


# Normalisations and reductions


@_operator("BatchNormalization")
def _batch_norm(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, epsilon: float) -> Any:
    return F.batch_norm(x, mean, variance, scale, shift, eps=epsilon)


@_operator("LayerNormalization")
def _layer_norm(x: Any, scale: Any, shift: Any, *, epsilon: float) -> Any:
    return F.layer_norm(x, scale.shape, scale, shift, epsilon)


@_operator("InstanceNormalization")
def _instance_norm(x: Any, scale: Any, shift: Any, *, epsilon: float) -> Any:
    # that of ``nn.functional`` refuses a single pixel
    return torch.instance_norm(x, scale, shift, None, None, True, 0.0, epsilon, False)


@_operator("Softmax")
def _softmax(x: Any, *, axis: int) -> Any:
    return torch.softmax(x, axis)


@_operator("LogSoftmax")
def _log_softmax(x: Any, *, axis: int) -> Any:
    return torch.log_softmax(x, axis)


def _reduction(function: Operator, x: Any, axes: list[int], *, keepdims: int) -> Any:
    return function(x, axes, keepdim=bool(keepdims))


_REDUCTIONS: dict[str, Any] = {
    "ReduceSum": torch.sum, "ReduceMean": torch.mean, "ReduceMax": torch.amax,
    "ReduceMin": torch.amin, "ReduceLogSumExp": torch.logsumexp,
    "ReduceL2": lambda x, axes, keepdim: torch.linalg.vector_norm(x, 2, axes, keepdim),
    "ReduceSumSquare": lambda x, axes, keepdim: x.square().sum(axes, keepdim),
}  # fmt: skip

for _name, _function in _REDUCTIONS.items():
    OPERATORS[_name] = functools.partial(_reduction, _function)


@_operator("ReduceProd")
def _product_of_sizes(sizes: list[Any], axes: list[int], *, keepdims: int) -> list[Any]:
    return [math.prod(sizes)]


@_operator("ArgMax")
def _place_of_largest(x: Any, *, axis: int, keepdims: int) -> Any:
    return x.argmax(axis, bool(keepdims))


@_operator("ArgMin")
def _place_of_smallest(x: Any, *, axis: int, keepdims: int) -> Any:
    return x.argmin(axis, bool(keepdims))


@_operator("TopK")
def _largest(x: Any, count: list[int], *, axis: int, largest: int, sorted: int) -> Any:
    return tuple(torch.topk(x, count[0], axis, bool(largest), bool(sorted)))


@_operator("CumSum")
def _running_sum(x: Any, axis: int, *, exclusive: int, reverse: int) -> Any:
    x = x.flip(axis) if reverse else x
    total = x.cumsum(axis)
    total = total - x if exclusive else total
    return total.flip(axis) if reverse else total


# Moving data


@_operator("Transpose")
def _transpose(x: Any, *, perm: list[int]) -> Any:
    return x.permute(perm)


@_operator("Flatten")
def _flatten(x: Any, *, axis: int) -> Any:
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@_operator("Reshape")
def _reshape(x: Any, sizes: list[Any]) -> Any:
    return x.reshape([
        x.shape[place] if isinstance(size, int) and size == 0 else size
        for place, size in enumerate(sizes)
    ])  # fmt: skip


@_operator("Squeeze")
def _squeeze(x: Any, axes: list[int]) -> Any:
    return x.squeeze(tuple(axes))


@_operator("Unsqueeze")
def _unsqueeze(x: Any, axes: list[int]) -> Any:
    return x.unsqueeze(axes[0])


@_operator("Concat")
def _concat(*parts: Any, axis: int) -> Any:
    if isinstance(parts[0], list):
        return [size for part in parts for size in part]
    return torch.cat(parts, axis)


@_operator("Split")
def _split(x: Any, sizes: list[int], *, axis: int) -> Any:
    return torch.split(x, sizes, axis)


@_operator("Slice")
def _slice(
    x: Any, starts: list[int], ends: list[int], axes: Sequence[int] = (0,),
    steps: Sequence[int] = (1,),
) -> Any:  # fmt: skip
    (start,), (end,), (axis,), (step,) = starts, ends, axes, steps
    if isinstance(x, list):
        return x[start:end:step]
    if step == -1 and start == -1 and end < -(2**30):
        return x.flip(axis)
    places = range(int(x.shape[axis]))[start:end:step]
    first, last = min(places[0], places[-1]), max(places[0], places[-1])
    taken = x[(slice(None),) * axis + (slice(first, last + 1, abs(step)),)]
    return taken if step > 0 else taken.flip(axis)


@_operator("Gather")
def _gather(x: Any, indices: Any, *, axis: int) -> Any:
    return x[(slice(None),) * axis + (indices,)]


@_operator("Pad")
def _pad(x: Any, widths: list[int], *, mode: bytes) -> Any:
    axis = next((place for place in range(x.ndim) if any(widths[place :: x.ndim])), x.ndim - 1)
    pair = (widths[axis], widths[axis + x.ndim])
    if mode == b"constant":
        return F.pad(x, (0, 0) * (x.ndim - 1 - axis) + pair)
    last = x.movedim(axis, -1)
    rows = last.reshape(-1, last.shape[-1])  # torch pads so only the last axes of a few ranks
    rows = F.pad(rows, pair, "reflect" if mode == b"reflect" else "replicate")
    return rows.reshape(*last.shape[:-1], rows.shape[-1]).movedim(-1, axis)


@_operator("Expand")
def _expand(x: Any, sizes: list[int]) -> Any:
    return x.expand([-1 if size == 1 else size for size in sizes])


@_operator("Tile")
def _tile(x: Any, repeats: list[int]) -> Any:
    return x.repeat(repeats)


@_operator("Trilu")
def _triangle(x: Any, diagonal: int, *, upper: int) -> Any:
    return (torch.triu if upper else torch.tril)(x, diagonal)
