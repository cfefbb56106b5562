"""Losses and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.broadcast import divide, multiply
from tilesmith.topi.compute import compute
from tilesmith.topi.math import negative
from tilesmith.topi.reduction import sum
from tilesmith.topi.utils import checked_index, same_size

__all__ = ["cross_entropy_with_logits", "nll_loss", "nll_loss_grad"]

_REDUCTIONS = ("none", "sum", "mean")


def cross_entropy_with_logits(predictions: Tensor, labels: Tensor) -> Tensor:
    """Return minus the sum of ``predictions * labels``, divided by the size of the first axis if
    there are two or more.
    """
    dtype = accumulator(predictions.dtype)
    total = negative(sum(multiply(rounded(predictions, dtype), rounded(labels, dtype))))
    if len(predictions.shape) < 2:
        return rounded(total, predictions.dtype)
    batch = op.cast(dtype, predictions.shape[0])
    mean = compute((), lambda: total() / batch, name="T_divide")
    return rounded(mean, predictions.dtype)


def _class_weight(
    predictions: Tensor, targets: Tensor, weights: Tensor | None, dtype: Any, ignore_index: int
) -> Callable[..., tuple[PrimExpr, PrimExpr]]:
    """Return the class of a target and its weight: class 0 and weight 0 if ignored.

    A target that is no class is an error when the program runs.
    """
    sizes = [predictions.shape[1 if len(predictions.shape) > 1 else 0]]
    if weights is not None and not same_size(weights.shape[0], sizes[0]):
        sizes.append(weights.shape[0])

    def at(*i: Any) -> tuple[PrimExpr, PrimExpr]:
        target = op.cast("int64", targets(*i))
        is_ignored = op.equal(target, const(ignore_index, "int64"))
        chosen: PrimExpr = tir.Select(is_ignored, const(0, "int64"), target)
        for size in sizes:
            chosen = checked_index(chosen, size, "nll_loss", target)
        weight = const(1, dtype) if weights is None else op.cast(dtype, weights(chosen))
        return chosen, tir.Select(is_ignored, const(0, dtype), weight)

    return at


def _check_reduction(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise UnsupportedError(
            f"nll_loss: reduction '{reduction}' is not one of {', '.join(_REDUCTIONS)}"
        )


def _total_weight(targets: Tensor, at: Callable[..., tuple[PrimExpr, PrimExpr]]) -> Tensor:
    factors = compute(targets.shape, lambda *i: at(*i)[1], name="T_weights", tag=tag.INJECTIVE)
    return sum(factors) if targets.shape else factors


def nll_loss(
    predictions: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """Return the negative log-likelihood: minus the prediction of the target's class times its
    weight.

    predictions (N, C, ...) and targets (N, ...), or (C,) and a scalar; weights (C,), ones by
    default. Targets equal to ``ignore_index`` are ignored. ``reduction``: "none", "sum", or "mean"
    (the sum divided by the sum of the weights).
    """
    _check_reduction(reduction)
    out_dtype, dtype = predictions.dtype, accumulator(predictions.dtype)
    at = _class_weight(predictions, targets, weights, dtype, ignore_index)

    def loss(*i: Any) -> PrimExpr:
        chosen, weight = at(*i)
        picked = predictions(*i[:1], chosen, *i[1:]) if i else predictions(chosen)
        return -op.cast(dtype, picked) * weight

    losses = compute(targets.shape, loss, name="T_nll_loss", tag=tag.INJECTIVE)
    if reduction == "none":
        return rounded(losses, out_dtype)
    total = sum(losses) if targets.shape else losses
    if reduction == "mean":
        total = divide(total, _total_weight(targets, at))
    return rounded(total, out_dtype)


def nll_loss_grad(
    grads: Tensor,
    predictions: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """Return the gradient of `nll_loss` by its predictions: minus the weight at the target's
    class.
    """
    _check_reduction(reduction)
    dtype = accumulator(predictions.dtype)
    axis = 1 if len(predictions.shape) > 1 else 0
    at = _class_weight(predictions, targets, weights, dtype, ignore_index)
    total = _total_weight(targets, at) if reduction == "mean" else None

    def element(*i: Any) -> PrimExpr:
        outer = (*i[:axis], *i[axis + 1 :])
        scale = op.cast(dtype, grads(*outer) if reduction == "none" else grads())
        if total is not None:
            scale = scale / total()
        hit = op.equal(op.cast("int64", targets(*outer)), op.cast("int64", i[axis]))
        value = tir.Select(hit, -(at(*outer)[1] * scale), const(0, dtype))
        return op.cast(predictions.dtype, value)

    return compute(predictions.shape, element, name="nll_loss_grad")
