"""Where a pattern matches in a program: groups of nodes that one function can hold.

Groups do not overlap, and only the root of a group is used outside of it. What the wildcards and
variables of the pattern stand for is not inside of a group: these are its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilesmith.ir import GlobalVar, Op
from tilesmith.ir.adt import Constructor
from tilesmith.relax.dpl.matcher import Matcher
from tilesmith.relax.dpl.pattern import DFPattern, ExprPattern, VarPattern, WildcardPattern
from tilesmith.relay.expr import Call, Constant, Var
from tilesmith.relay.function import Function
from tilesmith.relay.nested_patterns import DominatorPattern
from tilesmith.relay.walks import binders, parts, post_order, with_parts

__all__ = ["PARTITIONED", "Group", "find_groups", "function_of_group", "is_grouped"]

PARTITIONED = "PartitionedFromPattern"
"""The attribute of functions that were made of matches: the operators in them."""

_GLOBAL = (Op, GlobalVar, Constructor)


@dataclass
class Group:
    """A match: its root, what the parts of the pattern stand for, inner nodes and inputs."""

    root: Any
    found: Mapping[DFPattern, Any]
    inner: list[Any] = field(default_factory=list)
    """The nodes, the root first."""
    inputs: list[Any] = field(default_factory=list)


def is_grouped(expr: Any) -> bool:
    """Return whether an expression is a function that was made of a match: it stays whole."""
    if not isinstance(expr, Function):
        return False
    attrs = expr.attrs
    return PARTITIONED in attrs or "Composite" in attrs or bool(attrs.get("Compiler"))


def find_groups(
    pattern: DFPattern,
    expr: Any,
    check: Callable[[Any], Any] | None = None,
    refused: Callable[[Any, str], None] | None = None,
) -> list[Group]:
    """Return the groups that a pattern matches, the largest first: roots before what they use.

    ``check`` is asked about each root; ``refused`` is told the roots of matches that are no groups,
    and why.
    """
    order = list(post_order(expr, lambda node: not is_grouped(node)))
    users: dict[int, list[Any]] = {}
    for node in order:
        if not is_grouped(node):
            for part in parts(node):
                users.setdefault(id(part), []).append(node)
    taken: set[int] = set()
    memo: dict[Any, Any] = {}
    groups = []
    for node in reversed(order):
        if id(node) in taken or isinstance(node, _GLOBAL):
            continue
        matcher = Matcher(memo=memo)
        if not matcher.match(pattern, node):
            continue
        group = _collected(node, matcher.found)
        if not _is_closed(group, users, taken):
            reason = "an inner value of the match is used outside of it"
        elif check is not None and not check(node):
            reason = "the check of the pattern refused"
        else:
            taken.update([id(one) for one in group.inner])
            groups.append(group)
            continue
        if refused is not None:
            refused(node, reason)
    return groups


def _collected(root: Any, found: Mapping[DFPattern, Any]) -> Group:
    """Return the group of a match: what lies between its root and its inputs."""
    ways = _ways(found)
    outside = {
        id(value)
        for part, value in found.items()
        if isinstance(part, (VarPattern, ExprPattern))
        or (isinstance(part, WildcardPattern) and part.pattern is None and part not in ways)
    }
    outside.discard(id(root))
    group = Group(root, found)
    seen: set[int] = set()
    bound: set[Any] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen or isinstance(node, _GLOBAL) or node in bound:
            continue
        seen.add(id(node))
        is_input = id(node) in outside or (isinstance(node, Var) and node is not root)
        if is_input and not is_grouped(node):
            group.inputs.append(node)
            continue
        group.inner.append(node)
        bound.update(binders(node))
        if not is_grouped(node):
            stack.extend(reversed(parts(node)))
    return group


def _ways(found: Mapping[DFPattern, Any]) -> set[DFPattern]:
    """Return the parts of children of dominators: they stand for values on the way to a parent."""
    pending = [part.child for part in found if isinstance(part, DominatorPattern)]
    ways: set[DFPattern] = set()
    while pending:
        part = pending.pop()
        if part not in ways and not isinstance(part, DominatorPattern):
            ways.add(part)
            pending += part.children()
    return ways


def _is_closed(group: Group, users: Mapping[int, list[Any]], taken: set[int]) -> bool:
    inner = {id(node) for node in group.inner}
    for node in group.inner:
        if isinstance(node, (Constant, Function)) and node is not group.root:
            continue  # each group may have its own
        if id(node) in taken:
            return False
        if node is not group.root:
            if any(id(user) not in inner for user in users.get(id(node), ())):
                return False
    return True


def function_of_group(
    group: Group, attrs: Mapping[str, Any] | None, number: int, inputs: Mapping[int, Any]
) -> Call:
    """Return the call of a function that computes a group.

    ``inputs`` has what the inputs of the group have become, by their ``id``.
    """
    params = [
        Var(f"FunctionVar_{number}_{place}", one.struct_info, dialect="relay")
        for place, one in enumerate(group.inputs)
    ]
    table = {id(one): param for one, param in zip(group.inputs, params)}
    body = _replaced(group, table)
    names = [
        node.op.name
        for node in post_order(body, lambda one: not is_grouped(one))
        if isinstance(node, Call) and isinstance(node.op, Op)
    ]
    made = Function(params, body, attrs={PARTITIONED: "".join([f"{n}_" for n in names])})
    if attrs:
        made = made.with_attr(dict(attrs))
    return Call(made, [inputs.get(id(one), one) for one in group.inputs])


def _replaced(group: Group, table: Mapping[int, Any]) -> Any:
    """Return the root with variables in place of the inputs."""
    done: dict[int, Any] = dict(table)
    for node in post_order(group.root, lambda one: id(one) not in table and not is_grouped(one)):
        if id(node) not in done:
            whole = is_grouped(node)
            new = [done[id(part)] for part in parts(node)] if not whole else []
            done[id(node)] = node if whole else with_parts(node, new)
    return done[id(group.root)]
