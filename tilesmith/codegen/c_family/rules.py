"""Holds the tables of the rules that all dialects share; see `tables` for those of one back end.

@handles_node(Add, Sub, Mul)
def _arithmetic(emit: CommonValues, expr: BinaryOp) -> Piece: ...

@handles("likely", "tvm_thread_invariant")
def _hint(emit: CommonValues, call: Call) -> Piece: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.codegen.c_family.pieces import Piece
from tilesmith.ir.rules import NodeRules, OperatorRules

__all__ = ["COMMON_NODES", "COMMON_OPERATORS", "Rule", "handles", "handles_node"]

Rule = Callable[[Any, Any], Piece]

COMMON_NODES: NodeRules[Rule] = NodeRules("C-like text of expressions")
COMMON_OPERATORS: OperatorRules[Rule] = OperatorRules()
handles_node, handles = COMMON_NODES.handles, COMMON_OPERATORS.handles
