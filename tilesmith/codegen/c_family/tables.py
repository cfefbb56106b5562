"""Makes the tables with which a back end begins: the rules that all dialects share. Its own rules
for a node or an operator take their place.
"""

from __future__ import annotations

from tilesmith.codegen.c_family import (  # noqa: F401 - these enter their rules into the tables
    arithmetic,
    conversions,
    expressions,
    operators,
)
from tilesmith.codegen.c_family.rules import COMMON_NODES, COMMON_OPERATORS, Rule
from tilesmith.ir.rules import NodeRules, OperatorRules

__all__ = ["node_rules", "operator_rules"]


def node_rules(purpose: str) -> NodeRules[Rule]:
    """Return a table by class of node; ``purpose`` names it in errors."""
    return COMMON_NODES.extended(purpose)


def operator_rules() -> OperatorRules[Rule]:
    """Return a table by name of operator."""
    return OperatorRules(COMMON_OPERATORS)
