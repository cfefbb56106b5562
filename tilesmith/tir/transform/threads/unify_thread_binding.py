"""UnifyThreadBinding: launches each thread axis once for a whole kernel.

    for bx in thread_binding("blockIdx.x"):     for blockIdx_x in thread_binding("blockIdx.x"):
        for t0 in thread_binding("threadIdx.x"):    for threadIdx_x in thread_binding(...):
            B[bx, t0] = A[bx, t0]                       B[blockIdx_x, threadIdx_x] = ...
        for t1 in thread_binding("threadIdx.x"):        C[blockIdx_x, threadIdx_x] = ...
            C[bx, t1] = B[bx, t1]

A kernel is the code inside an outermost loop over threads. Loops over the same axis must have
the same extent. Virtual threads of the old kind ("vthread", "cthread") stay as they are, those with
a letter ("vthread.x") are unified.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.stmt import AttrStmt, For, ForKind, Stmt

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
        self.axes, self.inner = {}, set()
        body = self.visit_For(loop)
        axes, self.axes = self.axes, None
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
        return self.visit(loop.body)

    def check_extent(self, loop: For, extent: PrimExpr) -> None:
        if uses_variable(extent, self.inner):
            raise UnsupportedError(
                f"the number of threads of '{loop.loop_var.name}' changes inside of the kernel",
                span=loop.span,
            )


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
