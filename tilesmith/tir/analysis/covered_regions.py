"""Finds accesses of a block that are certainly outside of its declared regions."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.ir import Add, IntImm, PrimExpr, Sub, Var, Visitor
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    LetStmt,
    Stmt,
)

__all__ = ["Uncovered", "uncovered_access"]


class Uncovered(NamedTuple):
    """An access that no region of the block contains."""

    message: str
    advice: str
    statement: Stmt | None


def uncovered_access(block: Block) -> Uncovered | None:
    """Return the first access of a block that is certainly in none of its regions, or None.

    Only what can be seen at once counts: a buffer that is not named at all, and an index that lies
    a constant distance outside of every region. Accesses through pointers are ignored; an
    inner block counts with its regions. As everywhere, a block that reduces need not name what it
    writes among its reads.
    """
    finder = _Finder(block)
    if block.init is not None:
        finder.visit(block.init)
    finder.visit(block.body)
    return finder.found


class _Finder(Visitor):
    def __init__(self, block: Block) -> None:
        self.block = block
        self.found: Uncovered | None = None
        self.statement: Stmt | None = None
        self.own: set[Var] = {buffer.data for buffer in block.alloc_buffers}
        self.own |= {match.buffer.data for match in block.match_buffers}
        self.reads = _by_memory(block.reads)
        self.writes = _by_memory(block.writes)
        reduces = any(iterator.iter_type == IterVar.CommReduce for iterator in block.iter_vars)
        self.readable = {**self.reads, **(self.writes if reduces or block.init is not None else {})}

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.statement = node
        self.visit_children(node)
        self.check(node.buffer, node.indices, "writes", self.writes)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit_children(node)
        known = self.readable
        if node.buffer.data in self.reads:
            known = self.reads
        self.check(node.buffer, node.indices, "reads", known)

    def visit_Call(self, node: Any) -> None:
        if node.op.name != "tir.address_of" if hasattr(node.op, "name") else True:
            self.visit_children(node)

    def visit_Evaluate(self, node: Evaluate) -> None:
        self.statement = node
        self.visit_children(node)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.statement = node
        self.visit(node.value)
        self.visit(node.body)

    def visit_Allocate(self, node: Allocate | AllocateConst) -> None:
        self.own.add(node.buffer_var)
        self.visit_children(node)

    visit_AllocateConst = visit_Allocate

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.visit(node.body)

    def visit_Block(self, block: Block) -> None:
        """Visit an inner block: its regions must be covered by those of the outer one."""
        inside = {buffer.data for buffer in block.alloc_buffers}
        inside |= {match.buffer.data for match in block.match_buffers}
        self.statement = block
        for regions, word, known in (
            (block.reads, "reads", self.readable),
            (block.writes, "writes", self.writes),
        ):
            for region in regions:
                if region.buffer.data not in inside:
                    self.check(region.buffer, (), word, known)

    def check(
        self,
        buffer: Buffer,
        indices: tuple[Any, ...],
        word: str,
        known: dict[Var, list[BufferRegion]],
    ) -> None:
        if self.found is not None or buffer.data in self.own:
            return
        regions = known.get(buffer.data)
        block, name = self.block.name_hint, buffer.name
        if regions is None:
            self.found = Uncovered(
                f"the block '{block}' {word} '{name}', which its T.{word} does not name",
                f"add {_written(buffer, indices)} to T.{word}, or leave T.{word} out: the parser "
                "finds the regions",
                self.statement,
            )
            return
        for position, index in enumerate(indices):
            if all(_misses(region, buffer, position, index) for region in regions):
                self.found = Uncovered(
                    f"the block '{block}' {word} {_written(buffer, indices)}, outside of the "
                    f"regions that its T.{word} names: {', '.join([str(r) for r in regions])}",
                    f"make the region larger, or leave T.{word} out: the parser finds the regions",
                    self.statement,
                )
                return


def _by_memory(regions: Any) -> dict[Var, list[BufferRegion]]:
    found: dict[Var, list[BufferRegion]] = {}
    for region in regions:
        found.setdefault(region.buffer.data, []).append(region)
    return found


def _written(buffer: Buffer, indices: Any) -> str:
    inside = ", ".join([str(index) for index in indices]) if indices else "…"
    return f"{buffer.name}[{inside}]"


def _misses(region: BufferRegion, buffer: Buffer, position: int, index: PrimExpr) -> bool:
    """Return whether an index lies a constant distance outside of a region in one dimension."""
    if region.buffer is not buffer:
        return False  # another view of the memory: its indices mean something else
    extent = region.region[position].extent
    if not isinstance(extent, IntImm):
        return False
    base, offset = _split(index)
    start, start_offset = _split(region.region[position].min)
    if base is not start:
        return False
    return not 0 <= offset - start_offset < extent.value


def _split(expr: PrimExpr) -> tuple[PrimExpr | None, int]:
    """Split ``v + 3`` into ``(v, 3)``, ``3`` into ``(None, 3)``."""
    if isinstance(expr, IntImm):
        return None, expr.value
    if isinstance(expr, Add) and isinstance(expr.b, IntImm):
        return expr.a, expr.b.value
    if isinstance(expr, Sub) and isinstance(expr.b, IntImm):
        return expr.a, -expr.b.value
    return expr, 0
