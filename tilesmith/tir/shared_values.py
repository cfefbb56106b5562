"""Expressions in which large parts occur many times: each part gets a name.

    e = A[i]; for _ in range(40): e = e + e        a graph of 41 nodes that says 2 ** 40 loads

    T.Let(T.Let(… v1 + v1 …, v1 = v0 + v0), v0 = A[i])

Passes walk expressions as trees, so that such a graph would take a time that is exponential in its
depth. ``bind_shared`` makes a tree of it whose size is that of the graph. Expressions that are not
much larger as trees stay as they are.

A part is computed where its name is bound, before what uses it. So a part gets its name only where
it is computed in any case: at the root of the expression, or of a branch (of ``if_then_else``,
``Select``, the second operand of ``and``) of which it is an unconditional part.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import And, Call, CallEffectKind, Let, Or, PrimExpr, Rewriter, Select, Var
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.node import Node
from tilesmith.ir.queries import is_call
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.expr import BufferLoad, ProducerLoad, Reduce

__all__ = ["bind_shared"]

_LIMIT = 2048
"""Expressions of fewer nodes, as trees, are left alone."""
_RATIO = 4
"""So many times larger than the graph is a tree in which parts get names."""


@deep_recursion
def bind_shared(expr: PrimExpr, always: bool = False) -> PrimExpr:
    """Return an expression of the same value whose tree is not much larger than its graph.

    ``always``: also where the tree is small.
    """
    order = _post_order(expr, {})
    sizes: dict[int, int] = {}
    uses: dict[int, int] = {}
    for node in order:
        size = 1
        for child in _parts(node):
            size += sizes[id(child)]
            uses[id(child)] = uses.get(id(child), 0) + 1
        sizes[id(node)] = size
    if not always and sizes[id(expr)] <= max(_LIMIT, _RATIO * len(order)):
        return expr
    return _Region(uses, {}).bound(expr)


def _parts(node: Node) -> list[Node]:
    """Return the parts of an expression that may get names of their own: indices are small, and
    stay in their loads.
    """
    if isinstance(node, (BufferLoad, ProducerLoad)) or is_call(node, "tir.address_of"):
        return []
    children: list[Node] = []
    node.push_children(children)
    if isinstance(node, Reduce):
        children = [*node.source, node.condition, *node.init]
    return [child for child in children if isinstance(child, PrimExpr)]


def _conditional(node: Node) -> list[Node]:
    """Return the parts of an expression that are computed under a condition, or that use variables
    which are bound for them.
    """
    if isinstance(node, Select):
        return [node.true_value, node.false_value]
    if is_call(node, "tir.if_then_else"):
        return list(node.args[1:])
    if isinstance(node, (And, Or)):
        return [node.b]
    if isinstance(node, Let):
        return [node.body]
    return _parts(node) if isinstance(node, Reduce) else []


def _post_order(root: Node, known: dict[int, Var], conditional: bool = True) -> list[Node]:
    """Return the nodes below ``root`` and itself, each once, parts before what they are parts of;
    without those that have a name, and with ``conditional`` false without conditional parts.
    """
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order.append(node)
            continue
        if id(node) in seen or id(node) in known:
            continue
        seen.add(id(node))
        stack.append((node, True))
        left_out = set() if conditional else {id(part) for part in _conditional(node)}
        stack += [(part, False) for part in _parts(node)[::-1] if id(part) not in left_out]
    return order


class _Region(Rewriter):
    """Names the shared parts of a root or a branch; ``known`` are the names from outside."""

    def __init__(self, uses: dict[int, int], known: dict[int, Var]) -> None:
        self.uses = uses
        self.names = dict(known)
        self.made: dict[int, Any] = {}
        self.branches: set[int] = set()

    def bound(self, root: PrimExpr) -> PrimExpr:
        """Return the root with its shared parts bound around it."""
        always = {id(node) for node in _post_order(root, self.names, False)}
        bindings: list[tuple[Var, PrimExpr]] = []
        for node in _post_order(root, self.names):
            if node is not root and id(node) in always and self.has_name(node):
                value = self.visit(node)
                variable = Var(f"v{len(self.names)}", value.dtype)
                self.names[id(node)] = variable
                bindings.append((variable, value))
        body = self.visit(root)
        for variable, value in reversed(bindings):
            body = Let(variable, value, body)
        return body

    def has_name(self, node: Any) -> bool:
        """Return whether a part is worth a name, and can have one."""
        is_load = isinstance(node, (BufferLoad, ProducerLoad))
        if self.uses.get(id(node), 0) < 2 or not (is_load or _parts(node)):
            return False
        if node.dtype.is_handle:
            return False
        return not isinstance(node, Call) or effect_of(node) <= CallEffectKind.ReadState

    def visit(self, node: Any) -> Any:
        name = self.names.get(id(node))
        if name is not None:
            return name
        found = self.made.get(id(node))
        if found is None:
            found = self.made[id(node)] = self.rewritten(node)
        return found

    def rewritten(self, node: Any) -> Any:
        if not isinstance(node, PrimExpr) or not _parts(node):
            return node
        outer = self.branches
        self.branches = {id(part) for part in _conditional(node)}
        new = _Children(self).children(node)
        self.branches = outer
        return new

    def part(self, node: Any) -> Any:
        """Return a part of an expression: a branch binds what only it computes."""
        if id(node) in self.names:
            return self.names[id(node)]
        if id(node) in self.branches and isinstance(node, PrimExpr):
            return _Region(self.uses, self.names).bound(node)
        return self.visit(node)


class _Children(Rewriter):
    """Rewrites the parts of one expression."""

    def __init__(self, region: _Region) -> None:
        self.region = region

    def visit(self, node: Any) -> Any:
        return self.region.part(node)
