"""LowerAllocTensor, VMBuiltinLower, LowerRuntimeBuiltin: memory and values by calls of the runtime.

    a = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)

    s = R.memory.alloc_storage(R.shape([16]), 0, "global", "float32")          LowerAllocTensor
    a = R.memory.alloc_tensor(s, 0, R.shape([4]), "float32")

    s = R.vm.alloc_storage(R.shape([16]), 0, "uint8", "global")                VMBuiltinLower
    a = R.vm.alloc_tensor(s, 0, R.shape([4]), "float32")

    s = R.call_builtin_with_ctx("vm.builtin.alloc_storage", (…), R.Object)     LowerRuntimeBuiltin
    a = R.call_packed("vm.builtin.alloc_tensor", s, 0, R.shape([4]), …)

`relax.build` needs none of them: it compiles graph functions from the form before. Their results
run in the interpreter, and show users what a virtual machine would do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule, Op, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.expr import (
    Call,
    DataTypeImm,
    Function,
    PrimValue,
    ShapeExpr,
    Tuple,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.op import memory as memory_ops
from tilesmith.relax.op import vm as vm_ops
from tilesmith.relax.struct_info import ObjectStructInfo
from tilesmith.runtime.devices import device as runtime_device
from tilesmith.support.errors import ShapeError

_ALLOC_STORAGE: Op = vm_ops.alloc_storage.op  # type: ignore[attr-defined]
_CALL_TIR_DYN: Op = vm_ops.call_tir_dyn.op  # type: ignore[attr-defined]
Rule = Callable[[Any, Call], Any]


class _Lower(PyExprMutator):
    """Replaces calls of operators by rules."""

    def __init__(self, mod: IRModule, rules: dict[Op, Rule]) -> None:
        super().__init__(mod)
        self.rules = rules

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        rule = self.rules.get(call.op) if isinstance(call, Call) else None
        return call if rule is None else rule(self.builder_, call)


def _byte_count(shape: Any, dtype: Any) -> Any:
    if not isinstance(shape, ShapeExpr):
        raise ShapeError(
            "LowerAllocTensor: the sizes of an allocation are not written at it",
            notes=("run it before VMShapeLower",),
        )
    count: Any = const((dtype.bits * dtype.lanes + 7) // 8, "int64")
    for size in shape.values:
        count = size.astype("int64") * count
    return count


def _alloc_tensor(builder: Any, call: Any) -> Any:
    shape, dtype, device, scope = call.args
    nbytes = _byte_count(shape, dtype.value)
    storage = Call(
        memory_ops.alloc_storage.op, [ShapeExpr([nbytes]), device, scope, DataTypeImm("uint8")]
    )
    zero = PrimValue(const(0, "int64"))
    made = [builder.emit(storage, "storage"), zero, shape, dtype]
    return Call(memory_ops.alloc_tensor.op, made, None, None, call.span)


@compiler_pass("LowerAllocTensor")
def lower_alloc_tensor(func: Function, mod: IRModule) -> Any:
    """Gives each tensor that is still allocated by itself a storage of its own."""
    return _Lower(mod, {operators.builtin.alloc_tensor.op: _alloc_tensor}).visit_expr(func)


def _vm_storage(builder: Any, call: Call) -> Any:
    size, device, scope, dtype = call.args
    return Call(_ALLOC_STORAGE, [size, device, dtype, scope], None, None, call.span)


def _vm_tensor(builder: Any, call: Call) -> Any:
    return Call(vm_ops.alloc_tensor.op, list(call.args), None, None, call.span)


def _kill(builder: Any, call: Call) -> Any:
    return Call(vm_ops.kill_object.op, list(call.args), None, None, call.span)


_TO_VM: dict[Op, Rule] = {
    memory_ops.alloc_storage.op: _vm_storage,
    memory_ops.alloc_tensor.op: _vm_tensor,
    memory_ops.kill_storage.op: _kill,
    memory_ops.kill_tensor.op: _kill,
}


@compiler_pass("VMBuiltinLower")
def vm_builtin_lower(func: Function, mod: IRModule) -> Any:
    """Turns what the memory plan has made into operators of the virtual machine (``R.vm.*``)."""
    return _Lower(mod, _TO_VM).visit_expr(func)


def _packed(name: str) -> Rule:
    def rule(builder: Any, call: Call) -> Any:
        info = known_struct_info(call)
        made = operators.call_packed(f"vm.builtin.{name}", *call.args, sinfo_args=info)
        return made.with_fields(span=call.span)

    return rule


def _with_context(name: str) -> Rule:
    def rule(builder: Any, call: Call) -> Any:
        info = known_struct_info(call)
        arguments = Tuple(list(call.args))
        return operators.call_builtin_with_ctx(f"vm.builtin.{name}", arguments, sinfo_args=info)

    return rule


def _flat(name: str) -> Rule:
    """Return the rule of a call with a function and a tuple of its arguments."""

    def rule(builder: Any, call: Call) -> Any:
        given = call.args[1]
        if not isinstance(given, Tuple):
            return call
        info = call.sinfo_args[0] if call.sinfo_args else ObjectStructInfo()
        arguments = Tuple([call.args[0], *given.fields])
        return operators.call_builtin_with_ctx(f"vm.builtin.{name}", arguments, sinfo_args=info)

    return rule


def _call_tir_dyn(builder: Any, call: Call) -> Any:
    given = call.args[1]
    if not isinstance(given, Tuple):
        return call
    info = known_struct_info(call)
    return operators.call_packed(
        "vm.builtin.call_tir_dyn", call.args[0], *given.fields, sinfo_args=info
    )


def _to_device(builder: Any, call: Any) -> Any:
    device = call.attrs.dst_vdevice
    kind = getattr(device.target, "kind", None)
    found = runtime_device(str(getattr(kind, "name", kind)), int(device.vdevice_id))
    numbers = [found.device_type, found.device_id]
    return operators.call_packed(
        "vm.builtin.to_device",
        call.args[0],
        *[PrimValue(const(one, "int64")) for one in numbers],
        sinfo_args=known_struct_info(call),
    )


_TO_RUNTIME: dict[Op, Rule] = {
    operators.reshape.op: _packed("reshape"),
    operators.shape_of.op: _packed("shape_of"),
    operators.tensor_to_shape.op: _packed("tensor_to_shape"),
    operators.null_value.op: _packed("null_value"),
    operators.to_vdevice.op: _to_device,
    operators.make_closure.op: _flat("make_closure"),
    operators.invoke_closure.op: _flat("invoke_closure"),
    operators.invoke_pure_closure.op: _flat("invoke_closure"),
    _ALLOC_STORAGE: _with_context("alloc_storage"),
    vm_ops.alloc_tensor.op: _packed("alloc_tensor"),
    _CALL_TIR_DYN: _call_tir_dyn,
}


@compiler_pass("LowerRuntimeBuiltin")
def lower_runtime_builtin(func: Function, mod: IRModule) -> Any:
    """Turns operators that the virtual machine carries out itself into calls of the registered
    functions ``vm.builtin.*``.
    """
    changed = _Lower(mod, _TO_RUNTIME).visit_expr(func)
    if changed is func:
        return func
    return changed.with_attr("relax.force_pure", True) if changed.is_pure else changed


__all__ = ["lower_alloc_tensor", "lower_runtime_builtin", "vm_builtin_lower"]
