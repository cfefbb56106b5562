"""Recognises the commutative reducer of a reduction block.

with T.init():                              lambda x, y: x + y, identity 0.0
    B[i] = 0.0
B[i] = B[i] + A[i, k]                       of A[i, k]
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.ir import (
    Add,
    And,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir.intrinsics import max_value, min_value
from tilesmith.ir.queries import is_call
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import ReductionError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, CommReducer
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads
from tilesmith.tir.stmt import Block, BufferStore, LetStmt, Stmt, stmt_list

__all__ = ["BlockReduction", "reduction_of"]


class BlockReduction(NamedTuple):
    """The results of a reduction block, and the operands that are combined into them."""

    stores: tuple[BufferStore, ...]  # the updates
    reducer: CommReducer
    values: tuple[PrimExpr, ...]  # the right sides that are combined
    starts: tuple[PrimExpr, ...]  # what init sets, where it is not the identity; else the identity


def reduction_of(block: Block) -> BlockReduction:
    """Return the reduction that a block with ``init`` computes.

    Raises ReductionError where the update does not combine the old value with a new one.
    """
    stores, values = _updates(block)
    starts = _starts(block, stores, values)
    buffers = [store.buffer for store in stores]
    fresh = [_operands(value, buffers, block) for value in values]
    rights = _assign(fresh, block)
    for store, right in zip(stores, rights):
        if right.dtype != store.buffer.dtype:
            raise _refused(
                block,
                f"'{store.buffer.name}' is {store.buffer.dtype} and what is combined with it is "
                f"{right.dtype}",
            )
    lhs = tuple([Var(f"x{i}", value.dtype) for i, value in enumerate(values)])
    rhs = tuple([Var(f"y{i}", value.dtype) for i, value in enumerate(values)])
    combiner = _Abstract(dict(zip(buffers, lhs)), list(zip(rights, rhs)))
    results = tuple([combiner.visit(value) for value in values])
    identity = []
    for value, start in zip(values, starts):
        known = _identity_of(value) if len(values) == 1 else None
        if known is None and len(values) == 1:
            raise _refused(block, f"{type(value).__name__} does not combine in any order")
        limit = max_value if isinstance(value, Min) else min_value
        if known is None or (
            isinstance(value, (Min, Max)) and structural_equal(start, limit(value.dtype))
        ):
            known = start
        identity.append(known)
    return BlockReduction(
        tuple(stores), CommReducer(lhs, rhs, results, tuple(identity)), tuple(rights), starts
    )


def _refused(block: Block, reason: str) -> ReductionError:
    return ReductionError(
        f"block '{block.name_hint}' cannot be reduced over threads: {reason}", span=block.span
    )


def _updates(block: Block) -> tuple[list[BufferStore], list[PrimExpr]]:
    """Return the stores of the body and their values, with let variables substituted."""
    lets: dict[Var, PrimExpr] = {}
    body: Stmt = block.body
    while isinstance(body, LetStmt):
        lets[body.var] = substitute(body.value, lets)
        body = body.body
    found = []
    for stmt in stmt_list(body):
        if not isinstance(stmt, BufferStore):
            raise _refused(block, "its body has other statements than stores")
        found.append(stmt)
    if len(found) > 1 and not lets:
        # each store would see the change of the one before
        raise _refused(block, "several results need their new values in variables first")
    return found, [substitute(store.value, lets) for store in found]


def _starts(
    block: Block, stores: list[BufferStore], values: list[PrimExpr]
) -> tuple[PrimExpr, ...]:
    assert block.init is not None
    inits: dict[Buffer, BufferStore] = {}
    for stmt in stmt_list(block.init):
        if not isinstance(stmt, BufferStore):
            raise _refused(block, "its initialisation has other statements than stores")
        inits[stmt.buffer] = stmt
    for store in stores:
        init, name = inits.get(store.buffer), store.buffer.name
        if init is None:
            raise _refused(block, f"'{name}' is not initialised")
        if not structural_equal(init.indices, store.indices):
            raise _refused(block, f"'{name}' is initialised in other places than updated")
        olds = [load for value in values for load in loads(value, store.buffer)]
        if not all(structural_equal(old.indices, store.indices) for old in olds):
            raise _refused(block, f"the old value of '{name}' is read in another place")
    return tuple([inits[store.buffer].value for store in stores])


def _mentions(expr: PrimExpr, buffers: list[Buffer]) -> bool:
    return any(load.buffer in buffers for load in loads(expr))


def _operands(value: PrimExpr, buffers: list[Buffer], block: Block) -> list[PrimExpr]:
    """Return the largest subexpressions of a value that do not read the old results; constants are
    left out.
    """
    if not _mentions(value, buffers):
        raise _refused(block, "a new value does not depend on the old one")
    found: list[PrimExpr] = []

    def collect(expr: PrimExpr) -> None:
        if isinstance(expr, BufferLoad) and any(expr.buffer is one for one in buffers):
            return
        if not _mentions(expr, buffers):
            if not any(structural_equal(expr, known) for known in found):
                found.append(expr)
            return
        for child in expr.children():
            if isinstance(child, PrimExpr):
                collect(child)

    collect(value)
    return found


def _assign(candidates: list[list[PrimExpr]], block: Block) -> list[PrimExpr]:
    """Match operands to results: first the operands that stand alone."""
    chosen: list[PrimExpr | None] = [None] * len(candidates)
    for _ in candidates:
        for number, options in enumerate(candidates):
            if chosen[number] is not None:
                continue
            left = [
                option
                for option in options
                if not any(one is not None and structural_equal(option, one) for one in chosen)
                and not (len(options) > 1 and isinstance(option, (IntImm, FloatImm)))
            ]
            if len(left) == 1:
                chosen[number] = left[0]
            elif not left and options:
                chosen[number] = options[0]
    if any(one is None for one in chosen):
        raise _refused(block, "it is not clear what is combined with the old value")
    return [one for one in chosen if one is not None]


class _Abstract(Rewriter):
    """Replaces the old values and the new operands by variables."""

    def __init__(self, olds: dict[Buffer, Var], news: list[tuple[PrimExpr, Var]]) -> None:
        self.olds = olds
        self.news = news

    def visit(self, node: Any) -> Any:
        for operand, variable in self.news:
            if isinstance(node, PrimExpr) and structural_equal(node, operand):
                return variable
        if isinstance(node, BufferLoad) and node.buffer in self.olds:
            return self.olds[node.buffer]
        return super().visit(node)


def _identity_of(value: PrimExpr) -> PrimExpr | None:
    """Return the identity element of the operation at the root; None if it is not known."""
    dtype = value.dtype
    if isinstance(value, (Add, Or)) or is_call(value, "tir.bitwise_or", "tir.bitwise_xor"):
        return const(0, dtype)
    if isinstance(value, (Mul, And)):
        return const(1, dtype)
    if is_call(value, "tir.bitwise_and"):
        return const(-1 if dtype.is_int else dtype.max_value, dtype)
    if isinstance(value, Max):
        return const(float("-inf"), dtype) if dtype.is_float else min_value(dtype)
    if isinstance(value, Min):
        return const(float("inf"), dtype) if dtype.is_float else max_value(dtype)
    return None


def combine(reducer: CommReducer, left: Any, right: Any) -> tuple[PrimExpr, ...]:
    """Apply the reducer to two tuples of values."""
    mapping = dict(zip((*reducer.lhs, *reducer.rhs), (*left, *right)))
    return tuple([substitute(result, mapping) for result in reducer.result])
