"""Draws from distributions by uniform numbers that the caller gives."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import const
from tilesmith.relax.frontend.nn.core import Tensor, wrap_nested
from tilesmith.relax.frontend.nn.op.arguments import expression
from tilesmith.support.errors import ShapeError

__all__ = [
    "multinomial_from_uniform", "renormalize_top_p_top_k_prob",
    "sample_top_p_top_k_from_sorted_prob",
]  # fmt: skip


def _matrix(value: Tensor, operator: str, what: str) -> Any:
    made = expression(value, operator, what)
    if value.ndim != 2:
        raise ShapeError(f"nn.op.{operator}: '{what}' has {value.ndim} axes, 2 are needed")
    return made


def _rows(tensor: Any, indices: Any) -> Any:
    """Return the rows of a matrix at indices (n, 1); all of them without indices."""
    return tensor if indices is None else op.take(tensor, op.squeeze(indices, [1]), 0)


def multinomial_from_uniform(
    prob: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
    dtype: str = "int64",
    name: str = "multinomial_from_uniform",
) -> Tensor:
    """Draw an index for each uniform number (n, 1) from the distributions ``prob`` (batch,
    classes).

    Number ``i`` belongs to the row ``sample_indices[i, 0]``; without indices to row ``i``.
    """
    called = "multinomial_from_uniform"
    rows = _matrix(prob, called, "prob")
    bound = _matrix(uniform_sample, called, "uniform_sample")
    indices = None
    if sample_indices is not None:
        indices = _matrix(sample_indices, called, "sample_indices")
    totals = _rows(op.cumsum(rows, -1), indices)
    drawn = _drawn(totals, op.astype(bound, prob.dtype), prob.shape[1])
    made: Tensor = wrap_nested(op.astype(drawn, dtype), name)
    return made


def _drawn(totals: Any, bound: Any, classes: Any) -> Any:
    """Return for each row the first index whose running total is above a bound: (rows, 1), int64.

    Rounding may leave all totals at or below it, then the last index is meant; the total of the
    last is not looked at.
    """
    before = op.strided_slice(totals, [1], [0], [classes - 1])
    return op.sum(op.astype(op.less_equal(before, bound), "int64"), -1, True)


def _kept(sorted_prob: Any, totals: Any, top_p: Any, top_k: Any, classes: Any) -> Any:
    """Return which probabilities, from large to small, belong to the most likely ones: as many as
    are needed for the sum ``top_p``, but ``top_k`` at most.
    """
    places = op.expand_dims(op.arange(classes, dtype="int64"), 0)
    enough = op.less(op.subtract(totals, sorted_prob), top_p)
    return op.logical_and(enough, op.less(places, op.astype(top_k, "int64")))


def sample_top_p_top_k_from_sorted_prob(
    sorted_prob: Tensor,
    sorted_index: Tensor,
    top_p: Tensor,
    top_k: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
) -> Tensor:
    """Draw indices by uniform numbers (n, 1) from the most likely classes of each row.

    ``sorted_prob`` (batch, classes) has the probabilities from large to small, ``sorted_index``
    whose they are; ``top_p`` and ``top_k`` (batch, 1) say which count. Number ``i`` belongs to the
    row ``sample_indices[i, 0]``; without indices to row ``i``. The result is (n, 1).
    """
    called = "sample_top_p_top_k_from_sorted_prob"
    prob = _matrix(sorted_prob, called, "sorted_prob")
    index = _matrix(sorted_index, called, "sorted_index")
    share, most = _matrix(top_p, called, "top_p"), _matrix(top_k, called, "top_k")
    bound = _matrix(uniform_sample, called, "uniform_sample")
    rows = None
    if sample_indices is not None:
        rows = _matrix(sample_indices, called, "sample_indices")
    classes, zero = sorted_prob.shape[1], const(0, sorted_prob.dtype)
    totals = op.cumsum(prob, -1)
    kept = _kept(prob, totals, share, most, classes)
    whole = op.sum(op.where(kept, prob, zero), -1, True)
    drawn = _drawn(_rows(totals, rows), op.multiply(bound, _rows(whole, rows)), classes)
    found = op.gather_elements(_rows(index, rows), drawn, 1)
    made: Tensor = wrap_nested(found, "sample_top_p_top_k")
    return made


def renormalize_top_p_top_k_prob(
    prob: Tensor, sorted_prob: Tensor, top_p: Tensor, top_k: Tensor
) -> Tensor:
    """Return the distributions with zeros for all but the most likely classes, and sum 1.

    ``sorted_prob`` has the probabilities from large to small; ``top_p`` and ``top_k`` (batch, 1)
    say which count. Classes as likely as the last of these count, too.
    """
    called = "renormalize_top_p_top_k_prob"
    values = _matrix(prob, called, "prob")
    ordered = _matrix(sorted_prob, called, "sorted_prob")
    share, most = _matrix(top_p, called, "top_p"), _matrix(top_k, called, "top_k")
    kept = _kept(ordered, op.cumsum(ordered, -1), share, most, sorted_prob.shape[1])
    least = op.min(op.where(kept, ordered, const(2, prob.dtype)), -1, True)
    chosen = op.where(op.greater_equal(values, least), values, const(0, prob.dtype))
    made: Tensor = wrap_nested(op.divide(chosen, op.sum(chosen, -1, True)), "filter_top_p_top_k")
    return made
