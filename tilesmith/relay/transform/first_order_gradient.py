"""Gradients of programs without control flow: one walk back from the result to the parameters."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.relay.expr import (
    Call,
    Constant,
    Tuple,
    TupleGetItem,
    Var,
)
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr
from tilesmith.relay.op.view import make_call
from tilesmith.relay.operator_gradients import operator_gradient
from tilesmith.relay.rewriting import renewed, rewrite, substitute
from tilesmith.relay.transform.normal_form import without_lets
from tilesmith.relay.ty import TensorType, TupleType, Type
from tilesmith.relay.walks import PLAIN, parts, post_order, with_parts
from tilesmith.support.errors import TypeMismatchError, UnsupportedError

__all__ = ["first_order_gradient", "is_checkpoint", "ones_of", "whole_gradient"]


def is_checkpoint(node: Any) -> bool:
    """Return whether a node marks a value that is computed anew for its gradient."""
    return isinstance(node, Call) and node.op is Op.get("annotation.checkpoint")


def ones_of(expr: Any, type_: Type) -> Any:
    """Return the gradient with which a walk begins: ones in the place of a value's numbers."""
    if isinstance(type_, TupleType):
        return [ones_of(TupleGetItem(expr, n), one) for n, one in enumerate(type_.fields)]
    if not isinstance(type_, TensorType):
        raise TypeMismatchError(f"the result has the type {type_}, of which there is no gradient")
    return make_call("ones_like", [expr])


def whole_gradient(grad: Any, expr: Any, type_: Type) -> Any:
    """Return a gradient as one expression: zeros where nothing flowed back to a value."""
    if isinstance(type_, TupleType):
        fields = [None] * len(type_.fields) if grad is None else fields_of(grad, len(type_.fields))
        return Tuple(
            [
                whole_gradient(part, TupleGetItem(expr, place), field)
                for place, (part, field) in enumerate(zip(fields, type_.fields))
            ]
        )
    return make_call("zeros_like", [expr]) if grad is None else grad


def fields_of(grad: Any, count: int) -> list[Any]:
    """Return the gradients of the fields of a tuple."""
    if isinstance(grad, list):
        return grad
    if isinstance(grad, Tuple):
        return list(grad.fields)
    return [TupleGetItem(grad, place) for place in range(count)]


def added(old: Any, new: Any) -> Any:
    """Return the sum of two gradients, either of which may be zero (None)."""
    if old is None or new is None:
        return new if old is None else old
    if isinstance(old, list):
        return [added(a, b) for a, b in zip(old, fields_of(new, len(old)))]
    if isinstance(new, list):
        return added(fields_of(old, len(new)), new)
    return make_call("add", [old, new])


def _straight(function: Function, mod: IRModule | None) -> Function:
    """Return a function without lets and without calls of other functions than operators."""

    def change(node: Any) -> Any:
        callee = node.op if isinstance(node, Call) else None
        if isinstance(callee, GlobalVar) and mod is not None:
            callee = mod[callee]
        if isinstance(callee, Function):
            copy: Any = renewed(callee)
            return straight(substitute(copy.body, dict(zip(copy.params, node.args))))
        return node

    def straight(expr: Any) -> Any:
        return without_lets(rewrite(without_lets(expr, lambda let: False), change),
                            lambda let: False)  # fmt: skip

    if mod is not None:
        _check_recursion(function, mod)
    return with_parts(function, (straight(function.body),))  # type: ignore[no-any-return]


def _check_recursion(function: Function, mod: IRModule) -> None:
    state: dict[str, bool] = {}
    stack: list[tuple[Any, str, bool]] = [(function, "", False)]
    while stack:
        body, name, is_left = stack.pop()
        if is_left:
            state[name] = True
            continue
        if name:
            state[name] = False
            stack.append((body, name, True))
        for node in post_order(body):
            if isinstance(node, GlobalVar) and node in mod and isinstance(mod[node], Function):
                if state.get(node.name_hint) is False:
                    raise _refused("a function that calls itself", node)
                if node.name_hint not in state:
                    stack.append((mod[node], node.name_hint, False))


