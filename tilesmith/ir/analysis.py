"""What one sees by looking at a whole module."""

from __future__ import annotations

from tilesmith.ir.expr import GlobalVar
from tilesmith.ir.module import IRModule
from tilesmith.ir.visitor import post_order_visit

__all__ = ["collect_call_map"]


def collect_call_map(module: IRModule) -> dict[GlobalVar, list[GlobalVar]]:
    """Each function's GlobalVar → those of the functions of the module that it refers to."""
    found: dict[GlobalVar, list[GlobalVar]] = {}
    for variable, function in module.functions.items():
        called: dict[GlobalVar, None] = {}

        def look(node: object, called: dict[GlobalVar, None] = called) -> None:
            if isinstance(node, GlobalVar) and node in module:
                called[node] = None

        post_order_visit(function, look)
        found[variable] = list(called)
    return found
