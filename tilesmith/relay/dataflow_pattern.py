"""Dataflow patterns over programs of the functional door: describe a part, find it, replace it.

    conv = is_op("nn.conv2d")(wildcard(), is_constant())
    pattern = is_op("nn.relu")(is_op("nn.bias_add")(conv, is_constant())).has_attr({})
    pattern.match(expr)
    partitioned = pattern.partition(expr, {"Composite": "mine.conv"})

Patterns and matching are relax's (`relax.dpl`), where expressions nest. Only here are the patterns
of `Let`, of types and of domination, rewriting by callbacks, and partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.ir import IRModule, Op, Type
from tilesmith.ir.structural import structural_equal
from tilesmith.relax.dpl.matcher import MATCHING, Matcher
from tilesmith.relax.dpl.pattern import (
    NESTED,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    WildcardPattern,
    has_attr,
    has_dtype,
    is_expr,
    is_op,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from tilesmith.relax.dpl.pattern import OrPattern as AltPattern
from tilesmith.relax.expr import as_expr, known_struct_info
from tilesmith.relax.type_views import struct_info_of
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.dataflow_groups import Group, find_groups, function_of_group, is_grouped
from tilesmith.relay.expr import Call, Let, Tuple, TupleGetItem
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr, infer_module
from tilesmith.relay.nested_patterns import DominatorPattern, LetPattern, TypePattern
from tilesmith.relay.walks import parts, post_order, with_parts
from tilesmith.support.errors import DiagnosticError, TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "AltPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DFPattern",
    "DFPatternCallback", "DataTypePattern", "DominatorPattern", "ExprPattern", "FunctionPattern",
    "IfPattern", "LetPattern", "ShapePattern", "TupleGetItemPattern", "TuplePattern",
    "TypePattern", "VarPattern", "WildcardPattern", "dominates", "has_attr", "has_dtype",
    "has_shape", "has_type", "is_constant", "is_expr", "is_if", "is_let", "is_op", "is_tuple",
    "is_tuple_get_item", "is_var", "match", "partition", "rewrite", "wildcard",
]  # fmt: skip

_MOST_PASSES = 100
"""So often a program is rewritten before callbacks count as endless."""


# Matching


@MATCHING.handles(LetPattern)
def _let(matcher: Matcher, pattern: Any, expr: Any) -> bool:
    if not isinstance(expr, Let):
        return False
    return matcher.all_match(pattern.children(), [expr.var, expr.value, expr.body])


@MATCHING.handles(TypePattern)
def _type(matcher: Matcher, pattern: Any, expr: Any) -> bool:
    if isinstance(expr, Op) or getattr(expr, "struct_info", None) is None:
        return False
    same = structural_equal(known_struct_info(expr), struct_info_of(pattern.type))
    return same and matcher.match(pattern.pattern, expr)


@MATCHING.handles(DominatorPattern)
def _dominator(matcher: Matcher, pattern: Any, expr: Any) -> bool:
    before = len(matcher.found)
    if not matcher.match(pattern.child, expr):
        return False
    own = Matcher()  # what the child alone stands for, without what surrounds it
    own.match(pattern.child, expr)
    ways = matcher.memo.setdefault(pattern, _Ways(pattern))
    parent = ways.common(_operands(own.found, expr))
    if parent is not None and matcher.match(pattern.parent, parent):
        return True
    matcher.undo(before)
    return False


def _operands(found: Mapping[Any, Any], expr: Any) -> list[Any]:
    """Return the values that the wildcards of a match stand for; without any, all operands."""
    open_ = [
        value
        for part, value in found.items()
        if isinstance(part, WildcardPattern)
        and part.pattern is None
        and value is not expr
        and not isinstance(value, Op)
    ]
    return open_ or [part for part in parts(expr) if not isinstance(part, Op)]


class _Ways:
    """For each node the nearest parent that all ways to it come from, found once for each node.

    A parent may itself lie on the way from another one: ``above`` leads from each to the next, and
    ``depth`` says how many there are.
    """

    def __init__(self, pattern: DominatorPattern) -> None:
        self.pattern = pattern
        self.nearest: dict[int, Any] = {}
        self.above: dict[int, Any] = {}
        self.depth: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no id is used again

    def common(self, nodes: Sequence[Any]) -> Any:
        """Return the nearest parent from which all ways to all of these nodes come, or None."""
        if not nodes:
            return None
        for node in nodes:
            self._visit(node)
        return self._meet(nodes)

    def _meet(self, nodes: Sequence[Any]) -> Any:
        found = self.nearest[id(nodes[0])]
        for node in nodes[1:]:
            other = self.nearest[id(node)]
            while found is not other:
                if found is None or other is None:
                    return None
                if self.depth[id(found)] >= self.depth[id(other)]:
                    found = self.above[id(found)]
                else:
                    other = self.above[id(other)]
        return found

    def _visit(self, root: Any) -> None:
        stack: list[tuple[Any, list[Any] | None]] = [(root, None)]
        while stack:
            node, operands = stack.pop()
            if id(node) in self.nearest:
                continue
            if operands is None:
                path = Matcher()
                on_way = path.match(self.pattern.path, node)
                operands = _operands(path.found, node) if on_way else []
                stack.append((node, operands))
                stack += [(one, None) for one in operands if id(one) not in self.nearest]
                continue
            above = self._meet(operands) if operands else None
            self.kept.append(node)
            if Matcher().match(self.pattern.parent, node):
                self.above[id(node)] = above
                self.depth[id(node)] = 1 + (0 if above is None else self.depth[id(above)])
                above = node
            self.nearest[id(node)] = above


# Functions that make patterns


def is_constant() -> ConstantPattern:
    """Match a constant."""
    return ConstantPattern()


def is_tuple(fields: Sequence[DFPattern] | None) -> TuplePattern:
    """Match a tuple; None stands for any fields."""
    return TuplePattern(fields)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """Match a choice between two values."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """Match a `Let`."""
    return LetPattern(var, value, body)


@NESTED.register("has_type")
def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """Match a value of a type."""
    if not isinstance(ttype, Type):
        raise TypeMismatchError(
            f"has_type takes a type, got {ttype!r}", notes=("relay.TensorType(shape, dtype)",)
        )
    return TypePattern(pattern or wildcard(), ttype)


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> ShapePattern:
    """Match a tensor of a shape."""
    return ShapePattern(pattern or wildcard(), shape)


@NESTED.register("dominates")
def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """Match ``child`` where all that it is computed of comes from ``parent`` by ``path``."""
    return DominatorPattern(parent, path, child)


# What is done with patterns


def match(pattern: DFPattern, expr: Any) -> bool:
    """Return whether an expression matches."""
    with deep_recursion():
        return pattern.match(as_expr(expr))


@NESTED.register("partition")
def partition(
    pattern: DFPattern,
    expr: Any,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Any], Any] | None = None,
    refused: Callable[[Any, str], None] | None = None,
) -> Any:
    """Return an expression whose matches are calls of functions with the attributes ``attrs``.

    A match whose inner values are used outside of it stays as it is, as one that ``check(root)``
    refuses; ``refused(root, reason)`` is told.
    """
    with deep_recursion():
        groups = find_groups(pattern, expr, check, refused)
        numbers = {id(group.root): place for place, group in enumerate(reversed(groups))}

        def made(group: Group, node: Any, done: Mapping[int, Any]) -> Any:
            return function_of_group(group, attrs, numbers[id(group.root)], done)

        return _replace(expr, groups, made)


def _replace(
    expr: Any,
    groups: Sequence[Group],
    made: Callable[[Group, Any, Mapping[int, Any]], Any],
) -> Any:
    """Return an expression in which each group's root is what ``made(group, node, done)`` returns:
    ``node`` is the root made of changed parts, ``done`` has the changed form of nodes by ``id``.
    """
    roots = {id(group.root): group for group in groups}
    if not roots:
        return expr
    done: dict[int, Any] = {}
    for node in post_order(expr, lambda one: not is_grouped(one)):
        if is_grouped(node):
            new = node
        else:
            new = with_parts(node, [done[id(part)] for part in parts(node)])
        group = roots.get(id(node))
        done[id(node)] = new if group is None else made(group, new, done)
    return done[id(expr)]


class DFPatternCallback:
    """Replaces what ``self.pattern`` matches by what ``callback`` returns.

    class Fused(DFPatternCallback):
        def __init__(self):
            super().__init__()
            self.x = wildcard()
            self.pattern = is_op("nn.relu")(is_op("nn.relu")(self.x))

        def callback(self, pre, post, node_map):
            return relay.nn.relu(node_map[self.x][0])

    ``require_type``: types are inferred before each pass. ``rewrite_once``: one pass, else passes
    until nothing changes.
    """

    pattern: DFPattern | None = None

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def callback(self, pre: Any, post: Any, node_map: Mapping[DFPattern, list[Any]]) -> Any:
        """Return what replaces a match; ``pre`` is its root, ``post`` the root made of parts that
        have been rewritten, ``node_map`` has the parts of the pattern in ``post``.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no callback")

    def rewrite(self, expr: Any) -> Any:
        """Return an expression with all matches replaced."""
        return rewrite(self, expr)


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback],
    expr: Any,
    mod: IRModule | None = None,
) -> Any:
    """Return an expression rewritten by callbacks, in this order, until nothing changes; ``mod``
    has the functions that the expression calls.

    Raises DiagnosticError for callbacks that go on for ever.
    """
    given = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    for one in given:
        if one.pattern is None:
            raise DiagnosticError(
                f"{type(one).__name__} has no pattern", notes=("set self.pattern in __init__",)
            )
    expr = as_expr(expr)
    with deep_recursion():
        for _ in range(_MOST_PASSES):
            before = expr
            for one in given:
                expr = _apply(one, expr, mod)
            given = [one for one in given if not one.rewrite_once]
            if expr is before or not given:
                return expr
    raise DiagnosticError(
        f"callbacks still change the program after {_MOST_PASSES} passes",
        notes=("two of them may undo each other; or use rewrite_once=True",),
    )


