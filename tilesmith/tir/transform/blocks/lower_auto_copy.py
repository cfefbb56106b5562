"""LowerAutoCopy: divides copies to or from shared memory among the threads of a thread block.

    with T.block():                             for o in range(2):
        T.block_attr({"auto_copy": 1})              for v in T.vectorized(4):
        for i, j in T.grid(16, 16):                     f = (o * 32 + tx) * 4 + v
            S[i, j] = A[bx * 16 + i, j]                 S[f // 16, f % 16] = A[..., f % 16]

The mark is on an opaque block around loops of constant extent with one store of one load. The
annotation ``vector_bytes`` asks for vectors along the innermost loop. Copies that do not touch
shared memory, or have no threads around them, stay as they are, without the mark.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, PrimExpr, Var, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.visitor import Rewriter
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import Block, BufferStore, For, ForKind, IfThenElse, Stmt

__all__ = ["lower_auto_copy"]

MARK = "auto_copy"


class _Lowering(Rewriter):
    def __init__(self) -> None:
        self.threads: dict[str, tuple[Var, PrimExpr]] = {}

    def visit_For(self, node: For) -> Stmt:
        binding = node.thread_binding
        tag = binding.thread_tag if binding is not None else ""
        if not tag.startswith("threadIdx"):
            return self.children(node)
        outer = self.threads.get(tag)
        if outer is None:
            self.threads[tag] = (node.loop_var, node.extent)
        node = self.children(node)
        if outer is None:
            del self.threads[tag]
        return node

    def visit_Block(self, node: Block) -> Block:
        if not node.annotations.get(MARK):
            return self.children(node)
        kept = {k: v for k, v in node.annotations.items() if k not in (MARK, "vector_bytes")}
        body = None if node.iter_vars else self.divided(node)
        if body is None:
            return node.with_fields(annotations=kept, body=self.visit(node.body))
        return node.with_fields(annotations=kept, body=body)

    def divided(self, block: Block) -> Stmt | None:
        """Return the copy divided among the threads; None where it cannot be divided."""
        loops, inner = [], block.body
        while isinstance(inner, For) and inner.kind is not ForKind.THREAD_BINDING:
            loops.append(inner)
            inner = inner.body
        store = inner.then_case if isinstance(inner, IfThenElse) and not inner.else_case else inner
        if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
            return None
        scopes = (store.buffer.scope(), store.value.buffer.scope())
        extents = [loop.extent for loop in loops]
        sizes = [extent for _, extent in self.threads.values()]
        constant = all(isinstance(size, IntImm) for size in (*extents, *sizes))
        if not any(scope.startswith("shared") for scope in scopes) or not loops or not sizes:
            return None
        if not constant or any(scope.startswith("local") for scope in scopes):
            return None
        lanes = _lanes(block, store, loops[-1])
        number: Any = const(0, "int32")
        count = 1
        for tag in sorted(self.threads):  # x runs fastest
            var, extent = self.threads[tag]
            number = number + (var if count == 1 else var * count)
            count *= extent.value  # type: ignore[attr-defined]
        return _spread(loops, inner, number, count, lanes)


def _lanes(block: Block, store: BufferStore, last: For) -> int:
    """Return the number of elements in a vector along the innermost loop."""
    wanted = int(block.annotations.get("vector_bytes", 1)) // store.buffer.dtype.nbytes
    if wanted < 2 or last.extent.value % wanted:  # type: ignore[attr-defined]
        return 1
    ends = (store.indices[-1], store.value.indices[-1])  # type: ignore[attr-defined]
    from tilesmith.arith import detect_linear_equation

    for index in ends:
        form = detect_linear_equation(index, [last.loop_var])
        if not form or not isinstance(form[0], IntImm) or form[0].value != 1:
            return 1
    return wanted


def _spread(loops: list[For], inner: Stmt, number: Any, threads: int, lanes: int) -> Stmt:
    total = 1
    for loop in loops:
        total *= loop.extent.value  # type: ignore[attr-defined]
    rounds = -(-total // (threads * lanes))
    turn, lane = Var("turn", "int32"), Var("lane", "int32")
    fused: Any = (turn * threads + number) * lanes
    if lanes > 1:
        fused = fused + lane
    mapping: dict[Var, PrimExpr] = {}
    stride = 1
    for loop in reversed(loops):
        size = loop.extent.value  # type: ignore[attr-defined]
        place = fused // stride if stride > 1 else fused
        if loop is not loops[0]:
            place = place % size
        if place.dtype is not loop.loop_var.dtype:
            place = place.astype(loop.loop_var.dtype)
        mapping[loop.loop_var] = loop.min + place
        stride *= size
    body: Stmt = substitute(inner, mapping)
    if lanes > 1:
        body = For(lane, 0, lanes, ForKind.VECTORIZED, body)
    if total % (threads * lanes):
        first = (turn * threads + number) * lanes
        body = IfThenElse(first < total, body)
    return For(turn, 0, rounds, ForKind.SERIAL, body)


@compiler_pass("tir.LowerAutoCopy")
def lower_auto_copy(func: PrimFunc) -> PrimFunc:
    """Divides marked copies among the threads of a thread block.

    Returns ``func`` with its marked copies divided among threads.
    """
    return func.with_body(_Lowering().visit(func.body))
