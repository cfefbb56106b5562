"""Names the parts of the parser of modules as users know them."""

from __future__ import annotations

from typing import Any

from tilesmith.compat.tvm.script_parser.visitors import visitors
from tilesmith.script.parsing import ModuleScope, Parser

ModuleWithGlobalVars = ModuleScope

_VISITORS = visitors(
    "ir", {"visit_assign": "Assign", "visit_class_def": "ClassDef", "visit_expr": "Expr"}
)
globals().update(_VISITORS)

__all__ = [
    "ModuleWithGlobalVars", "post_visit_local_function", "pre_visit_local_function", *_VISITORS,
]  # fmt: skip


def pre_visit_local_function(self: Parser, node: Any) -> None:
    """Do nothing: a module needs nothing before a function."""


def post_visit_local_function(self: Parser, node: Any) -> None:
    """Do nothing: a module needs nothing after a function."""
