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
from tilesmith.topi.image.indices import COORDINATES, ROUNDINGS, get_inx, rounded
from tilesmith.topi.utils import DType, Number, Shape, equal_const_int, nonempty
from tilesmith.topi.variants import variant

__all__ = ["cubic_weights", "resize1d", "resize2d", "resize3d"]

_METHODS = ("nearest_neighbor", "linear", "cubic")


@dataclass(frozen=True)
class _Axis:
    """How the pixels along an axis come from the old ones."""

    before: PrimExpr
    after: PrimExpr
    start: Number
    end: Number


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
            ("coordinate_transformation_mode", self.coordinates, COORDINATES),
            ("rounding_method", self.rounding, ("", *ROUNDINGS)),
        ):
            if value not in known:
                raise UnsupportedError(f"resize: {what} '{value}' is not one of {', '.join(known)}")

    @property
    def crops(self) -> bool:
        """Whether a region of the image is taken, which may lie outside of it in part."""
        return self.coordinates == "tf_crop_and_resize"

    def coordinate(self, index: PrimExpr, axis: _Axis) -> PrimExpr:
        """Return the position of a new pixel in the old image."""
        return get_inx(index, axis.before, axis.after, self.coordinates, axis.start, axis.end)

    def is_inside(self, index: PrimExpr, axis: _Axis) -> PrimExpr:
        """Return whether a new pixel lies in the old image."""
        place = self.coordinate(index, axis)
        last = op.cast("float32", axis.before - 1)
        return tir.And(place >= const(0.0, "float32"), place <= last)

    def nearest(self, index: PrimExpr, axis: _Axis) -> PrimExpr:
        """Return the old pixel nearest to a new one, by integer arithmetic if the rule allows
        it.
        """
        aligned = self.coordinates == "align_corners"
        rounding = self.rounding or ("round" if aligned or self.crops else "floor")
        if rounding == "floor" and self.coordinates == "asymmetric":
            return op.floordiv(index * axis.before, axis.after)
        return op.cast(axis.before.dtype, rounded(self.coordinate(index, axis), rounding))

    def taps(self, index: PrimExpr, axis: _Axis) -> list[tuple[PrimExpr, PrimExpr | None]]:
        """Return old pixels along one axis with their weights (None if there is only one pixel)."""
        before = axis.before
        zero, last = const(0, before.dtype), before - 1

        def inside(place: PrimExpr) -> PrimExpr:
            place = op.maximum(op.minimum(place, last), zero)
            return place if isinstance(before, IntImm) else nonempty(place, before, "resize")

        if self.method == "nearest_neighbor":
            return [(inside(self.nearest(index, axis)), None)]
        place = self.coordinate(index, axis)
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


def _region(roi: Sequence[Number] | None, rank: int, rule: _Rule) -> list[Number]:
    """Return where the region begins along each axis, then where it ends along each."""
    if not rule.crops:
        if roi is not None and any(not op.is_const(convert(value), 0) for value in roi):
            raise UnsupportedError(
                f"resize: a region of interest goes with tf_crop_and_resize, not with "
                f"{rule.coordinates}",
                notes=("slice the image",),
            )
        return [0.0 if number < rank else 1.0 for number in range(2 * rank)]
    if roi is None or len(roi) != 2 * rank:
        raise ShapeError(f"resize: tf_crop_and_resize needs a region of {2 * rank} numbers")
    return list(roi)


def _resize(
    data: Tensor,
    roi: Sequence[Number] | None,
    size: Shape,
    letters: str,
    layout: str,
    rule: _Rule,
    extrapolation_value: float,
    out_dtype: DType | None,
    output_shape: Shape | None,
) -> Tensor:
    region = _region(roi, len(letters), rule)
    layout = "".join([letter for letter in layout if not letter.isdigit()])
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
    ways = [
        _Axis(data.shape[axis], shape[axis], *region[number :: len(axes)])
        for number, axis in enumerate(axes)
    ]
    outside = op.cast(dtype, const(extrapolation_value, "float32"))

    def element(*i: Any) -> PrimExpr:
        taps = [rule.taps(i[axis], way) for axis, way in zip(axes, ways)]
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
        value = op.cast(dtype, total)
        if not rule.crops:
            return value
        inside = [rule.is_inside(i[axis], way) for axis, way in zip(axes, ways)]
        made: PrimExpr = tir.if_then_else(tir.all(*inside), value, outside)
        return made

    return compute(shape, element, name="resize", tag=tag.INJECTIVE)


def _resize_layout(
    letters: str,
    data: Tensor,
    roi: Sequence[Number] | None,
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
    return _resize(
        data, roi, size, letters, layout, rule, extrapolation_value, out_dtype, output_shape
    )


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
    ``coordinate_transformation_mode``: "half_pixel", "align_corners", "asymmetric",
    "pytorch_half_pixel", "tf_half_pixel_for_nn" or "tf_crop_and_resize". The last one spreads a
    region ``roi`` out: where it begins (top, left), where it ends (bottom, right), each from 0 to
    1; new pixels outside of the image are ``extrapolation_value``. ``rounding_method``, of
    nearest_neighbor: "round" (halves down), "floor", "ceil", "round_prefer_floor" or
    "round_prefer_ceil"; without one, "round" for align_corners and tf_crop_and_resize, "floor" for
    the others. A layout may have blocks of channels.
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
