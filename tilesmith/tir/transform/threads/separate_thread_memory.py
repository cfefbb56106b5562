"""SeparateThreadMemory: gives threads their own memory where they allocate it in scope "global".

    for bx in thread_binding(4, "blockIdx.x"):        M = T.alloc_buffer((4, 32))
        with T.block(""):                             for bx in thread_binding(4, "blockIdx.x"):
            M = T.alloc_buffer((32,))                     with T.block(""):
            for tx in thread_binding(32, ...):                for tx in thread_binding(32, ...):
                M[tx] = ...                                       M[bx, tx] = ...

An allocation inside of loops over threads is one for each iteration of these loops, but a kernel
cannot allocate global memory: it is allocated once, around the kernel. So it gets a dimension for
each of these loops. Memory of a single thread, without loops over threads inside, moves to scope
"local" if its size is constant.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, PrimExpr, Range, Var
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes, variables
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, Stmt

__all__ = ["separate_thread_memory"]


class _Separator(BufferRemapper):
    def __init__(self) -> None:
        super().__init__()
        self.threads: list[For] = []  # loops over threads around, outermost first
        self.inner: set[Var] = set()  # variables of loops in the kernel
        self.places: dict[Buffer, list[PrimExpr]] = {}  # the indices in front of a buffer's own
        self.pointers: dict[Var, Buffer] = {}  # of buffers with further dimensions
        self.moved: list[Buffer] = []  # to be allocated around the present kernel

    def visit_For(self, loop: For) -> Stmt:
        binding = loop.thread_binding
        if self.threads:
            self.inner.add(loop.loop_var)
        if binding is None:
            return self.children(loop)
        is_outermost = not self.threads and not binding.thread_tag.startswith("vthread")
        if not is_outermost and not self.threads:
            return self.children(loop)
        if is_outermost:
            self.inner, self.moved = {loop.loop_var}, []
        self.threads.append(loop)
        new: Stmt = self.children(loop)
        self.threads.pop()
        if is_outermost and self.moved:
            new = BlockRealize((), True, Block((), (), (), "", new, None, self.moved))
        return new

    def visit_Block(self, block: Block) -> Block:
        kept = []
        for buffer in block.alloc_buffers if self.threads else ():
            if buffer.scope() != "global":
                kept.append(buffer)
                continue
            if not _launches(block.body) and all(isinstance(n, IntImm) for n in buffer.shape):
                strides = buffer.strides or None
                kept.append(
                    decl_buffer(
                        buffer.shape, buffer.dtype, buffer.name, strides=strides, scope="local"
                    )
                )
                self.buffers[buffer] = kept[-1]
                continue
            self.separate(buffer)
        if self.threads and len(kept) < len(block.alloc_buffers):
            block = block.with_fields(alloc_buffers=[])
            new: Block = super().visit_Block(block)
            return new.with_fields(alloc_buffers=kept)
        return super().visit_Block(block)

    def separate(self, buffer: Buffer) -> None:
        """Give a buffer a dimension for each loop over threads around."""
        loops = [one for one in self.threads if not _is_one(one.extent)]
        sizes = [*[one.extent for one in loops], *buffer.shape]
        if buffer.strides or not self.inner.isdisjoint(variables(sizes)):
            raise UnsupportedError(
                f"the global memory '{buffer.name}' that is allocated for each thread of "
                f"'{self.threads[-1].loop_var.name}' has a size that only the thread knows",
                span=buffer.span,
                notes=("allocate it outside of the loops over threads",),
            )
        new = decl_buffer(sizes, buffer.dtype, buffer.name)
        self.buffers[buffer] = new
        self.places[buffer] = [one.loop_var - one.min for one in loops]
        self.pointers[buffer.data] = buffer
        self.moved.append(new)

    def visit_Var(self, var: Var) -> Any:
        if var in self.pointers:
            raise UnsupportedError(
                f"a pointer to '{var.name}' is used, which is allocated for each thread",
                notes=("allocate it outside of the loops over threads",),
            )
        return var

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        if load.buffer not in self.places:
            return self.children(load)
        indices = [self.visit(index) for index in load.indices]
        return BufferLoad(self.buffers[load.buffer], (*self.places[load.buffer], *indices))

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        if store.buffer not in self.places:
            return self.children(store)
        indices = (*self.places[store.buffer], *[self.visit(index) for index in store.indices])
        predicate = None if store.predicate is None else self.visit(store.predicate)
        return BufferStore(
            self.buffers[store.buffer], self.visit(store.value), indices, predicate, store.span
        )

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        if region.buffer not in self.places:
            return self.children(region)
        points = [Range.from_min_extent(one, 1) for one in self.places[region.buffer]]
        ranges = [self.visit(one) for one in region.region]
        return BufferRegion(self.buffers[region.buffer], (*points, *ranges))


def _is_one(extent: PrimExpr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1


def _launches(stmt: Stmt) -> bool:
    return any(loop.thread_binding is not None for loop in nodes(stmt, For))


@compiler_pass("tir.SeparateThreadMemory")
def separate_thread_memory(func: PrimFunc) -> PrimFunc:
    """Gives threads their own memory where they allocate it in scope "global".

    Returns ``func`` whose kernels allocate no global memory.
    """
    return func.with_body(_Separator().visit(func.body))
