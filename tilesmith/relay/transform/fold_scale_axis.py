"""FoldScaleAxis: folds factors along channels into the weights of convolutions and products.

    backward:  multiply(add(nn.conv2d(%x, %w), %b), %s)  ->  add(nn.conv2d(%x, %w * %s), %b * %s)
    forward:   nn.conv2d(nn.relu(multiply(%x, %s)), %w)  ->  nn.conv2d(nn.relu(%x), %w * %s)

What lies between may be relu and pooling, where the factors are constants above 0. The channels of
an operator are those that relax's pass of this name looks at. In constant weights the product is
computed at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.transform.fold_scale_axis import channel_axes
from tilesmith.relay.expr import Call, Constant
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.view import axis_of
from tilesmith.relay.rewriting import with_type_of
from tilesmith.relay.scopes import Scopes
from tilesmith.relay.transform.calls import (
    constant_array,
    dtype_of,
    is_call,
    make,
    shape_of,
    uniform_value,
)
from tilesmith.relay.transform.fold_constant import FoldConstantExpr
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, is_closed, parts, post_order, with_parts

__all__ = ["BackwardFoldScaleAxis", "FoldScaleAxis", "ForwardFoldScaleAxis"]

_FARTHEST = 16
"""How many operators may lie between a factor and a weight: a bound of the time that it takes."""

_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
_POSITIVE = (
    "nn.relu", "nn.leaky_relu", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d",
    "nn.global_max_pool1d", "nn.global_max_pool2d", "nn.global_max_pool3d",
)  # fmt: skip
_LINEAR = (
    "negative", "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.global_avg_pool1d",
    "nn.global_avg_pool2d", "nn.global_avg_pool3d",
)  # fmt: skip


def _axes(call: Call) -> tuple[int, int] | None:
    """Return the axis of the output channels in the result and in the weight."""
    shape = shape_of(call)
    if shape is None or shape_of(call.args[1]) is None:
        return None
    if is_call(call, "nn.dense"):
        return len(shape) - 1, 0
    found: tuple[int, int] | None = channel_axes(call.op.spec.translate(call.attrs, *call.args))
    return found


def _input_axes(call: Call) -> tuple[int, int] | None:
    """Return the axis of the input channels in the data and in the weight. The channels of a
    depthwise convolution are those of its output.
    """
    data, weight = shape_of(call.args[0]), shape_of(call.args[1])
    if data is None or weight is None:
        return None
    if is_call(call, "nn.dense"):
        return len(data) - 1, 1
    attrs: Any = call.attrs
    if not attrs.data_layout.isalpha() or not attrs.kernel_layout.isalpha():
        return None
    channel, kernel = attrs.data_layout.index("C"), attrs.kernel_layout
    if attrs.groups == 1:
        return channel, kernel.index("I")
    is_depthwise = attrs.groups == data[channel] == weight[kernel.index("O")]
    return (channel, kernel.index("O")) if is_depthwise else None


def _varies_along(factor: Any, node: Any, axis: int) -> bool:
    """Return whether an operand of a tensor's operator varies along one axis of it only."""
    own, shape = shape_of(factor), shape_of(node)
    if own is None or shape is None or len(own) > len(shape):
        return False
    first = len(shape) - len(own)
    return all(size == 1 or first + place == axis for place, size in enumerate(own))


def _along(factor: Any, axis: int, rank: int) -> Any:
    """Return factors in a shape that is broadcast along an axis of a tensor."""
    shape = shape_of(factor) or ()
    count = max(shape, default=1)
    wanted = (count,) + (1,) * (rank - 1 - axis) if count > 1 else ()
    if shape == wanted:
        return factor
    made = make("reshape", factor, newshape=wanted)
    return FoldConstantExpr(made, IRModule()) if isinstance(factor, Constant) else made


def _scaled(weight: Any, factor: Any, axis: int) -> Any:
    """Return a weight with factors along an axis of it, computed if both are constants."""
    product = make("multiply", weight, _along(factor, axis, len(shape_of(weight) or ())))
    is_known = isinstance(weight, Constant) and isinstance(factor, Constant)
    return FoldConstantExpr(product, IRModule()) if is_known else product


def _is_positive(factor: Any) -> bool:
    array = constant_array(factor)
    return array is not None and bool((array > 0).all())


def _passes(node: Any, factor: Any) -> bool:
    """Return whether factors before a call have the effect of factors after it."""
    if is_call(node, "nn.pad"):
        return bool(node.attrs.pad_mode == "constant" and uniform_value(node.args[1]) == 0)
    return is_call(node, *_LINEAR) or (is_call(node, *_POSITIVE) and _is_positive(factor))


