"""CallTIRRewrite allocates results explicitly; StaticPlanBlockMemory lets them share one storage.

lv = R.call_tir(cls.f, (x,), R.Tensor((4,)))     alloc = R.builtin.alloc_tensor(R.shape([4]), …)
                                           ->    _ = cls.f(x, alloc)
                                                 lv = alloc
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import bindings_of, tensor_bytes
from tilesmith.relax.analysis.live_ranges import live_ranges
from tilesmith.relax.analysis.memory_plan import PlannedValue, assign_offsets
from tilesmith.relax.expr import (
    Call,
    Function,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.op import memory as memory_ops
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.relax.transform.normal_form import to_non_dataflow

_CALL_TIR = operators.call_tir.op
_CALL_TIR_INPLACE = operators.call_tir_inplace.op
_CALL_DPS_PACKED = operators.call_dps_packed.op
_ALLOC = operators.builtin.alloc_tensor.op


class _Allocate(PyExprMutator):
    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call):
            return call
        if call.op not in (_CALL_TIR, _CALL_TIR_INPLACE, _CALL_DPS_PACKED):
            return call
        info = call.sinfo_args[0]
        is_tuple = isinstance(info, TupleStructInfo)
        fields = list(info.fields) if is_tuple else [info]
        inputs = self._inputs(call.args[1])
        places = [-1] * len(fields)
        if call.op is _CALL_TIR_INPLACE:
            places = list(call.attrs.inplace_indices)
        results, fresh = [], []
        for field, index in zip(fields, places):
            if index >= 0:
                results.append(inputs[index])
                continue
            made = self.builder_.emit(self._allocation(field), "alloc")
            results.append(made)
            fresh.append(made)
        sizes = list(call.args[2].values) if len(call.args) > 2 else []
        self.builder_.emit(Call(call.args[0], [*inputs, *fresh, *sizes]), "_")
        return Tuple(results) if is_tuple else results[0]

    def _inputs(self, given: Any) -> list[Any]:
        if isinstance(given, Tuple):
            return list(given.fields)
        count = len(known_struct_info(given).fields)
        return [self.builder_.emit(TupleGetItem(given, i)) for i in range(count)]

    def _allocation(self, info: TensorStructInfo) -> Call:
        return memory_ops.builtin_alloc_tensor(info.shape, info.dtype)


@compiler_pass("CallTIRRewrite")
def call_tir_rewrite(func: Function, mod: IRModule) -> Function:
    """Allocates the results of destination-passing calls explicitly; blocks become plain ones."""
    plain = to_non_dataflow(func, mod)
    changed = _Allocate(mod).visit_expr(plain)
    return changed.with_attr("relax.force_pure", True) if changed.is_pure else changed


class _UseStorage(PyExprMutator):
    """Replaces allocations by tensors in one storage, which is allocated at the beginning."""

    def __init__(self, mod: IRModule, planned: dict[Var, PlannedValue], total: int) -> None:
        super().__init__(mod)
        self.planned = planned
        self.total = total
        self.storage: Var | None = None

    def visit_var_binding_(self, binding: VarBinding) -> None:
        if binding.var not in self.planned:
            super().visit_var_binding_(binding)
            return
        if self.storage is None:
            allocation = memory_ops.alloc_storage([self.total], 0, "global", "uint8")
            self.storage = self.builder_.emit(allocation, "storage")
        value = self.planned[binding.var]
        call = memory_ops.alloc_tensor(
            self.storage, value.offset, value.info.shape, value.info.dtype
        )
        self.builder_.emit_normalized(VarBinding(binding.var, call, binding.span))


def _plan(func: Function) -> tuple[dict[Var, PlannedValue], int]:
    """Return the allocations of known size whose live ranges end within the function, and their
    bytes.
    """
    graph = live_ranges(func)
    planned: dict[Var, PlannedValue] = {}
    for binding in graph.bindings:
        value = binding.value
        if not isinstance(value, Call) or value.op is not _ALLOC or binding.var in graph.escaping:
            continue
        info = known_struct_info(binding.var)
        nbytes = tensor_bytes(info)
        if nbytes is not None:
            steps = graph.steps_of(binding.var)
            planned[binding.var] = PlannedValue(binding.var, 0, info, nbytes, *steps)
    return planned, assign_offsets(list(planned.values()))


@compiler_pass("StaticPlanBlockMemory")
def static_plan_block_memory(func: Function, mod: IRModule) -> Function:
    """Lets allocations of known size share one storage if their live ranges do not overlap.

    Results of the function, and arguments of registered functions, keep allocations of their own.
    """
    if not any(isinstance(b.value, Call) and b.value.op is _ALLOC for b in bindings_of(func)):
        return func
    planned, total = _plan(func)
    return _UseStorage(mod, planned, total).visit_expr(func) if planned else func
