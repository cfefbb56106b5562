"""InjectPrefetch: lowers prefetches of regions to prefetches of addresses, one per cache line.

T.prefetch(A, [T.Range(i, 1), T.Range(0, 64)])    for k in range(4):
                                                      T.prefetch(T.address_of(A[i, k * 16]))
"""

from __future__ import annotations

from tilesmith.ir import Call, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import prefetch
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Evaluate, For, ForKind, Prefetch, Stmt
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["inject_prefetch", "inject_prefetch_of_lines"]

LINE_BYTES = 64


class _PrefetchInjector(StatementRewriter):
    def __init__(self, line_bytes: int) -> None:
        self.line_bytes = line_bytes

    def visit_Prefetch(self, stmt: Prefetch) -> Stmt:
        buffer, bounds = stmt.buffer, stmt.bounds
        step = max(1, self.line_bytes // buffer.dtype.nbytes)
        loops, indices = [], []
        for axis, bound in enumerate(bounds):
            stride = step if axis == len(bounds) - 1 else 1
            extent = bound.extent
            count = ops.floordiv(extent + const(stride - 1, extent.dtype), stride)
            if ops.is_const(count, 1):
                indices.append(bound.min)
                continue
            var = Var(f"line{axis}", extent.dtype)
            loops.append((var, count))
            indices.append(bound.min + var * stride)
        address = Call("handle", "tir.address_of", (BufferLoad(buffer, indices),))
        body: Stmt = Evaluate(prefetch(address, 0, 3, 1))
        for var, count in reversed(loops):
            body = For(var, 0, count, ForKind.SERIAL, body)
        return body


def inject_prefetch(func: PrimFunc, line_bytes: int = LINE_BYTES) -> PrimFunc:
    """Return ``func`` with prefetches of addresses only, one for each ``line_bytes`` bytes."""
    return func.with_body(_PrefetchInjector(line_bytes).visit(func.body))


@compiler_pass("tir.InjectPrefetch")
def inject_prefetch_of_lines(func: PrimFunc) -> PrimFunc:
    """Lowers prefetches of regions to prefetches of addresses, one for each cache line."""
    return inject_prefetch(func)
