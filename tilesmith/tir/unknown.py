"""Defines ``tir.Any``: an integer whose value nobody knows, such as the size of a dimension."""

from __future__ import annotations

import typing

from tilesmith.ir import Var

__all__ = ["Any"]


class Any(Var, key="tir.Any"):
    """An integer of unknown value, written ``T.Any()``. No two of them have the same value, but
    types and programs that hold them are compared as if they had.
    """

    def structural_key(self) -> str:
        """Return what is compared: only that the size is unknown."""
        return "any"

    def __init__(
        self, name: str = "any_dim", dtype: typing.Any = "int32", span: typing.Any = None
    ) -> None:
        super().__init__(name, dtype, span)
