"""Holds the tables of rules: how each kind of expression and each operator is written.

    @handles_node(Cast)
    def _cast(emit: Values, expr: Cast) -> Piece: ...

    @handles("likely", "tvm_thread_invariant")
    def _hint(emit: Values, call: Call) -> Piece: ...

A rule returns text and how strongly it binds, so that parentheses appear only where C (or a reader)
needs them. A new operator is one function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir.rules import NodeRules, OperatorRules

Piece = tuple[str, int]
ATOM, UNARY, PRODUCT, SUM, SHIFT, COMPARE, EQUAL = 15, 14, 13, 12, 11, 10, 9
BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = 8, 7, 6, 5, 4, 3

Rule = Callable[[Any, Any], Piece]

NODE_RULES: NodeRules[Rule] = NodeRules("C code of expressions")
INTRINSICS: OperatorRules[Rule] = OperatorRules()
handles_node, handles = NODE_RULES.handles, INTRINSICS.handles
