"""Images: resizing."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, dtype, integer, number, optional_ints, text
from tilesmith.relax.expr import Call, ShapeExpr
from tilesmith.relax.op.common import check_ndim, result, shape_argument, sizes_of, tensor
from tilesmith.relax.op.convolution import from_primal_array, to_primal_array
from tilesmith.relax.op.declaration import call, define, find_function, function_of
from tilesmith.relax.op.layouts import from_primal, parse_layout, to_primal
from tilesmith.relax.spec import topi
from tilesmith.support.errors import OpAttributeInvalid

METHODS = ("nearest_neighbor", "linear", "cubic")
COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
ROUNDINGS = (
    "round",
    "floor",
    "ceil",
    "round_prefer_floor",
    "round_prefer_ceil",
)


def _infer_resize2d(call: Call) -> Any:
    data, size, attrs = tensor(call, 0), shape_argument(call, 1), call.attrs
    check_ndim(call, 0, data, len(parse_layout(attrs.layout, "NCHW")))
    if attrs.method not in METHODS:
        raise OpAttributeInvalid(f"image.resize2d has no method '{attrs.method}'")
    if attrs.coordinate_transformation_mode not in COORDINATES:
        raise OpAttributeInvalid(
            f"image.resize2d has no coordinate mode '{attrs.coordinate_transformation_mode}'",
            notes=("known: " + ", ".join(COORDINATES),),
        )
    out = attrs.out_dtype or data.dtype
    sizes = sizes_of(data)
    if sizes is None or size.values is None:
        return result(None, out, data.ndim)
    primal = to_primal(sizes, attrs.layout, "NCHW")
    return result(from_primal([*primal[:2], *size.values], attrs.layout, "NCHW"), out)


def _coordinates(attrs: Any, before: int, after: int) -> Any:
    """Return the position of the centre of each new pixel in the old image."""
    x, mode = numpy.arange(after, dtype="float64"), attrs.coordinate_transformation_mode
    if mode == "align_corners":
        return x * ((before - 1) / (after - 1)) if after > 1 else x * 0
    if mode == "asymmetric":
        return x * (before / after)
    if mode == "pytorch_half_pixel" and after == 1:
        return x * 0
    return (x + 0.5) * (before / after) - 0.5


def _nearest(attrs: Any, places: Any) -> Any:
    aligned = attrs.coordinate_transformation_mode == "align_corners"
    method = attrs.rounding_method or ("round" if aligned else "floor")
    if method in ("round", "round_prefer_floor"):
        return numpy.ceil(places - 0.5)
    if method == "round_prefer_ceil":
        return numpy.floor(places + 0.5)
    return numpy.floor(places) if method == "floor" else numpy.ceil(places)


def _cubic_weights(fraction: Any, alpha: float) -> list[Any]:
    t = fraction
    return [
        ((alpha * (t + 1) - 5 * alpha) * (t + 1) + 8 * alpha) * (t + 1) - 4 * alpha,
        ((alpha + 2) * t - (alpha + 3)) * t * t + 1,
        ((alpha + 2) * (1 - t) - (alpha + 3)) * (1 - t) * (1 - t) + 1,
        ((alpha * (2 - t) - 5 * alpha) * (2 - t) + 8 * alpha) * (2 - t) - 4 * alpha,
    ]


def _resize_axis(attrs: Any, x: Any, axis: int, after: int) -> Any:
    before = x.shape[axis]
    places = _coordinates(attrs, before, after)
    if attrs.method == "nearest_neighbor":
        index = numpy.clip(_nearest(attrs, places).astype(int), 0, before - 1)
        return numpy.take(x, index, axis)
    base = numpy.floor(places).astype(int)
    fraction = places - base
    if attrs.method == "linear":
        taps = [(0, 1 - fraction), (1, fraction)]
    else:
        taps = list(zip(range(-1, 3), _cubic_weights(fraction, attrs.cubic_alpha)))
        if attrs.cubic_exclude:
            inside = [(0 <= base + o) & (base + o < before) for o, _ in taps]
            taps = [(o, w * keep) for (o, w), keep in zip(taps, inside)]
            total = sum([w for _, w in taps])
            taps = [(o, w / total) for o, w in taps]
    shape = [1] * x.ndim
    shape[axis] = after
    return sum(
        [
            numpy.take(x, numpy.clip(base + offset, 0, before - 1), axis) * weight.reshape(shape)
            for offset, weight in taps
        ]
    )


def axis_weights(attrs: Any, before: int, after: int) -> Any:
    """Return what resizing does along an axis: a matrix (new size, old size)."""
    return _resize_axis(attrs, numpy.eye(before), 0, after)


def _resize2d(attrs: Any, data: Any, size: Any) -> Any:
    x = to_primal_array(data, attrs.layout, "NCHW").astype("float64")
    for axis, after in zip((2, 3), size):
        x = _resize_axis(attrs, x, axis, int(after))
    out = data.dtype if attrs.out_dtype is None else attrs.out_dtype.numpy()
    if numpy.dtype(out).kind in "iu":
        x = numpy.trunc(x)
    return from_primal_array(x.astype(out), attrs.layout, "NCHW")


def _resize2d_expression(attrs: Any, data: Any, size: Any) -> Any:
    return topi.image.resize2d(
        data,
        attrs.roi,
        size,
        attrs.layout,
        attrs.method,
        attrs.coordinate_transformation_mode,
        attrs.rounding_method,
        attrs.cubic_alpha,
        attrs.cubic_exclude,
        attrs.extrapolation_value,
        attrs.out_dtype,
    )


_resize2d_call = define(
    "image.resize2d",
    "data size",
    _infer_resize2d,
    schema=Schema(
        roi=optional_ints(),
        layout=text("NCHW"),
        method=text("linear"),
        coordinate_transformation_mode=text("half_pixel"),
        rounding_method=text("round"),
        cubic_alpha=number(-0.5),
        cubic_exclude=integer(0),
        extrapolation_value=number(0.0),
        out_dtype=dtype(),
    ),
    compute=_resize2d_expression,
    evaluate=_resize2d,
)


@function_of(_resize2d_call)
def resize2d(
    data: Any,
    size: Any,
    roi: Any = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
) -> Call:
    """Resize an image; ``size`` is (height, width) or one number.

    ``method``: "nearest_neighbor", "linear" or "cubic". ``coordinate_transformation_mode``:
    "half_pixel", "align_corners", "asymmetric" or "pytorch_half_pixel".
    """
    if (
        isinstance(size, (int, float))
        or not hasattr(size, "__len__")
        and not hasattr(size, "struct_info")
    ):
        size = (size, size)
    if isinstance(size, (list, tuple)):
        size = ShapeExpr(list(size) * (2 // len(size)))
    if roi is not None and any(float(value) for value in roi):
        raise OpAttributeInvalid("image.resize2d: a region of interest is not supported")
    return call(
        _resize2d_call.op,
        data,
        size,
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method,
        cubic_alpha=cubic_alpha,
        cubic_exclude=cubic_exclude,
        extrapolation_value=extrapolation_value,
        out_dtype=out_dtype,
    )


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("image." + name)
