"""Finds the free variables of a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilesmith.ir import Node, PrimExpr, Var
from tilesmith.ir.queries import walk_stack
from tilesmith.ir.structural import definition_steps
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt, Block, BufferRealize, DeclBuffer

__all__ = ["free_variables", "parameter_sizes", "scope_plan"]

# Class → the steps of walking it (what to do, name of the field), and whether definitions end.
_PLANS: dict[type, tuple[tuple[tuple[str, str], ...], bool]] = {}


def scope_plan(cls: type) -> tuple[tuple[tuple[str, str], ...], bool]:
    """Return how to walk a class of nodes so that definitions come before the fields in their
    scope: the steps ("define" or "child", name of the field), and whether the definitions end with
    it."""
    plan = _PLANS.get(cls)
    if plan is None:
        steps = definition_steps(cls)
        ends = issubclass(cls, Block) or any(step.action == "undo" for step in steps)
        parts = [(step[0], step[1]) for step in steps if step.action != "undo"]
        if issubclass(cls, BufferRealize):  # the part of a buffer that is live is its definition
            parts = [("define" if name == "buffer" else action, name) for action, name in parts]
            ends = True
        plan = _PLANS[cls] = tuple(parts), ends
    return plan


def parameter_sizes(function: PrimFunc) -> list[Var]:
    """Return the variables that the buffers of a function's parameters bind: their sizes, strides
    and offsets. Those of each buffer may use what another one binds, before or after it."""
    buffers = [function.buffer_map[p] for p in function.params if p in function.buffer_map]
    parts = [part for one in buffers for part in (*one.shape, *one.strides, one.elem_offset)]
    return [part for part in parts if isinstance(part, Var)]


# How the walk treats an entry of its stack: a step, a variable, a buffer, an expression or another
# node that binds nothing, a node that binds something.
_STEP, _VARIABLE, _BUFFER, _EXPRESSION, _PLAIN, _SCOPE = range(1, 7)
_KINDS: dict[type, int] = {tuple: _STEP, Buffer: _BUFFER}


def _kind_of(cls: type[Node]) -> int:
    if issubclass(cls, Var):
        kind = _VARIABLE
    elif issubclass(cls, AttrStmt) or any(step[0] == "define" for step in scope_plan(cls)[0]):
        kind = _SCOPE
    else:
        kind = _EXPRESSION if issubclass(cls, PrimExpr) else _PLAIN
    _KINDS[cls] = kind
    return kind


class _Walk:
    """Walks with an explicit stack; ``known`` holds the variables bound around the current node.

    The stack holds nodes and steps (what to do, with what, for which node). ``trail`` records what
    became known or was seen, in order, so that the end of a scope can undo it.
    """

    def __init__(self, known: Iterable[Var], sizes: bool) -> None:
        self.known: set[Var | Buffer] = set(known)
        self.sizes = sizes
        self.found: dict[Var, None] = {}
        self.seen: set[int] = set()  # `id` of expressions: shared ones are visited once per scope
        self.trail: list[Var | Buffer | int] = []
        self.stack: list[Any] = []

    def run(self, root: Node | Sequence[Node]) -> list[Var]:
        stack = self.stack = list(walk_stack(root))
        while stack:
            item = stack.pop()
            kind = _KINDS.get(item.__class__) or _kind_of(item.__class__)
            if kind is _EXPRESSION:
                if id(item) not in self.seen:
                    self.seen.add(id(item))
                    self.trail.append(id(item))
                    item.push_children(stack)
            elif kind is _VARIABLE:
                if item not in self.known:
                    self.found[item] = None
            elif kind is _BUFFER:
                self.use_buffer(item)
            elif kind is _PLAIN:
                item.push_children(stack)
            elif kind is _SCOPE:
                self.expand(item)
            else:
                action, value, node = item
                action(self, value, node)
        return list(self.found)

    def expand(self, node: Node) -> None:
        """Push the steps of a node."""
        steps, ends = scope_plan(node.__class__)
        items: list[Any] = []
        if ends:
            items.append((_Walk.leave, len(self.trail), node))
        for action, name in reversed(steps):
            value = getattr(node, name)
            if action == "define":
                items.append((_Walk.define, value, node))
            elif action != "child":
                continue
            elif isinstance(value, Node):
                if name != "node" or value.__class__ is not Buffer:
                    items.append(value)  # an attribute of a buffer is not a use of it
            elif value.__class__ is tuple:
                items += value[::-1]
        self.stack += items

    def leave(self, length: int, node: Node) -> None:
        """Undo the definitions made since the trail had a given length."""
        while len(self.trail) > length:
            last = self.trail.pop()
            if last.__class__ is int:
                self.seen.discard(last)
            else:
                self.known.discard(last)

    def bind(self, value: Var | Buffer, node: Node | None = None) -> None:
        if value not in self.known:
            self.known.add(value)
            self.trail.append(value)

    def define(self, value: Any, node: Node) -> None:
        """Add the definitions of a field of a node."""
        if isinstance(value, tuple):
            for item in value[::-1]:
                self.stack.append((_Walk.define, item, node))
        elif isinstance(value, Var):
            self.bind(value)
        elif isinstance(value, Buffer):
            if isinstance(node, BufferRealize) and value.data in self.known:
                self.stack.append(value)  # a view of a part of existing memory
            else:
                self.define_buffer(value, node)
        elif isinstance(node, PrimFunc):
            for size in parameter_sizes(node):
                self.bind(size)
            for param in reversed(node.params):
                if param in value:
                    self.stack.append((_Walk.define, value[param], node))

    def define_buffer(self, buffer: Buffer, node: Node) -> None:
        """Define a buffer. A declaration is a view of existing memory, other definitions bind the
        pointer. Parameters bind their symbolic sizes, matched buffers their offset and strides."""
        self.stack.append((_Walk.bind, buffer, node))
        if not isinstance(node, DeclBuffer):
            self.bind(buffer.data)
        binds = not isinstance(node, (DeclBuffer, Block))
        for expr in reversed((*buffer.shape, *buffer.strides, buffer.elem_offset)):
            self.stack.append((_Walk.size, expr, node) if binds else expr)
        if isinstance(node, DeclBuffer):
            self.stack.append(buffer.data)

    def size(self, expr: PrimExpr, node: Node) -> None:
        """Visit a size, stride or offset of a buffer, which binds it if it is a variable."""
        if isinstance(expr, Var):
            self.bind(expr)
        elif self.sizes:
            self.stack.append(expr)

    def use_buffer(self, buffer: Buffer) -> None:
        if buffer in self.known:
            return
        self.bind(buffer)  # visited once per scope
        if self.sizes:
            self.stack += (*buffer.shape, *buffer.strides, buffer.elem_offset)[::-1]
        self.stack.append(buffer.data)


def free_variables(
    root: Node | Sequence[Node], known: Iterable[Var] = (), sizes: bool = True
) -> list[Var]:
    """Return the free variables of a function, statement or expression, each once, in order of
    their first use; ``known`` are bound around it.

    A buffer that is used and defined nowhere below ``root`` counts with its pointer, and with the
    variables in its shape, strides and offset; with its pointer only where ``sizes`` is false (flat
    programs do not look at the shapes of their buffers). Definitions hold in their scopes: a
    variable that is used after its ``let`` is free there. Regions that blocks declare are visited,
    annotations are not.
    """
    return _Walk(known, sizes).run(root)
