"""Convolutions by Winograd's algorithm where that pays: a part of PackForVectors.

    y = R.nn.conv2d(x, w)      →    y = R.call_tir(conv2d_nhwc_winograd, (x, transformed w))

The data have their channels last, the weights are constant. What is not finite spreads over its
tile, to results that direct sums would leave finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith import topi
from tilesmith.ir.pass_context import PassContext
from tilesmith.relax.analysis.op_pattern import FusionKind
from tilesmith.relax.expr import Constant
from tilesmith.relax.transform.options import TOLERANCE
from tilesmith.relax.transform.repeated_kernels import RepeatedKernels
from tilesmith.runtime import nd
from tilesmith.schedule_rules.contractions.winograd_cost import ConvolutionSize, winograd_plan
from tilesmith.target.machine import MachineModel

__all__ = ["winograd_convolution"]


def winograd_convolution(
    kernels: RepeatedKernels,
    channels_last: Callable[[], Any],
    weights: numpy.ndarray[Any, Any],
    options: Sequence[Sequence[int]],
    result: Sequence[int | None] | None,
    machine: MachineModel,
    groups: int = 1,
) -> Any:
    """Return a convolution by OIHW weights with its channels last; None if that is not possible or
    does not pay. ``options`` are strides, padding and dilation, ``result`` the sizes of the NCHW
    result.
    """
    (sy, sx), padding, (dy, dx) = options
    plain = weights.shape[2:] == (3, 3) and weights.dtype == "float32"
    if not plain or sy != sx or sy > 2 or {dy, dx} != {1} or min(padding) < 0 or result is None:
        return None
    images, _, height, width = result
    if height is None or width is None or min(height, width) < 1:
        return None
    outputs, inputs = weights.shape[0] // groups, weights.shape[1]
    size = ConvolutionSize(images or 1, height, width, inputs, outputs, groups, sy)
    tolerance = float(PassContext.current().get_config(TOLERANCE, 0.0))
    plan = winograd_plan(size, machine, tolerance)
    if plan is None:
        return None
    points_of_tile = topi.nn.winograd_width(plan.tile, sy) ** 2
    shape = (-(-outputs // plan.width), points_of_tile, inputs, plan.width)
    points = nd.empty((groups, *shape) if groups > 1 else shape)
    for group, made in enumerate(points.numpy_view().reshape(groups, *shape)):
        own = weights[group * outputs : (group + 1) * outputs]
        topi.nn.winograd_points(own, plan.tile, made, sy)
    return kernels.call_te(
        topi.nn.conv2d_nhwc_winograd, channels_last(), Constant(points), weights.shape[0],
        list(padding), plan.tile, plan.rows, sy,
        primfunc_name_hint="conv2d_winograd",
        primfunc_attrs={"op_pattern": int(FusionKind.OUT_ELEMWISE_FUSABLE)},
    )  # fmt: skip
