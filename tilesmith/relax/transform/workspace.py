"""AllocateWorkspace: one workspace for all external functions that need one.

lv = cls.attention(q, k, v)      →      workspace = R.builtin.alloc_tensor(R.shape([65536]), …)
                                        lv = cls.attention(q, k, v, workspace)
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.relax.analysis import bindings_of
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    Function,
    SeqExpr,
    ShapeExpr,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.op import memory as memory_ops
from tilesmith.relax.struct_info import TensorStructInfo

_SIZE = "WorkspaceSize"


def _workspace(name: str, size: int) -> Var:
    return Var(name, TensorStructInfo([size], "uint8"))


def _size_of(function: Function) -> int:
    """Return the bytes that a function, or one inside of it, needs."""
    found = [one.attrs.get(_SIZE, 0) for one in nodes(function, Function)]
    return max([int(one) for one in (*found, function.attrs.get(_SIZE, 0))])


class _External(PyExprMutator):
    """Gives the functions inside of an external one the workspace."""

    def __init__(self, mod: IRModule, size: int) -> None:
        super().__init__(mod)
        self.size = size
        self.inner: dict[Var, Var] = {}
        self.workspace: Var | None = None

    def outer(self, function: Any) -> Any:
        """Return the external function with one parameter more."""
        self.workspace = _workspace("workspace", self.size)
        body = self.visit_expr(function.body)
        params = [*function.params, self.workspace]
        return function.with_fields(params=params, body=body)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Add a parameter to a local function that needs the workspace."""
        value = binding.value
        if isinstance(value, Function) and _SIZE in value.attrs:
            params = [*value.params, _workspace("workspace", self.size)]
            made = value.with_fields(params=params)
            var = type(binding.var)(binding.var.name_hint, known_struct_info(made))
            self.inner[binding.var] = var
            self.set_var_remap(binding.var, var)
            self.builder_.emit_normalized(VarBinding(var, made, binding.span))
            return
        super().visit_var_binding_(binding)

    def visit_call_(self, op: Call) -> Any:
        """Hand the workspace over."""
        if not isinstance(op.op, Var) or op.op not in self.inner:
            return super().visit_call_(op)
        arguments = [*[self.visit_expr(arg) for arg in op.args], self.workspace]
        return Call(self.inner[op.op], arguments, op.attrs, op.sinfo_args, op.span)


class _Callers(PyExprMutator):
    """Hands a workspace to the calls of external functions."""

    def __init__(self, mod: IRModule, external: set[GlobalVar], workspace: Var) -> None:
        super().__init__(mod)
        self.external = external
        self.workspace = workspace

    def visit_call_(self, op: Call) -> Any:
        if not isinstance(op.op, GlobalVar) or op.op not in self.external:
            return super().visit_call_(op)
        arguments = [*[self.visit_expr(arg) for arg in op.args], self.workspace]
        return Call(op.op, arguments, op.attrs, op.sinfo_args, op.span)


@compiler_pass("AllocateWorkspace")
def allocate_workspace(mod: IRModule) -> IRModule:
    """Gives external functions (``Codegen``) with the attribute ``WorkspaceSize``, their own or of
    a function inside, memory as the last argument: each caller allocates as much as the largest
    needs.
    """
    sizes = {
        name: _size_of(function)
        for name, function in mod.functions.items()
        if isinstance(function, Function) and "Codegen" in function.attrs and function.body
    }
    external = {name: size for name, size in sizes.items() if size}
    if not external:
        return mod
    largest = max(external.values())
    for name in external:
        function: Any = mod[name]
        mod[name] = made = _External(mod, largest).outer(function)
        name.describe(made.struct_info)
    for name, function in list(mod.functions.items()):
        if name in external or not isinstance(function, Function) or function.body is None:
            continue
        values = [binding.value for binding in bindings_of(function)]
        if not any(isinstance(one, Call) and one.op in external for one in values):
            continue
        workspace = _workspace(f"workspace_{name.name_hint}", largest)
        changed = _Callers(mod, set(external), workspace).visit_expr(function)
        size = ShapeExpr([const(largest, "int64")])
        allocation = VarBinding(workspace, memory_ops.builtin_alloc_tensor(size, "uint8"))
        body = changed.body
        blocks = [BindingBlock((allocation,)), *body.blocks]
        changed = changed.with_fields(body=SeqExpr(blocks, body.body, body.span))
        if changed.is_pure:
            changed = changed.with_attr("relax.force_pure", True)
        mod[name] = changed
    return mod
