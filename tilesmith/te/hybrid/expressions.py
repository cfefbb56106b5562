"""Parses the expressions of hybrid script: syntax tree → Python numbers and expressions.

Numbers of the script, sizes that are known and loops that are written out are Python numbers; all
else becomes expressions. The functions take the parser, which goes on with the parts.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import ModuleType
from typing import Any, Protocol

from tilesmith.ir import IntImm, PrimExpr, convert
from tilesmith.ir.operators import all_of, any_of, cast, is_const, logical_not
from tilesmith.support.errors import ScriptError, ShapeError, TypeMismatchError
from tilesmith.te.hybrid import calls
from tilesmith.te.hybrid.utils import Source
from tilesmith.te.tensor import Tensor
from tilesmith.tir.expr import IterVar, ProducerLoad
from tilesmith.tir.op import if_then_else

__all__ = [
    "Parser", "Scope", "Symbol", "attribute", "call", "choice", "comparison", "condition",
    "connected", "element", "operated", "unary",
]  # fmt: skip


class Symbol(Enum):
    """What a name of a script stands for."""

    Callable = 0
    Input = 1
    OutputBuffer = 2
    GlobalBuffer = 3
    LocalBuffer = 4
    SharedBuffer = 5
    ConstVar = 6
    BufferVar = 7
    LoopVar = 8
    ConstLoopVar = 9
    ThreadBind = 10


_BUFFERS = (
    Symbol.Input, Symbol.OutputBuffer, Symbol.GlobalBuffer, Symbol.LocalBuffer,
    Symbol.SharedBuffer,
)  # fmt: skip

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Pow: lambda a, b: calls.math("power", [a, b]),
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: lambda a, b: a.equal(b) if isinstance(a, PrimExpr) else convert(b).equal(a),
    ast.NotEq: lambda a, b: logical_not(_COMPARISONS[ast.Eq](a, b)),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


class Scope:
    """What the names of a script stand for, and how its mistakes are refused."""

    def __init__(
        self, source: Source, symbols: Mapping[str, Any], closure_vars: Mapping[str, Any]
    ) -> None:
        self.source = source
        self.names: dict[str, tuple[Symbol, Any]] = {}
        self.outside = {**symbols, **closure_vars}
        self.captured: list[Tensor] = []

    def refusal(self, node: ast.AST, message: str, *notes: str) -> ScriptError:
        """Return an error at a part of the script."""
        return ScriptError(message, self.source.span(node), notes)

    def add(self, key: str, kind: Symbol, value: Any, node: ast.AST) -> None:
        """Make a name known; refuse one that is known already."""
        if key in self.names:
            raise self.refusal(node, f"'{key}' has a meaning already", "take another name")
        self.names[key] = (kind, value)

    def value(self, node: ast.Name) -> Any:
        """Return the value of a name: of the script, or from around the function."""
        found = self.names.get(node.id)
        if found is not None:
            kind, value = found
            return ProducerLoad(value, [0]) if kind is Symbol.BufferVar else value
        if node.id not in self.outside:
            known = ", ".join(sorted(self.names)) or "none"
            raise self.refusal(
                node, f"the name '{node.id}' is not defined here", f"known names: {known}",
                "a variable is known in the block where it is assigned first",
            )  # fmt: skip
        value = self.outside[node.id]
        if isinstance(value, Tensor) and value not in self.captured:
            self.captured.append(value)
        return value.var if isinstance(value, IterVar) else value

    def number(self, node: ast.AST, value: Any) -> int:
        """Return an integer that has to be known while the script is parsed."""
        if isinstance(value, IntImm):
            return value.value
        if not isinstance(value, int):
            raise self.refusal(
                node, f"a number that is known is needed, got {value}",
                "loops over const_range have such numbers",
            )  # fmt: skip
        return value

    def indices(self, node: ast.AST, tensor: Tensor, given: Sequence[Any]) -> list[PrimExpr]:
        """Return the indices of an element as expressions, one for each dimension."""
        if len(given) != tensor.ndim:
            raise ShapeError(
                f"'{tensor.name}' has {tensor.ndim} dimensions, got {len(given)} indices",
                self.source.span(node),
            )
        found = [convert(one) for one in given]
        for one in found:
            if not one.dtype.is_integer:
                raise TypeMismatchError(
                    f"an index of '{tensor.name}' is {one.dtype}, an integer is needed",
                    self.source.span(node),
                    ("convert it: int32(index)",),
                )
        return found

    def require_scalar(self, node: ast.AST, value: Any) -> None:
        """Refuse tensors, tuples and texts where one value is needed."""
        if not _is_number(value) and not isinstance(value, PrimExpr):
            what = f"tensor '{value.name}'" if isinstance(value, Tensor) else repr(value)
            raise self.refusal(node, f"one value is needed, got {what}")


class Parser(Protocol):
    """What the functions here need of the parser."""

    scope: Scope

    def visit(self, node: ast.AST) -> Any:
        """Return what a part of the syntax tree stands for."""
        ...

    def visit_Index(self, node: Any) -> tuple[Any, ...]:
        """Return the indices between brackets."""
        ...


def attribute(parser: Parser, node: ast.Attribute) -> Any:
    """Return the shape or dtype of a tensor, or an attribute of what stands outside."""
    value = parser.visit(node.value)
    if isinstance(value, Tensor):
        if node.attr not in ("shape", "dtype"):
            raise parser.scope.refusal(
                node, f"a tensor of a hybrid script has no '{node.attr}'",
                "it has shape and dtype",
            )  # fmt: skip
        return value.shape if node.attr == "shape" else str(value.dtype)
    if not isinstance(value, ModuleType) or not hasattr(value, node.attr):
        raise parser.scope.refusal(
            node, f"'{node.attr}' of {value!r} is not known to hybrid script"
        )
    return getattr(value, node.attr)


def element(parser: Parser, node: ast.Subscript) -> Any:
    """Return an element of a tensor or of a tuple."""
    value = parser.visit(node.value)
    indices = parser.visit_Index(node.slice)
    if isinstance(value, Tensor):
        return ProducerLoad(value, parser.scope.indices(node, value, indices))
    if isinstance(value, (list, tuple)) and len(indices) == 1:
        number = parser.scope.number(node, indices[0])
        if not -len(value) <= number < len(value):
            raise parser.scope.refusal(node, f"index {number} of a tuple of {len(value)}")
        return _plain(value[number])
    raise parser.scope.refusal(node, "only tensors and tuples have elements")


def operated(parser: Parser, node: ast.AST, op: ast.AST, a: Any, b: Any) -> Any:
    """Return the result of an operator on two values."""
    function = _OPERATORS.get(type(op))
    if function is None:
        raise parser.scope.refusal(node, f"the operator {type(op).__name__} is not known")
    for value in (a, b):
        parser.scope.require_scalar(node, value)
    try:
        return function(a, b)
    except ZeroDivisionError:
        raise parser.scope.refusal(node, "a division by zero") from None


def unary(parser: Parser, node: ast.UnaryOp) -> Any:
    """Return a negated value."""
    value = parser.visit(node.operand)
    parser.scope.require_scalar(node, value)
    if isinstance(node.op, ast.Not):
        return not value if _is_number(value) else logical_not(value)
    if isinstance(node.op, ast.USub):
        return -value
    return ~value if isinstance(node.op, ast.Invert) else value


def comparison(parser: Parser, node: ast.Compare) -> Any:
    """Return a comparison, or several in a row."""
    values = [parser.visit(one) for one in (node.left, *node.comparators)]
    found = []
    for op, a, b in zip(node.ops, values, values[1:]):
        function = _COMPARISONS.get(type(op))
        if function is None:
            raise parser.scope.refusal(node, f"the comparison {type(op).__name__} is not known")
        for value in (a, b):
            parser.scope.require_scalar(node, value)
        if _is_number(a) and _is_number(b):
            same = {ast.Eq: operator.eq, ast.NotEq: operator.ne}.get(type(op), function)
            found.append(same(a, b))
        else:
            found.append(function(a, b))
    return _together(found, all_of, all)


def connected(parser: Parser, node: ast.BoolOp) -> Any:
    """Return conditions joined by `and` or `or`."""
    values = [parser.visit(one) for one in node.values]
    for value in values:
        parser.scope.require_scalar(node, value)
    if isinstance(node.op, ast.And):
        return _together(values, all_of, all)
    return _together(values, any_of, any)


def choice(parser: Parser, node: ast.IfExp) -> Any:
    """Return one of two values; only the chosen one is computed."""
    test = condition(parser, node.test)
    if isinstance(test, bool):
        return parser.visit(node.body if test else node.orelse)
    a, b = convert(parser.visit(node.body)), convert(parser.visit(node.orelse))
    if a.dtype is not b.dtype:
        a, b = (a, cast(a.dtype, b)) if not is_const(a) else (cast(b.dtype, a), b)
    return if_then_else(test, a, b)


def condition(parser: Parser, node: ast.AST) -> Any:
    """Return a condition: True or False where it is known, else an expression."""
    value = parser.visit(node)
    parser.scope.require_scalar(node, value)
    if _is_number(value):
        return bool(value)
    if is_const(value):
        return bool(value.value)
    return value if value.dtype.is_bool else cast("bool", value)


def call(parser: Parser, node: ast.Call) -> Any:
    """Return the result of a call: a word of hybrid script, a function of scalars, another
    hybrid script.
    """
    if node.keywords:
        raise parser.scope.refusal(node, "a call in a hybrid script has no keyword arguments")
    if not isinstance(node.func, ast.Name):
        function = parser.visit(node.func)
        return _outside_call(parser, node, function, getattr(node.func, "attr", "?"))
    name = node.func.id
    args = [parser.visit(one) for one in node.args]
    if name in calls.CASTS:
        return calls.cast_to(name, args)
    if name in calls.LOOP_INTRIN or name == "bind":
        raise parser.scope.refusal(node, f"{name} stands in a for loop", f"for i in {name}(…):")
    if name in ("len", "ceil_div", "likely", "max_num_threads", "inf", "ninf"):
        return getattr(calls, name)(name, args)
    if name in calls.MATH:
        for value in args:
            parser.scope.require_scalar(node, value)
        if name in ("min", "max") and all(_is_number(value) for value in args):
            return min(args) if name == "min" else max(args)
        return calls.math(name, args)
    return _outside_call(parser, node, parser.visit(node.func), name)


def _outside_call(parser: Parser, node: ast.Call, function: Any, name: str) -> Any:
    """Return the result of a function from outside: the operation of a hybrid script, or an
    expression of ours.
    """
    args = [parser.visit(one) for one in node.args]
    if getattr(function, "is_hybrid_script", False):
        made = function(*args)
        first = made[0] if isinstance(made, (list, tuple)) else made
        return first.op
    module = str(getattr(function, "__module__", ""))
    if not callable(function) or not module.startswith("tilesmith."):
        raise parser.scope.refusal(
            node, f"the function '{name}' is not known to hybrid script",
            "decorate it with te.hybrid.script, or write what it does here",
        )  # fmt: skip
    for value in args:
        parser.scope.require_scalar(node, value)
    return function(*[convert(value) for value in args])


def _together(found: Sequence[Any], symbolic: Any, known: Any) -> Any:
    if all(_is_number(value) for value in found):
        return known(found)
    return found[0] if len(found) == 1 else symbolic(*found)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, IntImm) and value.dtype == "int32" else value
