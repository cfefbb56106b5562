"""ConvertSSA: renames variables and buffers so that each is bound in one place of a module.

    for i in range(4):                          for i in range(4):
        A[i] = 1.0                                  A[i] = 1.0
    for i in range(4):      (the same i)        for i_1 in range(4):
        B[i] = 2.0                                  B[i_1] = 2.0

The first definition keeps its variable, each further one gets a new variable of the same name.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, PrimExpr, Var
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import Renewal, renewed_fields
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.stmt import AttrStmt, Block, DeclBuffer

__all__ = ["convert_module_to_ssa", "convert_ssa"]


class _SsaConverter(Renewal):
    """Renames definitions that repeat an earlier one; ``seen`` holds the definitions met so far."""

    def __init__(self, seen: set[Any]) -> None:
        super().__init__()
        self.seen = seen
        self.renewed = 0

    def fresh(self, variable: Var) -> Var:
        """Return the variable itself at its first definition, else a new one."""
        if variable not in self.seen:
            self.seen.add(variable)
            self.variables[variable] = variable
            return variable
        self.renewed += 1
        new = super().fresh(variable)
        # buffers that mention the variable are other buffers from here on
        self.buffers = {
            buffer: found
            for buffer, found in self.buffers.items()
            if not _mentions(buffer, variable)
        }
        return new

    def define_buffer(self, buffer: Buffer) -> Buffer:
        """Return a new buffer if it is bound again or its parts are renamed, else itself."""
        outer, self.binding = self.binding, True
        new = self.remap_buffer(buffer)
        self.binding = outer
        return self.keep(buffer, new)

    def keep(self, buffer: Buffer, new: Buffer) -> Buffer:
        """Record which buffer replaces this one."""
        if new is buffer and buffer in self.seen:
            self.renewed += 1
            new = buffer.with_fields()
        self.seen.add(buffer)
        self.buffers[buffer] = new
        return new

    def visit_Var(self, node: Var) -> PrimExpr:
        """Return the current variable; a buffer's definition binds sizes that are not known yet."""
        found = self.variables.get(node)
        if found is None:
            return self.fresh(node) if self.binding else node
        return found

    def visit_default(self, node: Any) -> Any:
        """Visit a node; its bindings end with it."""
        if not _binds(node):
            return node.map_children(self.visit)
        saved, buffers = dict(self.variables), self.buffers
        new = super().visit_default(node)
        self.variables = saved
        if self.buffers is not buffers:
            self.buffers = dict(buffers)
        return new

    visit_Block = visit_default
    visit_MatchBufferRegion = Renewal.visit_default

    def visit_IterVar(self, node: Any) -> Any:
        """Visit an iterator, which is bound for the statement around it."""
        return Renewal.visit_default(self, node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> DeclBuffer:
        """Visit a declaration of a buffer."""
        buffer = self.keep(node.buffer, self.remap_buffer(node.buffer))
        body = self.visit(node.body)
        if buffer is node.buffer and body is node.body:
            return node
        return DeclBuffer(buffer, body, node.span)


def _binds(node: Any) -> bool:
    cls = node.__class__
    return cls is AttrStmt or cls is Block or bool(renewed_fields(cls))  # those: an iterator


def _mentions(buffer: Buffer, variable: Var) -> bool:
    parts = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    return buffer.data is variable or any(uses_variable(part, {variable}) for part in parts)


def convert_ssa(func: PrimFunc, seen: set[Any] | None = None) -> PrimFunc:
    """Return ``func`` in which each variable is bound once; ``seen`` holds what is bound
    elsewhere."""
    converter = _SsaConverter(set() if seen is None else seen)
    with deep_recursion():
        new = converter.visit(func)
    return new if converter.renewed else func


@compiler_pass("tir.ConvertSSA")
def convert_module_to_ssa(mod: IRModule) -> IRModule:
    """Renames variables so that each is bound in one place of the module."""
    seen: set[Any] = set()
    for variable, func in list(mod.functions.items()):
        if isinstance(func, PrimFunc):
            new = convert_ssa(func, seen)
            if new is not func:
                mod[variable] = new
    return mod
