"""Convolutions in fewer steps than direct sums take: by tiles of Winograd, or with two sums for
each result. A part of PackForVectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relax.expr import Call
from tilesmith.relax.transform.repeated_kernels import RepeatedKernels
from tilesmith.relax.transform.two_sums import two_sums_convolution
from tilesmith.relax.transform.winograd import winograd_convolution
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target.machine import MachineModel

__all__ = ["convolution_in_fewer_steps"]


def convolution_in_fewer_steps(
    kernels: RepeatedKernels,
    call: Call,
    last: Callable[[], Any],
    weights: numpy.ndarray,
    options: list[list[int]],
    out: list[int | None] | None,
    machine: MachineModel,
) -> Any:
    """Return a convolution of weights ``(O, I, ky, kx)``, ``out`` the sizes of its NCHW result;
    ``last`` gives the data with its channels last. None where direct sums take less time.
    """
    attrs: Any = call.attrs
    wide, groups = weights.astype("float32", copy=False), int(attrs.groups)
    made = winograd_convolution(kernels, last, wide, options, out, machine, groups)
    if made is None and groups > 1:
        return None
    if made is None:
        return two_sums_convolution(kernels, last, weights, options, out, machine)
    if wide is not weights:
        record_fallback("precision", call.op.name, "Winograd's weights are float32")
    return made
