"""Gradient: derives a function that returns a function's result and its gradients.

``Gradient("main")`` adds ``main_adjoint``: the same parameters, and a tuple of the result and the
tuple of gradients, one per parameter in ``require_grads``. It walks the dataflow block backwards
and asks each operator for its gradient (attribute ``FPrimalGradient``, made from its record).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import remove_all_unused
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    Function,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.op.backward import Backward
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import (
    TypeMismatchError,
    UnsupportedError,
)

_CALL_TIR = operators.call_tir.op
_CALL_TIR_WITH_GRAD = operators.call_tir_with_grad.op


def _check(func: Function, target_index: int) -> tuple[DataflowBlock, Any]:
    blocks = func.body.blocks
    if len(blocks) != 1 or not isinstance(blocks[0], DataflowBlock):
        raise UnsupportedError(
            "Gradient needs a function of one dataflow block",
            notes=("run ConvertToDataflow, InlinePrivateFunctions and Normalize before",),
        )
    result = func.body.body
    if isinstance(result, Tuple):
        target = result.fields[target_index]
    else:
        target = result
        bound = {b.var: b.value for b in blocks[0].bindings}
        if isinstance(bound.get(result), Tuple):
            target = bound[result].fields[target_index]
    info = known_struct_info(target)
    if not isinstance(info, TensorStructInfo) or info.ndim != 0 or not info.dtype.is_float:
        raise TypeMismatchError(
            "Gradient needs a result that is one number (a tensor of rank 0 of floats)",
            notes=("sum or average it, or choose it by target_index",),
        )
    return blocks[0], target


def differentiate(
    func: Function, require_grads: Any, target_index: int, builder: BlockBuilder
) -> Function:
    """Make the function that returns the result and the gradients; PrimFuncs that it calls are
    added to the builder's module.
    """
    wanted = list(func.params) if require_grads is None else _as_list(require_grads)
    numbers = []
    for var in wanted:
        if var not in func.params:
            raise TypeMismatchError(f"'{var.name_hint}' is not a parameter of the function")
        numbers.append(func.params.index(var))
    func = copy_with_new_vars(func)
    params = [func.params[number] for number in numbers]
    block, target = _check(func, target_index)
    builder.begin_scope(func.params)
    builder.begin_dataflow_block()
    for binding in block.bindings:
        builder.emit_normalized(binding)
    backward = Backward(builder)
    backward.add(target, builder.emit(operators.ones_like(target)))
    for binding in reversed(block.bindings):
        if isinstance(binding, VarBinding):
            backward.binding(binding)
    grads = [
        backward.whole(backward.found.get(param), known_struct_info(param)) for param in params
    ]
    whole = builder.emit_output(Tuple(grads), "grads")
    combined = _without_names_of_gradients(builder.end_block())
    body = SeqExpr([combined], Tuple([func.body.body, whole]))
    attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol"}
    return remove_all_unused(Function(func.params, body, None, func.is_pure, attrs))


def _without_names_of_gradients(block: BindingBlock) -> BindingBlock:
    """Return a block whose calls do not name their gradients any more."""
    changed = []
    for one in block.bindings:
        value = one.value
        if isinstance(value, Call) and value.op is _CALL_TIR_WITH_GRAD:
            value = Call(_CALL_TIR, value.args, None, value.sinfo_args, value.span)
            one = VarBinding(one.var, value, one.span)
        changed.append(one)
    return DataflowBlock(tuple(changed))


def _as_list(value: Any) -> list[Var]:
    return [value] if isinstance(value, Var) else list(value)


@compiler_pass("Gradient")
def gradient(
    mod: IRModule,
    func_name: str,
    require_grads: Var | Sequence[Var] | None = None,
    target_index: int = 0,
) -> IRModule:
    """Adds ``NAME_adjoint``: the result of a function and its gradients by ``require_grads``
    (parameters; all by default). The result, or its field ``target_index``, has to be a scalar.
    """
    function: Any = mod[func_name]
    symbol = f"{func_name}_adjoint"
    builder = BlockBuilder(mod)
    adjoint = differentiate(function, require_grads, target_index, builder)
    for variable, added in builder.get().functions.items():
        if variable not in mod:
            mod[variable] = added
    if "global_symbol" in function.attrs:
        adjoint = adjoint.with_attr("global_symbol", symbol)
    variable = GlobalVar(symbol)
    mod[variable] = adjoint
    return mod
