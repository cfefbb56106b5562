"""Walks a computation backwards: from the gradients of results to those of operands.

`Backward` collects them for a list of bindings. `composed` makes an operator's gradient of what the
operator means in terms of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilesmith.ir import Op
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    Call,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.op.create import zeros
from tilesmith.relax.op.elementwise import add
from tilesmith.relax.spec import Gradient
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import OpNotImplemented, ShapeError

__all__ = ["Backward", "composed", "evaluated"]


class Backward:
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
        return self.builder.emit(add(old, new))

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
        return self.builder.emit(zeros(info.shape, info.dtype))

    def binding(self, binding: VarBinding) -> None:
        """Propagate the gradient of a variable to the operands of its value."""
        grad = self.found.get(binding.var)
        if grad is None:
            return
        value = binding.value
        if isinstance(value, (Var, Tuple)):
            self.add(value, grad)
        elif isinstance(value, TupleGetItem):
            info: Any = known_struct_info(value.tuple_value)
            count = len(info.fields)
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


def evaluated(
    function: Callable[..., Any], operands: Sequence[Any]
) -> tuple[list[Var], list[VarBinding], Var]:
    """Return new variables for operands, the bindings that compute ``function(*variables)``, and
    the variable of the result.
    """
    variables = [Var(f"x{n}", known_struct_info(one)) for n, one in enumerate(operands)]
    builder = BlockBuilder()
    builder.begin_scope(variables)
    builder.begin_dataflow_block()
    result = builder.emit(function(*variables))
    block = builder.end_block()
    return variables, [one for one in block.bindings if isinstance(one, VarBinding)], result


def backward(
    builder: BlockBuilder, bindings: Iterable[VarBinding], result: Var, grad: Any, wanted: Any
) -> list[Any]:
    """Return the gradients of variables; that of the result of the bindings is given."""
    walk = Backward(builder)
    walk.add(result, grad)
    for binding in reversed(list(bindings)):
        walk.binding(binding)
    return [walk.found.get(one) for one in wanted]


def composed(meaning: Callable[..., Any]) -> Gradient:
    """Return the gradient of an operator which computes ``meaning(attrs, *operands)``."""

    def gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        variables, bindings, result = evaluated(
            lambda *operands: meaning(orig_call.attrs, *operands), orig_call.args
        )
        for variable, operand in zip(variables, orig_call.args):
            ctx.emit_normalized(VarBinding(variable, operand))
        for binding in bindings:
            ctx.emit_normalized(binding)
        return backward(ctx, bindings, result, output_grad, variables)

    return gradient
