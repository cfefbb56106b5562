"""Values of types of data: matching them by patterns.

Match(xs, [Clause(PatternConstructor(cons, [PatternVar(x), PatternWildcard()]), x),
           Clause(PatternConstructor(nil), zero)])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilesmith.ir import Node, RelaxExpr, child, defines, note
from tilesmith.ir import data as data_field
from tilesmith.ir.adt import Constructor, TypeData
from tilesmith.relax.expr import as_expr
from tilesmith.relax.struct_info import Var
from tilesmith.relay.expr import RelayExpr

__all__ = [
    "Clause", "Constructor", "Match", "Pattern", "PatternConstructor", "PatternTuple", "PatternVar",
    "PatternWildcard", "TypeData", "pattern_vars",
]  # fmt: skip


class Pattern(Node, key="relay.Pattern"):
    """Base of what a value may look like."""


class PatternWildcard(Pattern, key="relay.PatternWildcard"):
    """Any value, ``_``."""


class PatternVar(Pattern, key="relay.PatternVar"):
    """Any value, which the variable then stands for."""

    var: Var = defines()


class PatternConstructor(Pattern, key="relay.PatternConstructor"):
    """A value that a constructor made of values that look like the patterns."""

    constructor: Constructor = child()
    patterns: tuple[Pattern, ...] = child(default=(), convert=lambda items: tuple(items or ()))


class PatternTuple(Pattern, key="relay.PatternTuple"):
    """A tuple of values that look like the patterns."""

    patterns: tuple[Pattern, ...] = child(default=(), convert=lambda items: tuple(items or ()))


class Clause(Node, key="relay.Clause"):
    """The result ``rhs`` for values that look like ``lhs``, whose variables it may use."""

    structural_order = ("lhs", "rhs")

    lhs: Pattern = child()
    rhs: RelaxExpr = child(convert=as_expr)


class Match(RelayExpr, key="relay.Match"):
    """The result of the first clause that fits; ``complete``: there is one for every value."""

    data: RelaxExpr = child()
    clauses: tuple[Clause, ...] = child()
    complete: bool = data_field(default=True)
    span: Any = note(default=None)


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """Yield the variables of a pattern, from left to right."""
    stack: list[Any] = [pattern]
    while stack:
        one = stack.pop()
        if isinstance(one, PatternVar):
            yield one.var
        elif isinstance(one, (PatternConstructor, PatternTuple)):
            stack.extend(reversed(one.patterns))