def _refused(what: str, node: Any) -> UnsupportedError:
    return UnsupportedError(
        f"the first-order gradient has no rule for {what}",
        span=getattr(node, "span", None),
        notes=('gradient(function, mode="higher_order") differentiates control flow, too',),
    )


class _Walk:
    """The walk back through one body: gradients by the ``id`` of the node."""

    def __init__(self, body: Any) -> None:
        self.order = list(post_order(body))
        self.gradients: dict[int, Any] = {}
        self.again = _computed_anew(self.order)

    def value(self, node: Any) -> Any:
        """Return the expression by which the walk refers to the value of a node."""
        return self.again.get(id(node), node)

    def add(self, node: Any, grad: Any) -> None:
        """Add a gradient that flows back to a node."""
        self.gradients[id(node)] = added(self.gradients.get(id(node)), grad)

    def run(self) -> None:
        """Walk from the result to the variables."""
        for node in reversed(self.order):
            grad = self.gradients.get(id(node))
            if grad is None or isinstance(node, (Var, Constant)):
                continue
            if isinstance(node, Tuple):
                for field, part in zip(node.fields, fields_of(grad, len(node.fields))):
                    self.add(field, part)
            elif isinstance(node, TupleGetItem):
                whole: list[Any] = [None] * len(node.tuple_value.checked_type.fields)
                whole[node.index] = grad
                self.add(node.tuple_value, whole)
            elif isinstance(node, Call) and isinstance(node.op, Op):
                self.call(node, grad)
            else:
                raise _refused(f"a {type(node).__name__}", node)

    def call(self, call: Call, grad: Any) -> None:
        """Let the gradient of an operator's result flow back to its arguments."""
        if is_checkpoint(call):
            self.add(call.args[0], grad)
            return
        value = self.value(call)
        output = whole_gradient(grad, value, call.checked_type)
        arguments = [self.value(arg) for arg in call.args]
        for arg, part in zip(call.args, operator_gradient(call, arguments, value, output)):
            if part is not None:
                self.add(arg, part)


def _computed_anew(order: list[Any]) -> dict[int, Any]:
    """Return copies of what the values of checkpoints are made of, by the ``id`` of the node: the
    walk back refers to these, so that the values themselves need not be kept.
    """
    inside: set[int] = set()
    for node in reversed(order):
        if is_checkpoint(node) or id(node) in inside:
            inside |= {id(part) for part in parts(node) if not isinstance(part, Op)}
    copies: dict[int, Any] = {}
    for node in order:
        if id(node) in inside and not isinstance(node, (Var, Constant)):
            copies[id(node)] = _copy(node, [copies.get(id(part), part) for part in parts(node)])
    return copies


def _copy(node: Any, new: list[Any]) -> Any:
    if isinstance(node, Call):
        return Call(new[0], new[1:], node.attrs, node.sinfo_args, node.span)
    if isinstance(node, Tuple):
        return Tuple(new, node.span)
    if isinstance(node, TupleGetItem):
        return TupleGetItem(new[0], node.index, node.span)
    raise _refused(f"a {type(node).__name__}", node)


def first_order_gradient(function: Function, mod: IRModule | None) -> Function:
    """Return the function that gives a function's result and the tuple of gradients of its
    parameters: of the sum of all numbers of the result.
    """
    straight: Any = infer_expr(_straight(function, mod), mod)
    for node in post_order(straight.body):
        if not isinstance(node, (Call, Tuple, TupleGetItem, Var, Constant, Op, *PLAIN)):
            raise _refused(f"a {type(node).__name__}", node)
    walk = _Walk(straight.body)
    walk.add(straight.body, ones_of(straight.body, straight.body.checked_type))
    walk.run()
    grads = [
        whole_gradient(walk.gradients.get(id(param)), param, param.checked_type)
        for param in straight.params
    ]
    body = Tuple([straight.body, Tuple(grads)])
    return Function(straight.params, body, None, straight.type_params, straight.attrs)
