"""Divides a transposed convolution by output phase into one ordinary convolution.

    out[q * s + r] = sum over t of data[q - t] * weight[r + t * s]       for each phase r < s

Each phase is a convolution of stride 1 with every s-th element of the filter, turned round; all
phases read the same elements of the data. So one convolution computes them as channels of their
own, and its results are interleaved. No element is multiplied with a zero between the data's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from tilesmith.relax import op as operators
from tilesmith.relax.expr import RelaxExpr, known_struct_info
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import InternalError

__all__ = ["PhaseConvolution", "interleaved", "phase_convolution"]


class PhaseConvolution(NamedTuple):
    """An ordinary convolution that gives the phases of a transposed one as channels."""

    weight: numpy.ndarray
    """(groups * phases * O, I, ky, kx) for the channels of a group, the phases in row-major
    order."""
    padding: list[int]
    """Top, left, bottom, right."""


def phase_convolution(
    weight: numpy.ndarray,
    strides: Sequence[int],
    padding: Sequence[int],
    extra: Sequence[int],
    groups: int = 1,
) -> PhaseConvolution:
    """Return the convolution for a filter (I of all groups, O of one, ky, kx); ``padding`` and
    ``extra`` as the transposed convolution has them, the padding not negative.
    """
    (inputs, outputs), sizes = weight.shape[:2], weight.shape[2:]
    taps = [-(-size // stride) for size, stride in zip(sizes, strides)]
    missing = [(0, count * stride - size) for count, stride, size in zip(taps, strides, sizes)]
    whole = numpy.pad(weight, [(0, 0), (0, 0), *missing])
    own = groups, inputs // groups, outputs
    split = whole.reshape(*own, taps[0], strides[0], taps[1], strides[1])
    filters = split[:, :, :, ::-1, :, ::-1, :].transpose(0, 4, 6, 2, 1, 3, 5)
    after = [
        max(0, -(-(size - cut + more) // stride) - 1)
        for size, cut, more, stride in zip(sizes, padding[2:], extra, strides)
    ]
    shape = (groups * strides[0] * strides[1] * outputs, inputs // groups, *taps)
    return PhaseConvolution(
        numpy.ascontiguousarray(filters.reshape(shape)), [taps[0] - 1, taps[1] - 1, *after]
    )


def interleaved(
    emit: Callable[[Any], Any],
    phases: RelaxExpr,
    strides: Sequence[int],
    begin: Sequence[int],
    sizes: Sequence[Any],
    groups: int = 1,
) -> Any:
    """Return the phases, the channels of NHWC data, as rows and columns, from ``begin`` on."""
    info = known_struct_info(phases)
    shape = info.shape if isinstance(info, TensorStructInfo) else None
    values = getattr(shape, "values", None)
    if values is None:
        raise InternalError("the phases of a transposed convolution have no known shape")
    batch, rows, columns, channels = values
    down, across = strides
    outputs = channels // (groups * down * across)
    own, order = [down, across, outputs], [0, 1, 3, 2, 4, 5]
    if groups > 1:
        own, order = [groups, *own], [0, 1, 4, 2, 5, 3, 6]
    split = emit(operators.reshape(phases, [batch, rows, columns, *own]))
    mixed = emit(operators.permute_dims(split, order))
    whole = [batch, rows * down, columns * across, groups * outputs]
    joined = emit(operators.reshape(mixed, whole))
    ends = [first + size for first, size in zip(begin, sizes)]
    return operators.strided_slice(joined, [1, 2], list(begin), ends)
