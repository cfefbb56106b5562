"""Matches an expression with a pattern, or a dataflow block with connected patterns.

Both doors match with `Matcher`: where values are bound to variables (``var2val``) it looks through
these, where expressions nest it meets the operations themselves. `MATCHING` holds a rule for each
class of pattern; the functional door adds those of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tilesmith.ir import BaseFunc, GlobalVar, IntImm, Op
from tilesmith.ir.rules import NodeRules
from tilesmith.ir.structural import structural_equal
from tilesmith.relax.analysis import udchain
from tilesmith.relax.base import ExprWithOp
from tilesmith.relax.dpl import pattern as patterns
from tilesmith.relax.expr import (
    Call,
    Constant,
    DataflowVar,
    ExternFunc,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.relations import is_base_of, prove_equal, prove_equal_shapes
from tilesmith.relax.struct_info import TensorStructInfo

__all__ = ["MATCHING", "Matcher", "match_dfb", "match_expr"]

_COMMUTATIVE = ("add", "multiply")
"""Operators of the functional door whose patterns match their operands in either order."""


class Matcher:
    """Matches one expression; ``found`` holds what each part of the pattern stands for.

    ``memo`` is what rules found out about a graph, for further matches in the same graph.
    """

    def __init__(
        self, var2val: Mapping[Any, Any] | None = None, memo: dict[Any, Any] | None = None
    ) -> None:
        self.var2val = var2val or {}
        self.found: dict[Any, Any] = {}
        self.memo = {} if memo is None else memo

    def match(self, pattern: Any, expr: Any) -> bool:
        """Match a part; on failure undo what it recorded."""
        known = self.found.get(pattern)
        if known is not None:
            return known is expr or self.value(known) is self.value(expr)
        before = len(self.found)
        if MATCHING[pattern.__class__](self, pattern, expr):
            # A variable is recorded as its value, so that callers see the operation.
            self.found[pattern] = expr if self._stays(pattern) else self.value(expr)
            return True
        self.undo(before)
        return False

    def undo(self, count: int) -> None:
        """Forget all but the first ``count`` parts that were found."""
        while len(self.found) > count:
            self.found.popitem()

    def all_match(self, parts: Sequence[Any], values: Iterable[Any]) -> bool:
        """Match parts with values one by one; on failure undo what they recorded."""
        before = len(self.found)
        for part, value in zip(parts, values):
            if not self.match(part, value):
                self.undo(before)
                return False
        return True

    def _stays(self, pattern: Any) -> bool:
        return isinstance(pattern, (patterns.VarPattern, patterns.WildcardPattern))

    def value(self, expr: Any) -> Any:
        """Return the operation that a variable is bound to."""
        while isinstance(expr, Var) and expr in self.var2val:
            expr = self.var2val[expr]
        return expr

    def wildcard(self, pattern: Any, expr: Any) -> bool:
        return pattern.pattern is None or self.match(pattern.pattern, expr)

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
        if self.all_match(pattern.args, given):
            return True
        swaps = isinstance(call.op, Op) and call.op.name in _COMMUTATIVE
        return swaps and self.all_match(pattern.args, given[::-1])

    def function(self, pattern: Any, expr: Any) -> bool:
        if not isinstance(expr, BaseFunc) or not isinstance(expr, ExprWithOp):
            return False
        params = getattr(expr, "params", None)
        if params is None:  # a function that is only declared
            return False
        if pattern.params is not None:
            if len(params) != len(pattern.params) or not self.all_match(pattern.params, params):
                return False
        body: Any = getattr(expr, "body", None)
        return self.match(pattern.body, body.body if isinstance(body, SeqExpr) else body)

    def choice(self, pattern: Any, expr: Any) -> bool:
        value = self.value(expr)
        if not isinstance(value, If):
            return False
        branches = [
            one.body if isinstance(one, SeqExpr) else one
            for one in (value.true_branch, value.false_branch)
        ]
        return self.all_match(pattern.children(), [value.cond, *branches])

    def tuple(self, pattern: Any, expr: Any) -> bool:
        value = self.value(expr)
        if not isinstance(value, Tuple):
            return False
        if pattern.fields is None:
            return True
        same = len(value.fields) == len(pattern.fields)
        return same and self.all_match(pattern.fields, value.fields)

    def unordered_tuple(self, pattern: Any, expr: Any) -> bool:
        value = self.value(expr)
        if not isinstance(value, Tuple) or len(value.fields) != len(pattern.fields):
            return False
        for order in itertools.permutations(value.fields):
            if self.all_match(pattern.fields, order):
                return True
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
        return not Matcher(self.var2val).match(pattern.reject, expr)

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


MATCHING: NodeRules[Callable[[Matcher, Any, Any], bool]] = NodeRules(
    "matching of patterns",
    {
        patterns.WildcardPattern: Matcher.wildcard,
        patterns.ExprPattern: Matcher.expression,
        patterns.VarPattern: Matcher.variable,
        patterns.DataflowVarPattern: Matcher.dataflow_variable,
        patterns.GlobalVarPattern: Matcher.global_variable,
        patterns.ExternFuncPattern: Matcher.extern,
        patterns.ConstantPattern: Matcher.constant,
        patterns.CallPattern: Matcher.call,
        patterns.FunctionPattern: Matcher.function,
        patterns.IfPattern: Matcher.choice,
        patterns.TuplePattern: Matcher.tuple,
        patterns.UnorderedTuplePattern: Matcher.unordered_tuple,
        patterns.TupleGetItemPattern: Matcher.get_item,
        patterns.OrPattern: Matcher.either,
        patterns.AndPattern: Matcher.both,
        patterns.NotPattern: Matcher.negation,
        patterns.AttrPattern: Matcher.attributes,
        patterns.DataTypePattern: Matcher.dtype,
        patterns.ShapePattern: Matcher.shape,
        patterns.StructInfoPattern: Matcher.struct_info,
        patterns.TypePattern: Matcher.struct_info,
        patterns.PrimArrPattern: Matcher.sizes,
    },
)


def match_expr(
    pattern: Any, expr: Any, var2val: Mapping[Any, Any] | None = None
) -> dict[Any, Any] | None:
    """Return the match of each part of a pattern, or None."""
    matcher = Matcher(var2val)
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
