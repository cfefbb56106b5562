"""Finds undefined variables, and checks that each variable has one definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilesmith.ir import Node, Var
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.free_variables import free_variables, parameter_sizes, scope_plan
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, BufferRealize, DeclBuffer

__all__ = ["undefined_vars", "verify_ssa"]


class ScopeWalker:
    """Walks a program and tracks the variables that are in scope.

    Subclasses say what happens at a definition (``define``) and at a use (``use``) of a variable or
    buffer. ``parents`` are the nodes around the present one.
    """

    def __init__(self) -> None:
        self.parents: list[Node] = []

    def define(self, value: Var | Buffer) -> None:
        """Handle the definition of a variable or buffer."""

    def leave(self, value: Var | Buffer) -> None:
        """Handle the end of the scope of a definition."""

    def use(self, value: Var | Buffer) -> None:
        """Handle a use of a variable or buffer."""

    def walk(self, node: Any) -> None:
        """Walk a node; definitions come before the fields in their scope."""
        if isinstance(node, (Var, Buffer)):
            self.use(node)
            return
        steps, ends = scope_plan(node.__class__)
        if not steps:
            return
        self.parents.append(node)
        defined: list[Var | Buffer] = []
        for action, name in steps:
            value = getattr(node, name)
            if action == "define":
                self._define_all(value, node, defined)
            elif isinstance(value, Node):
                if name != "node" or not isinstance(value, Buffer):
                    self.walk(value)  # an attribute of a buffer is not a use of it
            elif action == "child" and value.__class__ is tuple:
                self._walk_all(value)
        if ends:
            self._leave_all(node, defined)
        self.parents.pop()

    def _leave_all(self, node: Node, defined: list[Var | Buffer]) -> None:
        if isinstance(node, Block):
            defined = [iterator.var for iterator in node.iter_vars]
            defined += [buffer.data for buffer in node.alloc_buffers] + list(node.alloc_buffers)
        for value in reversed(defined):
            self.leave(value)

    def _walk_all(self, value: Any) -> None:
        if isinstance(value, Node):
            self.walk(value)
        elif isinstance(value, tuple):
            for item in value:
                self._walk_all(item)

    def _define_all(self, value: Any, node: Node, defined: list[Var | Buffer]) -> None:
        if isinstance(value, tuple):
            for item in value:
                self._define_all(item, node, defined)
        elif isinstance(value, Var):
            self.define(value)
            defined.append(value)
        elif isinstance(node, BufferRealize) and self.knows(value.data):
            self.use(value)  # a view of a part of existing memory
        elif isinstance(value, Buffer):
            self._define_buffer(value, node)
            defined.append(value)
        elif isinstance(node, PrimFunc):
            for size in parameter_sizes(node):
                if not self.knows(size):
                    self.define(size)
                    defined.append(size)
            for param in node.params:
                if param in value:
                    self._define_all(value[param], node, defined)

    def _define_buffer(self, buffer: Buffer, node: Node) -> None:
        """Define a buffer. A declaration is a view of existing memory, other definitions bind the
        pointer. Parameters bind their symbolic sizes, matched buffers their offset and strides."""
        if isinstance(node, DeclBuffer):
            self.use(buffer.data)
        else:
            self.define(buffer.data)
        binds = not isinstance(node, (DeclBuffer, Block))
        for expr in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if binds and isinstance(expr, Var) and not self.knows(expr):
                self.define(expr)
            else:
                self.walk(expr)
        self.define(buffer)

    def knows(self, variable: Var) -> bool:
        """Return whether a variable is in scope."""
        return False


def undefined_vars(node: Node | Sequence[Node], defs: Iterable[Var] | None = None) -> list[Var]:
    """Return the variables that a statement, expression or function uses without binding them, in
    order of first use; pointers and sizes of buffers count. ``defs`` are known from outside."""
    return free_variables(node, defs or ())


class _Definitions(ScopeWalker):
    def __init__(self) -> None:
        super().__init__()
        self.defined: set[Var] = set()
        self.twice: Var | None = None

    def define(self, value: Var | Buffer) -> None:
        if isinstance(value, Var):
            if value in self.defined and self.twice is None:
                self.twice = value
            self.defined.add(value)

    def knows(self, variable: Var) -> bool:
        return variable in self.defined


def verify_ssa(func: PrimFunc) -> bool:
    """Return whether each variable of a function is bound in one place only."""
    finder = _Definitions()
    with deep_recursion():
        finder.walk(func)
    return finder.twice is None
