"""Gives each variable of a dataflow block the kind that its uses ask for.

    with R.dataflow():                     with R.dataflow():
        gv = R.exp(x)                          lv = R.exp(x)
        gv1 = R.add(gv, x)          ->         gv1 = R.add(lv, x)
        R.output(gv, gv1)                      R.output(gv1)
    return gv1                             return gv1

A ``DataflowVar`` is seen inside its block only; a ``Var`` leaves it.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir.queries import nodes
from tilesmith.relax.expr import Call, DataflowBlock, DataflowVar, Function, MatchCast, Var
from tilesmith.relax.expr_functor import PyExprMutator, PyExprVisitor
from tilesmith.relax.struct_info import StructInfo


class _Uses(PyExprVisitor):
    """Finds the dataflow block that binds each variable, and the variables used elsewhere."""

    def __init__(self) -> None:
        self.block: DataflowBlock | None = None
        self.home: dict[Var, DataflowBlock] = {}
        self.outside: set[Var] = set()

    def visit_dataflow_block_(self, block: DataflowBlock) -> None:
        outer, self.block = self.block, block
        super().visit_dataflow_block_(block)
        self.block = outer

    def visit_function_(self, op: Function) -> None:
        outer, self.block = self.block, None
        super().visit_function_(op)
        self.block = outer

    def visit_var_def_(self, var: Var) -> None:
        if self.block is not None:
            self.home[var] = self.block

    def visit_var_(self, op: Var) -> None:
        if self.home.get(op) is not self.block:
            self.outside.add(op)

    def visit_call_(self, op: Call) -> None:
        for info in op.sinfo_args:
            self._shapes(info)
        super().visit_call_(op)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        self._shapes(binding.struct_info)
        super().visit_match_cast_(binding)

    def _shapes(self, info: StructInfo) -> None:
        """Keep the variables that stand for the shapes of tensors as they are."""
        self.outside.update([var for var in nodes(info, Var) if not isinstance(var, DataflowVar)])


class _Rebind(PyExprMutator):
    """Replaces variables where they are bound and used."""

    def __init__(self, variables: dict[Var, Var]) -> None:
        super().__init__()
        self.variables = variables

    def visit_var_def(self, var: Var) -> Any:
        new = self.variables.get(var, var)
        if new is not var:
            self.set_var_remap(var, new)
        return new


def fit_variables(func: Function) -> Function:
    """Make variables that are used in their own dataflow block only DataflowVars, and those that
    are used outside of it plain ones; also in branches and local functions.
    """
    uses = _Uses()
    uses.visit_expr(func)
    changed: dict[Var, Var] = {}
    for var in uses.home:
        kind = Var if var in uses.outside else DataflowVar
        if kind is not type(var):
            changed[var] = kind(var.name_hint, var.struct_info, var.span)
    if not changed:
        return func
    fitted: Function = _Rebind(changed).visit_expr(func)
    return fitted
