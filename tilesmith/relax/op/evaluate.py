"""Evaluates one operator with numpy, for constant folding and the interpreter."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import FloatImm, IntImm, Op
from tilesmith.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
)
from tilesmith.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.support.errors import OutOfBoundsError, reason_of

__all__ = ["NotConstantError", "as_declared", "constant_value", "evaluate_call", "to_constant"]


class NotConstantError(Exception):
    """Raised if an argument is not known at compile time."""


def constant_value(expr: Any) -> Any:
    """Return the value of a leaf: arrays, tuples of integers for shapes, Python scalars; raises
    NotConstantError for anything that is not known.
    """
    if isinstance(expr, Constant):
        return numpy.asarray(expr.data)
    if isinstance(expr, ShapeExpr):
        sizes = expr.concrete
        if sizes is None:
            raise NotConstantError
        return sizes
    if isinstance(expr, PrimValue):
        if isinstance(expr.value, (IntImm, FloatImm)):
            return expr.value.value
        raise NotConstantError
    if isinstance(expr, (StringImm, DataTypeImm)):
        return expr.value
    if isinstance(expr, Tuple):
        return tuple([constant_value(field) for field in expr.fields])
    raise NotConstantError


def evaluate_call(call: Call, arguments: list[Any]) -> Any:
    """Return the value of an operator's call for values of its arguments."""
    if not isinstance(call.op, Op) or call.op.spec is None or call.op.spec.evaluate is None:
        raise NotConstantError
    with numpy.errstate(all="ignore"):
        try:
            found = call.op.spec.evaluate(call.attrs, *arguments)
        except IndexError as error:
            raise OutOfBoundsError(f"{call.op.name}: {reason_of(error)}", call.span) from error
    return as_declared(found, call.struct_info)


def as_declared(value: Any, info: Any) -> Any:
    """Return a value in the dtype that its struct info declares."""
    if isinstance(info, TensorStructInfo):
        array = numpy.asarray(value)
        return array if info.dtype.is_void else array.astype(info.dtype.numpy(), copy=False)
    if isinstance(info, TupleStructInfo):
        return tuple([as_declared(item, field) for item, field in zip(value, info.fields)])
    if isinstance(info, ShapeStructInfo):
        return tuple([int(size) for size in value])
    return value


def to_constant(value: Any, info: Any) -> Any:
    """Return a value as an expression of the graph."""
    if isinstance(info, TupleStructInfo):
        return Tuple([to_constant(item, field) for item, field in zip(value, info.fields)])
    if isinstance(info, ShapeStructInfo):
        return ShapeExpr(value)
    if isinstance(info, PrimStructInfo):
        return PrimValue(value)
    return Constant(numpy.asarray(value))
