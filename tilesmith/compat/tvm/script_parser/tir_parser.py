"""Names the parts of the parser of tensor functions as users know them."""

from __future__ import annotations

import ast
from typing import Any

from tilesmith.compat.tvm.script_parser.visitors import FUNCTIONS, STATEMENTS, visitors
from tilesmith.script.builder import name_fresh
from tilesmith.script.parsing import Parser
from tilesmith.script.tir_parser import bound_value

_VISITORS = visitors("tir", {**STATEMENTS, **FUNCTIONS})
globals().update(_VISITORS)

__all__ = [
    "bind_assign_value", "bind_for_value", "bind_with_value", "find_decorator_annotation",
    *_VISITORS,
]  # fmt: skip


def bind_with_value(self: Parser, node: ast.expr, var_name: str, value: Any) -> Any:
    """Return the value of ``with … as name``, named: each of several gets a number."""
    if isinstance(value, (list, tuple)):
        return [bind_with_value(self, node, f"{var_name}_{k}", v) for k, v in enumerate(value)]
    return name_fresh(value, var_name)


def bind_for_value(self: Parser, node: ast.expr, var_name: str, value: Any) -> Any:
    """Return the variable of a loop, named: each of several gets a number."""
    return bind_with_value(self, node, var_name, value)


def bind_assign_value(self: Parser, node: ast.expr, var_name: str, value: Any) -> Any:
    """Return what a name stands for after a value is assigned to it."""
    return bound_value(self, node, var_name, value)


def find_decorator_annotation(node: ast.FunctionDef, annotation: str, default: bool = True) -> bool:
    """Return a flag in a decorator, such as ``private`` in ``@T.prim_func(private=True)``."""
    for decorator in node.decorator_list:
        for keyword in getattr(decorator, "keywords", ()):
            if keyword.arg == annotation and isinstance(keyword.value, ast.Constant):
                return bool(keyword.value.value)
    return default
