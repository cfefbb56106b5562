"""LambdaLift: moves local functions to the module.

The variables that they capture become their first parameters. A call passes these too; a use as a
value becomes ``R.make_closure`` with them.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import free_vars
from tilesmith.relax.binding import Substitution, copy_with_new_vars
from tilesmith.relax.expr import Call, Function, Tuple, Var, VarBinding, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator


class _Lifter(PyExprMutator):
    def __init__(self, mod: IRModule, name: str) -> None:
        super().__init__(mod)
        self.name = name
        self.lifted: dict[Var, tuple[GlobalVar, list[Var]]] = {}

    def visit_var_binding_(self, binding: VarBinding) -> None:
        if not isinstance(binding.value, Function):
            super().visit_var_binding_(binding)
            return
        var, function = binding.var, binding.value
        captured = [v for v in free_vars(function) if v is not var and v not in self.lifted]
        for callee in free_vars(function):
            if callee in self.lifted:
                captured += [v for v in self.lifted[callee][1] if v not in captured]
        own_name = self.builder_.get_unique_name(f"lifted_{self.name}_{var.name_hint}")
        variable = GlobalVar(own_name)
        self.lifted[var] = (variable, captured)
        inner = self.visit_expr(function)
        params = [Var(v.name_hint, known_struct_info(self.get_var_remap(v))) for v in captured]
        mapping = {self.get_var_remap(v): p for v, p in zip(captured, params)}
        body = Substitution(mapping, {}).visit_with_new_scope(inner.body)
        lifted = Function(
            [*params, *inner.params], body, inner.ret_struct_info, inner.is_pure, inner.attrs
        )
        lifted = copy_with_new_vars(lifted)
        variable.describe(lifted.struct_info)
        self.builder_.update_func(variable, lifted)

    def visit_call_(self, op: Call) -> Any:
        if isinstance(op.op, Var) and op.op in self.lifted:
            variable, captured = self.lifted[op.op]
            first = [self.visit_expr(v) for v in captured]
            return Call(variable, [*first, *[self.visit_expr(arg) for arg in op.args]])
        return self.visit_expr_post_order(op)

    def visit_var_(self, op: Var) -> Any:
        if op in self.lifted:
            variable, captured = self.lifted[op]
            values = Tuple([self.visit_expr(v) for v in captured])
            return operators.make_closure(variable, values) if captured else variable
        return super().visit_var_(op)


@compiler_pass("LambdaLift")
def lambda_lift(mod: IRModule) -> IRModule:
    """Moves local functions to the module."""
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            lifter = _Lifter(mod, name.name_hint)
            updated = lifter.visit_expr(function)
            if updated is not function:
                lifter.builder_.update_func(name, updated)
                mod = lifter.builder_.get()
    return mod
