"""Sampling of images at places that a tensor gives."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.image.resize import cubic_weights
from tilesmith.topi.utils import get_const_int

__all__ = ["affine_grid", "grid_sample"]

_METHODS = ("nearest", "bilinear", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75
"""The parameter of cubic interpolation, as torch has it."""


def _float(value: float) -> PrimExpr:
    return const(value, "float32")


class _Sampling:
    """Which pixels, with which weights, make up a sample along one axis."""

    def __init__(self, method: str, padding_mode: str, align_corners: bool) -> None:
        if method not in _METHODS:
            raise UnsupportedError(f"grid_sample: method '{method}' is not one of {_METHODS}")
        if padding_mode not in _PADDINGS:
            raise UnsupportedError(
                f"grid_sample: padding_mode '{padding_mode}' is not one of {_PADDINGS}"
            )
        self.method, self.padding, self.aligned = method, padding_mode, align_corners

    def position(self, given: PrimExpr, size: PrimExpr) -> PrimExpr:
        """Return the pixel position of a coordinate between -1 and 1."""
        extent = op.cast("float32", size)
        if self.aligned:
            return (given + _float(1)) * _float(0.5) * (extent - _float(1))
        return ((given + _float(1)) * extent - _float(1)) * _float(0.5)

    def moved(self, place: PrimExpr, size: PrimExpr) -> PrimExpr:
        """Return a position moved into the image, by the padding's rule."""
        extent, zero = op.cast("float32", size), _float(0)
        last = extent - _float(1)
        if self.padding == "reflection":
            low = zero if self.aligned else _float(-0.5)
            span = last if self.aligned else extent
            wide = op.maximum(span, _float(1e-6))
            distance = tir.abs(place - low)
            turns = tir.floor(distance / wide)
            rest = distance - turns * wide
            half = turns * _float(0.5)
            even = op.equal(half, tir.floor(half))
            place = tir.Select(even, rest + low, span - rest + low)
        return op.maximum(op.minimum(place, last), zero)

    def taps(self, given: PrimExpr, size: PrimExpr) -> list[tuple[PrimExpr, PrimExpr, Any]]:
        """Return pixels along one axis: each with whether it lies in the image, and its weight
        (None where there is one pixel).
        """
        place = self.position(given, size)
        if self.padding != "zeros" and self.method != "bicubic":
            place = self.moved(place, size)
        base = tir.floor(place)
        fraction = place - base
        if self.method == "nearest":
            return [(*self._pixel(tir.nearbyint(place), size), None)]
        if self.method == "bilinear":
            weights = [(0, _float(1) - fraction), (1, fraction)]
        else:
            weights = list(zip(range(-1, 3), cubic_weights(fraction, _CUBIC)))
        found = []
        for offset, weight in weights:
            pixel = base + _float(offset)
            if self.padding != "zeros" and self.method == "bicubic":
                pixel = tir.nearbyint(self.moved(pixel, size))
            found.append((*self._pixel(pixel, size), weight))
        return found

    def _pixel(self, place: PrimExpr, size: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Return a pixel's number, moved into the image, and whether it was in it; a place that is
        not a number is in none.
        """
        last = op.cast("float32", size) - _float(1)
        inside = tir.And(place >= _float(0), place <= last)
        kept = tir.Select(inside, place, tir.Select(place > last, last, _float(0)))
        return op.cast(size.dtype, kept), inside


def grid_sample(
    data: Tensor,
    grid: Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """Sample images (NCHW) or volumes (NCDHW) at the places of ``grid`` (batch, 2 or 3, then the
    sizes of the result), which has x first, then y, then z.

    -1 and 1 stand for the middle of the first and of the last pixel with ``align_corners``, else
    for the borders of the image. ``method``: "nearest", "bilinear" (linear along each axis) or
    "bicubic" (images only). Outside there are zeros, the border's pixel ("border") or the mirrored
    image ("reflection").
    """
    if layout not in ("NCHW", "NCDHW") or len(data.shape) != len(layout):
        raise UnsupportedError(f"grid_sample: layout '{layout}' is neither NCHW nor NCDHW")
    rank = len(layout) - 2
    if method == "bicubic" and rank == 3:
        raise UnsupportedError("grid_sample: volumes are not sampled by bicubic interpolation")
    if len(grid.shape) != len(layout) or get_const_int(grid.shape[1]) != rank:
        raise ShapeError(f"grid_sample: the grid has {rank} coordinates along its second axis")
    sampling = _Sampling(method, padding_mode, align_corners)

    def element(*i: Any) -> PrimExpr:
        places = [op.cast("float32", grid(i[0], rank - 1 - k, *i[2:])) for k in range(rank)]
        taps = [sampling.taps(place, size) for place, size in zip(places, data.shape[2:])]
        total: Any = None
        for chosen in itertools.product(*taps):
            value = data(*i[:2], *[pixel for pixel, _, _ in chosen])
            if padding_mode == "zeros":
                inside = tir.all(*[within for _, within, _ in chosen])
                value = tir.if_then_else(inside, value, const(0, data.dtype))
            for _, _, weight in chosen:
                if weight is not None:
                    value = op.cast("float32", value) * weight
            total = value if total is None else total + value
        return op.cast(data.dtype, total)

    shape = [*data.shape[:2], *grid.shape[2:]]
    return compute(shape, element, name="grid_sample", tag=tag.INJECTIVE)


def affine_grid(data: Tensor, target_shape: Sequence[int]) -> Tensor:
    """Return the grid of an affine map (batch, 2, 3) for images of (height, width): (batch, x and
    y, height, width). The coordinates of the result go from -1 to 1, the middles of its pixels.
    """
    if len(target_shape) != 2:
        raise ShapeError("affine_grid: the shape of the result is its height and its width")
    height, width = [get_const_int(size) for size in target_shape]
    if min(height, width) < 2:
        raise OpAttributeInvalid("affine_grid: height and width are at least 2")

    def coordinate(index: PrimExpr, size: int) -> PrimExpr:
        step = const(2.0 / (size - 1), data.dtype)
        return op.cast(data.dtype, index) * step + const(-1.0, data.dtype)

    def element(n: Any, axis: Any, y: Any, x: Any) -> PrimExpr:
        moved: PrimExpr = data(n, axis, 0) * coordinate(x, width)
        return moved + data(n, axis, 1) * coordinate(y, height) + data(n, axis, 2)

    shape = [data.shape[0], 2, height, width]
    return compute(shape, element, name="affine_grid", tag=tag.INJECTIVE)
