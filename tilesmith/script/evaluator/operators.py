"""Evaluates operators, comparisons and conditional expressions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tilesmith.ir import ExprOp, IntImm, PrimExpr, RelaxExpr, operators
from tilesmith.ir.intrinsics import if_then_else, power
from tilesmith.script.evaluator.evaluator import Evaluator, handles_node

# Syntax → (operator of scalar expressions, operator of everything else).
_BINARY: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {
    ast.Add: (operators.add, operator.add),
    ast.Sub: (operators.subtract, operator.sub),
    ast.Mult: (operators.multiply, operator.mul),
    ast.Div: (operators.divide, operator.truediv),
    ast.FloorDiv: (operators.floordiv, operator.floordiv),
    ast.Mod: (operators.floormod, operator.mod),
    ast.LShift: (operators.shift_left, operator.lshift),
    ast.RShift: (operators.shift_right, operator.rshift),
    ast.BitAnd: (operators.bitwise_and, operator.and_),
    ast.BitOr: (operators.bitwise_or, operator.or_),
    ast.BitXor: (operators.bitwise_xor, operator.xor),
    ast.Pow: (power, operator.pow),
    ast.MatMult: (operator.matmul, operator.matmul),
}
_COMPARE: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {
    ast.Eq: (operators.equal, operator.eq),
    ast.NotEq: (operators.not_equal, operator.ne),
    ast.Lt: (operators.less, operator.lt),
    ast.LtE: (operators.less_equal, operator.le),
    ast.Gt: (operators.greater, operator.gt),
    ast.GtE: (operators.greater_equal, operator.ge),
}
_PYTHON_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


OVERRIDES: dict[tuple[type, type, int], Callable[..., Any]] = {}
"""Operators that programs define: (class of an operand, class of the syntax, position of the
operand) → function of the operands. An operand's class is its ``_dispatch_type`` if it has one."""


def _override(syntax: ast.AST, *operands: Any) -> Callable[..., Any] | None:
    """Return the function that a program has registered for these operands."""
    for position, operand in enumerate(operands):
        cls = type(operand)
        for kind in (getattr(cls, "_dispatch_type", cls), *cls.__mro__):
            found = OVERRIDES.get((kind, syntax.__class__, position))
            if found is not None:
                return found
    return None


@handles_node(ast.BinOp)
def _binary(evaluator: Evaluator, node: ast.BinOp) -> Any:
    left, right = evaluator.operand(node.left), evaluator.operand(node.right)
    own = _override(node.op, left, right) if OVERRIDES else None
    if own is not None:
        return own(left, right)
    scalar, other = _BINARY[node.op.__class__]
    if isinstance(left, ExprOp) or isinstance(right, ExprOp):
        return scalar(left, right)
    return other(left, right)


@handles_node(ast.UnaryOp)
def _unary(evaluator: Evaluator, node: ast.UnaryOp) -> Any:
    kind = node.op.__class__
    if (
        evaluator.literal is not None
        and kind is ast.USub
        and isinstance(node.operand, ast.Constant)
    ):
        number: Any = node.operand.value
        return evaluator.literal(-number)  # a number with a sign is one literal
    value = evaluator.operand(node.operand)
    own = _override(node.op, value) if OVERRIDES else None
    if own is not None:
        return own(value)
    if kind is ast.Not:
        return operators.logical_not(value) if isinstance(value, ExprOp) else not value
    if kind is ast.USub:
        return -value
    return ~value if kind is ast.Invert else +value


@handles_node(ast.BoolOp)
def _boolean(evaluator: Evaluator, node: ast.BoolOp) -> Any:
    both = operators.logical_and if isinstance(node.op, ast.And) else operators.logical_or
    result = evaluator.operand(node.values[0])
    for later in node.values[1:]:
        if OVERRIDES:
            own = _override(node.op, result)
            if own is not None:
                result = own(result, evaluator.operand(later))
                continue
        if not isinstance(result, ExprOp):
            # As in Python, later operands count only where the earlier ones did not decide.
            if bool(result) is isinstance(node.op, ast.Or):
                return result
            result = evaluator.operand(later)
            continue
        result = both(result, evaluator.operand(later))
    return result


@handles_node(ast.Compare)
def _compare(evaluator: Evaluator, node: ast.Compare) -> Any:
    left = evaluator.operand(node.left)
    result: Any = None
    for kind, later in zip(node.ops, node.comparators):
        right = evaluator.operand(later)
        own = _override(kind, left, right) if OVERRIDES else None
        one = _compare_two(kind.__class__, left, right) if own is None else own(left, right)
        if result is None:
            result = one
        elif isinstance(result, ExprOp) or isinstance(one, ExprOp):
            result = operators.logical_and(result, one)
        else:
            result = result and one
        left = right
    return result


def _compare_two(kind: type, left: Any, right: Any) -> Any:
    python = _PYTHON_COMPARE.get(kind)
    if python is not None:
        return python(left, right)
    scalar, other = _COMPARE[kind]
    both = _comparable(left) and _comparable(right)
    if both and (isinstance(left, ExprOp) or isinstance(right, ExprOp)):
        # a number in a comparison takes the dtype of what it is compared with
        return scalar(*operators.match_to_expression(left, right))
    return other(left, right)


def _comparable(value: Any) -> bool:
    """True if a value can be compared with a scalar expression."""
    if isinstance(value, RelaxExpr):
        return False
    return isinstance(value, (ExprOp, bool, int, float)) or hasattr(value, "dtype")


@handles_node(ast.IfExp)
def _conditional(evaluator: Evaluator, node: ast.IfExp) -> Any:
    condition = evaluator.operand(node.test)
    if isinstance(condition, PrimExpr) and not isinstance(condition, IntImm):
        values = evaluator.operand(node.body), evaluator.operand(node.orelse)
        return if_then_else(condition, *values)
    return evaluator.evaluate(node.body if condition else node.orelse)
