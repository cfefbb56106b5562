"""Normalisation, dropout, softmax."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, boolean, integer, number, optional_ints
from tilesmith.relay.expr import TupleWrapper
from tilesmith.relay.op.tensor import constant_like
from tilesmith.relay.op.view import (
    axis_of,
    channels_along,
    computed,
    define,
    function,
    make_call,
    rank_of,
    same,
)

for _name in ("softmax", "log_softmax"):
    same("nn." + _name, "data", level=1, schema=Schema(axis=integer(-1)))
computed(
    "nn.fast_softmax",
    "data",
    "topi.nn.fast_softmax",
    level=1,
    schema=Schema(axis=integer(-1)),
    description="Softmax with an approximation of the exponential function.",
)


def _schema(axis: int, **first: Any) -> Schema:
    return Schema(
        **first,
        axis=integer(axis),
        epsilon=number(1e-5),
        center=boolean(True),
        scale=boolean(True),
    )


same(
    "nn.batch_norm",
    "data gamma beta moving_mean moving_var",
    level=1,
    schema=_schema(1),
    operand_sizes=channels_along(4),
)


def _layer_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    switches = {"epsilon": attrs.epsilon, "center": attrs.center, "scale": attrs.scale}
    return relax.nn.layer_norm(data, gamma, beta, axes=[attrs.axis], **switches)


def _others(attrs: Any, data: Any) -> tuple[int, list[int]]:
    rank = rank_of(data)
    channel = axis_of(attrs.axis, rank)
    return channel, [axis for axis in range(1, rank) if axis != channel]


def _group_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    channel, axes = _others(attrs, data)
    switches = {"epsilon": attrs.epsilon, "center": attrs.center, "scale": attrs.scale}
    return relax.nn.group_norm(data, gamma, beta, attrs.num_groups, channel, axes, **switches)


def _instance_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    channel, axes = _others(attrs, data)
    gamma = gamma if attrs.scale else relax.ones_like(gamma)
    beta = beta if attrs.center else relax.zeros_like(beta)
    return relax.nn.instance_norm(data, gamma, beta, channel, axes, attrs.epsilon)


define(
    "nn.layer_norm",
    "data gamma beta",
    _layer_norm,
    level=1,
    schema=_schema(-1),
    record=relax.nn.layer_norm.op.spec,
    operand_sizes=channels_along(2),
)
define(
    "nn.group_norm",
    "data gamma beta",
    _group_norm,
    level=1,
    schema=_schema(1, num_groups=integer(0)),
    record=relax.nn.group_norm.op.spec,
    operand_sizes=channels_along(2),
)
define(
    "nn.instance_norm",
    "data gamma beta",
    _instance_norm,
    level=1,
    schema=_schema(1),
    record=relax.nn.instance_norm.op.spec,
    operand_sizes=channels_along(2),
)
same(
    "nn.lrn",
    "data",
    level=2,
    schema=Schema(
        size=integer(5), axis=integer(1), bias=number(2.0), alpha=number(1e-5), beta=number(0.75)
    ),
)


def _l2_normalize(attrs: Any, data: Any) -> Any:
    total = relax.sum(relax.multiply(data, data), attrs.axis, True)
    least = relax.maximum(total, constant_like(attrs.eps, data))
    return relax.divide(data, relax.sqrt(least))


define(
    "nn.l2_normalize",
    "data",
    _l2_normalize,
    level=2,
    schema=Schema(eps=number(), axis=optional_ints()),
    description="The elements, divided by the root of the sum of their squares along axes.",
)
same("nn.dropout", "data", level=1, schema=Schema(rate=number(0.5)))


@function("nn.dropout")
def dropout(data: Any, rate: float = 0.5) -> Any:
    """Return the input; while a model is trained, some of its elements are dropped."""
    return dropout_raw(data, rate)[0]


@function("nn.dropout_raw")
def dropout_raw(data: Any, rate: float = 0.5) -> TupleWrapper:
    """Return the input, of which some elements may be dropped, and the mask of those kept."""
    return TupleWrapper(make_call("nn.dropout", [data], {"rate": rate}), 2)


@function("nn.batch_norm")
def batch_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TupleWrapper:
    """Normalise each channel by a mean and a variance; return the result, mean and variance."""
    attributes = {"axis": axis, "epsilon": epsilon, "center": center, "scale": scale}
    operands = [data, gamma, beta, moving_mean, moving_var]
    return TupleWrapper(make_call("nn.batch_norm", operands, attributes), 3)


@function("nn.group_norm")
def group_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    num_groups: int,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Any:
    """Normalise each group of channels, then scale and shift each channel."""
    attributes = {"num_groups": num_groups, "axis": axis, "epsilon": epsilon}
    return make_call(
        "nn.group_norm", [data, gamma, beta], {**attributes, "center": center, "scale": scale}
    )
