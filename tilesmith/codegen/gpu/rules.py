"""Holds the tables of rules: how each kind of expression and each operator is written.

    @handles_node(BufferLoad)
    def _load(emit: Values, load: BufferLoad) -> Piece: ...

    @handles("checked")                                 # in all dialects for devices
    def _checked(emit: Values, call: Call) -> Piece: ...

    @handles("ptx_mma", dialect="cuda")                 # in one; goes before the common rule
    def _mma(emit: Values, call: Call) -> Piece: ...

A rule returns text and how strongly it binds (`c_family.pieces`). It may write lines before:
``emit.out.write(line)``. ``emit.dialect`` is the dialect, ``emit.file.helper(name)`` the name of a
function of the dialect's table, ``emit.lane`` the lane of a vector that is being written.
"""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.codegen.c_family.rules import Rule
from tilesmith.codegen.c_family.tables import node_rules, operator_rules
from tilesmith.ir.rules import OperatorRules

NODE_RULES = node_rules("GPU code of expressions")
handles_node = NODE_RULES.handles

_COMMON = operator_rules()
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
