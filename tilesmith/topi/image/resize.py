"""Resizing of images along one, two or three axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith import tir
from tilesmith.ir import IntImm, PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import DType, Shape, equal_const_int, nonempty
from tilesmith.topi.variants import variant

__all__ = ["cubic_weights", "resize1d", "resize2d", "resize3d"]

_METHODS = ("nearest_neighbor", "linear", "cubic")
_COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
_ROUNDINGS = ("", "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


@dataclass(frozen=True)
class _Rule:
    """Which old pixels, with which weights, make up a new pixel."""

    method: str
    coordinates: str
    rounding: str
    alpha: float
    exclude: bool

    def __post_init__(self) -> None:
        for what, value, known in (
            ("method", self.method, _METHODS),
            ("coordinate_transformation_mode", self.coordinates, _COORDINATES),
            ("rounding_method", self.rounding, _ROUNDINGS),
        ):
            if value not in known:
                raise UnsupportedError(f"resize: {what} '{value}' is not one of {', '.join(known)}")

    def coordinate(self, index: PrimExpr, before: PrimExpr, after: PrimExpr) -> PrimExpr:
        """Return the position of a new pixel in the old image."""
        x, half = op.cast("float32", index), const(0.5, "float32")
        one_pixel = equal_const_int(after, 1)
        if self.coordinates == "align_corners":
            if one_pixel:
                return const(0.0, "float32")
            return x * (op.cast("float32", before - 1) / op.cast("float32", after - 1))
        ratio = op.cast("float32", before) / op.cast("float32", after)
        if self.coordinates == "asymmetric":
            return x * ratio
        if self.coordinates == "pytorch_half_pixel" and one_pixel:
            return const(0.0, "float32")
        return (x + half) * ratio - half

    def nearest(self, index: PrimExpr, before: PrimExpr, after: PrimExpr) -> PrimExpr:
        """Return the old pixel nearest to a new one, by integer arithmetic if the rule allows
        it.
        """
        aligned = self.coordinates == "align_corners"
        rounding = self.rounding or ("round" if aligned else "floor")
        if rounding == "floor" and self.coordinates == "asymmetric":
            return op.floordiv(index * before, after)
        place, half = self.coordinate(index, before, after), const(0.5, "float32")
        if rounding in ("round", "round_prefer_floor"):
            place = tir.ceil(place - half)
        elif rounding == "round_prefer_ceil":
            place = tir.floor(place + half)
        else:
            place = tir.floor(place) if rounding == "floor" else tir.ceil(place)
        return op.cast(before.dtype, place)

    def taps(
        self, index: PrimExpr, before: PrimExpr, after: PrimExpr
    ) -> list[tuple[PrimExpr, PrimExpr | None]]:
        """Return old pixels along one axis with their weights (None if there is only one pixel)."""
        zero, last = const(0, before.dtype), before - 1

        def inside(place: PrimExpr) -> PrimExpr:
            place = op.maximum(op.minimum(place, last), zero)
            return place if isinstance(before, IntImm) else nonempty(place, before, "resize")

        if self.method == "nearest_neighbor":
            return [(inside(self.nearest(index, before, after)), None)]
        place = self.coordinate(index, before, after)
        base = tir.floor(place)
        fraction = place - base
        first = op.cast(before.dtype, base)
        if self.method == "linear":
            weights = [(0, const(1.0, "float32") - fraction), (1, fraction)]
        else:
            weights = list(zip(range(-1, 3), cubic_weights(fraction, self.alpha)))
        if self.method == "cubic" and self.exclude:
            kept = []
            for offset, weight in weights:
                here = tir.And(first + offset >= zero, first + offset < before)
                kept.append((offset, tir.Select(here, weight, const(0.0, "float32"))))
            total = kept[0][1] + kept[1][1] + kept[2][1] + kept[3][1]
            weights = [(offset, weight / total) for offset, weight in kept]
        return [(inside(first + offset), weight) for offset, weight in weights]


def cubic_weights(t: PrimExpr, alpha: float) -> list[PrimExpr]:
    """Return the weights of four neighbours of a place, which is ``t`` behind the second one."""
    a, one = const(alpha, "float32"), const(1.0, "float32")

    def near(d: PrimExpr) -> PrimExpr:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + one

    def far(d: PrimExpr) -> PrimExpr:
        return ((a * d - a * 5.0) * d + a * 8.0) * d - a * 4.0

    return [far(t + one), near(t), near(one - t), far(const(2.0, "float32") - t)]


def _resize(
    data: Tensor,
    roi: Sequence[float] | None,
    size: Shape,
    letters: str,
    layout: str,
    rule: _Rule,
    out_dtype: DType | None,
    output_shape: Shape | None,
) -> Tensor:
    if roi is not None and any(float(value) for value in roi):
        raise UnsupportedError("resize: a region of interest is not supported; slice the image")
    if len(layout) != len(data.shape) or any(letter not in layout for letter in letters):
        raise UnsupportedError(f"resize: layout '{layout}' does not have the plain axes {letters}")
    if len(size) != len(letters):
        raise ShapeError(f"resize: the size is {len(letters)} numbers, got {len(size)}")
    axes = [layout.index(letter) for letter in letters]
    for axis, extent in zip(axes, size):
        if equal_const_int(data.shape[axis], 0) and not equal_const_int(extent, 0):
            raise ShapeError(f"resize: an axis without elements cannot get the size {extent}")
    shape = list(data.shape)
    for axis, extent in zip(axes, size):
        shape[axis] = op.cast(shape[axis].dtype, convert(extent))
    if output_shape is not None:
        shape = [convert(extent) for extent in output_shape]
    dtype = out_dtype or data.dtype

    def element(*i: Any) -> PrimExpr:
        taps = [rule.taps(i[axis], data.shape[axis], shape[axis]) for axis in axes]
        total: Any = None
        for chosen in itertools.product(*taps):
            place, weight = list(i), None
            for axis, (index, factor) in zip(axes, chosen):
                place[axis] = index
                if factor is not None:
                    weight = factor if weight is None else weight * factor
            value = data(*place)
            if weight is not None:
                value = op.cast("float32", value) * weight
            total = value if total is None else total + value
        return op.cast(dtype, total)

    return compute(shape, element, name="resize", tag=tag.INJECTIVE)


def _resize_layout(
    letters: str,
    data: Tensor,
    roi: Sequence[float] | None,
    size: Shape,
    layout: str = "",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: DType | None = None,
    output_shape: Shape | None = None,
) -> Tensor:
    rule = _Rule(
        method,
        coordinate_transformation_mode,
        rounding_method,
        bicubic_alpha,
        bool(bicubic_exclude),
    )
    return _resize(data, roi, size, letters, layout, rule, out_dtype, output_shape)


resize1d = variant(
    "resize1d",
    _resize_layout,
    "W",
    "Resize a signal along W; parameters as in `resize2d`.",
    layout="NCW",
)
resize2d = variant(
    "resize2d",
    _resize_layout,
    "HW",
    """Resize an image to (height, width), in the dtype of ``data`` unless ``out_dtype`` is given.

    ``method``: "nearest_neighbor", "linear" or "cubic" (with ``bicubic_alpha``; ``bicubic_exclude``
    leaves out what lies outside of the image and scales the other weights).
    ``coordinate_transformation_mode``: "half_pixel", "align_corners", "asymmetric" or
    "pytorch_half_pixel". ``rounding_method``, of nearest_neighbor: "round" (halves down), "floor",
    "ceil", "round_prefer_floor" or "round_prefer_ceil"; without one, "round" where the corners are
    aligned and "floor" elsewhere. ``extrapolation_value`` matters with a
    region of interest only; a ``roi`` other than zeros raises UnsupportedError.
    """,
    layout="NCHW",
)
resize3d = variant(
    "resize3d",
    _resize_layout,
    "DHW",
    "Resize a volume to (depth, height, width); parameters as in `resize2d`.",
    layout="NCDHW",
)
