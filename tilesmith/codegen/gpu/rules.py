"""Holds the tables of rules: how each kind of expression and each operator is written.

    @handles_node(Cast)
    def _cast(emit: Values, expr: Cast) -> Piece: ...

    @handles("likely", "tvm_thread_invariant")          # in all dialects
    def _hint(emit: Values, call: Call) -> Piece: ...

    @handles("ptx_mma", dialect="cuda")                 # in one; goes before the common rule
    def _mma(emit: Values, call: Call) -> Piece: ...

A rule returns text and how strongly it binds, so that parentheses appear only where C (or a
reader) needs them. It may write lines before: ``emit.out.write(line)``. ``emit.dialect`` is the
dialect, ``emit.file.helper(name)`` the name of a function of the dialect's table, ``emit.lane`` the
lane of a vector that is being written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir.rules import NodeRules, OperatorRules

Piece = tuple[str, int]
ATOM, UNARY, PRODUCT, SUM, SHIFT, COMPARE, EQUAL = 15, 14, 13, 12, 11, 10, 9
BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = 8, 7, 6, 5, 4, 3

Rule = Callable[[Any, Any], Piece]

NODE_RULES: NodeRules[Rule] = NodeRules("GPU code of expressions")
handles_node = NODE_RULES.handles

_COMMON: OperatorRules[Rule] = OperatorRules()
_OF_DIALECTS: dict[str, OperatorRules[Rule]] = {}


def handles(*names: str, dialect: str = "") -> Callable[[Rule], Rule]:
    """Enter the decorated rule for operators (without ``tir.``), in all dialects or in one."""
    if not dialect:
        return _COMMON.handles(*names)
    return _OF_DIALECTS.setdefault(dialect, OperatorRules()).handles(*names)


def operator_rule(name: str, dialect: str) -> Rule | None:
    """Return the rule of an operator by its full name in a dialect; None without one."""
    own = _OF_DIALECTS.get(dialect)
    return (own.get(name) if own is not None else None) or _COMMON.get(name)
