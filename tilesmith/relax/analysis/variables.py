"""Queries about variables of the graph: bound, free and used ones, and their users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.queries import nodes
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    Var,
    VarBinding,
)
from tilesmith.relax.expr_functor import PyExprVisitor

__all__ = [
    "all_global_vars", "all_vars", "bindings_of", "bound_vars", "free_vars", "get_var2val",
    "name_to_binding", "post_order_visit", "udchain", "used_vars",
]  # fmt: skip


class _Collector(PyExprVisitor):
    def __init__(self) -> None:
        self.used: dict[Var, None] = {}
        self.bound: dict[Var, None] = {}
        self.free: dict[Var, None] = {}
        self.names: dict[GlobalVar, None] = {}

    def visit_var_(self, op: Var) -> None:
        self.used[op] = None
        if op not in self.bound:
            self.free[op] = None

    def visit_var_def_(self, var: Var) -> None:
        self.bound[var] = None

    def visit_global_var_(self, op: GlobalVar) -> None:
        self.names[op] = None

    def visit_var_binding_(self, binding: VarBinding) -> None:
        if isinstance(binding.value, Function):  # it may call itself
            self.visit_var_def(binding.var)
        super().visit_var_binding_(binding)


def _collect(expr: Any) -> _Collector:
    collector = _Collector()
    if isinstance(expr, BindingBlock):
        collector.visit_binding_block(expr)
    elif isinstance(expr, Binding):
        collector.visit_binding(expr)
    else:
        collector.visit_expr(expr)
    return collector


def used_vars(expr: Any) -> list[Var]:
    """Return the variables that occur as values, in order."""
    return list(_collect(expr).used)


def bound_vars(expr: Any) -> list[Var]:
    """Return the variables that are bound inside, parameters included, in order."""
    return list(_collect(expr).bound)


def free_vars(expr: Any) -> list[Var]:
    """Return the free variables (used, but bound outside), in order."""
    return list(_collect(expr).free)


def all_vars(expr: Any) -> list[Var]:
    """Return the variables that are bound or used, in order."""
    found = _collect(expr)
    return list({**found.bound, **found.used})


def all_global_vars(expr: Any) -> list[GlobalVar]:
    """Return the GlobalVars that occur, in order."""
    return list(_collect(expr).names)


class _PostOrder(PyExprVisitor):
    def __init__(self, fvisit: Callable[[Any], Any]) -> None:
        self.fvisit = fvisit
        self.seen: set[int] = set()

    def visit_expr(self, expr: Any) -> None:
        if id(expr) in self.seen:
            return
        self.seen.add(id(expr))
        super().visit_expr(expr)
        self.fvisit(expr)


def post_order_visit(expr: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call ``fvisit`` once on each expression below ``expr`` and on itself, operands first."""
    _PostOrder(fvisit).visit_expr(expr)


def bindings_of(expr: Any) -> list[Binding]:
    """Return all bindings of an expression or function, including branches and local functions."""
    return list(nodes(expr, Binding))


def get_var2val(func: Function) -> dict[Var, Any]:
    """Return the value that each variable of a function is bound to."""
    return {binding.var: binding.value for binding in bindings_of(func)}


def udchain(dfb: DataflowBlock) -> dict[Var, list[Var]]:
    """Return, for each variable that a dataflow block binds or uses, the variables whose values use
    it.
    """
    users: dict[Var, list[Var]] = {}
    for binding in dfb.bindings:
        for var in used_vars(binding.value):
            users.setdefault(var, []).append(binding.var)
        users.setdefault(binding.var, [])
    return users


def name_to_binding(func: Function) -> dict[str, list[Binding]]:
    """Return the bindings of a function by the names of their variables (names may repeat)."""
    found: dict[str, list[Binding]] = {}
    for binding in bindings_of(func):
        found.setdefault(binding.var.name_hint, []).append(binding)
    return found


def functions_called(module: IRModule, name: Any) -> list[GlobalVar]:
    """Return the functions of the module that the function ``name`` refers to."""
    function = module[name]
    if not isinstance(function, Function):
        return []
    return [var for var in all_global_vars(function) if var in module]
