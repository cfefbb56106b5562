"""Holds the state of the rewriting of one loop, and the fallback to a serial loop over the
lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.ir import Call, PrimExpr, Var, const
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import For, ForKind, IfThenElse, Stmt
from tilesmith.tir.transform.loops.vectorizer.lanes import Lanes, NeedsLanes
from tilesmith.tir.transform.loops.vectorizer.masks import Masks
from tilesmith.tir.transform.loops.vectorizer.memory import LaneMemory
from tilesmith.tir.transform.loops.vectorizer.rules import STATEMENT_RULES
from tilesmith.tir.transform.loops.vectorizer.values import Values

__all__ = ["Vectorizer"]


class Vectorizer:
    """Rewrites the statements of one loop for all its iterations at once.

    The rules of statements find here the ``lanes``, the ``masks`` of those that take part, the
    ``memory`` that each lane has for itself and the ``values`` of expressions. Unless the lanes'
    conditions may change ``freely``, masks are only for accesses to the very elements that a
    condition ``index < limit`` is about.
    """

    def __init__(self, lanes: Lanes, predicates: bool) -> None:
        self.lanes = lanes
        self.masks = Masks(predicates)
        self.memory = LaneMemory(lanes)
        self.values = Values(lanes, self.masks, self.memory)
        self._bound = 0  # enclosing scopes that have no fallback to single lanes

    def visit(self, stmt: Stmt) -> Stmt:
        """Return a statement as vector code; raise NeedsLanes where it has no such form."""
        rewritten: Stmt = STATEMENT_RULES[stmt.__class__](self, stmt)
        return rewritten

    def statement(self, stmt: Stmt) -> Stmt:
        """Return a statement as vector code, or else lane by lane."""
        if self._bound:
            return self.visit(stmt)
        try:
            return self.visit(stmt)
        except NeedsLanes as refusal:
            record_fallback("vectorization", f"loop '{self.lanes.var.name}'", refusal.reason)
            return self._lane_by_lane(stmt)

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Enter code that cannot fall back to single lanes."""
        self._bound += 1
        try:
            yield
        finally:
            self._bound -= 1

    def _lane_by_lane(self, stmt: Stmt) -> Stmt:
        """Return a serial loop over the lanes."""
        for condition in reversed(self.masks.conditions):
            stmt = IfThenElse(condition, stmt)
        lanes = self.lanes
        lane = Var(lanes.var.name, lanes.var.dtype)
        body = substitute(stmt, {lanes.var: lanes.low + lane})
        count: PrimExpr = const(int(lanes.count), lane.dtype)
        if lanes.is_scalable:
            count = Call(lane.dtype, "tir.vscale", ()) * int(lanes.count)
        return For(lane, 0, count, ForKind.SERIAL, body)
