"""Defines ``tvm.tir.expr.IntImmEnum``: the value of an enumeration that becomes a constant."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm

__all__ = ["IntImmEnum"]


class IntImmEnum:
    """Stands for an int32 constant; expressions that take it convert it."""

    def __init__(self, value: int, span: Any = None) -> None:
        self.value = int(value)
        self.span = span

    def asobject(self) -> IntImm:
        """Return the constant."""
        return IntImm("int32", self.value, self.span)
