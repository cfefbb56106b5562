"""Convolutions of bytes by Winograd's algorithm, exact in int16, where that pays: a part of
PackForVectors for targets that multiply int16, not bytes.

    y = R.nn.conv2d(x - x0, w)    →    y = R.call_tir(conv2d_nhwc_winograd_words, (x, words))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from tilesmith import topi
from tilesmith.ir import IntImm
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.transform.byte_products import Bytes, in_words
from tilesmith.schedule_rules.contractions.winograd_cost import ConvolutionSize, winograd_plan
from tilesmith.target.machine import MachineModel

__all__ = ["WinogradWords", "winograd_words"]


class WinogradWords(NamedTuple):
    """A plan for tiles, and weights of words at their points."""

    words: numpy.ndarray
    tile: int
    rows: int
    stride: int
    padding: list[int]


def winograd_words(
    data: Bytes,
    weights: numpy.ndarray,
    groups: int,
    options: Sequence[Sequence[int]],
    machine: MachineModel,
) -> WinogradWords | None:
    """Return how to convolve NHWC bytes with OIHW weights of int16 by tiles; None if that is not
    possible, not exact, or does not pay. ``options`` are strides, padding and dilation.
    """
    (sy, sx), padding, (dy, dx) = options
    if weights.shape[2:] != (3, 3) or sy != sx or sy > 2 or {dy, dx} != {1} or min(padding) < 0:
        return None
    shape: Any = getattr(known_struct_info(data.data), "shape", None)
    sizes = getattr(shape, "values", None)
    if sizes is None or not all(isinstance(size, IntImm) for size in sizes[1:3]):
        return None
    images = sizes[0].value if isinstance(sizes[0], IntImm) else 1
    tall, wide = [size.value + padding[k] + padding[k + 2] for k, size in enumerate(sizes[1:3])]
    height, width = [(size - 3) // sy + 1 for size in (tall, wide)]
    if min(height, width) < 1:
        return None
    outputs, words = len(weights) // groups, -(-weights.shape[1] // 2)
    size = ConvolutionSize(images, height, width, words, outputs, groups, sy)
    plan = winograd_plan(size, machine)
    if plan is None or not _is_exact(data, weights, plan.tile, sy):
        return None
    parts = [
        _points(weights[group * outputs : (group + 1) * outputs], plan.tile, plan.width, sy)
        for group in range(groups)
    ]
    made = numpy.stack(parts) if groups > 1 else parts[0]
    limits = numpy.iinfo("int16")
    if made.min() < limits.min or made.max() > limits.max:
        return None
    return WinogradWords(in_words(made, "int16"), plan.tile, plan.rows, sy, list(padding))


def _is_exact(data: Bytes, weights: numpy.ndarray, tile: int, stride: int) -> bool:
    """Return whether combined data fit into int16 and shifted results into int32."""
    info: Any = known_struct_info(data.data)
    limits = numpy.iinfo(info.dtype.numpy())
    greatest: int = max(data.zero_point - int(limits.min), int(limits.max) - data.zero_point)
    if greatest * topi.nn.winograd_data_growth(tile, stride) >= 1 << 15:
        return False
    sums = numpy.abs(weights.astype("int64")).sum((1, 2, 3)).max()
    shift: int = topi.nn.winograd_weight_shift(tile, stride)
    return (int(sums) * greatest << shift) < 1 << 31


def _points(weights: numpy.ndarray, tile: int, width: int, stride: int) -> numpy.ndarray:
    """Return weights as whole numbers at the points of tiles: (tiles of outputs, points, C, T)."""
    outputs, inputs = weights.shape[:2]
    points = topi.nn.winograd_width(tile, stride) ** 2
    made = numpy.empty((-(-outputs // width), points, inputs, width), "float32")
    topi.nn.winograd_points(weights, tile, made, stride)
    whole: numpy.ndarray = numpy.rint(made * 2 ** topi.nn.winograd_weight_shift(tile, stride))
    return whole.astype("int32")
