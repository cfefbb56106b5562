"""LowerAsyncDMA: lowers copies marked as asynchronous to transfers of the DMA engine.

    with T.attr(0, "async_commit_queue_scope", 0):
        with T.attr(0, "async_scope", 1):
            for i in range(128):                T.dma_copy(0, T.address_of(X[0]),
                X[i] = A[i + k]                            T.address_of(A[k]), 128, 0)
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 0):
            ...                                 T.dma_wait(0, 0); ...

The first argument is the number of the queue, the fourth counts bytes, the last asks to bypass the
cache (option ``tir.dma_bypass_cache``).
"""

from __future__ import annotations

from tilesmith.arith import Analyzer, detect_linear_equation
from tilesmith.ir import Call, IntImm, PrimExpr, Var, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import PassContext
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import AttrStmt, BufferStore, Evaluate, For, SeqStmt, Stmt, stmt_seq
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["lower_async_dma", "lower_async_dma_as_configured"]


class _DmaLowerer(StatementRewriter):
    def __init__(self, bypass_cache: bool) -> None:
        self.bypass_cache = bypass_cache
        self.queue: PrimExpr | None = None

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        key = attribute.attr_key
        if key == "async_commit_queue_scope":
            outer, self.queue = self.queue, attribute.value
            body = self.visit(attribute.body)
            self.queue = outer
            return body
        if key == "async_scope":
            return self.copies(attribute.body)
        if key == "async_wait_queue_scope":
            return self.wait(attribute)
        return self.children(attribute)

    def wait(self, attribute: AttrStmt) -> Stmt:
        inner = attribute.body
        if not isinstance(inner, AttrStmt) or inner.attr_key != "async_wait_inflight_count":
            raise UnsupportedError(
                "an async_wait_queue_scope needs an async_wait_inflight_count right inside",
                span=attribute.span,
            )
        call = Call("int32", "tir.dma_wait", (attribute.value, inner.value))
        return stmt_seq(Evaluate(call), self.visit(inner.body))

    def copies(self, stmt: Stmt) -> Stmt:
        """Lower each copy of a sequence to one transfer."""
        if isinstance(stmt, SeqStmt):
            return stmt_seq(*[self.copies(part) for part in stmt.seq])
        loops: list[For] = []
        inner = stmt
        while isinstance(inner, For):
            loops.append(inner)
            inner = inner.body
        if not isinstance(inner, BufferStore) or not isinstance(inner.value, BufferLoad):
            raise UnsupportedError(
                "only plain copies between buffers can be done by the DMA engine",
                span=getattr(stmt, "span", None),
                notes=("an async_scope holds loops around one store of one load",),
            )
        return self.transfer(loops, inner, inner.value)

    def transfer(self, loops: list[For], store: BufferStore, load: BufferLoad) -> Stmt:
        """Lower a nest of loops to a transfer; loops over dimensions that are not contiguous stay
        around it."""
        queue = const(0, "int32") if self.queue is None else self.queue
        if len(store.indices) != 1 or len(load.indices) != 1:
            raise UnsupportedError(
                "the copy is not flat yet", notes=("run FlattenBuffer before LowerAsyncDMA",)
            )
        count, rest = 1, list(loops)
        while rest:
            loop = rest[-1]
            if not isinstance(loop.extent, IntImm):
                break
            steps = [_step(place.indices[0], loop.loop_var) for place in (store, load)]
            if steps != [count, count]:
                break
            count *= loop.extent.value
            rest.pop()
        if count == 1 and loops:
            raise UnsupportedError(
                "the innermost loop of the copy does not run along both buffers", span=store.span
            )
        first = {loop.loop_var: loop.min for loop in loops[len(rest) :]}
        size = count * store.buffer.dtype.nbytes
        arguments = (
            queue,
            self.address(store.buffer, substitute(store.indices[0], first)),
            self.address(load.buffer, substitute(load.indices[0], first)),
            const(size, "int32"),
            const(int(self.bypass_cache), "int32"),
        )
        body: Stmt = Evaluate(Call("int32", "tir.dma_copy", arguments))
        for loop in reversed(rest):
            body = loop.with_fields(body=body)
        return body

    def address(self, buffer: Buffer, index: PrimExpr) -> PrimExpr:
        index = Analyzer().simplify(index)
        return Call("handle", "tir.address_of", (BufferLoad(buffer, (index,)),))


def _step(index: PrimExpr, var: Var) -> int | None:
    """Return by how many elements an index grows when a variable grows by one."""
    found = detect_linear_equation(index, [var])
    return found[0].value if found and isinstance(found[0], IntImm) else None


def lower_async_dma(func: PrimFunc, bypass_cache: bool = False) -> PrimFunc:
    """Return ``func`` with DMA transfers in place of the copies marked as asynchronous."""
    return func.with_body(_DmaLowerer(bypass_cache).visit(func.body))


@compiler_pass("tir.LowerAsyncDMA")
def lower_async_dma_as_configured(func: PrimFunc, context: PassContext) -> PrimFunc:
    """Lowers asynchronous copies to transfers of the DMA engine."""
    return lower_async_dma(func, bool(context.get_config("tir.dma_bypass_cache", False)))
