"""InjectVirtualThread: replicates statements for each virtual thread inside one thread.

    with T.attr(vx, "virtual_thread", 2):       x = T.alloc_buffer((2,), scope="local")
        x = T.alloc_buffer((1,), scope="local") x[0] = A[tx]
        x[0] = A[vx * 8 + tx]                   x[1] = A[8 + tx]
        T.tvm_storage_sync("shared")            T.tvm_storage_sync("shared")
        B[vx * 8 + tx] = x[0]                   B[tx] = x[0]
                                                B[8 + tx] = x[1]

Each statement is carried out for all virtual threads before the next one, so that they can share
work: what does not depend on the virtual thread is done once. Memory that is allocated inside and
written differently by each of them exists once for each. Statements that cannot be taken apart (a
branch or loop that depends on the virtual thread) become a loop over the virtual threads.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, IntImm, PrimExpr, Var, Visitor, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, called_name, is_call
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)

__all__ = ["inject_virtual_thread"]

MOST_COPIES = 15  # more virtual threads become a loop around each statement


def virtual_thread(stmt: Stmt) -> IterVar | None:
    """Return the iterator of an attribute that starts virtual threads."""
    if not isinstance(stmt, AttrStmt) or not isinstance(stmt.node, IterVar):
        return None
    if stmt.attr_key == "virtual_thread":
        return stmt.node
    virtual = stmt.node.thread_tag.startswith(("vthread", "cthread"))
    return stmt.node if stmt.attr_key == "thread_extent" and virtual else None


class _Touched(Visitor):
    """Collects variables and memory that differ between virtual threads, up to a fixed point."""

    def __init__(self, variable: Var) -> None:
        self.found: set[Var] = {variable}
        self.own: set[Var] = set()
        self.conditions: list[bool] = []
        self.changed = True

    def run(self, body: Stmt) -> set[Var]:
        while self.changed:
            self.changed = False
            self.visit(body)
        return self.found

    def differs(self, *nodes: Any) -> bool:
        return any(self.conditions) or any(uses_variable(node, self.found) for node in nodes)

    def mark(self, variable: Var) -> None:
        if variable not in self.found:
            self.found.add(variable)
            self.changed = True

    def visit_Allocate(self, node: Allocate) -> None:
        self.own.add(node.buffer_var)
        self.visit(node.body)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.visit_children(node)
        if node.buffer.data in self.own and self.differs(node.value, *node.indices):
            self.mark(node.buffer.data)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)
        if self.differs(node.value):
            self.mark(node.var)
        self.visit(node.body)

    def visit_Call(self, node: Call) -> None:
        """Treat a call as writing to any memory whose pointer it gets."""
        self.visit_children(node)
        if self.differs(*node.args):
            for argument in node.args:
                pointer = argument.buffer.data if isinstance(argument, BufferLoad) else argument
                if isinstance(pointer, Var) and pointer in self.own:
                    if _may_write(node):
                        self.mark(pointer)

    def visit_For(self, node: For) -> None:
        differs = self.differs(node.min, node.extent)
        if differs:
            self.mark(node.loop_var)
        self.inside(differs, node)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.inside(self.differs(node.condition), node)

    def visit_While(self, node: While) -> None:
        self.inside(self.differs(node.condition), node)

    def inside(self, differs: bool, node: Stmt) -> None:
        self.conditions.append(differs)
        self.visit_children(node)
        self.conditions.pop()


def _may_write(call: Call) -> bool:
    name = called_name(call)
    return name not in ("tir.if_then_else", "tir.likely", "tir.reinterpret")


class _Injector(AccessRedirection):
    """Rewrites the body of one virtual-thread attribute."""

    def __init__(self, variable: Var, count: int, touched: set[Var]) -> None:
        self.variable = variable
        self.count = count
        self.touched = touched
        self.copies: list[dict[Var, PrimExpr]] = [
            {variable: const(index, variable.dtype)} for index in range(count)
        ]
        self.expanded: dict[Var, PrimExpr] = {}  # pointer → elements of one copy
        self.buffers: dict[Buffer, Buffer] = {}

    # Memory: each virtual thread has a part of its own.

    def visit_Allocate(self, node: Allocate) -> Stmt:
        if node.buffer_var not in self.touched:
            body = self.visit(node.body)
            return node if body is node.body else node.with_fields(body=body)
        size: PrimExpr = const(1, node.extents[0].dtype)
        for extent in node.extents:
            size = size * extent
        self.expanded[node.buffer_var] = size
        extents = (node.extents[0] * self.count, *node.extents[1:])
        return node.with_fields(extents=extents, body=self.visit(node.body))

    def redirected(self, buffer: Buffer) -> Buffer | None:
        if buffer.data not in self.expanded:
            return None
        found = self.buffers.get(buffer)
        if found is None:
            shape = (buffer.shape[0] * self.count, *buffer.shape[1:])
            found = self.buffers[buffer] = buffer.with_fields(shape=shape)
        return found

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Return indices into the part of the current virtual thread, along the first dimension."""
        offset = self.variable * buffer.shape[0]
        first = indices[0]
        if offset.dtype is not first.dtype.element:
            offset = offset.astype(first.dtype.element)
        return (offset + first, *indices[1:])

    def visit_Call(self, node: Call) -> PrimExpr:
        name = called_name(node)
        size = None
        if name == "tir.tvm_access_ptr" and isinstance(node.args[1], Var):
            size = self.expanded.get(node.args[1])
        if size is not None:
            annotation, data, offset, *rest = [self.visit(arg) for arg in node.args]
            return node.with_fields(args=(annotation, data, offset + self.variable * size, *rest))
        for argument in node.args:
            if isinstance(argument, Var) and argument in self.expanded:
                raise UnsupportedError(
                    f"virtual threads: the memory of '{argument.name}' is passed to {name} as a "
                    "whole",
                    notes=("pass T.tvm_access_ptr(...) or an element instead",),
                )
        return self.children(node)

    # Statements.

    def differs(self, *nodes: Any) -> bool:
        return any(uses_variable(node, self.touched) for node in nodes)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        store = super().visit_BufferStore(node)
        return self.each(store) if self.differs(node) else store

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        differs = self.differs(node)
        node = self.children(node)
        return self.each(node) if differs else node

    def each(self, stmt: Stmt) -> Stmt:
        """Return copies of a statement, one per virtual thread."""
        if self.count > MOST_COPIES:
            return self.loop(stmt)
        return stmt_seq(*[substitute(stmt, copy) for copy in self.copies])

    def loop(self, stmt: Stmt) -> Stmt:
        """Return a loop over the virtual threads."""
        for variable in self.copies[0]:
            if variable is not self.variable and uses_variable(stmt, {variable}):
                raise UnsupportedError(
                    f"virtual threads: a loop over them would need '{variable.name}' of each",
                    span=getattr(stmt, "span", None),
                )
        index = Var(self.variable.name + "_s", self.variable.dtype)
        body = substitute(stmt, {self.variable: index})
        return For(index, 0, self.count, ForKind.SERIAL, body)

    def apart(self, stmt: Stmt) -> Stmt:
        """Return a statement that each virtual thread executes to its end before the next one
        starts.
        """
        if _has_barrier(stmt):
            raise UnsupportedError(
                "virtual threads would not reach a barrier together",
                span=getattr(stmt, "span", None),
                notes=("move the barrier out of what depends on the virtual thread",),
            )
        whole = _Whole(self).visit(stmt)
        if self.count > MOST_COPIES or _has_loop(whole):
            return self.loop(whole)
        copies = [renew_defs(PrimFunc((), substitute(whole, copy))).body for copy in self.copies]
        return stmt_seq(*copies)

    def visit_For(self, node: For) -> Stmt:
        if self.differs(node.min, node.extent):
            return self.apart(node)
        body = self.visit(node.body)
        low, extent = self.visit(node.min), self.visit(node.extent)
        return node.with_fields(min=low, extent=extent, body=body)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        return self.apart(node) if self.differs(node.condition) else self.children(node)

    def visit_While(self, node: While) -> Stmt:
        return self.apart(node) if self.differs(node.condition) else self.children(node)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if isinstance(node.value, PrimExpr) and self.differs(node.value):
            return self.apart(node)
        body = self.visit(node.body)
        return node if body is node.body else node.with_fields(body=body)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        if not self.differs(node.value):
            return LetStmt(node.var, value, self.visit(node.body), node.span)
        if self.count > MOST_COPIES:
            return self.apart(node)
        bindings = []
        for number, copy in enumerate(self.copies):
            var = Var(f"{node.var.name}_{number}", node.var.type_annotation)
            bindings.append((var, substitute(value, copy)))
            copy[node.var] = var
        body = self.visit(node.body)
        for var, bound in reversed(bindings):
            body = LetStmt(var, bound, body, node.span)
        for copy in self.copies:
            del copy[node.var]
        return body

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        return stmt_seq(*[self.visit(stmt) for stmt in node.seq], span=node.span)


