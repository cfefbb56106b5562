"""Recognises how a reduction block combines values, so that partial results can be combined again.

One result: ``+``, ``*``, ``min`` or ``max`` of the old value and a new one. Several results: each
of them one of these for itself, or all that belong to one choice (the position and the value of a
maximum) taken from the same side by comparing the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilesmith.ir import (
    Add,
    BinaryOp,
    Max,
    Min,
    Mul,
    PrimExpr,
    Var,
    const,
    structural_equal,
)
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.errors import ScheduleError, refuse
from tilesmith.tir.stmt import Block, BufferStore, LetStmt, Stmt, stmt_seq
from tilesmith.tir.transform.blocks.associativity import NEUTRAL, identities_of
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
            neutral = NEUTRAL.get(type(value))
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
    identities = identities_of(reduction, unknown)
    results = (list(reducer.lhs), list(reducer.rhs), list(reducer.result))
    return Combiner(stores, reduction.starts, identities, reduction.values, results)
