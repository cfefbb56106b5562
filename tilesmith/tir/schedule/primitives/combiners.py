"""Recognises how a reduction block combines values, so that partial results can be combined again.

One result: ``+``, ``*``, ``min`` or ``max`` of the old value and a new one. Several results: each
of them one of these for itself, or all that belong to one choice (the position and the value of a
maximum) taken from the same side by comparing the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    BinaryOp,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Select,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir.queries import is_call, variables
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.errors import ScheduleError, refuse
from tilesmith.tir.stmt import Block, BufferStore, LetStmt, Stmt, stmt_seq
from tilesmith.tir.transform.blocks.reducers import BlockReduction, reduction_of

__all__ = ["Combiner", "combiner_of"]


class Combiner:
    """``buffers[indices] = combine(buffers[indices], values)`` of a block, from start values.

    ``identities``: the start values of partial results. The start of a sum or product must count
    only once, so these start from 0 or 1; a choice may count its start any number of times.
    """

    def __init__(
        self,
        stores: Sequence[BufferStore],
        starts: Sequence[PrimExpr],
        identities: Sequence[PrimExpr],
        values: Sequence[PrimExpr],
        results: tuple[Sequence[Var], Sequence[Var], Sequence[PrimExpr]],
    ) -> None:
        self.buffers = [store.buffer for store in stores]
        self.indices = stores[0].indices
        self.starts = list(starts)
        self.identities = list(identities)
        self.values = list(values)
        self.left, self.right, self.results = results

    def combine(self, a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return the combination of two tuples of values."""
        mapping = dict(zip((*self.left, *self.right), (*a, *b)))
        return [substitute(result, mapping) for result in self.results]

    def update(
        self, targets: Sequence[Buffer], indices: Sequence[PrimExpr], values: Sequence[PrimExpr]
    ) -> Stmt:
        """Combine values into elements of some buffers."""
        olds = [BufferLoad(target, indices) for target in targets]
        news = self.combine(olds, values)
        if len(targets) == 1:
            return BufferStore(targets[0], news[0], indices)
        # Each new value may read all old ones.
        variables = [Var(f"v_{target.name}", target.dtype) for target in targets]
        body: Stmt = stmt_seq(
            *[BufferStore(t, variable, indices) for t, variable in zip(targets, variables)]
        )
        for variable, value in zip(reversed(variables), reversed(news)):
            body = LetStmt(variable, value, body)
        return body

    def initialise(
        self, targets: Sequence[Buffer], indices: Sequence[PrimExpr], values: Sequence[PrimExpr]
    ) -> Stmt:
        """Set elements of some buffers."""
        return stmt_seq(*[BufferStore(t, value, indices) for t, value in zip(targets, values)])


def combiner_of(cursor: BlockCursor) -> Combiner:
    """Recognise the combiner of a reduction block; refuses those not known to be associative."""
    block = cursor.block

    def unknown(reason: str) -> ScheduleError:
        advice = "known are C[i] = C[i] + value, and *, T.min, T.max in the place of +"
        return refuse(f"block '{block.name_hint}' {reason}", cursor, advice)

    single = isinstance(block.body, BufferStore) and isinstance(block.init, BufferStore)
    if single:
        found = _single(block, unknown)
    else:
        try:
            reduction = reduction_of(block)
        except UnsupportedError as error:
            reason = error.message.rpartition(": ")[2]
            raise unknown(f"is not a reduction that can be taken apart: {reason}") from None
        found = _several(reduction, unknown)
    if next(loads(found.starts), None) is not None:
        name = block.name_hint
        reason = f"the initial value of block '{name}' is read from a buffer"
        raise refuse(reason, cursor)
    return found


_NEUTRAL = {Add: 0, Mul: 1}


def _single(block: Block, unknown: Callable[[str], ScheduleError]) -> Combiner:
    body: BufferStore = block.body  # type: ignore[assignment]
    init: BufferStore = block.init  # type: ignore[assignment]
    value = body.value
    if not isinstance(value, BinaryOp) or type(value) not in (Add, Mul, Min, Max):
        raise unknown("combines with something else than +, *, min, max")
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if (
            isinstance(own, BufferLoad)
            and own.buffer is body.buffer
            and all(structural_equal(a, b) for a, b in zip(own.indices, body.indices))
        ):
            x, y = Var("x", value.dtype), Var("y", value.dtype)
            neutral = _NEUTRAL.get(type(value))
            identity = init.value if neutral is None else const(neutral, value.dtype)
            results = ([x], [y], [type(value)(x, y)])
            return Combiner([body], [init.value], [identity], [other], results)
    raise unknown("does not update what it writes")


def _several(reduction: BlockReduction, unknown: Callable[[str], ScheduleError]) -> Combiner:
    reducer, stores = reduction.reducer, reduction.stores
    for store in stores[1:]:
        same = len(store.indices) == len(stores[0].indices)
        if not same or not all(
            structural_equal(a, b) for a, b in zip(store.indices, stores[0].indices)
        ):
            raise unknown("writes its results at different places")
    left, right = list(reducer.lhs), list(reducer.rhs)
    identities: list[PrimExpr] = []
    choices: list[Select] = []
    for x, y, result, start in zip(left, right, reducer.result, reduction.starts):
        if isinstance(result, (Add, Mul, Min, Max)) and _are(result.a, result.b, x, y):
            neutral = _NEUTRAL.get(type(result))
            identities.append(start if neutral is None else const(neutral, start.dtype))
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
    results = (left, right, list(reducer.result))
    return Combiner(stores, reduction.starts, identities, reduction.values, results)


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
