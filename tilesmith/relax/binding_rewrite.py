"""Edits one dataflow block step by step.

with DataflowBlockRewrite(block, function) as rewrite:
    rewrite.add(relax.op.exp(x), name="e", is_dfvar=True)
    rewrite.replace_all_uses(old, new)
    rewrite.remove_unused(old)
function = rewrite.mutated_root_fn()
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.analysis.variables import used_vars
from tilesmith.relax.block_builder import BlockBuilder, NameSupply
from tilesmith.relax.expr import (
    Binding,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Var,
    VarBinding,
    as_expr,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.support.errors import DiagnosticError, UnknownNameError

__all__ = ["DataflowBlockRewrite"]


class _Replace(PyExprMutator):
    def __init__(self, old: Var, new: Any) -> None:
        super().__init__()
        self.set_var_remap(old, new)


class DataflowBlockRewrite:
    """An editable copy of a dataflow block; the originals stay as they are."""

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        if not any(block is dfb for block in root_fn.body.blocks):
            raise DiagnosticError("the dataflow block is not one of the function's own blocks")
        self.original = dfb
        self.function = root_fn
        self.bindings: list[Binding] = list(dfb.bindings)
        self.body: Any = root_fn.body.body
        self.names = NameSupply(binding.var.name_hint for binding in dfb.bindings)
        self.block_index = next(i for i, b in enumerate(root_fn.body.blocks) if b is dfb)

    def __enter__(self) -> DataflowBlockRewrite:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Replace all uses of a variable, in the block and in the function's result."""
        changed = []
        for binding in self.bindings:
            value = _Replace(old_var, new_var).visit_expr(binding.value)
            changed.append(binding if value is binding.value else binding.with_fields(value=value))
        self.bindings = changed
        self.body = _Replace(old_var, new_var).visit_expr(self.body)

    def add_binding(self, binding: Binding) -> None:
        """Add a binding, after what it uses and before what uses it."""
        if any(known.var is binding.var for known in self.bindings):
            raise DiagnosticError(f"'{binding.var.name_hint}' is bound already")
        needed = set(used_vars(binding.value))
        place = 0
        for index, known in enumerate(self.bindings):
            if known.var in needed:
                place = index + 1
        users = [i for i, b in enumerate(self.bindings) if binding.var in used_vars(b.value)]
        if not users:
            place = len(self.bindings)
        self.bindings.insert(place, binding)

    def add(self, expr: Any, name: str | None = None, is_dfvar: bool = False) -> Var:
        """Bind an expression to a new variable at the end of the block."""
        value = BlockBuilder().normalize(as_expr(expr))
        kind = DataflowVar if is_dfvar else Var
        hint = self.names.fresh(name or ("lv" if is_dfvar else "gv"))
        var = kind(hint, known_struct_info(value))
        self.bindings.append(VarBinding(var, value))
        return var

    def _is_used(self, var: Var) -> bool:
        if any(var in used_vars(binding.value) for binding in self.bindings):
            return True
        later = self.function.body.blocks[self.block_index + 1 :]
        if any(var in used_vars(b.value) for block in later for b in block.bindings):
            return True
        return var in used_vars(self.body)

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of an unused variable."""
        if not any(binding.var is var for binding in self.bindings):
            if allow_undef:
                return
            raise UnknownNameError(f"the block does not bind '{var.name_hint}'")
        if self._is_used(var):
            raise DiagnosticError(f"'{var.name_hint}' is used and cannot be removed")
        self.bindings = [binding for binding in self.bindings if binding.var is not var]

    def remove_all_unused(self) -> None:
        """Remove all bindings of unused variables."""
        while True:
            unused = [b.var for b in self.bindings if not self._is_used(b.var)]
            if not unused:
                return
            for var in unused:
                self.remove_unused(var)

    def mutated_dfb(self) -> DataflowBlock:
        """Return the edited block."""
        return DataflowBlock(tuple(self.bindings), self.original.span)

    def mutated_root_fn(self) -> Function:
        """Return the function with the edited block."""
        blocks = list(self.function.body.blocks)
        blocks[self.block_index] = self.mutated_dfb()
        sequence = SeqExpr(blocks, self.body, self.function.body.span)
        return self.function.with_fields(body=sequence)

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """Return a module in which the edited function replaces the original."""
        result = irmodule.shallow_copy()
        for name, function in irmodule.functions.items():
            if function is self.function:
                result[name] = self.mutated_root_fn()
        return result
