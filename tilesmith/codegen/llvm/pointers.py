"""Tracks the pointers in scope: their alignment, and whether they may alias."""

from __future__ import annotations

from math import gcd

from tilesmith.codegen.facts import Facts
from tilesmith.codegen.llvm.dtypes import element_bytes
from tilesmith.ir import PrimExpr, Var
from tilesmith.ir.queries import is_call

__all__ = ["Pointers", "natural_alignment"]


class Pointers:
    """The alignment of pointers in bytes, the pointers that do not alias others, and those to
    volatile memory, which devices or other threads may read and write at any time.
    """

    def __init__(self) -> None:
        self.alignment: dict[Var, int] = {}
        self.independent: set[Var] = set()
        self.volatile: set[Var] = set()

    def alignment_of(self, value: PrimExpr, var: Var, facts: Facts) -> int:
        """Return the known alignment of the expression that a pointer variable is bound to."""
        if isinstance(value, Var):
            return self.alignment.get(value, natural_alignment(var))
        if is_call(value, "tir.handle_add_byte_offset"):
            base, offset = value.args
            if isinstance(base, Var):
                known = self.alignment.get(base, 1)
                return gcd(known, facts.multiple_of(offset)) or known
        return natural_alignment(var)


def natural_alignment(var: Var) -> int:
    """Return the alignment that the type of a pointer variable guarantees."""
    element = getattr(getattr(var, "type_annotation", None), "element_type", None)
    dtype = getattr(element, "dtype", None)
    return element_bytes(dtype) if dtype is not None and not dtype.is_void else 1
