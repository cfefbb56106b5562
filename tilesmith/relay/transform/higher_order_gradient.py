"""Gradients of any program: functions as values, recursion, choices, references, data.

Each number becomes a pair: its value, and a reference to its gradient. One more reference holds the
function that carries gradients back; each operator puts its own step before it. The program itself
stays as it was, so what it does with its values is differentiated as it happens. See Wang, Zheng,
Decker, Wu, Essertel, Rompf: Demystifying differentiable programming, 2019.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, RelayRefType, TypeCall
from tilesmith.ir.types import FuncType
from tilesmith.relay.adt import Clause, Constructor, Match, Pattern, PatternVar
from tilesmith.relay.expr import (
    Call,
    Constant,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    branch,
    var,
    with_lets,
)
from tilesmith.relay.expr_functor import ExprFunctor
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr
from tilesmith.relay.op.view import make_call
from tilesmith.relay.operator_gradients import operator_gradient
from tilesmith.relay.rewriting import renewed, substitute
from tilesmith.relay.transform.first_order_gradient import fields_of, is_checkpoint
from tilesmith.relay.transform.normal_form import ToANormalFormExpr
from tilesmith.relay.ty import TensorType, TupleType, Type
from tilesmith.relay.walks import PLAIN, post_order
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = ["higher_order_gradient"]

_STEP = FuncType([], TupleType([]))
"""The type of what carries gradients back."""
_STEPS = RelayRefType(_STEP)


def with_gradients(type_: Type) -> Type:
    """Return the type of values of which each number goes with its gradient."""
    if isinstance(type_, TensorType):
        return TupleType([type_, RelayRefType(type_)])
    if isinstance(type_, TupleType):
        return TupleType([with_gradients(field) for field in type_.fields])
    if isinstance(type_, RelayRefType):
        return RelayRefType(with_gradients(type_.value))
    if isinstance(type_, FuncType):
        arguments = [with_gradients(one) for one in type_.arg_types]
        result = with_gradients(type_.ret_type)
        return FuncType([*arguments, _STEPS], result, type_.type_params)
    if isinstance(type_, TypeCall):
        return TypeCall(type_.func, [with_gradients(one) for one in type_.args])
    return type_


def _check(type_: Type, what: str) -> None:
    if isinstance(type_, TupleType):
        for field in type_.fields:
            _check(field, what)
    elif not isinstance(type_, TensorType):
        raise TypeMismatchError(
            f"{what} has the type {type_}: gradients are of tensors and tuples of them"
        )


class _Bindings:
    """Lets around a value that is still to come."""

    def __init__(self) -> None:
        self.made: list[tuple[Var, Any]] = []

    def let(self, name: str, value: Any) -> Var:
        """Bind a value to a new variable."""
        variable = var(name)
        self.made.append((variable, value))
        return variable

    def do(self, action: Any) -> None:
        """Do something whose value does not matter."""
        self.let("_", action)

    def around(self, value: Any) -> Any:
        """Return a value after all that was bound."""
        return with_lets(self.made, value)


def _paired(value: Any, type_: Type) -> Any:
    """Return a value whose numbers go with gradients of zero."""
    if isinstance(type_, TupleType):
        return Tuple([_paired(TupleGetItem(value, n), one) for n, one in enumerate(type_.fields)])
    return Tuple([value, RefCreate(make_call("zeros_like", [value]))])


def _value(pair: Any, type_: Type) -> Any:
    """Return the value without gradients."""
    if isinstance(type_, TupleType):
        return Tuple([_value(TupleGetItem(pair, n), one) for n, one in enumerate(type_.fields)])
    return TupleGetItem(pair, 0)


def _gradient(pair: Any, type_: Type) -> Any:
    """Return the gradient that has been collected for a value."""
    if isinstance(type_, TupleType):
        return Tuple([_gradient(TupleGetItem(pair, n), one) for n, one in enumerate(type_.fields)])
    return RefRead(TupleGetItem(pair, 1))


def _collect(steps: _Bindings, pair: Any, type_: Type, grad: Any) -> None:
    """Add a gradient to what has been collected for a value."""
    if grad is None:
        return
    if isinstance(type_, TupleType):
        for place, part in enumerate(fields_of(grad, len(type_.fields))):
            _collect(steps, TupleGetItem(pair, place), type_.fields[place], part)
        return
    reference = TupleGetItem(pair, 1)
    steps.do(RefWrite(reference, make_call("add", [RefRead(reference), grad])))


class _Differentiation(ExprFunctor):
    """Rewrites one program. Values are bound (A-normal form), so that each is computed once."""

    def __init__(self, mod: IRModule | None, added: dict[str, GlobalVar], steps: Var) -> None:
        super().__init__()
        self.mod = mod
        self.added = added
        self.steps = steps
        self.variables: dict[Var, Any] = {}

    def visit(self, expr: Any) -> Any:
        """Return the expression with gradients. Each use is rewritten: values are bound."""
        with deep_recursion():
            return self._dispatch(expr)

    def new_variable(self, old: Var) -> Var:
        """Return the variable that stands for one of the program."""
        if old not in self.variables:
            self.variables[old] = Var(old.name_hint, None, old.span, "relay")
        found: Var = self.variables[old]
        return found

    def visit_var(self, variable: Var) -> Any:
        """Return the variable that goes with gradients."""
        return self.new_variable(variable)

    def visit_constant(self, constant: Constant) -> Any:
        """Return the constant with a gradient, which nobody reads."""
        return _paired(constant, constant.checked_type)

    def visit_let(self, let: Let) -> Any:
        """Rewrite a chain of lets."""
        chain, current = [], let
        node: Any = let
        while isinstance(node, Let):
            current = node
            chain.append((self.new_variable(current.var), current.value))
            node = current.body
        values = [(variable, self.visit(value)) for variable, value in chain]
        return with_lets(values, self.visit(node))

    def visit_tuple(self, tuple_: Tuple) -> Any:
        """Rewrite the fields."""
        return Tuple([self.visit(field) for field in tuple_.fields], tuple_.span)

    def visit_tuple_getitem(self, item: TupleGetItem) -> Any:
        """Return the field with its gradient."""
        return TupleGetItem(self.visit(item.tuple_value), item.index, item.span)

    def visit_if(self, choice: If) -> Any:
        """Choose by the value of the condition."""
        condition = TupleGetItem(self.visit(choice.cond), 0)
        true, false = branch(choice.true_branch), branch(choice.false_branch)
        return If(condition, self.visit(true), self.visit(false), choice.span)

    def visit_function(self, function: Function) -> Any:
        """Rewrite a function: it takes the reference to the steps, too."""
        if function.attrs.get("Primitive"):
            raise TypeMismatchError(
                "a primitive function has no gradient", notes=("differentiate before FuseOps",)
            )
        outer, self.steps = self.steps, var("bp", _STEPS)
        params = [*[self.new_variable(one) for one in function.params], self.steps]
        made = Function(params, self.visit(function.body), None, function.type_params)
        self.steps = outer
        return made

    def visit_global_var(self, variable: GlobalVar) -> Any:
        """Return the variable of the function with gradients, which joins the module."""
        if self.mod is None or variable not in self.mod:
            raise TypeMismatchError(
                f"the function @{variable.name_hint} is not known", notes=("give its module",)
            )
        known = self.added.get(variable.name_hint)
        if known is not None:
            return known
        name = variable.name_hint + "_grad"
        count = 0
        while name in self.mod:
            count += 1
            name = f"{variable.name_hint}_grad{count}"
        known = self.added[variable.name_hint] = GlobalVar(name)
        function: Any = renewed(self.mod[variable])
        inner = _Differentiation(self.mod, self.added, self.steps)
        bound: Any = infer_expr(ToANormalFormExpr(function), self.mod)
        self.mod[known] = inner.typed(bound, inner.visit(bound))
        return known

    def typed(self, function: Function, made: Function) -> Function:
        """Return a rewritten function with the types of its parameters and its result written."""
        types = [with_gradients(one.checked_type) for one in function.params]
        params = [
            Var(old.name_hint, type_, old.span, "relay")
            for old, type_ in zip(made.params, [*types, _STEPS])
        ]
        body = substitute(made.body, dict(zip(made.params, params)))
        result = with_gradients(function.checked_type.ret_type)
        return Function(params, body, result, function.type_params)

    def visit_constructor(self, constructor: Constructor) -> Any:
        """Return the constructor: data hold values with their gradients."""
        return constructor

    def visit_match(self, match: Match) -> Any:
        """Rewrite the clauses; patterns bind values with their gradients."""
        data = self.visit(match.data)
        clauses = [Clause(self.pattern(one.lhs), self.visit(one.rhs)) for one in match.clauses]
        return Match(data, clauses, match.complete, match.span)

    def pattern(self, pattern: Any) -> Any:
        """Return a pattern with new variables."""
        if isinstance(pattern, PatternVar):
            return PatternVar(self.new_variable(pattern.var))
        return pattern.map_children(
            lambda one: self.pattern(one) if isinstance(one, Pattern) else one
        )

    def visit_ref_create(self, reference: RefCreate) -> Any:
        """Return a reference to a value with its gradient."""
        return RefCreate(self.visit(reference.value), reference.span)

    def visit_ref_read(self, read: RefRead) -> Any:
        """Read a value with its gradient."""
        return RefRead(self.visit(read.ref), read.span)

    def visit_ref_write(self, write: RefWrite) -> Any:
        """Write a value with its gradient."""
        return RefWrite(self.visit(write.ref), self.visit(write.value), write.span)

    def visit_call(self, call: Call) -> Any:
        """Rewrite a call; that of an operator adds a step."""
        if is_checkpoint(call):
            return self.checkpoint(call)
        if isinstance(call.op, Op):
            return self.operator(call)
        arguments = [self.visit(arg) for arg in call.args]
        if isinstance(call.op, Constructor):
            return Call(call.op, arguments, call.attrs, span=call.span)
        return Call(self.visit(call.op), [*arguments, self.steps], call.attrs, span=call.span)

    def operator(self, call: Call) -> Any:
        """Return the value of an operator with its gradient, after adding the step back."""
        around = _Bindings()
        plain = _plain_places(call)
        pairs = {
            place: around.let("arg", self.visit(arg))
            for place, arg in enumerate(call.args)
            if place not in plain
        }
        values = [
            _value(pairs[place], arg.checked_type) if place in pairs else arg
            for place, arg in enumerate(call.args)
        ]
        values = [
            around.let("x", value) if isinstance(value, Tuple) and value.fields else value
            for value in values
        ]
        original = Call(call.op, values, call.attrs, call.sinfo_args, call.span)
        result = around.let("ret", original)
        pair = around.let("pair", _paired(result, call.checked_type))
        before = around.let("old", RefRead(self.steps))
        step = _Bindings()
        grad = _gradient(pair, call.checked_type)
        if not isinstance(grad, Tuple):
            grad = step.let("grad", grad)
        for place, part in enumerate(operator_gradient(call, values, result, grad)):
            if place in pairs:
                _collect(step, pairs[place], call.args[place].checked_type, part)
        back = Function([], step.around(Call(before, [])), TupleType([]))
        around.do(RefWrite(self.steps, back))
        return around.around(pair)

    def checkpoint(self, call: Call) -> Any:
        """Return a value of which only what it is made of is kept: the step back computes it anew,
        together with its own steps.
        """
        inside = call.args[0]
        if isinstance(inside, Function):
            raise TypeMismatchError("a checkpoint marks a tensor, not a function")
        type_ = call.checked_type
        around = _Bindings()
        free = [node for node in post_order(inside) if isinstance(node, Var)]
        outside = [one for one in free if one in self.variables]
        values = {one: _value(self.variables[one], one.checked_type) for one in outside}
        result = around.let("ret", substitute(renewed(inside), values))
        pair = around.let("pair", _paired(result, type_))
        before = around.let("old", RefRead(self.steps))
        step = _Bindings()
        steps = step.let("bp", RefCreate(Function([], Tuple([]), TupleType([]))))
        again = _Differentiation(self.mod, self.added, steps)
        again.variables = dict(self.variables)
        new = step.let("again", again.visit(infer_expr(ToANormalFormExpr(inside), self.mod)))
        _collect(step, new, type_, _gradient(pair, type_))
        step.do(Call(RefRead(steps), []))
        back = Function([], step.around(Call(before, [])), TupleType([]))
        around.do(RefWrite(self.steps, back))
        return around.around(pair)


def _plain_places(call: Call) -> set[int]:
    """Return the places of arguments that are no values: sizes, numbers and words of relax."""
    return {place for place, arg in enumerate(call.args) if isinstance(arg, PLAIN)}


def higher_order_gradient(function: Any, mod: IRModule | None) -> Function:
    """Return the function that gives a function's result and the tuple of gradients of its
    parameters: of the sum of all numbers of the result. Functions of the module that it calls get
    variants with gradients there.
    """
    type_: Any = function.checked_type
    _check(type_.ret_type, "the result")
    params = []
    for place, one in enumerate(type_.arg_types):
        name = getattr(function, "params", None)
        _check(one, f"the parameter '{name[place].name_hint}'" if name else f"parameter {place}")
        params.append(var(name[place].name_hint if name else f"x{place}", one))
    steps = var("bp")
    around = _Bindings()
    around.made.append((steps, RefCreate(Function([], Tuple([]), TupleType([])))))
    rewritten = _Differentiation(mod, {}, steps)
    bound: Any = function
    if isinstance(function, Function):
        bound = infer_expr(ToANormalFormExpr(renewed(function)), mod)
    callee = rewritten.visit(bound)
    pairs = [around.let("arg", _paired(one, type_)) for one, type_ in zip(params, type_.arg_types)]
    result = around.let("ret", Call(callee, [*pairs, steps]))
    _seed(around, result, type_.ret_type)
    around.do(Call(RefRead(steps), []))
    grads = Tuple([_gradient(pair, one) for pair, one in zip(pairs, type_.arg_types)])
    body = around.around(Tuple([_value(result, type_.ret_type), grads]))
    return Function(params, body)


def _seed(steps: _Bindings, pair: Any, type_: Type) -> None:
    """Let the gradient of the result be ones."""
    if isinstance(type_, TupleType):
        for place, field in enumerate(type_.fields):
            _seed(steps, TupleGetItem(pair, place), field)
    else:
        ones = make_call("ones_like", [TupleGetItem(pair, 0)])
        steps.do(RefWrite(TupleGetItem(pair, 1), ones))
