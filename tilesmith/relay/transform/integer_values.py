"""What rules of FakeQuantizationToInteger work with: quantisations, and their constants."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IRModule, TensorAffineType, structural_equal
from tilesmith.relax.expr import Constant
from tilesmith.relay.expr import const
from tilesmith.relay.op.view import make_call, sizes
from tilesmith.relay.qnn.op.parameters import along, constant_of, info_of
from tilesmith.relay.transform.fold_constant import FoldConstantExpr
from tilesmith.support.errors import UnsupportedError

__all__ = [
    "NoIntegerFormError", "approx_equal", "as_integers", "dtype_of", "fold_constant", "get_zeros",
    "has_one_scale", "infer_shape", "moved_to", "quantised_constant", "same_type", "scaled_type",
    "tensor_type", "value_of",
]  # fmt: skip


class NoIntegerFormError(UnsupportedError):
    """Raised by a rule for a call that cannot be computed with integers."""


def fold_constant(expr: Any) -> Any:
    """Return an expression with what depends on constants alone computed."""
    return FoldConstantExpr(expr, IRModule(), fold_qnn=True)


def value_of(expr: Any, what: str) -> numpy.ndarray:
    """Return the value of an expression of constants; raises NoIntegerFormError for another one."""
    found = constant_of(expr if isinstance(expr, Constant) else fold_constant(expr))
    if found is None:
        raise NoIntegerFormError(f"{what} is no constant")
    return numpy.asarray(found)


def get_zeros(scale: Any) -> Any:
    """Return zero points (int32) for a scale, one for each of its elements."""
    return const(numpy.zeros(infer_shape(scale), "int32"))


def infer_shape(expr: Any) -> tuple[Any, ...]:
    """Return the sizes of an expression."""
    return tuple(sizes(expr))


def dtype_of(expr: Any) -> str:
    """Return the dtype of an expression."""
    return str(info_of(expr).dtype)


def approx_equal(x: Any, y: Any) -> bool:
    """Return whether two scales or zero points are the same but for rounding; expressions have to
    be equal in structure.
    """
    a, b = [one if isinstance(one, Constant) else fold_constant(one) for one in (x, y)]
    if isinstance(a, Constant) and isinstance(b, Constant):
        left, right = constant_of(a), constant_of(b)
        if left.size != 1 and right.size != 1 and left.shape != right.shape:
            return False
        return bool(numpy.allclose(left, right, rtol=1e-6, atol=0))
    return bool(structural_equal(a, b))


def same_type(a: TensorAffineType, b: TensorAffineType) -> bool:
    """Return whether two tensors stand for the same numbers if their integers are the same."""
    parameters = approx_equal(a.scale, b.scale) and approx_equal(a.zero_point, b.zero_point)
    return parameters and (has_one_scale(a) or a.axis == b.axis)


def has_one_scale(given: TensorAffineType) -> bool:
    """Return whether a quantisation has one scale and zero point for all elements."""
    return all(
        numpy.prod(infer_shape(one), dtype=int) == 1 for one in (given.scale, given.zero_point)
    )


def tensor_type(scale: Any, zero_point: Any, dtype: Any, axis: int = -1) -> TensorAffineType:
    """Return a quantisation; arrays become constants."""
    if not isinstance(scale, Constant) and isinstance(scale, (float, numpy.ndarray, numpy.generic)):
        scale = const(numpy.asarray(scale, "float32"))
    if isinstance(zero_point, int):
        zero_point = const(zero_point, "int32")
    return TensorAffineType(scale, zero_point, str(dtype), axis)


def scaled_type(given: TensorAffineType, factor: float, dtype: str) -> TensorAffineType:
    """Return a quantisation with another scale and no zero point."""
    scale = value_of(given.scale, "a scale").astype("float64") * factor
    return tensor_type(scale.astype("float32"), 0, dtype, given.axis)


def moved_to(expr: Any, own: TensorAffineType, other: TensorAffineType, dtype: str) -> Any:
    """Return integers of one quantisation as those of another, of some dtype."""
    if same_type(own, other) and dtype_of(expr) == dtype:
        return expr
    return make_call(
        "qnn.requantize",
        [expr, own.scale, own.zero_point, other.scale, other.zero_point],
        {"axis": own.axis, "out_dtype": dtype},
    )


def as_integers(array: Any, given: TensorAffineType, dtype: str, rank: int) -> Constant:
    """Return floats as the integers that stand for them in a quantisation, along its axis."""
    scale = along(value_of(given.scale, "a scale").astype("float64"), rank, given.axis)
    point = along(value_of(given.zero_point, "a zero point"), rank, given.axis)
    limits = numpy.iinfo(dtype)
    found = numpy.rint(numpy.asarray(array, "float64") / scale) + point
    made = const(numpy.clip(found, limits.min, limits.max).astype(dtype))
    return made


def quantised_constant(array: Any, dtype: str) -> tuple[Constant, TensorAffineType]:
    """Return floats as integers of a dtype whose range holds them and zero."""
    limits = numpy.iinfo(dtype)
    low, high = min(0.0, float(numpy.min(array))), max(0.0, float(numpy.max(array)))
    steps = float(limits.max) - float(limits.min) if limits.bits == 8 else 2.0**24
    scale = (high - low) / steps or 1.0
    point = int(numpy.rint(limits.min - low / scale)) if limits.bits == 8 else 0
    found = tensor_type(scale, point, dtype)
    return as_integers(array, found, dtype, numpy.ndim(array)), found
