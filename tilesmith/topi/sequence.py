"""Sequences of different lengths in one tensor: their lengths, masking and reversing."""

from __future__ import annotations

from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import normalize_axes

__all__ = ["checked_lengths", "reverse_sequence", "sequence_mask"]


def checked_lengths(lengths: Tensor, size: Any, operator: str = "checked_lengths") -> Tensor:
    """Return the lengths of sequences along an axis of ``size`` elements (a number, or a shape of
    one). A length that is not between 0 and the size is an error when the program runs.
    """
    limit = size[0] if isinstance(size, (list, tuple)) else size

    def element(*i: Any) -> PrimExpr:
        return _checked_length(lengths(*i), limit, operator)

    return compute(lengths.shape, element, name="T_checked_lengths", tag=tag.INJECTIVE)


def _checked_length(given: PrimExpr, size: Any, operator: str) -> PrimExpr:
    length, limit = op.cast("int64", given), op.cast("int64", size)
    fits = op.logical_and(op.greater_equal(length, 0), op.less_equal(length, limit))
    text = f"OutOfBoundsError: {operator}: the length "
    made: PrimExpr = tir.checked(given, fits, text, length, " is not between 0 and ", limit)
    return made


def sequence_mask(
    data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0
) -> Tensor:
    """Set the elements of ``data`` from the valid length of each sequence on to ``mask_value``.

    Sequences run along ``axis``, 0 or 1; the other of the two axes numbers them, and
    ``valid_length`` has one length for each. Raises ShapeError for other axes.
    """
    if len(data.shape) < 2 or axis not in (0, 1):
        raise ShapeError("sequence_mask takes two or more dimensions and axis 0 or 1")
    masked = const(mask_value, data.dtype)

    def element(*i: Any) -> PrimExpr:
        length = valid_length(i[1 - axis])
        inside = op.less(op.cast("int64", i[axis]), op.cast("int64", length))
        return tir.Select(inside, data(*i), masked)

    return compute(data.shape, element, name="T_sequence_mask", tag=tag.INJECTIVE)


def reverse_sequence(
    a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0
) -> Tensor:
    """Reverse the first ``seq_lengths[b]`` elements along ``seq_axis`` for each index b of
    ``batch_axis``; the others stay where they are. A length that is not between 0 and the size of
    the axis is an error when the program runs.
    """
    (seq_axis,) = normalize_axes(seq_axis, len(a.shape))
    (batch_axis,) = normalize_axes(batch_axis, len(a.shape))
    if seq_axis == batch_axis:
        raise ShapeError(f"reverse_sequence: axis {seq_axis} cannot be both kinds of axes")

    def element(*i: Any) -> PrimExpr:
        index = i[seq_axis]
        given = op.cast("int64", seq_lengths(i[batch_axis]))
        checked = _checked_length(given, a.shape[seq_axis], "reverse_sequence")
        length = op.cast(index.dtype, given)
        inside = op.less(index, op.cast(index.dtype, checked))
        place = tir.Select(inside, length - 1 - index, index)
        return a(*i[:seq_axis], place, *i[seq_axis + 1 :])

    return compute(a.shape, element, name="T_reverse_sequence", tag=tag.INJECTIVE)
