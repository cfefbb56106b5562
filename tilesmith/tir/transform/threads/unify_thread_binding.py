"""UnifyThreadBinding: launches each thread axis once for a whole kernel.

    for bx in thread_binding("blockIdx.x"):     for blockIdx_x in thread_binding("blockIdx.x"):
        for t0 in thread_binding("threadIdx.x"):    for threadIdx_x in thread_binding(...):
            B[bx, t0] = A[bx, t0]                       B[blockIdx_x, threadIdx_x] = ...
        for t1 in thread_binding("threadIdx.x"):        C[blockIdx_x, threadIdx_x] = ...
            C[bx, t1] = B[bx, t1]

Code that is not inside of a loop over some axis is run by all threads along it, with the same
results; what updates memory that these threads share (``C[i] = C[i] + ...``) is run by the first of
them.

A kernel is the code inside an outermost loop over threads. Loops over the same axis must have
the same extent. Virtual threads of the old kind ("vthread", "cthread") stay as they are, those with
a letter ("vthread.x") are unified.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from tilesmith.ir import PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.operators import all_of, is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper, substitute
from tilesmith.tir.queries import has_side_effect, loads, stores, uses_variable
from tilesmith.tir.stmt import (
    AttrStmt,
    Block,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    stmt_seq,
)

__all__ = ["unify_thread_binding"]

SEPARATE = ("vthread", "cthread")


class _Axis:
    """One axis of a kernel, with the loop that launches it."""

    def __init__(self, loop: For, extent: PrimExpr) -> None:
        assert loop.thread_binding is not None
        self.tag = loop.thread_binding.thread_tag
        self.var = Var(self.tag.replace(".", "_"), loop.loop_var.dtype)
        self.extent = extent
        self.annotations = dict(loop.annotations)
        self.span = loop.span


class _Unifier(BufferRemapper):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Var, PrimExpr] = {}
        self.axes: dict[str, _Axis] | None = None  # of the present kernel
        self.inner: set[Var] = set()  # loops and iterators inside of the kernel
        self.indices: dict[str, Var] = {}  # of the axes over threads of a block, in this kernel
        self.around: list[str] = []  # axes whose loops are around the present statement

    def visit_Var(self, var: Var) -> Any:
        return self.values.get(var, var)

    def visit_For(self, loop: For) -> Stmt:
        binding = loop.thread_binding
        if loop.kind is not ForKind.THREAD_BINDING or binding is None:
            self.inner.add(loop.loop_var)
            return self.children(loop)
        if self.axes is None:
            return self.kernel(loop)
        if binding.thread_tag in SEPARATE:
            return self.children(loop)
        return self.unify(loop)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        thread = attribute.node
        if attribute.attr_key != "thread_extent" or not isinstance(thread, IterVar):
            return self.children(attribute)
        loop = For(
            thread.var, 0, self.visit(attribute.value), ForKind.THREAD_BINDING, attribute.body,
            thread, None, attribute.span,
        )  # fmt: skip
        return self.visit_For(loop)

    def kernel(self, loop: For) -> Stmt:
        self.axes, self.inner, self.around = {}, set(), []
        self.indices = {
            tag: Var(tag.replace(".", "_"), dtype) for tag, dtype in _axes_of_blocks(loop).items()
        }
        body = self.visit_For(loop)
        axes, self.axes = self.axes, None
        used = {self.indices[tag]: axis.var for tag, axis in axes.items() if tag in self.indices}
        body = substitute(body, used)
        for axis in reversed(axes.values()):
            domain = Range.from_min_extent(const(0, axis.var.dtype), axis.extent)
            iterator = IterVar(domain, Var("", axis.var.dtype), IterVar.ThreadIndex, axis.tag)
            body = For(
                axis.var, 0, axis.extent, ForKind.THREAD_BINDING, body, iterator, axis.annotations,
                axis.span,
            )  # fmt: skip
        return body

    def unify(self, loop: For) -> Stmt:
        """Replace a loop over an axis that the kernel launches outermost."""
        assert self.axes is not None and loop.thread_binding is not None
        tag = loop.thread_binding.thread_tag
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        axis = self.axes.get(tag)
        if axis is None:
            self.check_extent(loop, extent)
            axis = self.axes[tag] = _Axis(loop, extent)
        elif not structural_equal(axis.extent, _as(extent, axis.extent.dtype)):
            raise UnsupportedError(
                f"loops over {tag} have different extents: {axis.extent} and {extent}",
                span=loop.span,
                notes=("all loops over one axis of a kernel need the same number of threads",),
            )
        else:
            axis.annotations.update(loop.annotations)
        value: PrimExpr = _as(axis.var, loop.loop_var.dtype)
        if not is_const(low, 0):
            value = low + value
        self.values[loop.loop_var] = value
        if loop.thread_binding.var is not loop.loop_var:
            self.values[loop.thread_binding.var] = value
        self.around.append(tag)
        body = self.inside(loop.body)
        self.around.pop()
        return body

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        if self.axes is None or not _launches(node):
            return self.children(node)
        return self.inside(node)

    def inside(self, stmt: Stmt) -> Stmt:
        """Rewrite a statement of a kernel: parts without loops over threads as wholes."""
        if not _launches(stmt):
            return self.once(self.visit(stmt))
        if not isinstance(stmt, SeqStmt):
            return self.visit(stmt)
        parts: list[Stmt] = []
        for launches, group in groupby(stmt.seq, _launches):
            new = [self.inside(one) if launches else self.visit(one) for one in group]
            parts += new if launches else [self.once(stmt_seq(*new))]
        return stmt_seq(*parts, span=stmt.span)

    def once(self, stmt: Stmt) -> Stmt:
        """Let the first thread run what several would run if it updates memory that they share."""
        missing = [index for tag, index in self.indices.items() if tag not in self.around]
        if not missing or not _updates_shared_memory(stmt):
            return stmt
        return IfThenElse(all_of(*[index.equal(0) for index in missing]), stmt)

    def check_extent(self, loop: For, extent: PrimExpr) -> None:
        if uses_variable(extent, self.inner):
            raise UnsupportedError(
                f"the number of threads of '{loop.loop_var.name}' changes inside of the kernel",
                span=loop.span,
            )


def _axes_of_blocks(kernel: Stmt) -> dict[str, DataType]:
    """Return the axes over several threads of a block that a kernel launches, with the dtypes of
    their indices."""
    launches = [(one.thread_binding, one.extent) for one in nodes(kernel, For)]
    launches += [(one.node, one.value) for one in nodes(kernel, AttrStmt)]
    found: dict[str, DataType] = {}
    for thread, extent in launches:
        if isinstance(thread, IterVar) and thread.thread_tag.startswith("threadIdx"):
            if not is_const(extent, 1):
                found.setdefault(thread.thread_tag, thread.var.dtype)
    return found


def _launches(stmt: Stmt) -> bool:
    return any(loop.thread_binding is not None for loop in nodes(stmt, For)) or any(
        one.attr_key == "thread_extent" for one in nodes(stmt, AttrStmt)
    )


def _updates_shared_memory(stmt: Stmt) -> bool:
    """Return whether a statement changes memory of several threads depending on its old contents,
    and has no other effects."""
    written = {store.buffer for store in stores(stmt)}
    own = {buffer for block in nodes(stmt, Block) for buffer in block.alloc_buffers}
    if any(_is_private(buffer) and buffer not in own for buffer in written):
        return False  # all threads need what is in their registers
    if any(has_side_effect(one.value) for one in nodes(stmt, Evaluate)):
        return False  # the threads may work together
    read = {load.buffer for load in loads(stmt)}
    return any(not _is_private(buffer) for buffer in (written & read) - own)


def _is_private(buffer: Buffer) -> bool:
    return not buffer.scope().startswith(("global", "shared"))


def _as(expr: PrimExpr, dtype: Any) -> PrimExpr:
    if expr.dtype is dtype:
        return expr
    value = getattr(expr, "value", None)
    return const(value, dtype) if isinstance(value, int) else expr.astype(dtype)


@compiler_pass("tir.UnifyThreadBinding")
def unify_thread_binding(func: PrimFunc) -> PrimFunc:
    """Launches each thread axis once for a whole kernel.

    Returns ``func`` with one loop for each thread axis of a kernel, outermost.
    """
    return func.with_body(_Unifier().visit(func.body))
