"""Removes unused bindings."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.analysis.purity import contains_impure_call
from tilesmith.relax.analysis.variables import bindings_of, used_vars
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.relations import is_base_of, symbolic_vars
from tilesmith.relax.struct_info import StructInfo
from tilesmith.support.recursion import deep_recursion

__all__ = ["remove_all_unused"]


class _Liveness:
    """Marks the variables whose values are needed."""

    def __init__(self, function: Function) -> None:
        self.bindings = {binding.var: binding for binding in bindings_of(function)}
        self.size_binders = {
            size: binding.var
            for binding in self.bindings.values()
            if isinstance(binding, MatchCast)
            for size in symbolic_vars(binding.struct_info)
        }
        self.live: set[Var] = set()
        self.pending: list[Var] = []

    def need(self, var: Var) -> None:
        """Mark a variable as needed, and with it the variables that bind its sizes."""
        if var not in self.live:
            self.live.add(var)
            self.pending.append(var)

    def need_sizes(self, node: Any) -> None:
        """Mark the variables in sizes as needed."""
        for size in symbolic_vars(node):
            binder = self.size_binders.get(size)
            if binder is not None:
                self.need(binder)

    def value(self, value: Any) -> None:
        """Mark what a needed value reads, and the effects of its branches."""
        if isinstance(value, If):
            self.value(value.cond)
            self.sequence(value.true_branch)
            self.sequence(value.false_branch)
        elif isinstance(value, SeqExpr):
            self.sequence(value)
        elif isinstance(value, Function):
            if value.body is not None:
                self.sequence(value.body)
        else:
            for var in used_vars(value):
                self.need(var)
            if self.size_binders:
                self.need_sizes(value)

    def sequence(self, sequence: SeqExpr) -> None:
        """Mark the effects and the result of a sequence as needed."""
        for block in sequence.blocks:
            for binding in block.bindings:
                if must_stay(binding):
                    self.need(binding.var)
        self.value(sequence.body)

    def run(self, body: SeqExpr) -> set[Var]:
        """Return the variables that the result and the effects of a body need."""
        self.sequence(body)
        while self.pending:
            var = self.pending.pop()
            if self.size_binders:
                self.need_sizes(known_struct_info(var))
            binding = self.bindings.get(var)
            if binding is not None:
                self.value(binding.value)
        return self.live


def must_stay(binding: Binding) -> bool:
    """Return whether a binding has an effect: an impure call, or a check that may fail."""
    if isinstance(binding, MatchCast):
        return not is_base_of(binding.struct_info, known_struct_info(binding.value))
    if isinstance(binding.value, Function):
        return False
    return contains_impure_call(binding.value)


def _keep(sequence: SeqExpr, live: set[Var]) -> SeqExpr:
    blocks: list[BindingBlock] = []
    for block in sequence.blocks:
        bindings = [_inside(binding, live) for binding in block.bindings if binding.var in live]
        same = len(bindings) == len(block.bindings) and all(
            a is b for a, b in zip(bindings, block.bindings)
        )
        if same:
            blocks.append(block)
        elif bindings:
            kind = DataflowBlock if isinstance(block, DataflowBlock) else BindingBlock
            blocks.append(kind(tuple(bindings), block.span))
    if len(blocks) == len(sequence.blocks) and all(a is b for a, b in zip(blocks, sequence.blocks)):
        return sequence
    return SeqExpr(blocks, sequence.body, sequence.span)


def _inside(binding: Binding, live: set[Var]) -> Binding:
    """Return a binding without the unused bindings of its branches (or local function)."""
    value = binding.value
    if isinstance(value, If):
        true, false = _keep(value.true_branch, live), _keep(value.false_branch, live)
        if true is value.true_branch and false is value.false_branch:
            return binding
        return VarBinding(binding.var, If(value.cond, true, false, value.span), binding.span)
    if isinstance(value, Function) and value.body is not None:
        body = _keep(value.body, live)
        return binding if body is value.body else binding.with_fields(value=with_body(value, body))
    return binding


def with_body(function: Function, body: SeqExpr, result: StructInfo | None = None) -> Function:
    """Return a function with another body, and another type of its result if one is given."""
    return Function(
        function.params,
        body,
        function.ret_struct_info if result is None else result,
        function.is_pure,
        function.attrs,
        function.span,
    )


def remove_all_unused(func: Function) -> Function:
    """Return a copy of a function (or dataflow block) without unused bindings; effects stay."""
    if func.body is None:
        return func
    with deep_recursion():
        live = _Liveness(func).run(func.body)
        body = _keep(func.body, live)
    return func if body is func.body else with_body(func, body)
