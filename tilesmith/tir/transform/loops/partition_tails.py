"""Gives the last, smaller iteration of a divided loop code of its own for each size it may have.

    for i in range((n + 7) // 8):        for i in range(n // 8):
        for j in range(8):                   for j in range(8):
            if i * 8 + j < n:       →            A[i * 8 + j] = 0
                A[i * 8 + j] = 0         if n - n // 8 * 8 == 1:
                                             for j in range(8):
                                                 if j < 1:
                                                     A[n // 8 * 8 + j] = 0
                                         else: if n - n // 8 * 8 == 2: …

Where the inner loops are a register tile, its results stay in registers only if its size is
constant; of a size that is left open, the rest is known only when the program runs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import GE, GT, LE, LT, And, PrimExpr, Rewriter, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.queries import is_call
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.stmt import BufferStore, Evaluate, For, IfThenElse, Stmt

__all__ = ["TAILS", "slack_of", "tails_by_size"]

TAILS = "pragma_loop_partition_tails"
"""The annotation of a loop: how many elements a whole iteration has."""


class _Changed(Rewriter):
    """Replaces conditions, known by identity."""

    def __init__(self, conditions: Mapping[int, PrimExpr]) -> None:
        self.conditions = conditions

    def visit_CompareOp(self, expr: Any) -> PrimExpr:
        changed = self.conditions.get(id(expr))
        return self.children(expr) if changed is None else changed


def _is_decided(condition: PrimExpr, known: Container[int]) -> bool:
    """Return whether a condition is false if those of a loop (their identities) are."""
    if is_call(condition, "tir.likely"):
        return _is_decided(condition.args[0], known)
    if isinstance(condition, And):
        return _is_decided(condition.a, known) or _is_decided(condition.b, known)
    return id(condition) in known


def _has_unguarded_effect(body: Stmt, known: Container[int]) -> bool:
    """Return whether something happens where none of the conditions hold; prefetches may be left
    out.
    """
    stack: list[Any] = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, BufferStore):
            return True
        if isinstance(node, Evaluate) and not ops.is_const(node.value):
            if not is_call(node.value, "tir.prefetch"):
                return True
        children = [one for one in node.children() if isinstance(one, Stmt)]
        if isinstance(node, IfThenElse) and _is_decided(node.condition, known):
            children = [] if node.else_case is None else [node.else_case]
        stack += children
    return False


def slack_of(condition: Any, analyzer: Analyzer) -> PrimExpr | None:
    """Return an expression that is positive where a comparison of order holds; None if there is
    none.
    """
    if not isinstance(condition, (LT, LE, GT, GE)):
        return None
    left, right = condition.a, condition.b
    if isinstance(condition, (GT, GE)):
        left, right = right, left
    slack = analyzer.difference(right, left)
    if slack is None:
        return None
    return analyzer.simplify(slack + 1 if isinstance(condition, (LE, GE)) else slack)


def tails_by_size(
    loop: For,
    end: PrimExpr,
    conditions: Sequence[PrimExpr],
    inner: Mapping[Var, tuple[PrimExpr, PrimExpr]],
    whole: int,
    analyzer: Analyzer,
) -> Stmt | None:
    """Return what is left of a loop from iteration ``end`` on, as a branch for each size.

    ``conditions`` hold before ``end``; ``inner`` has the first and last values of the loops inside.
    None if they do not say which of the ``whole`` elements of an iteration there are.
    """
    rest, within = None, {}
    for condition in conditions:
        room = slack_of(condition, analyzer)
        if room is None:
            return None
        first = {var: ops.cast(var.dtype, low) for var, (low, _) in inner.items()}
        left = analyzer.simplify(substitute(room, first))
        offset = analyzer.simplify(left - room)
        step = analyzer.simplify(left - substitute(left, {loop.loop_var: loop.loop_var + 1}))
        if uses_variable(offset, {loop.loop_var}) or not ops.is_const(step, whole):
            return None
        if rest is not None and not analyzer.can_prove_equal(rest, left):
            return None
        rest, within[id(condition)] = left, offset
    if rest is None or _has_unguarded_effect(loop.body, within):
        return None
    rest = analyzer.simplify(substitute(rest, {loop.loop_var: end}))
    if not analyzer.can_prove(rest < whole):
        return None
    made: Stmt | None = None
    for size in range(whole - 1, 0, -1):
        limits = {key: offset < const(size, offset.dtype) for key, offset in within.items()}
        body = substitute(_Changed(limits).visit(loop.body), {loop.loop_var: end})
        made = IfThenElse(ops.equal(rest, const(size, rest.dtype)), renew_defs(body), made)
    return made