def _apply(callback: DFPatternCallback, expr: Any, mod: IRModule | None) -> Any:
    """Return an expression after one pass of a callback; the same one if nothing changed."""
    if callback.require_type:
        _infer(expr, mod)
    pattern = callback.pattern
    assert pattern is not None

    def made(group: Group, node: Any, done: Mapping[int, Any]) -> Any:
        found = {part: [done.get(id(value), value)] for part, value in group.found.items()}
        for part, value in group.found.items():
            if value is group.root:
                found[part] = [node]
        new = callback.callback(group.root, node, found)
        if new is None or new is node:
            return node
        new = as_expr(new)
        inner = {id(done.get(id(one), one)) for one in group.inner} | {id(node)}
        return node if _is_same(new, node, inner) else new

    return _replace(expr, find_groups(pattern, expr), made)


def _is_same(new: Any, old: Any, inner: set[int]) -> bool:
    """Return whether a callback has made what was there: the same nodes on the same inputs."""
    if new is old:
        return True
    if id(old) not in inner or type(new) is not type(old):
        return False
    if not isinstance(old, (Call, Tuple, TupleGetItem)):
        return bool(structural_equal(new, old))
    if isinstance(old, TupleGetItem) and new.index != old.index:
        return False
    if isinstance(old, Call) and not structural_equal(new.attrs, old.attrs):
        return False
    ours, theirs = parts(new), parts(old)
    if len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs):
        if not _is_same(one, other, inner):
            return False
    return True


def _infer(expr: Any, mod: IRModule | None) -> None:
    if mod is None:
        infer_expr(expr)
        return
    whole = mod.shallow_copy()
    whole["__rewritten"] = expr if hasattr(expr, "params") else _as_function(expr)
    infer_module(whole)


def _as_function(expr: Any) -> Any:
    return Function(free_vars(expr), expr)
