"""Resizing of images as a tensor expression."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir.operators import cast, const, floordiv, maximum, minimum
from tilesmith.topi import tag


def _coordinate(attrs: Any, index: Any, before: Any, after: Any) -> Any:
    """Where, in the old image, a new pixel lies."""
    mode, x = attrs.coordinate_transformation_mode, cast("float32", index)
    one_pixel = getattr(after, "value", None) == 1
    half = const(0.5, "float32")
    if mode == "align_corners":
        if one_pixel:
            return const(0.0, "float32")
        return x * (cast("float32", before - 1) / cast("float32", after - 1))
    ratio = cast("float32", before) / cast("float32", after)
    if mode == "asymmetric":
        return x * ratio
    if mode == "pytorch_half_pixel" and one_pixel:
        return const(0.0, "float32")
    return (x + half) * ratio - half


def _rounded(attrs: Any, place: Any) -> Any:
    half = const(0.5, "float32")
    if attrs.rounding_method in ("", "round", "round_prefer_floor"):
        return tir.ceil(place - half)
    if attrs.rounding_method == "round_prefer_ceil":
        return tir.floor(place + half)
    return tir.floor(place) if attrs.rounding_method == "floor" else tir.ceil(place)


def _exact_nearest(attrs: Any, index: Any, before: Any, after: Any) -> Any:
    """The nearest old pixel by integer arithmetic, where the mode allows it; else None."""
    if attrs.rounding_method == "floor" and attrs.coordinate_transformation_mode == "asymmetric":
        return floordiv(index * before, after)
    return None


def _cubic_weights(t: Any, alpha: float) -> list[Any]:
    a, one = const(alpha, "float32"), const(1.0, "float32")

    def near(d: Any) -> Any:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + one

    def far(d: Any) -> Any:
        return ((a * d - a * 5.0) * d + a * 8.0) * d - a * 4.0

    return [far(t + one), near(t), near(one - t), far(const(2.0, "float32") - t)]


def _taps(attrs: Any, index: Any, before: Any, after: Any) -> list[tuple[Any, Any]]:
    """Old pixels along one axis with their weights."""
    zero, last = const(0, "int64"), before - 1

    def inside(place: Any) -> Any:
        return maximum(minimum(place, last), zero)

    if attrs.method == "nearest_neighbor":
        exact = _exact_nearest(attrs, index, before, after)
        if exact is None:
            place = _coordinate(attrs, index, before, after)
            exact = cast("int64", _rounded(attrs, place))
        return [(inside(exact), None)]
    place = _coordinate(attrs, index, before, after)
    base = tir.floor(place)
    fraction = place - base
    first = cast("int64", base)
    if attrs.method == "linear":
        weights = [(0, const(1.0, "float32") - fraction), (1, fraction)]
        return [(inside(first + offset), weight) for offset, weight in weights]
    weights = list(zip(range(-1, 3), _cubic_weights(fraction, attrs.cubic_alpha)))
    if attrs.cubic_exclude:
        kept = []
        for offset, weight in weights:
            here = tir.And(first + offset >= zero, first + offset < before)
            kept.append((offset, tir.Select(here, weight, const(0.0, "float32"))))
        total = kept[0][1] + kept[1][1] + kept[2][1] + kept[3][1]
        weights = [(offset, weight / total) for offset, weight in kept]
    return [(inside(first + offset), weight) for offset, weight in weights]


def resize2d(attrs: Any, data: Any, size: Any) -> Any:
    """An image in another size."""
    letters = {letter: axis for axis, letter in enumerate(attrs.layout)}
    height, width = letters["H"], letters["W"]
    shape = list(data.shape)
    shape[height], shape[width] = size[0], size[1]
    dtype = attrs.out_dtype or data.dtype

    def element(*i: Any) -> Any:
        rows = _taps(attrs, i[height], data.shape[height], size[0])
        columns = _taps(attrs, i[width], data.shape[width], size[1])
        total: Any = None
        for row, row_weight in rows:
            for column, column_weight in columns:
                place = list(i)
                place[height], place[width] = row, column
                value = data(*place)
                if row_weight is not None:
                    value = cast("float32", value) * (row_weight * column_weight)
                total = value if total is None else total + value
        return cast(dtype, total)

    return te.compute(shape, element, name="resize", tag=tag.INJECTIVE)
