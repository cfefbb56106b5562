"""Analyses whole modules."""

from __future__ import annotations

from tilesmith.ir.expr import GlobalVar
from tilesmith.ir.module import IRModule
from tilesmith.ir.queries import nodes

__all__ = ["collect_call_map"]


def collect_call_map(module: IRModule) -> dict[GlobalVar, list[GlobalVar]]:
    """Return for each function's GlobalVar those of the functions of the module that it refers
    to.
    """
    found: dict[GlobalVar, list[GlobalVar]] = {}
    for variable, function in module.functions.items():
        called = [name for name in nodes(function, GlobalVar) if name in module]
        found[variable] = list(dict.fromkeys(called))
    return found
