"""Finds the innermost statement that contains all accesses of a buffer: where it can be
allocated."""

from __future__ import annotations

from tilesmith.ir import Var, Visitor
from tilesmith.ir.queries import variables
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVarType
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    Stmt,
)  # fmt: skip

__all__ = ["detect_buffer_access_lca"]

Path = tuple[Stmt, ...]


class _LcaFinder(Visitor):
    """Tracks the path from the root to the current loop or block, and for each buffer the common
    prefix of the paths of its accesses."""

    def __init__(self, func: PrimFunc) -> None:
        self.path: list[Stmt] = []
        self.found: dict[Buffer, Path] = {}
        self.buffer_of: dict[Var, Buffer] = {}
        self.grid: int | None = None  # length of the way to the outermost loop over blockIdx
        for buffer in func.buffer_map.values():
            self.buffer_of[buffer.data] = buffer

    def access(self, buffer: Buffer, path: Path | None = None) -> None:
        path = tuple(self.path) if path is None else path
        if self.grid is not None and buffer.scope() == "global":
            path = path[: self.grid]
        known = self.found.get(buffer)
        if known is None:
            self.found[buffer] = path
            return
        common = 0
        for left, right in zip(known, path):
            if left is not right:
                break
            common += 1
        self.found[buffer] = known[:common]

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        outer = self.grid
        self.path.append(node)
        if node.kind is ForKind.THREAD_BINDING and node.thread_binding is not None:
            if node.thread_binding.thread_tag.startswith("blockIdx") and outer is None:
                self.grid = len(self.path)
        self.visit(node.body)
        self.path.pop()
        self.grid = outer

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        for value in node.iter_values:
            self.visit(value)
        self.visit(node.predicate)
        self.keep_results_of_reductions(node)
        self.visit(node.block)

    def keep_results_of_reductions(self, node: BlockRealize) -> None:
        """Count the buffers that a block writes as used outside of its reduction loops: they are
        live across all iterations."""
        pairs = zip(node.block.iter_vars, node.iter_values)
        reduced = [value for one, value in pairs if one.iter_type != IterVarType.DataPar]
        used = set(variables(reduced))
        for depth, stmt in enumerate(self.path):
            if isinstance(stmt, For) and stmt.loop_var in used:
                for region in node.block.writes:
                    self.access(region.buffer, tuple(self.path[:depth]))
                return

    def visit_Block(self, node: Block) -> None:
        for buffer in node.alloc_buffers:
            self.buffer_of[buffer.data] = buffer
        for match in node.match_buffers:
            self.buffer_of[match.buffer.data] = match.buffer
            self.access(match.source.buffer)
        self.path.append(node)
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)
        self.path.pop()

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.access(node.buffer)
        node.for_each_child(self.visit)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.access(node.buffer)
        node.for_each_child(self.visit)

    def visit_Var(self, node: Var) -> None:
        buffer = self.buffer_of.get(node)
        if buffer is not None:
            self.access(buffer)


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Stmt | None]:
    """Return for each buffer the innermost loop or block that contains all its accesses; None: the
    function.

    The result of a reduction is held above the loops that are reduced; memory in scope "global" is
    held by the outermost loop over ``blockIdx``.
    """
    finder = _LcaFinder(func)
    with deep_recursion():
        finder.visit(func.body)
    return {buffer: path[-1] if path else None for buffer, path in finder.found.items()}
