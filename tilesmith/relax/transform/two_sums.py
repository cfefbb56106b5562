"""Convolutions whose results have two sums each, of even and of odd inputs: a part of
PackForVectors.

    y = R.nn.conv2d(x, w)    →    y = R.call_tir(conv2d_nhwc_two_sums, (x, w by pairs of inputs))

Where the columns leave half of a vector empty (24 of 32 lanes), the sums of a pair of inputs fill
whole vectors: 24 columns are 3 vectors for two steps instead of 2 for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith import topi
from tilesmith.relax.transform.repeated_kernels import RepeatedKernels
from tilesmith.relax.transform.tiled_weights import tiled_weights
from tilesmith.schedule_rules.contractions.tiles import two_sums_columns
from tilesmith.target.machine import MachineModel

__all__ = ["two_sums_convolution"]

_FEWEST_STEPS = 8
"""With fewer products for each result, adding its two sums takes longer than it saves."""


def two_sums_convolution(
    kernels: RepeatedKernels,
    data: Callable[[], Any],
    weights: numpy.ndarray,
    options: list[list[int]],
    out: list[int | None] | None,
    machine: MachineModel,
) -> Any:
    """Return a convolution of weights ``(O, I, ky, kx)`` with its channels last, ``out`` the sizes
    of its NCHW result; None where two sums for each result are no gain.
    """
    outputs, inputs, ky, kx = weights.shape
    if weights.dtype != "float32" or inputs % 2 or inputs * ky * kx < _FEWEST_STEPS:
        return None
    width = two_sums_columns(out[3] if out else None, outputs, machine)
    if width is None:
        return None
    pairs = weights.transpose(2, 3, 1, 0).reshape(ky, kx, inputs // 2, 2, outputs)
    side_by_side = pairs.swapaxes(-1, -2).reshape(ky, kx, inputs // 2, 2 * outputs)
    return kernels.call_te(
        topi.nn.conv2d_nhwc_two_sums, data(), tiled_weights(side_by_side, 2 * width), outputs,
        *options, primfunc_name_hint="conv2d",
    )  # fmt: skip
