"""BindParallelLoops: spreads the parallel loops of a device's functions over its threads.

    for row in T.parallel(n):        with T.launch_thread("blockIdx.x", (n + 255) // 256) as bx:
        … a[row, …]                      with T.launch_thread("threadIdx.x", 256) as tx:
                                             if bx * 256 + tx < n:
                                                 … a[bx * 256 + tx, …]

Such loops come from procedures (sorts, sums along an axis), inside of whose blocks no schedule can
bind anything; that their iterations are independent, the author says. Loops that are inside of
threads or of other parallel loops become serial: a thread has no others to share them with. So do
loops around a launch of threads: the host launches it once for each iteration.
"""

from __future__ import annotations

from tilesmith.ir import IntImm, Node, PrimExpr, Range, Rewriter, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node
from tilesmith.target import Target
from tilesmith.target.gpu_machine import max_threads_per_block
from tilesmith.tir.expr import IterVar, IterVarType
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import AttrStmt, For, ForKind, IfThenElse, Stmt
from tilesmith.tir.transform.functions.device_functions import DEVICE_FUNCTION

__all__ = ["bind_parallel_loops"]

_MOST_THREADS = 256
"""Larger blocks leave fewer registers to each thread, and more of them idle at the end."""


class _Binder(Rewriter):
    def __init__(self, threads: int, is_inside: bool) -> None:
        self.threads = threads
        self.is_inside = is_inside  # of threads, or of a parallel loop

    def _inside(self, stmt: Stmt) -> Stmt:
        """Rewrite a statement that threads execute."""
        before, self.is_inside = self.is_inside, True
        stmt = self.visit(stmt)
        self.is_inside = before
        return stmt

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        """Note where threads begin."""
        if stmt.attr_key != "thread_extent":
            return self.children(stmt)
        return stmt.with_fields(body=self._inside(stmt.body))

    def visit_For(self, loop: For) -> Stmt:
        """Bind a parallel loop."""
        if loop.kind is not ForKind.PARALLEL:
            return self.children(loop)
        if self.is_inside or any_node(loop.body, _launches):
            return self.children(loop).with_fields(kind=ForKind.SERIAL)
        threads = self.threads
        if isinstance(loop.extent, IntImm):
            threads = max(1, min(threads, loop.extent.value))
        name, dtype = loop.loop_var.name, loop.loop_var.dtype
        many = const(threads, dtype)
        outer, inner = Var(f"{name}_0", dtype), Var(f"{name}_1", dtype)
        row = outer * many + inner
        body = self._inside(substitute(loop.body, {loop.loop_var: loop.min + row}))
        body = IfThenElse(row < loop.extent, body)
        body = _over_threads(inner, many, "threadIdx.x", body)
        blocks = ops.floordiv(loop.extent + const(threads - 1, dtype), many)
        return _over_threads(outer, blocks, "blockIdx.x", body)


def _launches(node: Node) -> bool:
    return isinstance(node, AttrStmt) and node.attr_key == "thread_extent"


def _over_threads(variable: Var, extent: PrimExpr, tag: str, body: Stmt) -> AttrStmt:
    domain = Range.from_min_extent(const(0, variable.dtype), extent)
    thread = IterVar(domain, variable, IterVarType.ThreadIndex, tag)
    return AttrStmt(thread, "thread_extent", extent, body)


@compiler_pass("tir.BindParallelLoops")
def bind_parallel_loops(func: PrimFunc) -> PrimFunc:
    """Spreads the parallel loops of a function for a device over threads.

    Returns ``func`` with its outermost parallel loops bound, and those inside serial; functions
    without a target that has threads stay as they are.
    """
    target = func.attrs.get("target")
    threads = 0 if target is None else max_threads_per_block(Target(target))
    if not threads:
        return func
    is_called = bool(func.attrs.get(DEVICE_FUNCTION))  # by a thread
    return func.with_body(_Binder(min(threads, _MOST_THREADS), is_called).visit(func.body))
