"""Prefetches the rows that later steps of a loop look up: a part of PrefetchNextRun.

    for i in range(n):                      for i in range(n):
        for j in range(48):                     with T.LetStmt(B[T.min(i + 1, n - 1)] * 768) as row:
            for v in T.vectorized(16):              T.prefetch(T.address_of(A[row]))
                … A[B[i] * 768 + j * 16 + v]        T.prefetch(T.address_of(A[row + 16])) …
                                                for j in range(48):
                                                    for v in T.vectorized(16):
                                                        … A[B[i] * 768 + j * 16 + v]

No prefetcher of a machine knows where the next row lies, and its own loads begin when those of the
rows before it are nearly done. After the first lines of a row the machine follows by itself.

The annotation ``prefetch_rows`` of the loop says how many bytes of rows are on their way.
"""

from __future__ import annotations

from tilesmith.arith import Analyzer
from tilesmith.ir import Call, IntImm, PrimExpr, Rewriter, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import prefetch
from tilesmith.ir.queries import is_call, mentions, walk
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads, reads_memory, statements
from tilesmith.tir.stmt import Evaluate, For, IfThenElse, LetStmt, Stmt, While, stmt_seq

__all__ = ["PREFETCH_ROWS", "row_prefetches"]

PREFETCH_ROWS = "prefetch_rows"
"""The annotation of a loop over rows: how many bytes ahead they are fetched."""
_LINE_BYTES = 64
_MOST_LINES = 16
"""The first lines of a row, which are fetched. (All 48 of rows of 3 KB from L3 gain less.)"""
_INTO_L1 = 3
"""The hint of locality."""


class _WithoutChecks(Rewriter):
    """Takes the values of checks as they are: prefetches of wrong places do no harm."""

    def visit_Call(self, call: Call) -> PrimExpr:
        new = self.children(call)
        return new.args[0] if is_call(new, "tir.checked") else new


def row_prefetches(loop: For) -> list[Stmt]:
    """Return the prefetches that belong before the body of an annotated loop."""
    ahead = int(loop.annotations[PREFETCH_ROWS])
    if _may_skip(loop):
        return []
    inside = [one for one in statements(loop.body) if isinstance(one, For)]
    bound = {one.var for one in statements(loop.body) if isinstance(one, LetStmt)}
    made: list[Stmt] = []
    seen: list[BufferLoad] = []
    for load in loads(loop.body):
        if any(load.buffer is one.buffer for one in seen) or not _looks_up(load, loop.loop_var):
            continue
        seen.append(load)
        index = _WithoutChecks().visit(load.indices[0])
        length = _row_length(index, [one for one in inside if mentions(index, {one.loop_var})])
        if length is not None and not mentions(index, bound):
            made.append(_of_row(load.buffer, index, length, loop, inside, ahead))
    return made


def _may_skip(loop: For) -> bool:
    """Return whether it depends on the step of a loop what of its body runs."""
    conditions = [one.condition for one in statements(loop.body) if isinstance(one, IfThenElse)]
    conditions += [one.args[0] for one in walk(loop.body) if is_call(one, "tir.if_then_else")]
    unknown = any(mentions(one, {loop.loop_var}) or reads_memory(one) for one in conditions)
    return unknown or any(isinstance(one, While) for one in statements(loop.body))


def _looks_up(load: BufferLoad, step: Var) -> bool:
    """Return whether a load is at a place that is read from memory for a step."""
    return len(load.indices) == 1 and any(
        mentions(one.indices, {step}) for one in loads(load.indices)
    )


def _row_length(index: PrimExpr, loops: list[For]) -> int | None:
    """Return how many elements some loops read if they leave none out; None for any other index."""
    analyzer = Analyzer()
    found: list[tuple[int, int]] = []
    for one in loops:
        moved = substitute(index, {one.loop_var: one.loop_var + const(1, one.loop_var.dtype)})
        stride = analyzer.simplify(moved - index)
        if not isinstance(stride, IntImm) or not isinstance(one.extent, IntImm):
            return None
        found.append((stride.value, one.extent.value))
    reach = 1
    for gap, count in sorted(found):
        if not 0 < gap <= reach:
            return None
        reach += gap * (count - 1)
    return reach


def _of_row(
    buffer: Buffer, index: PrimExpr, length: int, loop: For, inside: list[For], ahead: int
) -> Stmt:
    """Return the prefetches of the first lines of a row in a later step."""
    size, step = buffer.dtype.nbytes, loop.loop_var
    later = step + const(max(1, ahead // (length * size)), step.dtype)
    last = loop.min + loop.extent - const(1, step.dtype)
    start = {one.loop_var: one.min for one in inside}
    first = substitute(index, {**start, step: ops.minimum(later, last)})
    row, line = Var("row", first.dtype), max(1, _LINE_BYTES // size)
    count = min(-(-length // line), _MOST_LINES)
    places = [row + const(line * number, row.dtype) for number in range(count)]
    addresses = [
        Call("handle", "tir.address_of", (BufferLoad(buffer, [place]),)) for place in places
    ]
    hints = [Evaluate(prefetch(address, 0, _INTO_L1, 1)) for address in addresses]
    return LetStmt(row, first, stmt_seq(*hints))
