"""Evaluates small constant parts of the graph during import.

Exporters compute shapes, axes and masks with nodes of the graph; their values are needed when the
nodes after them are converted. Large constants (weights) are left to the pass ``FoldConstant``.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Op
from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, Constant, Tuple, TupleGetItem, Var, known_struct_info
from tilesmith.relax.frontend.values import product
from tilesmith.relax.op.evaluate import (
    NotConstantError,
    constant_value,
    evaluate_call,
    to_constant,
)
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.support.fallbacks import record_fallback

__all__ = ["LIMIT", "fold"]

LIMIT = 1 << 14
"""More elements than this are not computed at import."""


def fold(expr: Any) -> Any:
    """Return ``expr`` with the calls of small constants in it (or itself) evaluated."""
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
    if not isinstance(expr.op, Op) or not expr.op.spec.is_pure:
        return expr
    try:
        arguments = [_small(arg) for arg in expr.args]
    except NotConstantError:
        return expr
    info = known_struct_info(expr)
    if not _is_small(info) or _is_dequantised(expr, info):
        return expr
    try:
        return to_constant(evaluate_call(expr, arguments), info)
    except NotConstantError:
        record_fallback("folding", expr.op.name, "the operator has no evaluation by numpy")
        return expr


def _is_dequantised(expr: Call, info: Any) -> bool:
    """Return whether a call makes floats of a tensor of integers, with which a pass may compute
    instead (`relax.transform.ComputeInIntegers`).
    """
    return expr.op is operators.dequantize.op and info.concrete_shape != ()


def _with_parts(expr: Any, field: str, parts: tuple[Any, ...]) -> Any:
    folded = [fold(part) for part in parts]
    if all(new is old for new, old in zip(folded, parts)):
        return expr
    return expr.with_fields(**{field: tuple(folded)})


def _small(arg: Any) -> Any:
    """Return the value of an argument; raises NotConstantError if it is unknown or large."""
    if isinstance(arg, Constant) and arg.data.size > LIMIT:
        raise NotConstantError
    return constant_value(arg)


def _is_small(info: Any) -> bool:
    if isinstance(info, TupleStructInfo):
        return all(_is_small(field) for field in info.fields)
    if isinstance(info, TensorStructInfo) and info.concrete_shape is not None:
        return product(info.concrete_shape) <= LIMIT
    return True
