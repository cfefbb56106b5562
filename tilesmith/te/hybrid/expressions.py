"""Parses the expressions of hybrid script: syntax tree → Python numbers and expressions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import ModuleType
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, convert
from tilesmith.ir.operators import all_of, any_of, cast, is_const, logical_not
from tilesmith.support.errors import ScriptError, ShapeError, TilesmithError, TypeMismatchError
from tilesmith.te.hybrid import calls
from tilesmith.te.hybrid.utils import Source
from tilesmith.te.tensor import Operation, Tensor
from tilesmith.tir.expr import IterVar, ProducerLoad
from tilesmith.tir.op import if_then_else

__all__ = ["ExpressionParser", "Symbol"]


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


class ExpressionParser(ast.NodeVisitor):
    """Parses expressions; subclasses parse statements.

    Numbers of the script, sizes that are known and loops that are written out are Python numbers;
    all else becomes expressions.
    """

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

    def visit(self, node: ast.AST) -> Any:
        """Parse a part; errors of what it is made of get its place."""
        try:
            return super().visit(node)
        except TilesmithError as error:
            if error.span is None and self.source.span(node) is not None:
                kind = type(error)
                raise kind(error.message, self.source.span(node), error.notes) from None
            raise

    def generic_visit(self, node: ast.AST) -> Any:
        """Refuse what hybrid script does not have."""
        kind = type(node).__name__
        raise self.refusal(
            node,
            f"`{kind}` is no part of hybrid script",
            "it has loops over ranges, if, assignments, arithmetic, calls of its words, return",
        )

    # Names and constants

    def visit_Name(self, node: ast.Name) -> Any:
        """Return the value of a name."""
        found = self.names.get(node.id)
        if found is None:
            return self._outer(node)
        kind, value = found
        return ProducerLoad(value, [0]) if kind is Symbol.BufferVar else value

    def _outer(self, node: ast.Name) -> Any:
        """Return the value of a name from around the function."""
        if node.id not in self.outside:
            known = ", ".join(sorted(self.names)) or "none"
            raise self.refusal(
                node, f"the name '{node.id}' is not defined here", f"known names: {known}",
                "a variable is known in the block where it is assigned first",
            )  # fmt: skip
        value = self.outside[node.id]
        if isinstance(value, Tensor) and value not in self.captured:
            self.captured.append(value)
        if isinstance(value, IterVar):
            value = value.var
        return value

    def visit_Constant(self, node: ast.Constant) -> Any:
        """Return a constant."""
        if isinstance(node.value, str):
            return self.visit_Str(node)
        if node.value is None or isinstance(node.value, bool):
            return self.visit_NameConstant(node)
        return self.visit_Num(node)

    def visit_Num(self, node: ast.Constant) -> Any:
        """Return a number."""
        if not isinstance(node.value, (int, float)):
            raise self.refusal(node, f"{node.value!r} is no number that hybrid script has")
        return node.value

    def visit_NameConstant(self, node: ast.Constant) -> Any:
        """Return True, False or None."""
        return node.value

    def visit_Str(self, node: ast.Constant) -> Any:
        """Return a text: a dtype, a scope, a thread's tag."""
        return node.value

    def visit_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        """Return a tuple, such as a shape."""
        return tuple([self.visit(one) for one in node.elts])

    def visit_List(self, node: ast.List) -> tuple[Any, ...]:
        """Return a list as a tuple."""
        return tuple([self.visit(one) for one in node.elts])

    # Elements

    def visit_Index(self, node: Any) -> tuple[Any, ...]:
        """Return the indices between brackets."""
        inner = node.value if type(node).__name__ == "Index" else node
        found = self.visit(inner)
        return found if isinstance(found, tuple) else (found,)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Return the shape or dtype of a tensor, or an attribute of what stands outside."""
        value = self.visit(node.value)
        if isinstance(value, Tensor):
            if node.attr not in ("shape", "dtype"):
                raise self.refusal(
                    node, f"a tensor of a hybrid script has no '{node.attr}'",
                    "it has shape and dtype",
                )  # fmt: skip
            return value.shape if node.attr == "shape" else str(value.dtype)
        if not isinstance(value, ModuleType) or not hasattr(value, node.attr):
            raise self.refusal(node, f"'{node.attr}' of {value!r} is not known to hybrid script")
        return getattr(value, node.attr)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Return an element of a tensor or of a tuple."""
        value = self.visit(node.value)
        indices = self.visit_Index(node.slice)
        if isinstance(value, Tensor):
            return ProducerLoad(value, self.indices(node, value, indices))
        if isinstance(value, (list, tuple)) and len(indices) == 1:
            number = self.number(node, indices[0])
            if not -len(value) <= number < len(value):
                raise self.refusal(node, f"index {number} of a tuple of {len(value)}")
            return self._plain(value[number])
        raise self.refusal(node, "only tensors and tuples have elements")

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

    def _plain(self, value: Any) -> Any:
        return value.value if isinstance(value, IntImm) and value.dtype == "int32" else value

    # Operators

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Return the result of arithmetic."""
        return self.operated(node, node.op, self.visit(node.left), self.visit(node.right))

    def operated(self, node: ast.AST, op: ast.AST, a: Any, b: Any) -> Any:
        """Return the result of an operator on two values."""
        function = _OPERATORS.get(type(op))
        if function is None:
            raise self.refusal(node, f"the operator {type(op).__name__} is not known")
        for value in (a, b):
            self.require_scalar(node, value)
        try:
            return function(a, b)
        except ZeroDivisionError:
            raise self.refusal(node, "a division by zero") from None

    def require_scalar(self, node: ast.AST, value: Any) -> None:
        """Refuse tensors, tuples and texts where one value is needed."""
        if not _is_number(value) and not isinstance(value, PrimExpr):
            what = f"tensor '{value.name}'" if isinstance(value, Tensor) else repr(value)
            raise self.refusal(node, f"one value is needed, got {what}")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Return a negated value."""
        value = self.visit(node.operand)
        self.require_scalar(node, value)
        if isinstance(node.op, ast.Not):
            return not value if _is_number(value) else logical_not(value)
        if isinstance(node.op, ast.USub):
            return -value
        return ~value if isinstance(node.op, ast.Invert) else value

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Return a comparison, or several in a row."""
        values = [self.visit(one) for one in (node.left, *node.comparators)]
        found = []
        for op, a, b in zip(node.ops, values, values[1:]):
            function = _COMPARISONS.get(type(op))
            if function is None:
                raise self.refusal(node, f"the comparison {type(op).__name__} is not known")
            for value in (a, b):
                self.require_scalar(node, value)
            if _is_number(a) and _is_number(b):
                same = {ast.Eq: operator.eq, ast.NotEq: operator.ne}.get(type(op), function)
                found.append(same(a, b))
            else:
                found.append(function(a, b))
        return self._together(found, all_of, all)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Return conditions joined by `and` or `or`."""
        values = [self.visit(one) for one in node.values]
        for value in values:
            self.require_scalar(node, value)
        if isinstance(node.op, ast.And):
            return self._together(values, all_of, all)
        return self._together(values, any_of, any)

    def _together(self, values: Sequence[Any], symbolic: Any, known: Any) -> Any:
        if all(_is_number(value) for value in values):
            return known(values)
        return values[0] if len(values) == 1 else symbolic(*values)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Return one of two values; only the chosen one is computed."""
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            return self.visit(node.body if condition else node.orelse)
        a, b = convert(self.visit(node.body)), convert(self.visit(node.orelse))
        if a.dtype is not b.dtype:
            a, b = (a, cast(a.dtype, b)) if not is_const(a) else (cast(b.dtype, a), b)
        return if_then_else(condition, a, b)

    def condition(self, node: ast.AST) -> Any:
        """Return a condition: True or False where it is known, else an expression."""
        value = self.visit(node)
        self.require_scalar(node, value)
        if _is_number(value):
            return bool(value)
        if is_const(value):
            return bool(value.value)
        return value if value.dtype.is_bool else cast("bool", value)

    # Calls

    def visit_Call(self, node: ast.Call) -> Any:
        """Return the result of a call: a word of hybrid script, a function of scalars, another
        hybrid script.
        """
        if node.keywords:
            raise self.refusal(node, "a call in a hybrid script has no keyword arguments")
        if not isinstance(node.func, ast.Name):
            function = self.visit(node.func)
            return self._outside_call(node, function, getattr(node.func, "attr", "?"))
        name = node.func.id
        args = [self.visit(one) for one in node.args]
        if name in calls.CASTS:
            return calls.cast_to(name, args)
        if name in calls.LOOP_INTRIN or name == "bind":
            raise self.refusal(node, f"{name} stands in a for loop", f"for i in {name}(…):")
        if name in ("len", "ceil_div", "likely", "max_num_threads", "inf", "ninf"):
            return getattr(calls, name)(name, args)
        if name in calls.MATH:
            for value in args:
                self.require_scalar(node, value)
            if name in ("min", "max") and all(_is_number(value) for value in args):
                return min(args) if name == "min" else max(args)
            return calls.math(name, args)
        return self._outside_call(node, self.visit(node.func), name)

    def _outside_call(self, node: ast.Call, function: Any, name: str) -> Any:
        """Return the result of a function from outside: the operation of a hybrid script, or an
        expression of ours.
        """
        args = [self.visit(one) for one in node.args]
        if getattr(function, "is_hybrid_script", False):
            made = function(*args)
            first = made[0] if isinstance(made, (list, tuple)) else made
            return first.op
        module = str(getattr(function, "__module__", ""))
        if not callable(function) or not module.startswith("tilesmith."):
            raise self.refusal(
                node, f"the function '{name}' is not known to hybrid script",
                "decorate it with te.hybrid.script, or write what it does here",
            )  # fmt: skip
        for value in args:
            self.require_scalar(node, value)
        return function(*[convert(value) for value in args])

    def is_operation(self, value: Any) -> bool:
        """Return whether a value is the call of another hybrid script."""
        return isinstance(value, Operation)
