"""Sizes: torch's symbolic integers (expressions of sympy) as scalar expressions of the graph."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from tilesmith import tir
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir.operators import (
    all_of,
    any_of,
    cast,
    divide,
    equal,
    floordiv,
    floormod,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_not,
    maximum,
    minimum,
    not_equal,
)
from tilesmith.relax.relations import simplify_size
from tilesmith.support.errors import UnsupportedError

__all__ = ["SymbolTable", "is_symbolic_scalar"]

_SYMBOLIC = ("SymInt", "SymFloat", "SymBool")


def is_symbolic_scalar(value: Any) -> bool:
    """Return whether a value is one of torch's symbolic numbers."""
    return type(value).__name__ in _SYMBOLIC


class SymbolTable:
    """What torch's symbols are in the graph: a symbolic variable, or an expression of them."""

    def __init__(self) -> None:
        self.values: dict[str, PrimExpr] = {}
        self._named: dict[Any, PrimExpr] = {}

    def name_size(self, expr: Any, name: str) -> PrimExpr:
        """Return a new variable that stands for an expression of torch from now on."""
        self._named[expr] = SymbolicVar(name, "int64")
        return self._named[expr]

    def of(self, name: str) -> PrimExpr:
        """Return the expression for a symbol; a new variable if it has none yet."""
        if name not in self.values:
            self.values[name] = SymbolicVar(name, "int64")
        return self.values[name]

    def scalar(self, value: Any) -> Any:
        """Return a number of torch as a Python number, or as an expression if it is symbolic."""
        if not is_symbolic_scalar(value):
            return value
        known = value.node.maybe_as_int() if type(value).__name__ == "SymInt" else None
        return known if known is not None else self.expression(value.node.expr)

    def expression(self, expr: Any) -> Any:
        """Return an expression of sympy as a number or a scalar expression."""
        found = self._convert(expr)
        if isinstance(found, PrimExpr) and found.dtype.is_int:
            found = simplify_size(found)
        return int(found.value) if isinstance(found, IntImm) else found

    def size(self, value: Any) -> Any:
        """Return a size of torch as an integer or an expression."""
        found = self.scalar(value)
        return found if isinstance(found, PrimExpr) else int(found)

    def _convert(self, expr: Any) -> Any:
        kind = type(expr).__name__
        if expr in self._named:
            return self._named[expr]
        if kind == "Symbol":
            return self.of(expr.name)
        if expr.is_Integer:
            return const(int(expr), "int64")
        if expr.is_Boolean and kind in ("BooleanTrue", "BooleanFalse"):
            return const(bool(expr), "bool")
        if expr.is_number and not expr.args:
            return const(float(expr), "float64")
        rule = _RULES.get(kind)
        if rule is None:
            raise UnsupportedError(
                f"a size is computed as `{expr}`; {kind} of sizes is not supported",
                notes=("export the model with fixed sizes",),
            )
        return rule(*[self._convert(part) for part in expr.args])


def _power(base: Any, exponent: Any) -> Any:
    count = getattr(exponent, "value", None)
    if isinstance(count, int) and count >= 0:
        return functools.reduce(operator.mul, [base] * count, const(1, "int64"))
    if isinstance(count, int):
        return divide(const(1.0, "float64"), cast("float64", _power(base, const(-count, "int64"))))
    raise UnsupportedError("a size is a power whose exponent is not a constant integer")


def _fold(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def combine(*parts: Any) -> Any:
        return functools.reduce(function, _one_dtype(parts))

    return combine


def _one_dtype(parts: Any) -> list[Any]:
    if any(part.dtype.is_float for part in parts):
        return [part if part.dtype.is_float else cast("float64", part) for part in parts]
    return list(parts)


def _true_division(a: Any, b: Any) -> Any:
    return divide(cast("float64", a), cast("float64", b))


def _ceiling_division(a: Any, b: Any) -> Any:
    return floordiv(a + b - 1, b)


def _of_float(name: str) -> Callable[[Any], Any]:
    return lambda part: getattr(tir, name)(cast("float64", part))


def _to_integer(name: str) -> Callable[[Any], Any]:
    return lambda part: cast("int64", _of_float(name)(part))


def _float_power(base: Any, exponent: Any) -> Any:
    return tir.pow(cast("float64", base), cast("float64", exponent))


_RULES: dict[str, Callable[..., Any]] = {
    "Add": _fold(operator.add),
    "And": lambda *parts: all_of(*parts),
    "CeilDiv": _ceiling_division,
    "CeilToInt": _to_integer("ceil"),
    "CleanDiv": floordiv,
    "Equality": _fold(equal),
    "FloatPow": _float_power,
    "FloatTrueDiv": _true_division,
    "FloorDiv": floordiv,
    "FloorToInt": _to_integer("floor"),
    "GreaterThan": _fold(greater_equal),
    "Identity": lambda part: part,
    "IntTrueDiv": _true_division,
    "LessThan": _fold(less_equal),
    "Max": _fold(maximum),
    "Min": _fold(minimum),
    "Mod": floormod,
    "Mul": _fold(operator.mul),
    "Not": logical_not,
    **{f"OpaqueUnaryFn_{name}": _of_float(name) for name in ("cos", "exp", "log", "sin", "sqrt")},
    "Or": lambda *parts: any_of(*parts),
    "Pow": _power,
    "PythonMod": floormod,
    "StrictGreaterThan": _fold(greater),
    "StrictLessThan": _fold(less),
    "ToFloat": lambda part: cast("float64", part),
    "TruncToInt": lambda part: cast("int64", part),
    "Unequality": _fold(not_equal),
}
