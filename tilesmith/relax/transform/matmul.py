"""CombineParallelMatmul: merges matrix products that share their left operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import remove_all_unused
from tilesmith.relax.expr import (
    Binding,
    Call,
    Constant,
    DataflowBlock,
    Function,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator

_MATMUL = operators.matmul.op


class _CombineParallel(PyExprMutator):
    def __init__(self, mod: IRModule, func: Function, check: Any) -> None:
        super().__init__(mod)
        self.params = set(func.params)
        self.check = check

    def _branch(self, binding: Binding) -> bool:
        """Return whether a binding is a product with a matrix that is known from the beginning."""
        call = binding.value
        if not (isinstance(binding, VarBinding) and isinstance(call, Call)):
            return False
        if call.op is not _MATMUL or not isinstance(call.args[0], Var):
            return False
        right = call.args[1]
        known = isinstance(right, Constant) or (isinstance(right, Var) and right in self.params)
        info = known_struct_info(right)
        left = known_struct_info(call.args[0])
        return known and info.ndim == 2 and info.concrete_shape is not None and left.ndim >= 2

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        groups: dict[Any, list[Binding]] = {}
        for binding in block.bindings:
            if self._branch(binding):
                key = (binding.value.args[0], binding.value.attrs.out_dtype)
                groups.setdefault(key, []).append(binding)
        chosen = [members for members in groups.values() if len(members) > 1]
        if self.check is not None:
            chosen = [
                members
                for members in chosen
                if self.check(members[0].value.args[0], [b.value.args[1] for b in members], [], {})
            ]
        if not chosen:
            return super().visit_dataflow_block_(block)
        first = {id(members[0]): members for members in chosen}
        parts: dict[int, Any] = {}
        self.builder_.begin_dataflow_block()
        for binding in block.bindings:
            if id(binding) in first:
                parts.update(self._combine(first[id(binding)]))
            if id(binding) in parts:
                self.reemit_binding(binding, parts[id(binding)])
            else:
                self.visit_binding(binding)
        return self.builder_.end_block()

    def _combine(self, members: list[Binding]) -> dict[int, Any]:
        """Emit one product with all right operands; each old product is a slice of it."""
        calls = [binding.value for binding in members]
        weights = [call.args[1] for call in calls]
        if all(isinstance(weight, Constant) for weight in weights):
            arrays = [weight.data.numpy_view() for weight in weights]
            whole: Any = Constant(numpy.concatenate(arrays, 1))
        else:
            whole = self.builder_.emit(operators.concat([self.visit_expr(w) for w in weights], 1))
        left = self.visit_expr(calls[0].args[0])
        product = self.builder_.emit(operators.matmul(left, whole, calls[0].attrs.out_dtype))
        sizes = [known_struct_info(weight).concrete_shape[1] for weight in weights]
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
        pieces = self.builder_.emit(operators.split(product, ends, axis=-1))
        return {id(binding): pieces[i] for i, binding in enumerate(members)}


@compiler_pass("CombineParallelMatmul")
def combine_parallel_matmul(
    func: Function, mod: IRModule, check: Callable[..., bool] | None = None
) -> Function:
    """Merges products of one left operand with several known matrices into one product and a split.

    ``check(left, rights, biases, bound)`` may refuse a group.
    """
    changed = _CombineParallel(mod, func, check).visit_expr(func)
    return changed if changed is func else remove_all_unused(changed)
