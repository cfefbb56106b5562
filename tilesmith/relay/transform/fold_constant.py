"""FoldConstant: computes what depends on constants alone, by operators' numpy evaluation."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IRModule, Op
from tilesmith.relax.expr import Call as GraphCall
from tilesmith.relax.expr import Tuple as GraphTuple
from tilesmith.relax.expr import TupleGetItem as GraphField
from tilesmith.relax.op.evaluate import NotConstantError, constant_value, evaluate_call
from tilesmith.relay.expr import Call, Constant, Tuple, TupleGetItem, const
from tilesmith.relay.op.view import View
from tilesmith.relay.rewriting import rewrite
from tilesmith.relay.transform.normal_form import without_lets
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of
from tilesmith.support.errors import TilesmithError
from tilesmith.support.fallbacks import record_fallback

__all__ = ["FoldConstant", "FoldConstantExpr", "folded_call"]

GROWTH = 16
SMALL_BYTES = 4096


def _is_constant(expr: Any) -> bool:
    if isinstance(expr, Tuple):
        return all(isinstance(field, Constant) for field in expr.fields)
    return isinstance(expr, Constant)


def _value(expr: Any) -> Any:
    """Return the value of relax's form of a call of constants."""
    if isinstance(expr, GraphCall):
        return evaluate_call(expr, [_value(arg) for arg in expr.args])
    if isinstance(expr, GraphTuple):
        return tuple([_value(field) for field in expr.fields])
    if isinstance(expr, GraphField):
        return _value(expr.tuple_value)[expr.index]
    return constant_value(expr)


def _bytes(value: Any) -> int:
    if isinstance(value, tuple):
        return sum([_bytes(field) for field in value])
    return int(numpy.asarray(value).nbytes)


def _as_expr(value: Any) -> Any:
    if isinstance(value, tuple):
        return Tuple([_as_expr(field) for field in value])
    array = numpy.asarray(value)
    return const(array, str(array.dtype))


def folded_call(call: Call) -> Any:
    """Return the value of a call of constants as an expression, or the call."""
    op = call.op
    if not isinstance(op, Op) or not isinstance(op.spec, View) or not op.spec.is_pure:
        return call
    if not all(_is_constant(arg) for arg in call.args):
        return call
    try:
        if op.spec.translate is None:
            value = evaluate_call(call, [constant_value(arg) for arg in call.args])
        else:
            value = _value(op.spec.translate(call.attrs, *call.args))
    except NotConstantError:
        return call
    except TilesmithError as error:
        record_fallback("folding", f"a call of {op.name}", error)
        return call
    given = sum([_bytes(constant_value(arg)) for arg in call.args])
    if _bytes(value) > max(SMALL_BYTES, GROWTH * given):
        return call
    return _as_expr(value)


def _change(node: Any, fold_qnn: bool) -> Any:
    if isinstance(node, Call):
        is_kept = not fold_qnn and isinstance(node.op, Op) and node.op.name.startswith("qnn.")
        return node if is_kept else folded_call(node)
    if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
        return node.tuple_value.fields[node.index]
    return node


def FoldConstantExpr(expr: Any, mod: IRModule, fold_qnn: bool = False) -> Any:
    """Return an expression with what depends on constants alone computed; calls of the dialect of
    quantised networks stay unless ``fold_qnn``, so that passes still see where the integers begin.
    """

    def change(node: Any) -> Any:
        return _change(node, fold_qnn)

    known = without_lets(expr, lambda let: not _is_constant(let.value))
    folded = rewrite(known, change)
    while folded is not known:  # lets whose values have become constants
        known = without_lets(folded, lambda let: not _is_constant(let.value))
        folded = rewrite(known, change) if known is not folded else known
    return folded


@relay_pass("FoldConstant", 2)
def FoldConstant(mod: IRModule, fold_qnn: bool = False) -> IRModule:
    """Compute what depends on constants alone; a result that is much larger than what it is
    computed from stays a computation. ``fold_qnn`` folds operators of qnn like others.
    """
    for variable, function in functions_of(mod):
        if not function.attrs.get("Primitive"):
            mod[variable] = FoldConstantExpr(function, mod, fold_qnn)
    return mod
