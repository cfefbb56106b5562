"""Checks that a combiner gives the same result in any order, and knows where it may start.

x + y, x * y, min(x, y), max(x, y), ...         a result by itself
x if x0 >= y0 else y                            results that are chosen by comparing one of them
"""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Select,
    Var,
    const,
)
from tilesmith.ir.queries import is_call, variables
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.transform.blocks.reducers import BlockReduction

__all__ = ["NEUTRAL", "identities_of"]

NEUTRAL = {Add: 0, Mul: 1, Or: 0, And: 1}
BITWISE = ("tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor")


def identities_of(reduction: BlockReduction, unknown: Callable[[str], Exception]) -> list[PrimExpr]:
    """Return values that results may start from any number of times.

    Raises what ``unknown`` makes of a reason if the combiner is not known to be associative and
    commutative.
    """
    reducer = reduction.reducer
    left, right = list(reducer.lhs), list(reducer.rhs)
    identities: list[PrimExpr] = []
    choices: list[Select] = []
    for x, y, result, start in zip(left, right, reducer.result, reduction.starts):
        if isinstance(result, (Add, Mul, Min, Max, And, Or)) and _are(result.a, result.b, x, y):
            neutral = NEUTRAL.get(type(result))
            identities.append(start if neutral is None else const(neutral, start.dtype))
            continue
        if is_call(result, *BITWISE) and _are(result.args[0], result.args[1], x, y):
            ones = is_call(result, "tir.bitwise_and")
            identities.append(start if ones else const(0, start.dtype))
            continue
        choice = _as_select(result)
        if choice is None or not _are(choice.true_value, choice.false_value, x, y):
            raise unknown("combines with something else than +, *, min, max or a choice")
        identities.append(start)
        choices.append(choice)
    for choice in choices:
        same_side = _among(choice.true_value, left) == _among(choices[0].true_value, left)
        if not same_side or not structural_equal(choice.condition, choices[0].condition):
            raise unknown("chooses its results by different conditions")
    if choices and not _compares(choices[0], left, right, list(reducer.result)):
        raise unknown("does not choose its results by comparing values")
    if any(not _among(v, [*left, *right]) for result in reducer.result for v in variables(result)):
        raise unknown("combines values that are not part of its results")
    return identities


def _are(a: PrimExpr, b: PrimExpr, x: PrimExpr, y: PrimExpr) -> bool:
    """Return whether two expressions are the given pair, in any order."""
    return (a is x and b is y) or (a is y and b is x)


def _among(expr: PrimExpr, variables: list[Var]) -> bool:
    return any(expr is variable for variable in variables)


def _as_select(expr: PrimExpr) -> Select | None:
    if isinstance(expr, Select):
        return expr
    if is_call(expr, "tir.if_then_else"):
        return Select(*expr.args)
    return None


def _compares(choice: Select, left: list[Var], right: list[Var], results: list[PrimExpr]) -> bool:
    """Return whether the condition orders the two sides by the selected values: ``l >= r``, or with
    ties broken by a second value: ``l > r or (l == r and i < j)``.
    """
    condition = choice.condition
    tie = None
    if isinstance(condition, Or) and isinstance(condition.b, And):
        equal, tie, condition = condition.b.a, condition.b.b, condition.a
        if not isinstance(equal, EQ) or not isinstance(condition, (GT, LT)):
            return False
        if not _are(equal.a, equal.b, condition.a, condition.b):
            return False
    for one in (condition, tie):
        if one is not None and not _orders(one, choice, left, right, results):
            return False
    return True


def _orders(
    condition: PrimExpr, choice: Select, left: list[Var], right: list[Var], results: list[PrimExpr]
) -> bool:
    """Return whether a comparison orders the two sides of one result, which the same condition
    selects.
    """
    if not isinstance(condition, (GE, GT, LE, LT)):
        return False
    for number, (x, y) in enumerate(zip(left, right)):
        if not _are(condition.a, condition.b, x, y):
            continue
        result = results[number]
        if _as_select(result) is not None:
            return True
        # Minimum and maximum choose by their own comparison: it must choose the same side.
        chosen_first = _among(condition.a, left) == _among(choice.true_value, left)
        takes_larger = isinstance(condition, (GE, GT)) == chosen_first
        return isinstance(result, Max if takes_larger else Min)
    return False
