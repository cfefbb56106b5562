"""Tracks the lanes that are active in the current statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.ir import And, PrimExpr
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.transform.loops.vectorizer.lanes import NeedsLanes

__all__ = ["Masks"]


class Masks:
    """The mask of the active lanes (``present``); None if all are active.

    ``conditions`` say the same in terms of the loop variable. Accesses may switch lanes off only
    where that is ``allowed``.
    """

    def __init__(self, allowed: bool) -> None:
        self.allowed = allowed
        self.present: PrimExpr | None = None
        self.conditions: list[PrimExpr] = []
        self.guarded: PrimExpr | None = None  # the indices that the present condition is about

    @contextmanager
    def under(self, mask: PrimExpr, condition: PrimExpr | None = None) -> Iterator[None]:
        """Enter code that only the lanes of a mask execute."""
        outer = self.present
        self.present = mask if outer is None else And(outer, mask)
        if condition is not None:
            self.conditions.append(condition)
        try:
            yield
        finally:
            self.present = outer
            if condition is not None:
                self.conditions.pop()

    @contextmanager
    def guarding(self, index: PrimExpr, mask: PrimExpr) -> Iterator[None]:
        """Enter code under a condition on ``index``; inside, only accesses at this index are
        allowed.
        """
        self.guarded = index
        try:
            with self.under(mask):
                yield
        finally:
            self.guarded = None

    def require_guarded(self, index: PrimExpr) -> None:
        """Raise NeedsLanes for an access at indices other than the condition's, which may be out of
        bounds.
        """
        if self.guarded is not None and not structural_equal(index, self.guarded):
            raise NeedsLanes("an access has another index than the condition")

    def restrict(self, own: PrimExpr | None, mask: PrimExpr | None) -> PrimExpr | None:
        """Return the conjunction of an access's ``own`` predicate and the current mask."""
        if mask is None:
            return own
        if not self.allowed:
            raise NeedsLanes("only some lanes are active, and masks are not allowed")
        return mask if own is None else And(own, mask)
