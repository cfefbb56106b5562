"""Remembers the operands of expressions, so that shared ones are computed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.ir import PrimExpr

__all__ = ["Memo"]


class Memo:
    """The operands that hold here, by the id of their expression. ``epoch`` counts how often all of
    them were forgotten."""

    def __init__(self) -> None:
        self.epoch = 0
        self.operands: dict[int, str] = {}
        self._kept: list[PrimExpr] = []  # an expression that lives keeps its id taken

    def keep(self, expr: PrimExpr, operand: str) -> None:
        """Remember the operand of an expression."""
        self.operands[id(expr)] = operand
        self._kept.append(expr)

    def forget(self) -> None:
        """Nothing computed so far holds any more."""
        self.epoch += 1
        if self.operands:
            self.operands = {}
            self._kept = []

    @contextmanager
    def branch(self) -> Iterator[None]:
        """What is computed inside is not known outside."""
        operands, kept, epoch = self.operands, self._kept, self.epoch
        self.operands, self._kept = dict(operands), list(kept)
        yield
        # a call with effects inside spoils what was loaded before
        same = epoch == self.epoch
        self.operands, self._kept = (operands, kept) if same else ({}, [])
