"""Matches an expression with a pattern, or a dataflow block with connected patterns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import GlobalVar, IntImm, Op
from tilesmith.ir.rules import NodeRules
from tilesmith.ir.structural import structural_equal
from tilesmith.relax.analysis import udchain
from tilesmith.relax.dpl import pattern as patterns
from tilesmith.relax.expr import (
    Call,
    Constant,
    DataflowVar,
    ExternFunc,
    Function,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.relations import is_base_of, prove_equal, prove_equal_shapes
from tilesmith.relax.struct_info import TensorStructInfo

__all__ = ["match_dfb", "match_expr"]


class _Matcher:
    def __init__(self, var2val: Mapping[Any, Any] | None) -> None:
        self.var2val = var2val or {}
        self.found: dict[Any, Any] = {}

    def match(self, pattern: Any, expr: Any) -> bool:
        """Match a part; on failure undo what it recorded."""
        known = self.found.get(pattern)
        if known is not None:
            return known is expr or self.value(known) is self.value(expr)
        before = dict(self.found)
        if self._visit(pattern, expr):
            # A variable is recorded as its value, so that callers see the operation.
            self.found[pattern] = expr if self._stays(pattern) else self.value(expr)
            return True
        self.found = before
        return False

    def _stays(self, pattern: Any) -> bool:
        return isinstance(pattern, (patterns.VarPattern, patterns.WildcardPattern))

    def value(self, expr: Any) -> Any:
        """Return the operation that a variable is bound to."""
        while isinstance(expr, Var) and expr in self.var2val:
            expr = self.var2val[expr]
        return expr

    def _visit(self, pattern: Any, expr: Any) -> bool:
        return _METHODS[pattern.__class__](self, pattern, expr)

    def wildcard(self, pattern: Any, expr: Any) -> bool:
        return True

    def expression(self, pattern: Any, expr: Any) -> bool:
        value = self.value(expr)
        if isinstance(pattern.expr, Op) or isinstance(value, Op):
            return value is pattern.expr
        return value is pattern.expr or structural_equal(value, pattern.expr)

    def variable(self, pattern: Any, expr: Any) -> bool:
        return isinstance(expr, Var) and pattern.name in ("", expr.name_hint)

    def dataflow_variable(self, pattern: Any, expr: Any) -> bool:
        return isinstance(expr, DataflowVar) and pattern.name in ("", expr.name_hint)

    def global_variable(self, pattern: Any, expr: Any) -> bool:
        return isinstance(expr, GlobalVar) and pattern.name in ("", expr.name_hint)

    def extern(self, pattern: Any, expr: Any) -> bool:
        if not isinstance(expr, ExternFunc):
            return False
        return pattern.global_symbol in ("", expr.global_symbol)

    def constant(self, pattern: Any, expr: Any) -> bool:
        return isinstance(self.value(expr), Constant)

    def call(self, pattern: Any, expr: Any) -> bool:
        call = self.value(expr)
        if not isinstance(call, Call) or not self.match(pattern.op, call.op):
            return False
        given = list(call.args)
        if pattern.varg_default_wildcard:
            if len(given) < len(pattern.args):
                return False
        elif len(given) != len(pattern.args):
            return False
        return all(self.match(part, arg) for part, arg in zip(pattern.args, given))

    def function(self, pattern: Any, expr: Any) -> bool:
        if not isinstance(expr, Function) or len(expr.params) != len(pattern.params):
            return False
        if not all(self.match(p, v) for p, v in zip(pattern.params, expr.params)):
            return False
        return self.match(pattern.body, expr.body.body)

    def tuple(self, pattern: Any, expr: Any) -> bool:
        value = self.value(expr)
        if not isinstance(value, Tuple) or len(value.fields) != len(pattern.fields):
            return False
        return all(self.match(part, field) for part, field in zip(pattern.fields, value.fields))

    def unordered_tuple(self, pattern: Any, expr: Any) -> bool:
        value = self.value(expr)
        if not isinstance(value, Tuple) or len(value.fields) != len(pattern.fields):
            return False
        for order in itertools.permutations(value.fields):
            before = dict(self.found)
            if all(self.match(part, field) for part, field in zip(pattern.fields, order)):
                return True
            self.found = before
        return False

    def get_item(self, pattern: Any, expr: Any) -> bool:
        value = self.value(expr)
        if not isinstance(value, TupleGetItem):
            return False
        if pattern.index not in (None, -1, value.index):
            return False
        return self.match(pattern.tuple, value.tuple_value)

    def either(self, pattern: Any, expr: Any) -> bool:
        return self.match(pattern.left, expr) or self.match(pattern.right, expr)

    def both(self, pattern: Any, expr: Any) -> bool:
        return self.match(pattern.left, expr) and self.match(pattern.right, expr)

    def negation(self, pattern: Any, expr: Any) -> bool:
        return not _Matcher(self.var2val).match(pattern.reject, expr)

    def attributes(self, pattern: Any, expr: Any) -> bool:
        if not self.match(pattern.pattern, expr):
            return False
        value = self.value(expr)
        attrs = value.get_attr if isinstance(value, Op) else getattr(value, "attrs", None)
        if attrs is None:
            return False
        get: Callable[[str], Any] = attrs if callable(attrs) else attrs.get
        return all(get(key) == wanted for key, wanted in pattern.attrs.items())

    def dtype(self, pattern: Any, expr: Any) -> bool:
        info = known_struct_info(expr)
        same = isinstance(info, TensorStructInfo) and info.dtype == pattern.dtype
        return same and self.match(pattern.pattern, expr)

    def shape(self, pattern: Any, expr: Any) -> bool:
        info = known_struct_info(expr)
        if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
            return False
        same = prove_equal_shapes(info.shape, ShapeExpr(pattern.shape))
        return same and self.match(pattern.pattern, expr)

    def struct_info(self, pattern: Any, expr: Any) -> bool:
        fits = is_base_of(pattern.struct_info, known_struct_info(expr))
        return fits and self.match(pattern.pattern, expr)

    def sizes(self, pattern: Any, expr: Any) -> bool:
        value = self.value(expr)
        if not isinstance(value, ShapeExpr) or len(value) != len(pattern.shape):
            return False
        return all(
            prove_equal(own, IntImm("int64", wanted) if isinstance(wanted, int) else wanted)
            for own, wanted in zip(value, pattern.shape)
        )


_METHODS: NodeRules[Callable[[_Matcher, Any, Any], bool]] = NodeRules(
    "matching of patterns",
    {
        patterns.WildcardPattern: _Matcher.wildcard,
        patterns.ExprPattern: _Matcher.expression,
        patterns.VarPattern: _Matcher.variable,
        patterns.DataflowVarPattern: _Matcher.dataflow_variable,
        patterns.GlobalVarPattern: _Matcher.global_variable,
        patterns.ExternFuncPattern: _Matcher.extern,
        patterns.ConstantPattern: _Matcher.constant,
        patterns.CallPattern: _Matcher.call,
        patterns.FunctionPattern: _Matcher.function,
        patterns.TuplePattern: _Matcher.tuple,
        patterns.UnorderedTuplePattern: _Matcher.unordered_tuple,
        patterns.TupleGetItemPattern: _Matcher.get_item,
        patterns.OrPattern: _Matcher.either,
        patterns.AndPattern: _Matcher.both,
        patterns.NotPattern: _Matcher.negation,
        patterns.AttrPattern: _Matcher.attributes,
        patterns.DataTypePattern: _Matcher.dtype,
        patterns.ShapePattern: _Matcher.shape,
        patterns.StructInfoPattern: _Matcher.struct_info,
        patterns.PrimArrPattern: _Matcher.sizes,
    },
)


def match_expr(
    pattern: Any, expr: Any, var2val: Mapping[Any, Any] | None = None
) -> dict[Any, Any] | None:
    """Return the match of each part of a pattern, or None."""
    matcher = _Matcher(var2val)
    return matcher.found if matcher.match(pattern, expr) else None


# Connected patterns


def _nodes(context: Any) -> list[Any]:
    found: dict[Any, None] = {}
    for first, second, _, _ in context.edges:
        found[first] = None
        found[second] = None
    return list(found)


class _BlockMatch:
    """Finds variables of a block for connected patterns by trying them in order."""

    def __init__(self, context: Any, block: Any) -> None:
        self.context = context
        self.values = {binding.var: binding.value for binding in block.bindings}
        self.users = udchain(block)
        self.variables = list(self.users)
        self.nodes = _nodes(context)

    def candidates(self, pattern: Any) -> list[tuple[Any, dict[Any, Any]]]:
        found = []
        for var in self.variables:
            matched = match_expr(pattern, var, self.values)
            if matched is not None:
                found.append((var, matched))
        return found

    def uses(self, first: Any, second: Any, index: int, only: bool) -> bool:
        value = self.values.get(second)
        args = list(getattr(value, "args", ())) or list(getattr(value, "fields", ()))
        if isinstance(value, TupleGetItem):
            args = [value.tuple_value]
        flat = [f for arg in args for f in (arg.fields if isinstance(arg, Tuple) else (arg,))]
        if index >= 0:
            connected = index < len(args) and args[index] is first
        else:
            connected = any(arg is first for arg in flat)
        if not connected:
            return False
        return not only or all(user is second for user in self.users.get(first, ()))

    def consistent(self, chosen: dict[Any, Any]) -> bool:
        for first, second, index, only in self.context.edges:
            if first in chosen and second in chosen:
                if not self.uses(chosen[first], chosen[second], index, only):
                    return False
        return True

    def search(self, number: int, chosen: dict[Any, Any], inner: dict[Any, Any]) -> Any:
        if number == len(self.nodes):
            return {**inner, **chosen} if self.constraints_hold(chosen) else None
        pattern = self.nodes[number]
        for var, matched in self.candidates(pattern):
            if not self.agree({**inner, **chosen}, {**matched, pattern: var}):
                continue
            extended = {**chosen, pattern: var}
            if self.consistent(extended):
                found = self.search(number + 1, extended, {**inner, **matched})
                if found is not None:
                    return found
        return None

    def agree(self, known: dict[Any, Any], new: dict[Any, Any]) -> bool:
        """Return whether two matches assign the same values to the parts that they share."""
        for part, value in new.items():
            other = known.get(part, value)
            if other is not value:
                if self.values.get(other, other) is not self.values.get(value, value):
                    return False
        return True

    def constraints_hold(self, chosen: dict[Any, Any]) -> bool:
        for constraint in self.context.constraints:
            shapes = [
                known_struct_info(chosen[part]).shape for part in constraint.args if part in chosen
            ]
            for shape in shapes[1:]:
                if not isinstance(shape, ShapeExpr) or not isinstance(shapes[0], ShapeExpr):
                    return False
                if not prove_equal_shapes(shapes[0], shape):
                    return False
        return True


def match_dfb(context: Any, dfb: Any) -> dict[Any, Any] | None:
    """Return variables of a dataflow block for the connected patterns of a context, or None."""
    search = _BlockMatch(context, dfb)
    return search.search(0, {}, {}) if search.nodes else None
