"""ManifestSharedMemoryLocalStage: copies data through registers on their way to shared memory.

    for i in range(4):                          for i in range(4):
        with T.block():                             S_local[i] = A[...]
            T.block_attr({                      for i in range(4):
                "tir.manifest_shared_memory_    S[i * 32 + tx] = S_local[i]
                 local_stage": 1})
            S[i * 32 + tx] = A[...]

Two statements instead of one: a software pipeline can begin the loads early and store late. The
blocks are opaque; the loops right around a marked block give the registers their shape.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr, Var, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt, stmt_seq

__all__ = ["manifest_shared_memory_local_stage"]

MARKS = ("tir.manifest_shared_memory_local_stage", "manifest_shared_memory_local_stage")


def _is_marked(stmt: Any) -> bool:
    return isinstance(stmt, BlockRealize) and any(stmt.block.annotations.get(m) for m in MARKS)


class _Stager(Rewriter):
    def __init__(self) -> None:
        self.allocations: list[list[Buffer]] = []

    def visit_Block(self, block: Block) -> Block:
        self.allocations.append([])
        body = self.visit(block.body)
        added = self.allocations.pop()
        if body is block.body:
            return block
        return block.with_fields(body=body, alloc_buffers=(*block.alloc_buffers, *added))

    def visit_For(self, node: For) -> Stmt:
        loops, inner = [node], node.body
        while isinstance(inner, For):
            loops.append(inner)
            inner = inner.body
        if not _is_marked(inner) or node.kind is ForKind.THREAD_BINDING:
            body = self.visit(node.body)
            return node if body is node.body else node.with_fields(body=body)
        for number, loop in enumerate(loops):
            if loop.kind is ForKind.THREAD_BINDING:  # registers belong to one thread
                body = self.visit(node.body) if number == 0 else self.visit(loop)
                for outer in reversed(loops[:number]):
                    body = outer.with_fields(body=body)
                return body
        return self.staged(loops, inner)  # type: ignore[arg-type]

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        if _is_marked(node):
            return self.staged([], node)
        block = self.visit(node.block)
        return node if block is node.block else node.with_fields(block=block)

    def staged(self, loops: list[For], realize: BlockRealize) -> Stmt:
        """Return the nest as two copies: into registers, and from there to shared memory."""
        block = realize.block
        store = block.body
        if block.iter_vars or not isinstance(store, BufferStore) or not self.allocations:
            raise UnsupportedError(
                f"block '{block.name_hint}' is to go through registers, so it must be opaque and "
                "store one value",
                span=block.span,
                notes=("run ConvertBlocksToOpaque before",),
            )
        shape = [loop.extent for loop in loops] or [const(1, "int32")]
        local = decl_buffer(shape, store.buffer.dtype, store.buffer.name + "_local", scope="local")
        self.allocations[-1].append(local)
        indices: list[PrimExpr] = [loop.loop_var - loop.min for loop in loops] or [0]  # type: ignore[list-item]
        kept = {k: v for k, v in block.annotations.items() if k not in MARKS}
        # What asks for two versions means the shared buffer: registers are indexed by constants.
        loading = {k: v for k, v in kept.items() if k != "double_buffer_scope"}
        place = BufferRegion.from_point(local, indices)
        load = block.with_fields(
            body=BufferStore(local, store.value, indices), writes=(place,), annotations=loading,
            name_hint=block.name_hint + "_local",
        )  # fmt: skip
        put = block.with_fields(
            body=BufferStore(store.buffer, BufferLoad(local, indices), store.indices),
            reads=(place,), annotations=kept,
        )  # fmt: skip
        first: Stmt = realize.with_fields(block=load)
        second: Stmt = realize.with_fields(block=put)
        fresh = {loop.loop_var: Var(loop.loop_var.name, loop.loop_var.dtype) for loop in loops}
        second = substitute(second, fresh)
        for loop in reversed(loops):
            first = loop.with_fields(body=first)
            second = loop.with_fields(loop_var=fresh[loop.loop_var], body=second)
        return stmt_seq(first, second)


@compiler_pass("tir.ManifestSharedMemoryLocalStage")
def manifest_shared_memory_local_stage(func: PrimFunc) -> PrimFunc:
    """Inserts a copy in registers between global and shared memory where blocks are marked.

    Returns ``func`` whose marked copies to shared memory go through registers.
    """
    return func.with_body(_Stager().visit(func.body))
