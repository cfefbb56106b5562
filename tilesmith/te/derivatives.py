"""Derivatives of the expressions of tensor expressions by the elements that they read.

A[i] * te.exp(B[i])      by A[i]: te.exp(B[i])        by B[i]: A[i] * te.exp(B[i])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any, NamedTuple

from tilesmith.ir import (
    Add,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Select,
    Sub,
    const,
    intrinsics,
    structural_equal,
)
from tilesmith.ir.operators import cast, equal, is_const, logical_not, not_equal
from tilesmith.ir.queries import any_node, called_name
from tilesmith.ir.rules import NodeRules, OperatorRules
from tilesmith.support.errors import UnsupportedError
from tilesmith.te.tensor import Tensor
from tilesmith.tir.expr import ProducerLoad, Reduce
from tilesmith.tir.functor import substitute

__all__ = ["Partial", "partials"]


class Partial(NamedTuple):
    """The derivative of an expression by one element that it reads, where conditions hold."""

    load: ProducerLoad
    conditions: tuple[PrimExpr, ...]
    value: PrimExpr


RULES: NodeRules[Callable[[_Derivation, Any, PrimExpr], None]] = NodeRules("derivatives")
CALLS: OperatorRules[Callable[[Call], list[PrimExpr | None]]] = OperatorRules()
"""The derivatives of a call by its arguments; None where it does not change with one."""


class _Derivation:
    """Collects the derivatives of one expression: walks down with the factor for each part."""

    def __init__(self, wanted: Container[Tensor]) -> None:
        self.wanted = wanted
        self.conditions: tuple[PrimExpr, ...] = ()
        self.partials: list[Partial] = []

    def visit(self, node: PrimExpr, factor: PrimExpr) -> None:
        """Collect the derivatives of a part, each times ``factor``."""
        if not node.dtype.is_float:
            return  # what is counted or compared does not change in small steps
        if self.is_reached(node) and not is_const(factor, 0):
            RULES[node.__class__](self, node, factor)

    def is_reached(self, node: PrimExpr) -> bool:
        """Return whether an expression reads a tensor that is asked for."""
        return any_node(
            node, lambda one: isinstance(one, ProducerLoad) and one.producer in self.wanted
        )

    def under(self, condition: PrimExpr, node: PrimExpr, factor: PrimExpr) -> None:
        """Collect the derivatives of a part that counts where a condition holds."""
        outer = self.conditions
        self.conditions = (*outer, condition)
        self.visit(node, factor)
        self.conditions = outer

    def add(self, load: ProducerLoad, value: PrimExpr) -> None:
        """Add a derivative by an element; those by the same element become one sum."""
        new = Partial(load, self.conditions, value)
        for number, one in enumerate(self.partials):
            same = one.load.producer is load.producer and structural_equal(
                [*one.load.indices, *one.conditions], [*load.indices, *self.conditions]
            )
            if same:
                self.partials[number] = one._replace(value=one.value + value)
                return
        self.partials.append(new)


def partials(value: PrimExpr, wanted: Container[Tensor]) -> list[Partial]:
    """Return the derivatives of an expression by the elements of some tensors that it reads."""
    derivation = _Derivation(wanted)
    derivation.visit(value, const(1.0, value.dtype))
    return derivation.partials


@RULES.handles(PrimExpr)
def _unknown(derivation: _Derivation, node: PrimExpr, factor: PrimExpr) -> None:
    raise UnsupportedError(
        f"te.gradient does not know the derivative of `{node}`",
        notes=("compute the gradient of this part by a te.compute of your own",),
    )


@RULES.handles(Reduce)
def _inner_reduction(derivation: _Derivation, node: Reduce, factor: PrimExpr) -> None:
    raise UnsupportedError("te.gradient: a reduction inside of an expression is not supported")


@RULES.handles(ProducerLoad)
def _load(derivation: _Derivation, node: ProducerLoad, factor: PrimExpr) -> None:
    if node.producer in derivation.wanted:
        derivation.add(node, factor)


@RULES.handles(Add)
def _add(derivation: _Derivation, node: Add, factor: PrimExpr) -> None:
    derivation.visit(node.a, factor)
    derivation.visit(node.b, factor)


@RULES.handles(Sub)
def _subtract(derivation: _Derivation, node: Sub, factor: PrimExpr) -> None:
    derivation.visit(node.a, factor)
    derivation.visit(node.b, -factor)


@RULES.handles(Mul)
def _multiply(derivation: _Derivation, node: Mul, factor: PrimExpr) -> None:
    derivation.visit(node.a, _times(factor, node.b))
    derivation.visit(node.b, _times(factor, node.a))


def _times(factor: PrimExpr, other: PrimExpr) -> PrimExpr:
    return other if is_const(factor, 1) else factor * other


@RULES.handles(Div)
def _divide(derivation: _Derivation, node: Div, factor: PrimExpr) -> None:
    derivation.visit(node.a, factor / node.b)
    derivation.visit(node.b, -(factor * node.a) / (node.b * node.b))


@RULES.handles(Mod, FloorMod, FloorDiv)
def _remainder(derivation: _Derivation, node: Any, factor: PrimExpr) -> None:
    if isinstance(node, FloorDiv):
        return  # constant between its steps
    derivation.visit(node.a, factor)
    steps = intrinsics.trunc if isinstance(node, Mod) else intrinsics.floor
    derivation.visit(node.b, -(factor * steps(node.a / node.b)))


@RULES.handles(Max)
def _larger(derivation: _Derivation, node: Max, factor: PrimExpr) -> None:
    derivation.under(node.a >= node.b, node.a, factor)
    derivation.under(node.a < node.b, node.b, factor)


@RULES.handles(Min)
def _smaller(derivation: _Derivation, node: Min, factor: PrimExpr) -> None:
    derivation.under(node.a <= node.b, node.a, factor)
    derivation.under(node.a > node.b, node.b, factor)


@RULES.handles(Select)
def _select(derivation: _Derivation, node: Select, factor: PrimExpr) -> None:
    _branches(derivation, node.condition, node.true_value, node.false_value, factor)


def _branches(
    derivation: _Derivation, condition: PrimExpr, a: PrimExpr, b: PrimExpr, factor: PrimExpr
) -> None:
    derivation.under(condition, a, factor)
    derivation.under(logical_not(condition), b, factor)


@RULES.handles(Cast)
def _cast(derivation: _Derivation, node: Cast, factor: PrimExpr) -> None:
    derivation.visit(node.value, cast(node.value.dtype, factor))


@RULES.handles(Let)
def _let(derivation: _Derivation, node: Let, factor: PrimExpr) -> None:
    derivation.visit(substitute(node.body, {node.var: node.value}), factor)


@RULES.handles(Call)
def _call(derivation: _Derivation, node: Call, factor: PrimExpr) -> None:
    name = called_name(node)
    if name == "tir.if_then_else":
        _branches(derivation, *node.args, factor)
        return
    if name == "tir.likely":
        derivation.visit(node.args[0], factor)
        return
    rule = CALLS.get(name)
    if rule is None:
        _unknown(derivation, node, factor)
        return
    for argument, derivative in zip(node.args, rule(node)):
        if derivative is not None:
            derivation.visit(argument, _times(factor, derivative))


def _of_one(*names: str) -> Callable[[Callable[[PrimExpr, Call], PrimExpr | None]], Any]:
    """Enter the derivative of functions of one argument: of the argument and the call itself."""

    def enter(function: Callable[[PrimExpr, Call], PrimExpr | None]) -> Any:
        CALLS.handles(*names)(lambda call: [function(call.args[0], call)])
        return function

    return enter


def _number(value: float, like: PrimExpr) -> PrimExpr:
    return const(value, like.dtype)


_of_one("exp")(lambda x, y: y)
_of_one("exp2")(lambda x, y: y * _number(math.log(2), x))
_of_one("exp10")(lambda x, y: y * _number(math.log(10), x))
_of_one("log")(lambda x, y: _number(1, x) / x)
_of_one("log2")(lambda x, y: _number(1 / math.log(2), x) / x)
_of_one("log10")(lambda x, y: _number(1 / math.log(10), x) / x)
_of_one("log1p")(lambda x, y: _number(1, x) / (_number(1, x) + x))
_of_one("sqrt")(lambda x, y: _number(0.5, x) / y)
_of_one("rsqrt")(lambda x, y: _number(-0.5, x) * y / x)
_of_one("sigmoid")(lambda x, y: y * (_number(1, x) - y))
_of_one("tanh")(lambda x, y: _number(1, x) - y * y)
_of_one("erf")(lambda x, y: _number(2 / math.sqrt(math.pi), x) * intrinsics.exp(-(x * x)))
_of_one("sin")(lambda x, y: intrinsics.cos(x))
_of_one("cos")(lambda x, y: -intrinsics.sin(x))
_of_one("tan")(lambda x, y: _number(1, x) + y * y)
_of_one("sinh")(lambda x, y: intrinsics.cosh(x))
_of_one("cosh")(lambda x, y: intrinsics.sinh(x))
_of_one("asin")(lambda x, y: intrinsics.rsqrt(_number(1, x) - x * x))
_of_one("acos")(lambda x, y: -intrinsics.rsqrt(_number(1, x) - x * x))
_of_one("atan")(lambda x, y: _number(1, x) / (_number(1, x) + x * x))
_of_one("asinh")(lambda x, y: intrinsics.rsqrt(x * x + _number(1, x)))
_of_one("acosh")(lambda x, y: intrinsics.rsqrt(x * x - _number(1, x)))
_of_one("atanh")(lambda x, y: _number(1, x) / (_number(1, x) - x * x))
_of_one("fabs", "abs")(
    lambda x, y: Select(
        x > _number(0, x), _number(1, x), Select(x < _number(0, x), _number(-1, x), _number(0, x))
    )
)
_of_one("floor", "ceil", "trunc", "round", "nearbyint")(lambda x, y: None)


@CALLS.handles("pow")
def _power(call: Call) -> list[PrimExpr | None]:
    x, y = call.args
    by_base = y * intrinsics.power(x, y - _number(1, y))
    # 0 ** y grows by nothing for y > 0, where log(0) has no value
    is_zero = equal(x, _number(0, x))
    log = intrinsics.log(Select(is_zero, _number(1, x), x))
    by_exponent = Select(is_zero, _number(0, x), call * log)
    return [by_base, None if is_const(y) else by_exponent]


@CALLS.handles("atan2")
def _arc_tangent(call: Call) -> list[PrimExpr | None]:
    y, x = call.args
    square = x * x + y * y
    return [x / square, -y / square]


@CALLS.handles("hypot")
def _hypotenuse(call: Call) -> list[PrimExpr | None]:
    x, y = call.args
    return [x / call, y / call]


@CALLS.handles("fmod")
def _float_remainder(call: Call) -> list[PrimExpr | None]:
    x, y = call.args
    return [_number(1, x), -intrinsics.trunc(x / y)]


@CALLS.handles("copysign")
def _copied_sign(call: Call) -> list[PrimExpr | None]:
    x, _ = call.args
    changed = not_equal(x < _number(0, x), call < _number(0, x))
    return [Select(changed, _number(-1, x), _number(1, x)), None]
