"""Scales and zero points of quantised tensors: what calls may state, and fixed-point factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.expr import Constant, RelaxExpr, known_struct_info
from tilesmith.relay.expr import const
from tilesmith.relay.op.view import axis_of, rank_of
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError

__all__ = [
    "SCALE", "ZERO_POINT", "FixedPoint", "along", "centred", "check_dtype", "check_parameters",
    "constant_of", "fixed_point", "info_of", "number_of", "parameter", "raw", "saturated",
]  # fmt: skip

SCALE, ZERO_POINT = "float32", "int32"
"""The dtypes of scales and of zero points."""


def parameter(value: Any, dtype: str) -> Any:
    """Return a scale or zero point as an expression: Python numbers and arrays are constants."""
    return value if isinstance(value, RelaxExpr) else const(numpy.asarray(value, dtype))


def raw(value: Any) -> Constant:
    """Return an array as a constant of a translated graph."""
    return Constant(numpy.asarray(value))


def info_of(expr: Any) -> Any:
    """Return what is known about a value."""
    return known_struct_info(expr)


def constant_of(expr: Any) -> Any:
    """Return the value of an expression as numpy's array, None if it is not a constant."""
    return expr.data.numpy() if isinstance(expr, Constant) else None


def number_of(expr: Any) -> float | None:
    """Return the value of a constant of one element, None for any other expression."""
    value = constant_of(expr)
    return None if value is None or value.size != 1 else float(value.reshape(()))


def check_dtype(name: str, what: str, expr: Any, *allowed: str) -> None:
    """Refuse a tensor whose dtype is none of those allowed."""
    dtype = getattr(known_struct_info(expr), "dtype", None)
    if dtype is not None and not dtype.is_void and str(dtype) not in allowed:
        raise TypeMismatchError(
            f"{name}: {what} is of {dtype}", notes=("it has to be " + " or ".join(allowed),)
        )


def check_parameters(name: str, channels: Any, **given: Any) -> None:
    """Check scales and zero points: their dtype, and that they are scalars or vectors of as many
    elements as the tensor has channels (None where that is not known).

    Raises TypeMismatchError or ShapeError, which name the operator and the parameter.
    """
    for what, expr in given.items():
        check_dtype(name, what, expr, SCALE if what.endswith("scale") else ZERO_POINT)
        value = constant_of(expr)
        if value is not None and what.endswith("scale") and not (value > 0).all():
            raise TypeMismatchError(f"{name}: {what} has to be positive, got {value.min()}")
        shape = getattr(known_struct_info(expr), "shape", None)
        sizes = getattr(shape, "values", None)
        if sizes is None or len(sizes) == 0:
            continue
        count = getattr(sizes[0], "value", None)
        if len(sizes) > 1 or (count != 1 and channels is None):
            raise ShapeError(
                f"{name}: {what} has the shape {tuple([getattr(s, 'value', s) for s in sizes])}",
                notes=("it is a scalar" + ("" if channels is None else ", or one by channel"),),
            )
        wanted = getattr(channels, "value", channels)
        if isinstance(count, int) and isinstance(wanted, int) and count not in (1, wanted):
            raise ShapeError(
                f"{name}: {what} has {count} elements, the tensor has {wanted} channels"
            )


class FixedPoint(NamedTuple):
    """Real factors as integers of 31 bits: ``multiplier * 2 ** (shift - 31)``."""

    multiplier: numpy.ndarray
    shift: numpy.ndarray


def fixed_point(factors: Any) -> FixedPoint:
    """Return the nearest fixed-point numbers to real factors; what is below ``2 ** -31`` is 0."""
    significand, exponent = numpy.frexp(numpy.asarray(factors, "float64"))
    multiplier = numpy.floor(significand * 2.0**31 + 0.5).astype("int64")
    full = multiplier == 1 << 31
    multiplier = numpy.where(full, multiplier >> 1, multiplier)
    exponent = exponent + full
    if (exponent > 30).any():
        raise UnsupportedError(
            f"scales differ by a factor of {numpy.max(factors):.3g}; at most 2**30 is possible"
        )
    is_small = exponent < -31
    return FixedPoint(
        numpy.where(is_small, 0, multiplier).astype("int32"),
        numpy.where(is_small, 0, exponent).astype("int32"),
    )


def along(value: Any, rank: int, axis: int) -> Any:
    """Return an array or expression of rank 0 or 1 in a shape that broadcasts with a tensor: one
    value for all, or one for each place along an axis.
    """
    after = rank - 1 - axis_of(axis, rank)
    if isinstance(value, Constant):
        value = constant_of(value)
    if isinstance(value, RelaxExpr):
        if rank_of(value) == 0:
            return value
        shape = known_struct_info(value)
        sizes = getattr(getattr(shape, "shape", None), "values", None)
        if sizes is not None and getattr(sizes[0], "value", None) == 1:
            return relax.reshape(value, [])
        return relax.expand_dims(value, list(range(1, after + 1))) if after else value
    array = numpy.asarray(value)
    return array.reshape(()) if array.size == 1 else array.reshape(-1, *[1] * after)


def centred(data: Any, zero_point: Any, axis: int) -> Any:
    """Return a quantised tensor as int32 without its zero point, one or one by place of an axis."""
    wide = relax.astype(data, "int32")
    value = constant_of(zero_point)
    if value is not None and not value.any():
        return wide
    point = along(zero_point, rank_of(data), axis)
    return relax.subtract(wide, point if isinstance(point, RelaxExpr) else raw(point))


def saturated(data: Any, dtype: Any) -> Any:
    """Return integers or whole floats as a smaller dtype; those out of its range become its
    limits.
    """
    found = DataType(dtype)
    limits = numpy.iinfo(found.numpy())
    own = info_of(data).dtype
    if own.is_integer and numpy.iinfo(own.numpy()).bits <= limits.bits and own == found:
        return data
    return relax.astype(relax.clip(data, int(limits.min), int(limits.max)), str(found))


def sizes_along(expr: Any, axis: int) -> Any:
    """Return the size of a tensor along an axis, None if it is not known."""
    shape = getattr(known_struct_info(expr), "shape", None)
    values: Sequence[Any] | None = getattr(shape, "values", None)
    return None if not values else values[axis_of(axis, len(values))]
