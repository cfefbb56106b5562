"""Finds the parts of a program whose threads have to run side by side.

Threads may run one after the other as long as they are independent. Where they communicate
(barriers, exchanges within a warp, memory that one writes and another reads) each statement runs
for all threads before the next one starts; see ``groups``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilesmith.ir import Call, PrimExpr, StringImm, Var, Visitor
from tilesmith.ir.queries import any_node, is_call, nodes, walk
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter.call_rules import is_collective
from tilesmith.tir.interpreter.threads import THREAD_ATTRIBUTES, sharing_level
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
)

__all__ = [
    "ASYNC_ATTRIBUTES", "Cooperation", "is_kernel_program", "launched_thread", "launches_threads",
    "needs_groups", "waiting_statements",
]  # fmt: skip

ASYNC_ATTRIBUTES = (
    "async_scope", "async_commit_queue_scope", "async_wait_queue_scope",
)  # fmt: skip


_WAITS = "tir.ptx_wait_barrier"
_TOGETHER = ("tir.tvm_storage_sync", "tir.ptx_wgmma", "tir.ptx_wgmma_fence",
             "tir.ptx_wgmma_commit_group", "tir.ptx_wgmma_wait_group")  # fmt: skip


def launched_thread(stmt: Stmt) -> IterVar | None:
    """Return the iterator over threads that a statement launches, if there is one."""
    if isinstance(stmt, For) and stmt.kind is ForKind.THREAD_BINDING:
        return stmt.thread_binding
    if isinstance(stmt, AttrStmt) and stmt.attr_key in THREAD_ATTRIBUTES:
        return stmt.node if isinstance(stmt.node, IterVar) else None
    return None


def launches_threads(func: PrimFunc) -> bool:
    """Return whether a function launches threads of a device."""
    return any(
        isinstance(node, Stmt) and launched_thread(node) is not None for node in walk(func.body)
    )


def is_kernel_program(func: PrimFunc) -> bool:
    """Return whether a function is written as kernels: threads are launched, and no block leaves
    open in which order it runs. Such a program stands for itself, its barriers included."""
    if not launches_threads(func):
        return False
    return not any(isinstance(node, Block) and node.iter_vars for node in walk(func.body))


def waiting_statements(body: Stmt) -> set[int]:
    """Return the statements (by id) in which threads may wait for what others do (see
    ``strands``): none without waits at barriers in shared memory; with them, also barriers of the
    block and products of warpgroups, which threads may reach one group after the other."""
    if not any_node(body, lambda node: is_call(node, _WAITS)):
        return set()
    return {
        id(stmt)
        for stmt in nodes(body, Stmt)
        if any_node(stmt, lambda node: is_call(node, _WAITS, *_TOGETHER))
    }


class _Uses:
    """The accesses of a statement to memory that several threads may see."""

    __slots__ = (
        "collective", "handed_on", "launches", "own", "reads", "starts_threads", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.reads: set[Var] = set()
        self.writes: set[Var] = set()
        self.own: set[Var] = set()
        self.handed_on: set[Var] = set()  # written in one statement of a sequence, read in another
        self.collective = False
        self.launches = False
        self.starts_threads = False  # of a block, not just blocks

    def include(self, inner: _Uses) -> None:
        self.reads |= inner.reads
        self.writes |= inner.writes
        self.own |= inner.own
        self.handed_on |= inner.handed_on
        self.collective |= inner.collective
        self.launches |= inner.launches
        self.starts_threads |= inner.starts_threads


class Cooperation(Visitor):
    """Decides for each statement of a function whether its threads may run one after the other."""

    def __init__(self, func: PrimFunc) -> None:
        self.uses: dict[int, _Uses] = {}
        self.same: dict[Var, Var] = {}  # pointers into memory behind another pointer
        self.stack = [_Uses()]
        self.has_global_barrier = False
        self.shared_allocations = False
        self.local_across_launches = False
        self.exchanges = False  # threads of a block may read what others write in global memory
        self.visit(func.body)

    def is_private(self, stmt: Stmt) -> bool:
        """Return whether the threads are independent of each other in ``stmt``."""
        uses = self.uses[id(stmt)]
        return not uses.collective and uses.own >= (uses.reads & uses.writes)

    def launches(self, stmt: Stmt) -> bool:
        """Return whether a statement launches threads inside."""
        return self.uses[id(stmt)].launches

    def allocates(self, stmt: Stmt) -> bool:
        """Return whether a statement allocates memory inside."""
        return bool(self.uses[id(stmt)].own)

    # The walk.

    def visit(self, node: Any) -> None:
        if not isinstance(node, Stmt):
            super().visit(node)
            return
        self.stack.append(_Uses())
        super().visit(node)
        found = self.stack.pop()
        self.uses[id(node)] = found
        self.stack[-1].include(found)

    def root(self, pointer: Var) -> Var:
        while pointer in self.same:
            pointer = self.same[pointer]
        return pointer

    def touch(self, pointer: Var, reads: bool, writes: bool) -> None:
        pointer = self.root(pointer)
        if sharing_level(pointer.storage_scope) == "thread":
            return
        if reads:
            self.stack[-1].reads.add(pointer)
        if writes:
            self.stack[-1].writes.add(pointer)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.touch(node.buffer.data, True, False)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.touch(node.buffer.data, False, True)
        self.visit_children(node)

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle:
            self.touch(node, True, True)

    def visit_Call(self, node: Call) -> None:
        if is_collective(node):
            self.stack[-1].collective = True
            if is_call(node, "tir.tvm_storage_sync"):
                scope = node.args[0]
                self.has_global_barrier |= isinstance(scope, StringImm) and scope.value == "global"
        self.visit_children(node)

    def visit_LetStmt(self, node: LetStmt) -> None:
        if node.var.dtype.is_handle:
            pointer = _first_pointer(node.value)
            if pointer is not None and pointer is not node.var:
                self.same[node.var] = pointer
        self.visit_children(node)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> None:
        self.same[node.buffer.data] = node.source.buffer.data

    def allocate(self, pointer: Var) -> None:
        level = sharing_level(pointer.storage_scope)
        if level in ("block", "warpgroup", "warp"):
            self.stack[-1].collective = True
            self.shared_allocations = True
        else:
            self.stack[-1].own.add(pointer)

    def allocated(self, pointers: list[Var]) -> None:
        """Handle the end of an allocation: threads launched inside must run side by side if the
        allocation is private to each thread (it outlives their launch).
        """
        levels = [sharing_level(pointer.storage_scope) for pointer in pointers]
        if "thread" in levels and self.stack[-1].starts_threads:
            self.stack[-1].collective = True
            self.local_across_launches = True

    def visit_Allocate(self, node: Allocate) -> None:
        self.allocate(node.buffer_var)
        self.visit(node.body)
        self.allocated([node.buffer_var])

    def visit_BufferRealize(self, node: BufferRealize) -> None:
        self.allocate(node.buffer.data)
        self.visit(node.body)
        self.allocated([node.buffer.data])

    def visit_Block(self, node: Block) -> None:
        for buffer in node.alloc_buffers:
            self.allocate(buffer.data)
        for match in node.match_buffers:
            self.visit(match)
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)
        self.allocated([buffer.data for buffer in node.alloc_buffers])

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        for value in (*node.iter_values, node.predicate):
            self.visit(value)
        self.visit(node.block)

    def visit_SeqStmt(self, node: SeqStmt) -> None:
        self.visit_children(node)
        parts = [self.uses[id(stmt)] for stmt in node.seq]
        readers = Counter([pointer for part in parts for pointer in part.reads])
        for part in parts:
            for pointer in part.writes:
                if readers[pointer] > (pointer in part.reads):
                    self.stack[-1].handed_on.add(pointer)

    def visit_For(self, node: For) -> None:
        self.launch(node)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if node.attr_key in ASYNC_ATTRIBUTES:
            self.stack[-1].collective = True
        if launched_thread(node) is None:
            self.visit(node.body)
        else:
            self.launch(node)

    def launch(self, node: For | AttrStmt) -> None:
        thread = launched_thread(node)
        if thread is not None:
            self.stack[-1].launches = True
            self.stack[-1].starts_threads |= not thread.thread_tag.startswith("blockIdx")
        self.visit_children(node)
        uses = self.stack[-1]
        if uses.starts_threads and not uses.own >= uses.handed_on:
            uses.collective = self.exchanges = True


def _first_pointer(expr: PrimExpr) -> Var | None:
    """Return the first pointer that an expression mentions."""
    for node in walk(expr):
        if isinstance(node, Buffer):
            return node.data
        if isinstance(node, Var) and node.dtype.is_handle:
            return node
    return None


def needs_groups(func: PrimFunc) -> bool:
    """Return whether the threads of a function have to run side by side.

    Blocks with iterators declare independent computations: there the order does not matter, and
    a loop over threads is an ordinary loop.
    """
    launches = has_iterators = False
    for node in walk(func.body):
        if isinstance(node, Call):
            if is_collective(node):
                return True
        elif isinstance(node, AttrStmt):
            if node.attr_key in ASYNC_ATTRIBUTES:
                return True
            launches |= launched_thread(node) is not None
        elif isinstance(node, For):
            launches |= node.kind is ForKind.THREAD_BINDING
        elif isinstance(node, Block):
            has_iterators |= bool(node.iter_vars) or node.init is not None
    if not launches or has_iterators:
        return False
    cooperation = Cooperation(func)
    if cooperation.shared_allocations or cooperation.local_across_launches:
        return True
    return cooperation.exchanges
