"""Losses: each makes the function of the graph that computes it from predictions and targets.

loss = MSELoss(reduction="sum")
function = loss(R.Tensor((8, 10), "float32"), R.Tensor((8, 10), "float32"))
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Function, Var, as_struct_info, const, known_struct_info
from tilesmith.support.errors import TypeMismatchError, UnsupportedError

__all__ = ["CategoricalCrossEntropyLoss", "CrossEntropyLoss", "L1Loss", "Loss", "MSELoss"]

_REDUCTIONS = ("mean", "sum", "none")


class Loss:
    """Base of losses. Calling one with struct info (or variables) of its arguments gives the
    function, which is called ``loss_name``.

    A loss of one's own defines ``compute(*params)``, an expression with a value for each element or
    sample, to which the reduction is applied. ``num_backbone_outputs`` says how many results of the
    model it takes; its further parameters are targets, and whatever else it needs.
    """

    names: tuple[str, ...] = ("predictions", "targets")
    """The names of the parameters; those that are left out at the end are not used."""
    least = 2

    def __init__(self, loss_name: str, num_backbone_outputs: int, reduction: str = "mean") -> None:
        if reduction not in _REDUCTIONS:
            raise UnsupportedError(
                f"the reduction of a loss is one of {', '.join(_REDUCTIONS)}, got '{reduction}'"
            )
        self._loss_name = loss_name
        self._num_backbone_outputs = num_backbone_outputs
        self._reduction = reduction

    @property
    def num_backbone_outputs(self) -> int:
        """How many results of the model the loss takes."""
        return self._num_backbone_outputs

    def compute(self, *params: Var) -> Any:
        """Return the loss of each element or sample."""
        raise UnsupportedError(
            f"the loss '{self._loss_name}' does not say what it computes",
            notes=("define compute(self, *params), which returns an expression",),
        )

    def reduced(self, expr: Any) -> Any:
        """Apply the reduction to the losses of elements or samples."""
        if self._reduction == "none":
            return expr
        return op.mean(expr) if self._reduction == "mean" else op.sum(expr)

    def __call__(self, *args: Any) -> Function:
        if not self.least <= len(args) <= len(self.names):
            raise TypeMismatchError(
                f"the loss '{self._loss_name}' takes {', '.join(self.names)}, got {len(args)} "
                "arguments"
            )
        params = [_param(one, name) for one, name in zip(args, self.names)]
        builder = BlockBuilder()
        with builder.function(self._loss_name, params):
            with builder.dataflow():
                result = builder.emit_output(self.reduced(self.compute(*params)))
            builder.emit_func_output(result)
        made = builder.get()[self._loss_name]
        assert isinstance(made, Function)
        return made


def _param(given: Any, name: str) -> Var:
    if isinstance(given, Var):
        return Var(given.name_hint, known_struct_info(given))
    return Var(name, as_struct_info(given))


class L1Loss(Loss):
    """The absolute differences of predictions and targets."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__("l1_loss", 1, reduction)

    def compute(self, *params: Var) -> Any:
        """Return the absolute differences."""
        predictions, targets = params
        return op.abs(op.subtract(predictions, targets))


class MSELoss(Loss):
    """The squares of the differences of predictions and targets."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__("mse_loss", 1, reduction)

    def compute(self, *params: Var) -> Any:
        """Return the squared differences."""
        predictions, targets = params
        difference = op.subtract(predictions, targets)
        return op.multiply(difference, difference)


class CrossEntropyLoss(Loss):
    """The cross entropy of unnormalised predictions and class numbers, with optional weights of
    the classes: ``log_softmax`` over the classes, then ``nll_loss``.
    """

    names = ("predictions", "targets", "weights")

    def __init__(self, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__("cross_entropy_loss", 1, reduction)
        self.ignore_index = ignore_index

    def reduced(self, expr: Any) -> Any:
        """Return the loss as it is: ``nll_loss`` reduces, which knows the weights."""
        return expr

    def compute(self, *params: Var) -> Any:
        """Return the loss, reduced."""
        predictions, targets, *weights = params
        return op.nn.nll_loss(
            op.nn.log_softmax(predictions, axis=_class_axis(predictions)),
            targets,
            weights[0] if weights else None,
            reduction=self._reduction,
            ignore_index=self.ignore_index,
        )


class CategoricalCrossEntropyLoss(Loss):
    """The cross entropy of unnormalised predictions and targets that are probabilities of the
    classes (one-hot, for example), with optional weights of the classes.

    A sample's loss is the sum over its classes; the reduction is over samples, as elsewhere. The
    class ``ignore_index`` does not count if it is not negative.
    """

    names = ("predictions", "targets", "weights")

    def __init__(self, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__("categorical_cross_entropy_loss", 1, reduction)
        self.ignore_index = ignore_index

    def compute(self, *params: Var) -> Any:
        """Return the loss of each sample."""
        predictions, targets, *weights = params
        axis = _class_axis(predictions)
        info: Any = known_struct_info(predictions)
        shape = [1] * info.ndim
        shape[axis] = -1
        logarithms = op.nn.log_softmax(predictions, axis=axis)
        loss = op.negative(op.multiply(logarithms, targets))
        if weights:
            loss = op.multiply(loss, op.reshape(weights[0], shape))
        if self.ignore_index >= 0:
            numbers = op.arange(0, info.shape[axis], 1, "int64")
            counted = op.not_equal(numbers, const(self.ignore_index, "int64"))
            loss = op.multiply(loss, op.reshape(op.astype(counted, info.dtype), shape))
        return op.sum(loss, axis=axis)


def _class_axis(predictions: Any) -> int:
    """Return the axis of the classes: the second, behind that of the samples."""
    info: Any = known_struct_info(predictions)
    return 1 if info.ndim > 1 else 0
