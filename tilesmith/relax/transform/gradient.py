"""Gradient: derives a function that returns a function's result and its gradients.

``Gradient("main")`` adds ``main_adjoint``: the same parameters, and a tuple of the result and the
tuple of gradients, one per parameter in ``require_grads``. It walks the dataflow block backwards
and asks each operator for its gradient (attribute ``FPrimalGradient``, made from its record).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import remove_all_unused
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    Call,
    DataflowBlock,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import (
    OpNotImplemented,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)


class _Backward:
    """Collects, for each variable, the gradient that flows back to it.

    The gradient of a tuple is a list of the gradients of its fields; None means zero.
    """

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.found: dict[Var, Any] = {}

    def add(self, expr: Any, grad: Any) -> None:
        """Add a gradient that flows back to an expression."""
        if grad is None:
            return
        if isinstance(expr, Var):
            self.found[expr] = self._sum(self.found.get(expr), grad)
        elif isinstance(expr, Tuple):
            for field, part in zip(expr.fields, self._parts(grad, len(expr.fields))):
                self.add(field, part)

    def _parts(self, grad: Any, count: int) -> list[Any]:
        if isinstance(grad, list):
            return grad
        if isinstance(grad, Tuple):
            return list(grad.fields)
        return [self.builder.emit(TupleGetItem(grad, i)) for i in range(count)]

    def _sum(self, old: Any, new: Any) -> Any:
        if old is None:
            return self._emitted(new)
        if new is None:
            return old
        if isinstance(old, list):
            parts = self._parts(new, len(old))
            return [self._sum(a, b) for a, b in zip(old, parts)]
        return self.builder.emit(operators.add(old, new))

    def _emitted(self, grad: Any) -> Any:
        if isinstance(grad, list):
            return [None if part is None else self._emitted(part) for part in grad]
        if isinstance(grad, Tuple):
            return [self._emitted(field) for field in grad.fields]
        return grad if isinstance(grad, Var) else self.builder.emit(grad)

    def whole(self, grad: Any, info: Any) -> Any:
        """Return a gradient as an expression; None becomes zeros."""
        if isinstance(info, TupleStructInfo):
            parts = (
                [None] * len(info.fields) if grad is None else self._parts(grad, len(info.fields))
            )
            return Tuple([self.whole(part, field) for part, field in zip(parts, info.fields)])
        if grad is not None:
            return grad
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            raise ShapeError("the gradient of a value of unknown shape is not known")
        return self.builder.emit(operators.zeros(info.shape, info.dtype))

    def binding(self, binding: VarBinding) -> None:
        """Propagate the gradient of a variable to the operands of its value."""
        grad = self.found.get(binding.var)
        if grad is None:
            return
        value = binding.value
        if isinstance(value, (Var, Tuple)):
            self.add(value, grad)
        elif isinstance(value, TupleGetItem):
            count = len(known_struct_info(value.tuple_value).fields)
            parts: list[Any] = [None] * count
            parts[value.index] = grad
            self.add(value.tuple_value, parts)
        elif isinstance(value, Call):
            self.call(binding.var, value, grad)

    def call(self, var: Var, call: Call, grad: Any) -> None:
        """Propagate the gradient of an operator's call to its arguments."""
        function = call.op.get_attr("FPrimalGradient") if isinstance(call.op, Op) else None
        if function is None:
            name = call.op.name if isinstance(call.op, Op) else "a call of a function"
            raise OpNotImplemented(
                f"Gradient: {name} has no gradient",
                span=call.span,
                notes=("register one with relax.op.register_gradient",),
            )
        output = self.whole(grad, known_struct_info(var))
        for arg, part in zip(call.args, function(var, call, output, self.builder)):
            if part is not None:
                self.add(arg, part)


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


def differentiate(func: Function, require_grads: Any, target_index: int) -> Function:
    """Make the function that returns the result and the gradients."""
    wanted = list(func.params) if require_grads is None else _as_list(require_grads)
    numbers = []
    for var in wanted:
        if var not in func.params:
            raise TypeMismatchError(f"'{var.name_hint}' is not a parameter of the function")
        numbers.append(func.params.index(var))
    func = copy_with_new_vars(func)
    params = [func.params[number] for number in numbers]
    block, target = _check(func, target_index)
    builder = BlockBuilder()
    builder.begin_scope(func.params)
    builder.begin_dataflow_block()
    for binding in block.bindings:
        builder.emit_normalized(binding)
    backward = _Backward(builder)
    backward.add(target, builder.emit(operators.ones_like(target)))
    for binding in reversed(block.bindings):
        if isinstance(binding, VarBinding):
            backward.binding(binding)
    grads = [
        backward.whole(backward.found.get(param), known_struct_info(param)) for param in params
    ]
    whole = builder.emit_output(Tuple(grads), "grads")
    combined = builder.end_block()
    body = SeqExpr([combined], Tuple([func.body.body, whole]))
    attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol"}
    return remove_all_unused(Function(func.params, body, None, func.is_pure, attrs))


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
    function = mod[func_name]
    symbol = f"{func_name}_adjoint"
    adjoint = differentiate(function, require_grads, target_index)
    if "global_symbol" in function.attrs:
        adjoint = adjoint.with_attr("global_symbol", symbol)
    variable = GlobalVar(symbol)
    mod[variable] = adjoint
    return mod
