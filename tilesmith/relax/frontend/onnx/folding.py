"""Small constant parts of the graph are computed while it is imported.

Exporters compute shapes, axes and masks with nodes of the graph; their values are needed when the
nodes after them are converted. Large constants (weights) are left to the pass ``FoldConstant``.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IntImm, Op
from tilesmith.relax.expr import (
    Call,
    Constant,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.frontend.onnx.values import as_array
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo

__all__ = ["LIMIT", "fold"]

LIMIT = 1 << 14
"""More elements than this are not computed at import."""


class _Unknown(Exception):
    """A value that is not known at import."""


def fold(expr: Any) -> Any:
    """``expr`` with the calls of small constants in it (or itself) computed."""
    if isinstance(expr, (Constant, Var)):
        return expr
    if isinstance(expr, Tuple):
        return _with_parts(expr, "fields", expr.fields)
    if isinstance(expr, TupleGetItem) and isinstance(expr.tuple_value, Call):
        whole = fold(expr.tuple_value)
        if isinstance(whole, Tuple):
            return whole.fields[expr.index]
        return expr if whole is expr.tuple_value else TupleGetItem(whole, expr.index)
    if not isinstance(expr, Call):
        return expr
    expr = _with_parts(expr, "args", expr.args)
    try:
        return _as_expr(_call_value(expr), known_struct_info(expr))
    except _Unknown:
        return expr


def _with_parts(expr: Any, field: str, parts: tuple[Any, ...]) -> Any:
    folded = [fold(part) for part in parts]
    if all(new is old for new, old in zip(folded, parts)):
        return expr
    return expr.with_fields(**{field: tuple(folded)})


def _value(expr: Any) -> Any:
    """The numpy value of an expression; raises _Unknown unless all it consists of is constant."""
    if isinstance(expr, Constant):
        if expr.data.size > LIMIT:
            raise _Unknown
        return as_array(expr)
    if isinstance(expr, Tuple):
        return tuple([_value(field) for field in expr.fields])
    if isinstance(expr, ShapeExpr) and expr.concrete is not None:
        return expr.concrete
    if isinstance(expr, PrimValue) and isinstance(expr.value, IntImm):
        return expr.value.value
    raise _Unknown


def _call_value(call: Call) -> Any:
    spec = call.op.spec if isinstance(call.op, Op) else None
    if spec is None or spec.evaluate is None or not spec.is_pure:
        raise _Unknown
    args = [_value(arg) for arg in call.args]
    info = known_struct_info(call)
    _check_size(info)
    with numpy.errstate(all="ignore"):
        return _with_dtype(spec.evaluate(call.attrs, *args), info)


def _check_size(info: Any) -> None:
    if isinstance(info, TupleStructInfo):
        for field in info.fields:
            _check_size(field)
    elif isinstance(info, TensorStructInfo) and info.concrete_shape is not None:
        if int(numpy.prod(info.concrete_shape)) > LIMIT:
            raise _Unknown


def _with_dtype(value: Any, info: Any) -> Any:
    """The results of an evaluation in the dtypes that inference promises."""
    if isinstance(info, TupleStructInfo):
        return tuple([_with_dtype(item, field) for item, field in zip(value, info.fields)])
    if isinstance(info, TensorStructInfo):
        value = numpy.asarray(value)
        return value if info.dtype.is_void else value.astype(info.dtype.numpy(), copy=False)
    return value


def _as_expr(value: Any, info: Any) -> Any:
    if isinstance(info, TupleStructInfo):
        return Tuple([_as_expr(item, field) for item, field in zip(value, info.fields)])
    if isinstance(info, TensorStructInfo):
        return Constant(numpy.ascontiguousarray(value).reshape(numpy.shape(value)))
    raise _Unknown
