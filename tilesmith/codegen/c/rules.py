"""Holds the tables of rules: how each kind of expression and each operator is written in C.

    @handles_node(StringImm)
    def _stringimm(emit: Values, expr: StringImm) -> Piece: ...

    @handles("isnullptr")
    def _is_null(emit: Values, call: Call) -> Piece: ...

A rule returns text and how strongly it binds (`c_family.pieces`), so that parentheses appear only
where C (or a reader) needs them. A new operator is one function.
"""

from __future__ import annotations

from tilesmith.codegen.c_family.tables import node_rules, operator_rules

NODE_RULES = node_rules("C code of expressions")
INTRINSICS = operator_rules()
handles_node, handles = NODE_RULES.handles, INTRINSICS.handles
