"""Remembers the operands of expressions, so that shared ones are computed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.ir import PrimExpr

__all__ = ["Memo"]


class Memo:
    """Valid operands by the id of their expression. ``epoch`` counts how often all of them were
    dropped.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.operands: dict[int, str] = {}
        self._kept: list[PrimExpr] = []  # keeps the expressions alive: the keys are their ids

    def keep(self, expr: PrimExpr, operand: str) -> None:
        """Remember the operand of an expression."""
        self.operands[id(expr)] = operand
        self._kept.append(expr)

    def forget(self) -> None:
        """Drop all operands: none is valid any more."""
        self.epoch += 1
        if self.operands:
            self.operands = {}
            self._kept = []

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Restore the operands after the ``with`` block: those computed inside are not valid
        outside.
        """
        operands, kept, epoch = self.operands, self._kept, self.epoch
        self.operands, self._kept = dict(operands), list(kept)
        yield
        # a call with side effects inside invalidates earlier loads
        same = epoch == self.epoch
        self.operands, self._kept = (operands, kept) if same else ({}, [])
