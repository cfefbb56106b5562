"""Operations of ``keras.ops`` that stand between the layers of a functional model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.relax.base import GraphExpr
from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.activations import ACTIVATIONS, relu
from tilesmith.relay.frontend.images import matmul
from tilesmith.relay.frontend.keras.merging import aligned
from tilesmith.relay.frontend.keras.registry import Graph, Value, plain, pointwise, raw
from tilesmith.relay.op.tensor import constant_like, dtype_of
from tilesmith.relay.op.view import rank_of, sizes
from tilesmith.support.errors import UnsupportedError

__all__: list[str] = []

_ONE: dict[str, Callable[[Any], Any]] = {
    "Abs": op.abs, "Absolute": op.abs, "Arccos": op.acos, "Arcsin": op.asin, "Arctan": op.atan,
    "Ceil": op.ceil, "Cos": op.cos, "Cosh": op.cosh, "Erf": op.erf, "Exp": op.exp,
    "Expm1": lambda x: op.exp(x) - constant_like(1, x), "Floor": op.floor,
    "HardSigmoid": ACTIVATIONS["hard_sigmoid"], "HardSilu": ACTIVATIONS["hard_silu"],
    "HardTanh": ACTIVATIONS["hard_tanh"], "Isfinite": op.isfinite, "Isinf": op.isinf,
    "Isnan": op.isnan, "Log": op.log, "Log10": op.log10,
    "Log1p": lambda x: op.log(x + constant_like(1, x)), "Log2": op.log2,
    "LogSigmoid": ACTIVATIONS["log_sigmoid"], "LogicalNot": op.logical_not,
    "Negative": op.negative, "OnesLike": op.ones_like,
    "Reciprocal": lambda x: constant_like(1, x) / x, "Relu6": ACTIVATIONS["relu6"],
    "Rsqrt": op.rsqrt, "Selu": ACTIVATIONS["selu"], "Sigmoid": op.sigmoid, "Sign": op.sign,
    "Silu": ACTIVATIONS["silu"], "Sin": op.sin, "Sinh": op.sinh,
    "Softplus": ACTIVATIONS["softplus"], "Softsign": ACTIVATIONS["softsign"], "Sqrt": op.sqrt,
    "SparsePlus": ACTIVATIONS["sparse_plus"], "SparseSigmoid": ACTIVATIONS["sparse_sigmoid"],
    "Square": lambda x: x * x, "Tan": op.tan, "Tanh": op.tanh,
    "TanhShrink": ACTIVATIONS["tanh_shrink"], "Relu": relu, "Trunc": op.trunc,
    "ZerosLike": op.zeros_like, "Mish": ACTIVATIONS["mish"],
}  # fmt: skip


def _one_of(function: Callable[[Any], Any]) -> Any:
    return lambda graph, layer, x: function(x)


for _name, _function in _ONE.items():
    pointwise(f"ops.{_name}")(_one_of(_function))

_PARAMETERS = {
    "Celu": ("celu", ("alpha",)),
    "Elu": ("elu", ("alpha",)),
    "Gelu": ("gelu", ("approximate",)),
    "HardShrink": ("hard_shrink", ("threshold",)),
    "LeakyRelu": ("leaky_relu", ("negative_slope",)),
    "ReLU": ("relu", ("negative_slope", "max_value", "threshold")),
    "SoftShrink": ("soft_shrink", ("threshold",)),
    "Squareplus": ("squareplus", ("b",)),
    "Threshold": ("threshold", ("threshold", "default_value")),
}


def _with_parameters(known: str, names: Sequence[str]) -> Any:
    def convert(graph: Graph, layer: Any, x: Any) -> Any:
        return ACTIVATIONS[known](x, **{name: getattr(layer, name) for name in names})

    return convert


for _name, (_known, _names) in _PARAMETERS.items():
    pointwise(f"ops.{_name}")(_with_parameters(_known, _names))
for _name, _known in (
    ("Glu", "glu"), ("LogSoftmax", "log_softmax"), ("Softmax", "softmax"),
    ("Sparsemax", "sparsemax"),
):  # fmt: skip
    plain(f"ops.{_name}")(_with_parameters(_known, ("axis",)))

# Two operands


def _operand(graph: Graph, value: Any, like: Any) -> Value:
    if isinstance(value, Value):
        return value
    held = graph.numpy_of(value)
    return Value(const(held.astype(dtype_of(like).numpy()) if held.dtype.kind != "b" else held))


def _two_of(function: Callable[[Any, Any], Any]) -> Any:
    def convert(graph: Graph, layer: Any, a: Any, b: Any) -> Value:
        like = next(one.expr for one in (a, b) if isinstance(one, Value))
        both = [_operand(graph, a, like), _operand(graph, b, like)]
        numbers = [one for one in both if rank_of(one.expr) == 0]
        if len(numbers) == 1:  # it goes with either order
            moved = any(one.moved for one in both)
            left, right = (one.expr for one in both)
        else:
            (left, right), moved = aligned(both)
        kinds = [dtype_of(left), dtype_of(right)]
        if kinds[0] != kinds[1] and kinds[0].is_float != kinds[1].is_float:
            wanted = str(kinds[0] if kinds[0].is_float else kinds[1])
            left, right = op.cast(left, wanted), op.cast(right, wanted)
        return Value(function(left, right), moved)

    return convert


for _name, _both in {
    "Add": op.add, "Divide": op.divide, "Equal": op.equal, "FloorDivide": op.floor_divide,
    "Greater": op.greater, "GreaterEqual": op.greater_equal, "Less": op.less,
    "LessEqual": op.less_equal, "LogicalAnd": op.logical_and, "LogicalOr": op.logical_or,
    "LogicalXor": op.logical_xor, "Maximum": op.maximum, "Minimum": op.minimum,
    "Mod": op.floor_mod, "Multiply": op.multiply, "NotEqual": op.not_equal, "Power": op.power,
    "Subtract": op.subtract, "TrueDivide": op.divide,
}.items():  # fmt: skip
    raw(f"ops.{_name}")(_two_of(_both))


@plain("ops.Where")
def _where(graph: Graph, layer: Any, condition: Any, x1: Any, x2: Any) -> Any:
    like = x1 if isinstance(x1, GraphExpr) else x2
    left, right = (_operand(graph, one, like).expr if not isinstance(one, GraphExpr) else one
                   for one in (x1, x2))  # fmt: skip
    return op.where(condition, left, right)


@plain("ops.Matmul")
def _matmul(graph: Graph, layer: Any, a: Any, b: Any) -> Any:
    return matmul(a, b)


@plain("ops.Einsum")
def _einsum(graph: Graph, layer: Any, *operands: Any) -> Any:
    return op.einsum(tuple(operands), layer.subscripts)


# Along axes


def _axes(layer: Any, rank: int) -> list[int]:
    if layer.axis is None:
        return list(range(rank))
    given = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
    return [int(axis) % rank for axis in given]


def _reduced(function: Callable[..., Any]) -> Any:
    def convert(graph: Graph, layer: Any, x: Any) -> Any:
        return function(x, _axes(layer, rank_of(x)), bool(layer.keepdims))

    return convert


for _name, _reduce in {
    "All": op.all, "Amax": op.max, "Amin": op.min, "Any": op.any, "Max": op.max, "Mean": op.mean,
    "Min": op.min, "Prod": op.prod, "Std": op.std, "Sum": op.sum, "Var": op.variance,
    "Logsumexp": op.logsumexp,
}.items():  # fmt: skip
    plain(f"ops.{_name}")(_reduced(_reduce))


def _place_of(function: Callable[..., Any]) -> Any:
    def convert(graph: Graph, layer: Any, x: Any) -> Any:
        axis = layer.axis
        if axis is None:
            x, axis = op.reshape(x, (-1,)), 0
        return op.cast(function(x, int(axis), bool(layer.keepdims)), "int32")

    return convert


plain("ops.Argmax")(_place_of(op.argmax))
plain("ops.Argmin")(_place_of(op.argmin))


@plain("ops.Cumsum")
def _cumsum(graph: Graph, layer: Any, x: Any) -> Any:
    return op.cumsum(op.reshape(x, (-1,)) if layer.axis is None else x, layer.axis or 0)


@plain("ops.Clip")
def _clip(graph: Graph, layer: Any, x: Any) -> Any:
    return op.clip(x, float(layer.x_min), float(layer.x_max))


@plain("ops.Cast")
def _cast(graph: Graph, layer: Any, x: Any) -> Any:
    return op.cast(x, str(layer.dtype))


# Form


@plain("ops.Reshape")
def _reshape(graph: Graph, layer: Any, x: Any) -> Any:
    whole = sizes(x)
    target = [
        whole[axis] if size is None else int(size) for axis, size in enumerate(layer.newshape)
    ]
    return op.reshape(x, tuple(target))


@plain("ops.Transpose")
def _transpose(graph: Graph, layer: Any, x: Any) -> Any:
    return op.transpose(x, None if layer.axes is None else list(layer.axes))


@plain("ops.Swapaxes")
def _swapaxes(graph: Graph, layer: Any, x: Any) -> Any:
    order = list(range(rank_of(x)))
    order[layer.axis1], order[layer.axis2] = order[layer.axis2], order[layer.axis1]
    return op.transpose(x, order)


@plain("ops.ExpandDims")
def _expand_dims(graph: Graph, layer: Any, x: Any) -> Any:
    given = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
    rank = rank_of(x) + len(given)
    for axis in sorted([int(one) % rank for one in given]):
        x = op.expand_dims(x, axis)
    return x


@plain("ops.Squeeze")
def _squeeze(graph: Graph, layer: Any, x: Any) -> Any:
    return op.squeeze(x, None if layer.axis is None else _axes(layer, rank_of(x)))


@plain("ops.Concatenate")
def _concatenate(graph: Graph, layer: Any, xs: Sequence[Any]) -> Any:
    return op.concatenate(list(xs), int(layer.axis))


@plain("ops.Stack")
def _stack(graph: Graph, layer: Any, xs: Sequence[Any]) -> Any:
    return op.stack(list(xs), int(layer.axis))


@plain("ops.Split")
def _split(graph: Graph, layer: Any, x: Any) -> Any:
    given = layer.indices_or_sections
    cut = int(given) if isinstance(given, int) else [int(one) for one in given]
    return list(op.split(x, cut, int(layer.axis)))


@plain("ops.Flip")
def _flip(graph: Graph, layer: Any, x: Any) -> Any:
    for axis in _axes(layer, rank_of(x)):
        x = op.reverse(x, axis)
    return x


@plain("ops.Repeat")
def _repeat(graph: Graph, layer: Any, x: Any) -> Any:
    if not isinstance(layer.repeats, int):
        raise UnsupportedError("keras.ops.repeat with a number for each element is not imported")
    return op.repeat(
        op.reshape(x, (-1,)) if layer.axis is None else x, layer.repeats, layer.axis or 0
    )


@plain("ops.Tile")
def _tile(graph: Graph, layer: Any, x: Any) -> Any:
    repeats = [layer.repeats] if isinstance(layer.repeats, int) else list(layer.repeats)
    return op.tile(x, repeats)


@plain("ops.Take")
def _take(graph: Graph, layer: Any, x: Any, indices: Any) -> Any:
    held = indices if isinstance(indices, GraphExpr) else const(numpy.asarray(indices, "int32"))
    return op.take(x, held, None if layer.axis is None else int(layer.axis), mode="wrap")


@plain("ops.GetItem")
def _get_item(graph: Graph, layer: Any, x: Any, key: Any) -> Any:
    """Slice as numpy does, by numbers, slices, an ellipsis and new axes."""
    whole = sizes(x)
    keys = list(key) if isinstance(key, (list, tuple)) else [key]
    if Ellipsis not in keys:
        keys.append(Ellipsis)
    place = keys.index(Ellipsis)
    used = len([one for one in keys if one is not None and one is not Ellipsis])
    keys[place : place + 1] = [slice(None)] * (len(whole) - used)
    axis = 0
    dropped: list[int] = []
    added: list[int] = []
    begins: list[int] = []
    ends: list[int] = []
    strides: list[int] = []
    axes: list[int] = []
    for number, one in enumerate(keys):
        if one is None:
            added.append(number - len(dropped))
            continue
        if isinstance(one, int):
            one = slice(one, one + 1 if one != -1 else None)
            dropped.append(axis)
        if one != slice(None):
            first, last, step = one.indices(whole[axis])
            begins.append(first)
            ends.append(last if last >= 0 else -whole[axis] - 1)
            strides.append(step)
            axes.append(axis)
        axis += 1
    found = op.strided_slice(x, begins, ends, strides, axes) if axes else x
    found = op.squeeze(found, dropped) if dropped else found
    for number in added:
        found = op.expand_dims(found, number)
    return found