class _Folder:
    """Folds the factors of one function."""

    def __init__(self, function: Function, change: Callable[[_Folder, Call], Any]) -> None:
        self.function = function
        self.change = change
        self.users: dict[int, int] = {}  # of rewritten expressions; what is new has one user

    def run(self) -> Any:
        """Return the function with ``change`` applied to each call."""
        users = Scopes(self.function).users
        done: dict[int, Any] = {}
        for node in post_order(self.function, lambda one: not is_closed(one)):
            if is_closed(node):
                done[id(node)] = node
                continue
            new = with_type_of(node, with_parts(node, [done[id(part)] for part in parts(node)]))
            if is_call(new):
                new = with_type_of(node, self.change(self, new))
            done[id(node)] = new
            self.users[id(new)] = self.users.get(id(new), 0) + users.get(id(node), 1)
        return done[id(self.function)]

    def is_single(self, node: Any) -> bool:
        """Return whether a value is used once."""
        return self.users.get(id(node), 1) == 1

    # Backward

    def absorbed(self, node: Any, factor: Any, left: int = _FARTHEST) -> Any:
        """Return a value that is multiplied by a factor with the factor in a weight; None if none
        can take it.
        """
        if left == 0 or not is_call(node) or not self.is_single(node):
            return None
        if is_call(node, *_CONVOLUTIONS, "nn.dense"):
            axes = _axes(node)
            weight = node.args[1]
            if axes is None or dtype_of(weight) != dtype_of(factor):
                return None
            if not _varies_along(factor, node, axes[0]):
                return None
            return node.with_fields(args=(node.args[0], _scaled(weight, factor, axes[1])))
        if is_call(node, "add", "subtract", "nn.bias_add"):
            return self._absorbed_by_sum(node, factor, left)
        if is_call(node, "nn.pad") or not _passes(node, factor):
            return None
        inner = self.absorbed(node.args[0], factor, left - 1)
        return None if inner is None else node.with_fields(args=(inner, *node.args[1:]))

    def _absorbed_by_sum(self, node: Any, factor: Any, left: int) -> Any:
        for place in (0, 1):
            value, other = node.args[place], node.args[1 - place]
            is_bias = is_call(node, "nn.bias_add")
            if value.checked_type != node.checked_type or (is_bias and place == 1):
                continue
            if not is_bias and math.prod(shape_of(other) or (1,)) >= math.prod(
                shape_of(node) or ()
            ):
                continue  # another multiplication of a whole tensor gains nothing
            inner = self.absorbed(value, factor, left - 1)
            if inner is None:
                continue
            if is_bias:
                rank = len(node.checked_type.shape)
                if not _varies_along(factor, node, axis_of(node.attrs.axis, rank)):
                    continue
                product = _scaled(other, factor, 0)
            elif isinstance(other, Constant) and isinstance(factor, Constant):
                product = FoldConstantExpr(make("multiply", other, factor), IRModule())
            else:
                product = make("multiply", other, factor)
            args = (inner, product) if place == 0 else (product, inner)
            return node.with_fields(args=args)
        return None

    # Forward

    def released(self, node: Any, axis: int, left: int = _FARTHEST) -> tuple[Any, Any] | None:
        """Return a value without the factors that it was multiplied by, and these."""
        if left == 0 or not is_call(node) or not self.is_single(node):
            return None
        if is_call(node, "multiply"):
            for value, factor in (node.args, node.args[::-1]):
                same = value.checked_type == node.checked_type
                if same and _varies_along(factor, node, axis):
                    return value, factor
            return None
        if not node.args or not is_call(node, *_LINEAR, *_POSITIVE, "nn.pad"):
            return None
        found = self.released(node.args[0], axis, left - 1)
        if found is None or not _passes(node, found[1]):
            return None
        return node.with_fields(args=(found[0], *node.args[1:])), found[1]


def _backward(folder: _Folder, call: Call) -> Any:
    if not is_call(call, "multiply"):
        return call
    for value, factor in (call.args, call.args[::-1]):
        if value.checked_type == call.checked_type and shape_of(factor) is not None:
            found = folder.absorbed(value, factor)
            if found is not None:
                return found
    return call


def _forward(folder: _Folder, call: Call) -> Any:
    if not is_call(call, *_CONVOLUTIONS, "nn.dense"):
        return call
    axes = _input_axes(call)
    found = None if axes is None else folder.released(call.args[0], axes[0])
    if axes is None or found is None or dtype_of(call.args[1]) != dtype_of(found[1]):
        return call
    weight = _scaled(call.args[1], found[1], axes[1])
    return call.with_fields(args=(found[0], weight))


def _each(mod: IRModule, *changes: Callable[[_Folder, Call], Any]) -> IRModule:
    for change in changes:
        mod = infer_module(mod)
        for variable, function in functions_of(mod):
            if not is_closed(function):
                mod[variable] = _Folder(function, change).run()
    return mod


@relay_pass("BackwardFoldScaleAxis", 3, ["InferType"])
def BackwardFoldScaleAxis(mod: IRModule) -> IRModule:
    """Fold factors of the results of convolutions and dense layers into their weights."""
    return _each(mod, _backward)


@relay_pass("ForwardFoldScaleAxis", 3, ["InferType"])
def ForwardFoldScaleAxis(mod: IRModule) -> IRModule:
    """Fold factors of the inputs of convolutions and dense layers into their weights."""
    return _each(mod, _forward)


@relay_pass("FoldScaleAxis", 3, ["InferType"])
def FoldScaleAxis(mod: IRModule) -> IRModule:
    """Fold factors of the results and of the inputs of convolutions and dense layers into their
    weights.
    """
    return _each(mod, _backward, _forward)
