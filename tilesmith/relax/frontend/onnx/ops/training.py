"""The steps of optimisers (`ai.onnx.preview.training`): new weights and states from gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax import op
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import dtype_of, scalar
from tilesmith.support.errors import FrontendError

DOMAIN = "ai.onnx.preview.training"


class _Step:
    """What the optimisers share: the rate, the count of updates, and numbers of a dtype."""

    def __init__(self, node: OnnxNode, states: int) -> None:
        self.node = node
        tensors = len(node) - 2
        if tensors < 1 or tensors % (2 + states):
            raise FrontendError(
                f"it has {tensors} tensors after R and T, which cannot be split into weights, "
                f"gradients and {states} lists of states of one length"
            )
        self.count = tensors // (2 + states)
        self.dtype = dtype_of(node[2])
        self.rate = node.emit(op.astype(op.reshape(node[0], []), self.dtype))
        self.updates = node.emit(op.reshape(node[1], []))

    def number(self, name: str, default: float) -> Any:
        """Return an attribute as a constant of the dtype."""
        return scalar(float(self.node.attribute(name, default)), self.dtype)

    def is_later(self) -> Any:
        """Return whether there were updates before."""
        return op.greater(self.updates, scalar(0, dtype_of(self.updates)))

    def converted(self) -> Any:
        """Return the count of updates in the dtype of the weights."""
        return op.astype(self.updates, self.dtype)

    def of(self, list_index: int, item: int) -> Any:
        """Return a tensor of one of the lists: weights, gradients, states."""
        return self.node[2 + list_index * self.count + item]

    def each(self, update: Callable[[list[Any], Any], list[Any]], states: int) -> tuple[Any, ...]:
        """Apply an update to the weights of each index, its gradient regularised; return the new
        weights, then each list of new states.
        """
        columns = []
        for item in range(self.count):
            x, gradient, *before = [self.of(index, item) for index in range(2 + states)]
            penalty = op.multiply(self.number("norm_coefficient", 0.0), x)
            gradient = self.node.emit(op.add(penalty, gradient))
            found = update([x, *before], gradient)
            columns.append([self.node.emit(value) for value in found])
        return tuple([column[k] for k in range(1 + states) for column in columns])


def _squared(x: Any) -> Any:
    return op.multiply(x, x)


@converter("Adagrad", domain=DOMAIN)
def _adagrad(node: OnnxNode) -> Any:
    step = _Step(node, 1)
    one = scalar(1, step.dtype)
    decay = op.multiply(step.converted(), step.number("decay_factor", 0.0))
    rate = node.emit(op.divide(step.rate, op.add(one, decay)))

    def update(given: list[Any], gradient: Any) -> list[Any]:
        x, total = given
        total = node.emit(op.add(total, _squared(gradient)))
        root = op.add(op.sqrt(total), step.number("epsilon", 0.0))
        return [op.subtract(x, op.divide(op.multiply(rate, gradient), root)), total]

    return step.each(update, 1)


@converter("Adam", domain=DOMAIN)
def _adam(node: OnnxNode) -> Any:
    step = _Step(node, 2)
    one = scalar(1, step.dtype)
    alpha, beta = step.number("alpha", 0.9), step.number("beta", 0.999)
    count = op.astype(step.updates, "float64")

    def rest(name: str, default: float) -> Any:
        """Return ``1 - attribute ** count`` in double precision; 1 before the first update."""
        base = scalar(float(node.attribute(name, default)), "float64")
        left = op.subtract(scalar(1, "float64"), op.power(base, count))
        return op.where(step.is_later(), left, scalar(1, "float64"))

    bias = op.divide(op.sqrt(rest("beta", 0.999)), rest("alpha", 0.9))
    rate = node.emit(op.multiply(step.rate, op.astype(bias, step.dtype)))

    def update(given: list[Any], gradient: Any) -> list[Any]:
        x, mean, square = given
        mean = op.add(op.multiply(alpha, mean), op.multiply(op.subtract(one, alpha), gradient))
        mean = node.emit(mean)
        fresh = op.multiply(op.subtract(one, beta), _squared(gradient))
        square = node.emit(op.add(op.multiply(beta, square), fresh))
        root = op.add(op.sqrt(square), step.number("epsilon", 0.0))
        x = op.subtract(x, op.multiply(rate, op.divide(mean, root)))
        kept = op.subtract(one, step.number("norm_coefficient_post", 0.0))
        return [op.multiply(kept, x), mean, square]

    return step.each(update, 2)


@converter("Momentum", domain=DOMAIN)
def _momentum(node: OnnxNode) -> Any:
    step = _Step(node, 1)
    alpha = step.number("alpha", 0.0)
    is_nesterov = node.choice("mode", "standard", "standard", "nesterov") == "nesterov"
    one = scalar(1, step.dtype)
    beta = node.emit(op.where(step.is_later(), step.number("beta", 0.0), one))

    def update(given: list[Any], gradient: Any) -> list[Any]:
        x, speed = given
        speed = node.emit(op.add(op.multiply(alpha, speed), op.multiply(beta, gradient)))
        way = op.add(gradient, op.multiply(alpha, speed)) if is_nesterov else speed
        return [op.subtract(x, op.multiply(step.rate, way)), speed]

    return step.each(update, 1)
