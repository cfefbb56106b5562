"""PlanAndUpdateBufferAllocationLocation: moves each allocation to the innermost scope that holds
all accesses of the buffer.

    with T.block("root"):                       with T.block("root"):
        B = T.alloc_buffer((16, 16))                for i in range(16):
        for i in range(16):                             with T.block(""):
            ...B[i, ...]                                    B = T.alloc_buffer((16, 16))
                                                            ...B[i, ...]

The result of a reduction must be live across the loop of the reduction: a buffer that is written in
a block whose reduction iterators depend on a loop stays outside of that loop. So does a buffer that
a block with opaque iterators writes or reads: the iterations of its loop run in order and may use
what an earlier one has left. Memory in scope "global" goes no deeper than the outermost loop over
``blockIdx``. The body of a launch (``T.launch_thread``) is such a scope, too: shared and local
memory that a kernel's function allocates belongs to its threads. A new block declares what its body
reads and writes of the buffers that live outside of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.ir import PrimExpr, Var, Visitor
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.ir.visitor import Rewriter
from tilesmith.tir.analysis import get_block_read_write_region
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt, Block, BlockRealize, BufferStore, DeclBuffer, For, Stmt

__all__ = ["plan_and_update_buffer_allocation_location"]


class _Scope:
    """A loop, launch or block on the path from the root, where buffers can be allocated."""

    __slots__ = ("depth", "limit", "node", "parent", "read_limit")

    def __init__(self, node: Any, parent: _Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        # The innermost scopes in which what is written here, and what is read here, may live.
        self.limit: _Scope | None = parent.limit if parent is not None else None
        self.read_limit: _Scope | None = parent.read_limit if parent is not None else None


def _common(a: _Scope, b: _Scope) -> _Scope:
    while a.depth > b.depth:
        a = a.parent  # type: ignore[assignment]
    while b.depth > a.depth:
        b = b.parent  # type: ignore[assignment]
    while a is not b:
        a, b = a.parent, b.parent  # type: ignore[assignment]
    return a


def _outer(known: _Scope | None, other: _Scope | None) -> _Scope | None:
    """Return the outer one of two scopes on one path."""
    if known is None or (other is not None and other.depth < known.depth):
        return other
    return known


class _AccessFinder(Visitor):
    """Finds for each allocated buffer (by its pointer) the innermost scope around its accesses."""

    def __init__(self, into_kernels: bool) -> None:
        self.into_kernels = into_kernels
        self.root = _Scope(None, None)
        self.scope = self.root
        self.loops: dict[Var, _Scope] = {}  # variable → outermost loop it depends on
        self.homes: dict[Var, _Scope] = {}  # pointer → scope of the present allocation
        self.found: dict[Var, _Scope] = {}
        # what global memory is not allocated inside of: the outermost loop over blockIdx, or the
        # scope around the kernel
        self.grid: _Scope | None = None

    def access(self, pointer: Var, is_write: bool) -> None:
        home = self.homes.get(pointer)
        if home is None:
            return
        scope = self.scope
        limit = scope.limit if is_write else scope.read_limit
        if limit is not None and limit.depth < scope.depth:
            scope = limit
        if self.grid is not None and self.grid.depth < scope.depth:
            if pointer.storage_scope in ("", "global"):
                scope = self.grid
        if scope.depth < home.depth:
            scope = home
        found = self.found.get(pointer)
        self.found[pointer] = scope if found is None else _common(found, scope)

    def visit_Var(self, var: Var) -> None:
        if var in self.homes:
            self.access(var, True)

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.access(load.buffer.data, False)
        self.visit_children(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.access(store.buffer.data, True)
        self.visit_children(store)

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> None:
        self.access(declaration.buffer.data, True)  # also where nothing is read through it
        self.visit_children(declaration)

    def visit_For(self, loop: For) -> None:
        outer = self.scope
        self.visit(loop.min)
        self.visit(loop.extent)
        self.scope = self.loops[loop.loop_var] = _Scope(loop, outer)
        self.visit_on_threads(loop.body, loop.thread_binding, outer)

    def visit_AttrStmt(self, launch: AttrStmt) -> None:
        thread = launch.node
        if launch.attr_key != "thread_extent" or not isinstance(thread, IterVar):
            self.visit_children(launch)
            return
        outer = self.scope
        self.visit(launch.value)
        self.scope = _Scope(launch, outer)
        self.visit_on_threads(launch.body, thread, outer)

    def visit_on_threads(self, body: Stmt, thread: IterVar | None, outer: _Scope) -> None:
        """Visit what runs once for each value of the present loop or launch."""
        grid = self.grid
        if grid is None and thread is not None:
            if self.into_kernels and thread.thread_tag.startswith("blockIdx"):
                self.grid = self.scope
            if not self.into_kernels and thread.thread_tag.startswith(("blockIdx", "threadIdx")):
                self.grid = outer
        self.visit(body)
        self.scope, self.grid = outer, grid

    def outermost_loop(self, expr: PrimExpr) -> _Scope | None:
        """Return the outermost loop that the value of an expression depends on."""
        if isinstance(expr, Var):
            return self.loops.get(expr)
        best: _Scope | None = None
        for child in expr.children():
            if isinstance(child, PrimExpr):
                found = self.outermost_loop(child)
                if found is not None and (best is None or found.depth < best.depth):
                    best = found
        return best

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        self.visit(realize.predicate)
        outer, block = self.scope, realize.block
        scope = _Scope(block, outer)
        for iterator, value in zip(block.iter_vars, realize.iter_values):
            self.visit(value)
            loop = self.outermost_loop(value)
            if loop is None:
                continue
            self.loops[iterator.var] = loop
            if iterator.iter_type != IterVar.DataPar:
                scope.limit = _outer(scope.limit, loop.parent)
            if iterator.iter_type == IterVar.Opaque:
                scope.read_limit = _outer(scope.read_limit, loop.parent)
        self.scope = scope
        for buffer in block.alloc_buffers:
            self.homes[buffer.data] = scope
        written = {region.buffer.data for region in block.writes}
        for match in block.match_buffers:
            source = match.source
            # A tile that an instruction only reads need not outlive the steps of its sum.
            self.access(source.buffer.data, source.buffer.data in written)
            for domain in source.region:
                self.visit(domain)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        self.scope = outer


class _Mover(Rewriter):
    """Moves allocations out of their blocks to the scopes that ``places`` names."""

    def __init__(
        self,
        places: dict[int, list[Buffer]],
        moved: set[Buffer],
        pointers: dict[Var, Buffer] | None,
    ) -> None:
        self.places = places
        self.moved = moved
        self.pointers = pointers  # → buffer, of all; None: new blocks declare nothing
        self.inside: set[Buffer] = set()  # allocated inside of visited statements

    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_For(self, loop: For) -> For:
        found: For = self.allocated_in(loop, self.children(loop))
        return found

    def visit_AttrStmt(self, launch: AttrStmt) -> Stmt:
        found: Stmt = self.allocated_in(launch, self.children(launch))
        return found

    def allocated_in(self, old: Any, new: Any) -> Any:
        """Allocate the buffers of a loop or launch in its body."""
        buffers = self.places.get(id(old))
        if not buffers:
            return new
        self.inside.update(buffers)
        block = Block((), (), (), "", new.body, None, buffers)
        if self.pointers is not None:
            reads, writes = get_block_read_write_region(block, self.pointers)
            block = block.with_fields(reads=self.outside(reads), writes=self.outside(writes))
        return new.with_fields(body=BlockRealize((), True, block))

    def outside(self, regions: Iterable[BufferRegion]) -> tuple[BufferRegion, ...]:
        """Remove the regions of buffers that a block allocates itself, since its reads and writes
        are those of outer buffers.
        """
        return tuple([region for region in regions if region.buffer not in self.inside])

    def visit_Block(self, block: Block) -> Block:
        body = self.visit(block.body)
        init = None if block.init is None else self.visit(block.init)
        kept = [buffer for buffer in block.alloc_buffers if buffer not in self.moved]
        added = self.places.get(id(block), [])
        if body is block.body and init is block.init and not added:
            if len(kept) == len(block.alloc_buffers):
                return block
        self.inside.update(added)
        reads, writes = self.outside(block.reads), self.outside(block.writes)
        return block.with_fields(
            body=body, init=init, alloc_buffers=(*kept, *added), reads=reads, writes=writes,
            annotations=_renumbered(block, writes),
        )  # fmt: skip


def _renumbered(block: Block, writes: tuple[BufferRegion, ...]) -> Any:
    """Renumber the alignments of a block whose list of writes got shorter, since they name buffers
    by position. Alignments of buffers that no block allocates any more are dropped."""
    entries = block.annotations.get("buffer_dim_align")
    if entries is None or len(writes) == len(block.writes):
        return block.annotations
    numbers = {id(region): number for number, region in enumerate(writes)}
    kept = [
        [numbers[id(block.writes[int(number)])], *rest]
        for number, *rest in entries
        if id(block.writes[int(number)]) in numbers
    ]
    others = {key: value for key, value in block.annotations.items() if key != "buffer_dim_align"}
    return {**others, **({"buffer_dim_align": kept} if kept else {})}


@compiler_pass("tir.PlanAndUpdateBufferAllocationLocation")
def plan_and_update_buffer_allocation_location(
    func: PrimFunc, declare_regions: bool = True, into_kernels: bool = True
) -> PrimFunc:
    """Allocates each buffer in the innermost scope around its accesses.

    Returns ``func`` with its buffers allocated as far inside as their accesses allow.

    Buffers without accesses are dropped. New blocks declare the regions that their bodies touch
    if ``declare_regions``; computing these takes much longer than all the rest. Global memory is
    allocated inside of the outermost loop over ``blockIdx``; without ``into_kernels`` around it.
    """
    allocations = [
        (buffer, block) for block in nodes(func.body, Block) for buffer in block.alloc_buffers
    ]
    if not allocations:
        return func
    finder = _AccessFinder(into_kernels)
    finder.visit(func.body)
    places: dict[int, list[Buffer]] = {}
    moved: set[Buffer] = set()
    for buffer, home in allocations:
        scope = finder.found.get(buffer.data)
        if scope is not None and scope.node is home:
            continue
        moved.add(buffer)
        if scope is not None:
            places.setdefault(id(scope.node), []).append(buffer)
    if not moved:
        return func
    pointers = None
    if declare_regions:
        buffers = [*func.buffer_map.values(), *[buffer for buffer, _ in allocations]]
        pointers = {buffer.data: buffer for buffer in buffers}
    return func.with_body(_Mover(places, moved, pointers).visit(func.body))