def _has_loop(stmt: Stmt) -> bool:
    if isinstance(stmt, (For, While)):
        return True
    for child in stmt.children():
        if isinstance(child, Stmt) and _has_loop(child):
            return True
    return False


class _Whole(_Injector):
    """Gives each virtual thread its part of memory, and leaves the control flow unchanged."""

    def __init__(self, outer: _Injector) -> None:
        super().__init__(outer.variable, outer.count, outer.touched)
        self.expanded, self.buffers = outer.expanded, outer.buffers

    def visit_Allocate(self, node: Allocate) -> Stmt:
        return self.children(node)

    def each(self, stmt: Stmt) -> Stmt:
        return stmt

    def loop(self, stmt: Stmt) -> Stmt:
        return stmt

    def apart(self, stmt: Stmt) -> Stmt:
        return self.children(stmt)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        return self.children(node)


def _has_barrier(stmt: Stmt) -> bool:
    return any_node(
        stmt, lambda node: is_call(node, "tir.tvm_storage_sync", "tir.tvm_thread_allreduce")
    )


class _Finder(Rewriter):
    """Lowers the virtual-thread attributes, inner ones first."""

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        body = self.visit(node.body)
        thread = virtual_thread(node)
        if thread is None:
            return node if body is node.body else node.with_fields(body=body)
        if not isinstance(node.value, IntImm):
            raise UnsupportedError(
                f"the number of virtual threads of '{thread.var.name}' is not constant",
                span=node.span,
            )
        touched = _Touched(thread.var).run(body)
        return _Injector(thread.var, node.value.value, touched).visit(body)


@compiler_pass("tir.InjectVirtualThread")
def inject_virtual_thread(func: PrimFunc) -> PrimFunc:
    """Runs virtual threads as copies of statements inside one thread.

    Returns ``func`` without virtual threads.
    """
    return func.with_body(_Finder().visit(func.body))
