"""Runs what no rule can spread over threads in one thread of a device.

    for i in range(n):                    for bx in T.thread_binding(1, "blockIdx.x"):
        count[0] += x[i] > 0       →          for tx in T.thread_binding(1, "threadIdx.x"):
                                                  for i in range(n): …

Slow, but the result stays on the device, and its readers need not wait. Memory of the device that
the program allocates inside is allocated before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr, Var, const
from tilesmith.ir.expr import Range
from tilesmith.ir.queries import nodes, variables
from tilesmith.ir.visitor import Rewriter
from tilesmith.tir.expr import IterVar, IterVarType
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import has_loop_of_kind
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    For,
    ForKind,
    SeqStmt,
    Stmt,
    stmt_seq,
)

__all__ = ["is_on_threads", "on_one_thread"]


def is_on_threads(func: PrimFunc) -> bool:
    """Return whether a function names threads."""
    is_bound = has_loop_of_kind(func.body, ForKind.THREAD_BINDING)
    return is_bound or any(node.attr_key == "thread_extent" for node in nodes(func.body, AttrStmt))


def on_one_thread(func: PrimFunc) -> PrimFunc:
    """Return a function of blocks whose nests run in one thread each."""
    root = func.body
    if not isinstance(root, BlockRealize):
        return func
    body = root.block.body
    nests = list(body.seq) if isinstance(body, SeqStmt) else [body]
    hoisted = _Hoisted(set(func.params) | _sizes(func))
    bound = [_on_thread(hoisted.visit(nest)) for nest in nests]
    whole = stmt_seq(*bound)
    for node in reversed(hoisted.allocations):
        whole = node.with_fields(body=whole)
    block = root.block.with_fields(
        body=whole, alloc_buffers=(*root.block.alloc_buffers, *hoisted.buffers)
    )
    return func.with_body(root.with_fields(block=block)).with_attr("tir.is_scheduled", True)


def _sizes(func: PrimFunc) -> set[Var]:
    return {
        var for buffer in func.buffers for var in variables((*buffer.shape, buffer.elem_offset))
    }


def _on_thread(nest: Stmt) -> Stmt:
    for tag in ("threadIdx.x", "blockIdx.x"):
        extent = const(1, "int32")
        thread = IterVar(
            Range.from_min_extent(0, extent), Var("", "int32"), IterVarType.ThreadIndex, tag
        )
        name = "tx" if tag.startswith("thread") else "bx"
        nest = For(Var(name, "int32"), 0, extent, ForKind.THREAD_BINDING, nest, thread)
    return nest


class _Hoisted(Rewriter):
    """Takes memory out of a nest whose sizes are known before it, and lets loops run serially."""

    def __init__(self, known: set[Var]) -> None:
        self.known = known
        self.allocations: list[Allocate] = []
        self.buffers: list[Any] = []

    def visit_For(self, node: For) -> Stmt:
        node = self.children(node)
        return node.with_fields(kind=ForKind.SERIAL) if node.kind is ForKind.PARALLEL else node

    def visit_Allocate(self, node: Allocate) -> Stmt:
        node = self.children(node)
        if not self._moves(node.buffer_var.storage_scope, node.extents):
            return node
        self.allocations.append(node)
        return node.body

    def visit_Block(self, node: Block) -> Block:
        node = self.children(node)
        moved = [b for b in node.alloc_buffers if self._moves(b.scope(), b.shape)]
        self.buffers += moved
        kept = [buffer for buffer in node.alloc_buffers if buffer not in moved]
        return node.with_fields(alloc_buffers=tuple(kept)) if moved else node

    def _moves(self, scope: str, sizes: Sequence[PrimExpr]) -> bool:
        """Return whether memory is of the device, and its sizes are known before the nest."""
        is_shared = scope in ("", "global")
        return is_shared and all(var in self.known for var in variables(list(sizes)))
