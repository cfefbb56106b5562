"""Operators that create tensors, and triangles of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import FloatImm, IntImm
from tilesmith.relax.attrs import Schema, dtype, integer
from tilesmith.relax.expr import Call, PrimValue, RelaxExpr, const
from tilesmith.relax.op.common import as_shape, result, shape_argument, sizes_of, tensor
from tilesmith.relax.op.declaration import OpFunction, call, define, function_of
from tilesmith.relax.spec import Layout, no_gradient, topi
from tilesmith.relax.struct_info import PrimStructInfo, TensorStructInfo
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, TypeMismatchError


def _infer_full(call: Call) -> Any:
    shape, value = shape_argument(call, 0), tensor(call, 1)
    if value.ndim not in (-1, 0):
        raise ShapeError("full needs a fill value of rank 0")
    out = call.attrs.dtype or value.dtype
    return TensorStructInfo(shape.shape, out, None, shape.ndim)


_full = define(
    "full",
    "shape fill_value",
    _infer_full,
    schema=Schema(dtype=dtype()),
    gradient=no_gradient,
    compute=lambda attrs, shape, value: topi.full(shape, attrs.dtype or value.dtype, value()),
    evaluate=lambda attrs, shape, value: numpy.full(shape, value),
)


def _value(fill_value: Any, dtype: Any) -> RelaxExpr:
    if isinstance(fill_value, PrimValue):
        fill_value = getattr(fill_value.value, "value", fill_value)
    if isinstance(fill_value, RelaxExpr):
        return fill_value
    return const(fill_value, dtype)


@function_of(_full)
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Call:
    """Return a tensor whose elements all have one value."""
    return call(_full.op, as_shape(shape), _value(fill_value, dtype), dtype=dtype)


def _infer_full_like(call: Call) -> Any:
    data, value = tensor(call, 0), tensor(call, 1)
    return result(sizes_of(data), call.attrs.dtype or value.dtype, data.ndim)


_full_like = define(
    "full_like",
    "x fill_value",
    _infer_full_like,
    schema=Schema(dtype=dtype()),
    gradient=no_gradient,
    layout=Layout.ELEMENTWISE,
    compute=lambda attrs, x, value: topi.full(x.shape, attrs.dtype or value.dtype, value()),
    evaluate=lambda attrs, x, value: numpy.full(x.shape, value),
)


@function_of(_full_like)
def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Call:
    """Return ``full`` in the shape of ``x``."""
    if dtype is None and not isinstance(fill_value, RelaxExpr):
        dtype = getattr(x.struct_info, "dtype", None)
    return call(_full_like.op, x, _value(fill_value, dtype), dtype=dtype)


def _infer_filled(call: Call) -> Any:
    shape = shape_argument(call, 0)
    return TensorStructInfo(shape.shape, call.attrs.dtype or "float32", None, shape.ndim)


def _infer_filled_like(call: Call) -> Any:
    data = tensor(call, 0)
    return result(sizes_of(data), call.attrs.dtype or data.dtype, data.ndim)


def _filled(name: str, value: int) -> tuple[OpFunction, OpFunction]:
    new = define(
        name,
        "shape:shape",
        _infer_filled,
        description=f"A tensor of {name}.",
        schema=Schema(dtype=dtype("float32")),
        compute=lambda attrs, shape: topi.full(shape, attrs.dtype or "float32", value),
        evaluate=lambda attrs, shape: numpy.full(shape, value),
        gradient=no_gradient,
    )
    like = define(
        name + "_like",
        "x",
        _infer_filled_like,
        description=f"A tensor of {name} in the shape (and dtype) of ``x``.",
        schema=Schema(dtype=dtype()),
        compute=lambda attrs, x: topi.full(x.shape, attrs.dtype or x.dtype, value),
        evaluate=lambda attrs, x: numpy.full(x.shape, value),
        gradient=no_gradient,
        layout=Layout.ELEMENTWISE,
    )
    return new, like


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


_arange = define(
    "arange",
    "start end step",
    _infer_arange,
    schema=Schema(dtype=dtype()),
    gradient=no_gradient,
    compute=lambda attrs, start, end, step: topi.arange(start, end, step, attrs.dtype or "int64"),
    evaluate=lambda attrs, start, end, step: numpy.arange(start, end, step),
)


@function_of(_arange)
def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Call:
    """Return ``start``, ``start + step``, … before ``end``; with one number: from 0 to before
    it.
    """
    if end is None:
        start, end = 0, start
    values = [
        item if isinstance(item, PrimValue) else PrimValue(item) for item in (start, end, step)
    ]
    stride = values[2].value
    if isinstance(stride, (IntImm, FloatImm)) and stride.value == 0:
        raise OpAttributeInvalid("relax.arange: the step is 0, so the end is never reached")
    if dtype is None:
        floats = [item for item in values if item.value.dtype.is_float]
        dtype = "float32" if floats else "int64"
    return call(_arange.op, *values, dtype=dtype)


def _infer_triangle(call: Call) -> Any:
    data = tensor(call, 0)
    if data.ndim != -1 and data.ndim < 2:
        raise ShapeError(f"{call.op.name} needs at least two dimensions")
    return data


def _triangle(name: str, evaluate: Callable[..., Any], meaning: str) -> OpFunction:
    def gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        return [triangle(output_grad, orig_call.attrs.k)]

    triangle = define(
        name,
        "x",
        _infer_triangle,
        description=(
            f"The {meaning} triangle of matrices, zeros elsewhere; ``k`` is the diagonal's number."
        ),
        schema=Schema(k=integer(0)),
        compute=lambda attrs, x: topi.trilu(x, attrs.k, name == "triu"),
        evaluate=lambda attrs, x: evaluate(x, attrs.k),
        gradient=gradient,
    )
    return triangle


tril = _triangle("tril", numpy.tril, "lower")
triu = _triangle("triu", numpy.triu, "upper")
