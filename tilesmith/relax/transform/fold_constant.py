"""FoldConstant: evaluates at compile time what depends on constants alone.

Operators in dataflow blocks are run by their numpy evaluation; calls of PrimFuncs, wherever they
are, are compiled and run. A result that is much larger than its inputs stays a computation.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import is_impure_call, remove_all_unused, tensor_bytes
from tilesmith.relax.expr import (
    Call,
    Constant,
    DataflowVar,
    Function,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.op.evaluate import (
    NotConstantError,
    constant_value,
    evaluate_call,
    to_constant,
)
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import PrimFunc

GROWTH = 16
SMALL_BYTES = 4096

_KNOWN = (Constant, ShapeExpr, PrimValue)


class _Folder(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod

    def known(self, expr: Any) -> Any:
        """Return an argument with its variables replaced by their known values."""
        if isinstance(expr, Var):
            value = self.lookup_binding(expr)
            if isinstance(value, Tuple):
                return self.known(value)
            return value if isinstance(value, _KNOWN) else expr
        if isinstance(expr, Tuple):
            return expr.map_children(self.known)
        return expr

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or is_impure_call(call):
            return call
        if not call.args or not self._is_worth_it(call):
            return call
        arguments = [self.known(arg) for arg in call.args]
        try:
            if call.op is _CALL_TIR:
                return self._fold_call_tir(call, arguments)
            if not self.builder_.current_block_is_dataflow():
                return call
            values = [constant_value(arg) for arg in arguments]
        except NotConstantError:  # most calls
            return call
        if not can_evaluate(call):
            return call
        return to_constant(evaluate_call(call, values), call.struct_info)

    def _is_worth_it(self, call: Call) -> bool:
        size = tensor_bytes(call.struct_info)
        if size is None or size <= SMALL_BYTES:
            return True
        inputs = [tensor_bytes(known_struct_info(arg)) or 0 for arg in call.args]
        return size <= GROWTH * sum(inputs)

    def _fold_call_tir(self, call: Call, arguments: list[Any]) -> Any:
        callee = call.op is _CALL_TIR and arguments[0]
        if not isinstance(callee, GlobalVar) or len(call.args) > 2:
            return call
        function = self.mod.functions.get(callee)
        inputs = constant_value(arguments[1])
        info = call.struct_info
        fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
        if not isinstance(function, PrimFunc) or any(f.concrete_shape is None for f in fields):
            return call
        results = run_prim_func(function, list(inputs), list(fields))
        return to_constant(results if isinstance(info, TupleStructInfo) else results[0], info)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Any:
        item = self.visit_expr_post_order(op)
        source = self.known(item.tuple_value) if isinstance(item, TupleGetItem) else None
        if isinstance(source, Tuple) and isinstance(source.fields[item.index], _KNOWN):
            return source.fields[item.index]
        return item

    def visit_var_binding_(self, binding: VarBinding) -> None:
        value = self.visit_expr(binding.value)
        if isinstance(value, _KNOWN):
            self.set_var_remap(binding.var, value)
            if isinstance(binding.var, DataflowVar):
                return
        if value is binding.value:
            self.builder_.emit_normalized(binding)
        else:
            self.reemit_binding(binding, self.builder_.normalize(value))


_CALL_TIR = operators.call_tir.op


def can_evaluate(call: Call) -> bool:
    """Return whether numpy can compute a call of constants; record calls that only run at run
    time.
    """
    spec = call.op.spec if isinstance(call.op, Op) else None
    if spec is None:
        return False
    if spec.evaluate is None and spec.execution is Execution.KERNEL:
        record_fallback("folding", call.op.name, "the operator has no evaluation by numpy")
    return spec.evaluate is not None and not isinstance(call.struct_info, ObjectStructInfo)


def run_prim_func(
    function: PrimFunc, inputs: list[Any], outputs: list[TensorStructInfo]
) -> list[Any]:
    """Compile a PrimFunc in destination-passing style for this machine and run it on arrays."""
    from tilesmith import lowering
    from tilesmith.runtime.ndarray import array, empty

    compiled = lowering.build_to_run(function.with_attr("global_symbol", "folded"))
    tensors = [array(numpy.asarray(value, order="C")) for value in inputs]
    results = [empty(info.concrete_shape, info.dtype) for info in outputs]
    compiled["folded"](*tensors, *results)
    return [result.numpy() for result in results]


@compiler_pass("FoldConstant")
def fold_constants(func: Function, mod: IRModule) -> Function:
    """Evaluates what depends on constants alone."""
    folded = _Folder(mod).visit_expr(func)
    return folded if folded is func else remove_all_unused(folded)
