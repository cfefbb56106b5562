"""Patterns that only expressions which nest have; `dataflow_pattern` matches with them."""

from __future__ import annotations

from tilesmith.ir import Type
from tilesmith.relax.dpl.pattern import DFPattern

__all__ = ["DominatorPattern", "LetPattern", "TypePattern"]


class LetPattern(DFPattern):
    """Matches a `Let`."""

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern) -> None:
        self.var, self.value, self.body = var, value, body

    def children(self) -> list[DFPattern]:
        """Return variable, value and body."""
        return [self.var, self.value, self.body]


class TypePattern(DFPattern):
    """A pattern with a type."""

    def __init__(self, pattern: DFPattern, ttype: Type) -> None:
        self.pattern = pattern
        self.type = ttype

    def children(self) -> list[DFPattern]:
        """Return the pattern inside."""
        return [self.pattern]


class DominatorPattern(DFPattern):
    """Matches ``child`` where all that it is computed of leads to one ``parent``: each value on the
    way matches ``path``.

    What child and path match by anything but a wildcard (a constant, a variable) is no way.
    """

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern) -> None:
        self.parent, self.path, self.child = parent, path, child

    def children(self) -> list[DFPattern]:
        """Return parent, path and child."""
        return [self.parent, self.path, self.child]
