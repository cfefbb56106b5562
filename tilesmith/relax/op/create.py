"""Tensors out of nothing, and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, dtype, integer
from tilesmith.relax.expr import Call, PrimValue, RelaxExpr, const
from tilesmith.relax.op.common import as_shape, result, shape_argument, sizes_of, tensor
from tilesmith.relax.op.spec import FusionKind, call, define, topi
from tilesmith.relax.struct_info import PrimStructInfo, TensorStructInfo
from tilesmith.support.errors import ShapeError, TypeMismatchError

_INJECTIVE = FusionKind.INJECTIVE
_BROADCAST = FusionKind.BROADCAST


def _infer_full(call: Call) -> Any:
    shape, value = shape_argument(call, 0), tensor(call, 1)
    if value.ndim not in (-1, 0):
        raise ShapeError("full needs a fill value of rank 0")
    out = call.attrs.dtype or value.dtype
    return TensorStructInfo(shape.shape, out, None, shape.ndim)


_FULL = define(
    "full",
    "shape fill_value",
    _infer_full,
    schema=Schema(dtype=dtype()),
    compute=lambda attrs, shape, value: topi.full(shape, attrs.dtype or value.dtype, value()),
    kind=_BROADCAST,
    evaluate=lambda attrs, shape, value: numpy.full(shape, value),
)


def _value(fill_value: Any, dtype: Any) -> RelaxExpr:
    if isinstance(fill_value, PrimValue):
        fill_value = getattr(fill_value.value, "value", fill_value)
    if isinstance(fill_value, RelaxExpr):
        return fill_value
    return const(fill_value, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Call:
    """A tensor whose elements all have one value."""
    return call(_FULL, as_shape(shape), _value(fill_value, dtype), dtype=dtype)


def _infer_full_like(call: Call) -> Any:
    data, value = tensor(call, 0), tensor(call, 1)
    return result(sizes_of(data), call.attrs.dtype or value.dtype, data.ndim)


_FULL_LIKE = define(
    "full_like",
    "x fill_value",
    _infer_full_like,
    schema=Schema(dtype=dtype()),
    compute=lambda attrs, x, value: topi.full(x.shape, attrs.dtype or value.dtype, value()),
    kind=_BROADCAST,
    evaluate=lambda attrs, x, value: numpy.full(x.shape, value),
)


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Call:
    """``full`` in the shape of ``x``."""
    if dtype is None and not isinstance(fill_value, RelaxExpr):
        dtype = getattr(x.struct_info, "dtype", None)
    return call(_FULL_LIKE, x, _value(fill_value, dtype), dtype=dtype)


def _infer_filled(call: Call) -> Any:
    shape = shape_argument(call, 0)
    return TensorStructInfo(shape.shape, call.attrs.dtype or "float32", None, shape.ndim)


def _infer_filled_like(call: Call) -> Any:
    data = tensor(call, 0)
    return result(sizes_of(data), call.attrs.dtype or data.dtype, data.ndim)


def _filled(name: str, value: int) -> Any:
    op = define(
        name,
        "shape",
        _infer_filled,
        schema=Schema(dtype=dtype("float32")),
        compute=lambda attrs, shape: topi.full(shape, attrs.dtype or "float32", value),
        kind=_BROADCAST,
        evaluate=lambda attrs, shape: numpy.full(shape, value),
    )
    like = define(
        name + "_like",
        "x",
        _infer_filled_like,
        schema=Schema(dtype=dtype()),
        compute=lambda attrs, x: topi.full(x.shape, attrs.dtype or x.dtype, value),
        kind=_BROADCAST,
        evaluate=lambda attrs, x: numpy.full(x.shape, value),
    )

    def function(shape: Any, dtype: Any = "float32") -> Call:
        return call(op, as_shape(shape), dtype=dtype)

    def like_function(x: Any, dtype: Any = None) -> Call:
        return call(like, x, dtype=dtype)

    function.__name__, like_function.__name__ = name, name + "_like"
    function.__doc__ = f"A tensor of {name}."
    like_function.__doc__ = f"A tensor of {name} in the shape (and dtype) of ``x``."
    return function, like_function


ones, ones_like = _filled("ones", 1)
zeros, zeros_like = _filled("zeros", 0)


def _infer_arange(call: Call) -> Any:
    values = []
    for arg in call.args:
        info = arg.struct_info
        if not isinstance(info, PrimStructInfo):
            raise TypeMismatchError("arange needs scalars (PrimValue or numbers)")
        values.append(info.value)
    if None in values:
        return result(None, call.attrs.dtype or "int64", 1)
    return result([topi.utils.arange_size(*values)], call.attrs.dtype or "int64")


_ARANGE = define(
    "arange",
    "start end step",
    _infer_arange,
    schema=Schema(dtype=dtype()),
    compute=lambda attrs, start, end, step: topi.arange(start, end, step, attrs.dtype or "int64"),
    kind=_INJECTIVE,
    evaluate=lambda attrs, start, end, step: numpy.arange(start, end, step),
)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Call:
    """``start``, ``start + step``, … before ``end``; with one number: from 0 to before it."""
    if end is None:
        start, end = 0, start
    values = [
        item if isinstance(item, PrimValue) else PrimValue(item) for item in (start, end, step)
    ]
    if dtype is None:
        floats = [item for item in values if item.value.dtype.is_float]
        dtype = "float32" if floats else "int64"
    return call(_ARANGE, *values, dtype=dtype)


def _infer_triangle(call: Call) -> Any:
    data = tensor(call, 0)
    if data.ndim != -1 and data.ndim < 2:
        raise ShapeError(f"{call.op.name} needs at least two dimensions")
    return data


def _triangle(name: str, evaluate: Any, meaning: str) -> Any:
    op = define(
        name,
        "x",
        _infer_triangle,
        schema=Schema(k=integer(0)),
        compute=lambda attrs, x: topi.trilu(x, attrs.k, name == "triu"),
        kind=_INJECTIVE,
        evaluate=lambda attrs, x: evaluate(x, attrs.k),
    )

    def function(x: Any, k: Any = 0) -> Call:
        k = k.value if isinstance(k, PrimValue) else k
        return call(op, x, k=k)

    function.__name__ = name
    function.__doc__ = (
        f"The {meaning} triangle of matrices, zeros elsewhere; ``k`` is the diagonal's number."
    )
    return function


tril = _triangle("tril", numpy.tril, "lower")
triu = _triangle("triu", numpy.triu, "upper")
