"""Packs the weights of convolutions in groups for vectors.

Groups of few output channels are joined until they fill a vector. The weights between channels of
different groups are zeros then: the vector would be empty there otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith import topi
from tilesmith.relax.expr import Constant, const
from tilesmith.runtime import nd
from tilesmith.schedule_rules.contractions.grouped import best_group_width
from tilesmith.schedule_rules.windows.group_lanes import fit_in_lanes
from tilesmith.target.machine import MachineModel

__all__ = ["form_of_groups", "lanes_of_groups", "packed_groups"]


def form_of_groups(
    weights: numpy.ndarray,
    groups: int,
    extent: int | None,
    machine: MachineModel,
    may_join: bool,
) -> tuple[Callable[..., Any], list[Any]]:
    """Return the function that computes a convolution in groups, and its arguments behind the
    data. ``may_join``: groups may lie side by side in vectors.
    """
    lanes = lanes_of_groups(weights, groups, machine) if may_join else None
    if lanes is not None:
        return topi.nn.grouped_conv2d_nhwc_lanes, [lanes]
    packed = packed_groups(weights, groups, extent, machine)
    return topi.nn.grouped_conv2d_nhwc_packed, [packed, weights.shape[0]]


def lanes_of_groups(weights: numpy.ndarray, groups: int, machine: MachineModel) -> Constant | None:
    """Return weights (O, I, ky, kx) as (ky, I, kx, O), if groups lie side by side in vectors and
    each has as many outputs as inputs; None if not.
    """
    outputs, inputs = weights.shape[0] // groups, weights.shape[1]
    if weights.dtype != "float32" or not machine.permutes_lanes:
        return None
    if not fit_in_lanes(inputs, outputs, groups, machine.lanes(32)):
        return None
    return const(numpy.ascontiguousarray(weights.transpose(2, 1, 3, 0)))


def packed_groups(
    weights: numpy.ndarray, groups: int, extent: int | None, machine: MachineModel
) -> Constant:
    """Return weights (O, I, ky, kx) as (groups, tiles, ky, kx, I, T), for rows of ``extent``
    pixels (None if that is symbolic).
    """
    count, inputs, ky, kx = weights.shape
    outputs = count // groups
    joined = _joined(groups, outputs, machine.lanes(32))
    width = best_group_width(outputs * joined, ky * kx * inputs * joined, extent, machine)
    tiles = -(-outputs * joined // width)
    shape = (groups // joined, tiles, ky, kx, inputs * joined, width)
    made = nd.empty(shape, str(weights.dtype))
    packed = made.numpy_view()
    packed[...] = 0
    for group in range(groups):
        place, member = divmod(group, joined)
        own = weights[group * outputs : (group + 1) * outputs].transpose(2, 3, 1, 0)
        first, row = member * outputs, slice(member * inputs, (member + 1) * inputs)
        for tile in range(tiles):
            low = max(first, tile * width)
            high = min(first + outputs, (tile + 1) * width)
            if low < high:
                part = own[..., low - first : high - first]
                packed[place, tile, :, :, row, low - tile * width : high - tile * width] = part
    return Constant(made)


def _joined(groups: int, outputs: int, lanes: int) -> int:
    """Return how many groups share a vector."""
    fitting = [one for one in range(1, groups + 1) if groups % one == 0 and one * outputs <= lanes]
    return max(fitting, default=1)
