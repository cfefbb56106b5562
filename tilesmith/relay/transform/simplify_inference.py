"""SimplifyInference: writes normalisations out, and drops what acts only in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relay.expr import Call, Tuple, TupleGetItem, const
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.rewriting import rewrite
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import TensorType, is_dynamic
from tilesmith.relay.walks import functions_of

__all__ = ["SimplifyInference"]


def _call(name: str, *args: Any, **attrs: Any) -> Call:
    return Call(Op.get(name), args, attrs)


def _along(vector: Any, axis: int, rank: int) -> Any:
    """Return a vector in a shape that is broadcast along one axis of a tensor."""
    after = rank - 1 - axis % rank
    return _call("expand_dims", vector, axis=1, num_newaxis=after) if after else vector


def _batch_norm(call: Call, type_: TensorType) -> Any:
    data, gamma, beta, mean, variance = call.args
    attrs: Any = call.attrs
    dtype = str(type_.dtype)
    scale = _call("rsqrt", _call("add", variance, const(attrs.epsilon, dtype)))
    if attrs.scale:
        scale = _call("multiply", scale, gamma)
    shift = _call("multiply", _call("negative", mean), scale)
    if attrs.center:
        shift = _call("add", shift, beta)
    rank = len(type_.shape)
    scaled = _call("multiply", data, _along(scale, attrs.axis, rank))
    return _call("add", scaled, _along(shift, attrs.axis, rank))


def _normalised(data: Any, axes: list[int], epsilon: float, dtype: str) -> Any:
    """Return a tensor with mean 0 and variance 1 along axes."""
    mean = _call("mean", data, axis=axes, keepdims=True)
    centred = _call("subtract", data, mean)
    square = _call("multiply", centred, centred)
    variance = _call("mean", square, axis=axes, keepdims=True)
    return _call("multiply", centred, _call("rsqrt", _call("add", variance, const(epsilon, dtype))))


def _scaled(found: Any, call: Call, axis: int, rank: int) -> Any:
    """Return a normalised tensor with the scale and the shift of a call along an axis."""
    _, gamma, beta = call.args
    attrs: Any = call.attrs
    if attrs.scale:
        found = _call("multiply", found, _along(gamma, axis, rank))
    if attrs.center:
        found = _call("add", found, _along(beta, axis, rank))
    return found


def _layer_norm(call: Call, type_: TensorType) -> Any:
    attrs: Any = call.attrs
    found = _normalised(call.args[0], [attrs.axis], attrs.epsilon, str(type_.dtype))
    return _scaled(found, call, attrs.axis, len(type_.shape))


def _instance_norm(call: Call, type_: TensorType) -> Any:
    attrs: Any = call.attrs
    rank = len(type_.shape)
    axes = [axis for axis in range(1, rank) if axis != attrs.axis % rank]
    found = _normalised(call.args[0], axes, attrs.epsilon, str(type_.dtype))
    return _scaled(found, call, attrs.axis, rank)


def _group_norm(call: Call, type_: TensorType) -> Any:
    """Split the channels into groups, normalise each with all that follows it in the shape."""
    attrs: Any = call.attrs
    rank = len(type_.shape)
    channel = attrs.axis % rank
    if is_dynamic(type_):
        return call
    shape: list[int] = list(type_.concrete_shape)
    groups = attrs.num_groups
    split = [*shape[:channel], groups, shape[channel] // groups, *shape[channel + 1 :]]
    grouped = _call("reshape", call.args[0], newshape=split)
    axes = [axis for axis in range(1, rank + 1) if axis != channel]
    found = _normalised(grouped, axes, attrs.epsilon, str(type_.dtype))
    return _scaled(_call("reshape", found, newshape=shape), call, channel, rank)


def _l2_normalize(call: Call, type_: TensorType) -> Any:
    (data,) = call.args
    attrs: Any = call.attrs
    total = _call("sum", _call("multiply", data, data), axis=attrs.axis, keepdims=True)
    least = _call("maximum", total, const(attrs.eps, str(type_.dtype)))
    return _call("divide", data, _call("sqrt", least))


_OF_TUPLES: dict[str, Callable[[Call, TensorType], Any]] = {"nn.batch_norm": _batch_norm}
"""Operator → its first result in inference; the other results are only for training."""

_OF_TENSORS: dict[str, Callable[[Call, TensorType], Any]] = {
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.l2_normalize": _l2_normalize,
    "nn.layer_norm": _layer_norm,
}


def _changed(node: Any, types: dict[int, TensorType]) -> Any:
    if isinstance(node, Call) and isinstance(node.op, Op):
        rule = _OF_TENSORS.get(node.op.name)
        return node if rule is None else rule(node, types[id(node)])
    if not isinstance(node, TupleGetItem) or node.index != 0:
        return node
    value = node.tuple_value
    if isinstance(value, Call) and isinstance(value.op, Op):
        if value.op is Op.get("nn.dropout"):
            return value.args[0]
        rule = _OF_TUPLES.get(value.op.name)
        return node if rule is None else rule(value, types[id(value)])
    return value.fields[0] if isinstance(value, Tuple) else node


@relay_pass("SimplifyInference", 0, ["InferType"])
def SimplifyInference(mod: IRModule) -> IRModule:
    """Write normalisations as arithmetic, and drop dropout."""
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        types: dict[int, TensorType] = {}

        def change(node: Any, types: dict[int, TensorType] = types) -> Any:
            if isinstance(node, Call) and isinstance(node.op, Op):
                if node.op.name in _OF_TUPLES or node.op.name in _OF_TENSORS:
                    types[id(node)] = node.args[0].checked_type
            return _changed(node, types)

        mod[variable] = rewrite(function, change)
    return mod
