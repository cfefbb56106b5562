"""ThreadSync, OrderGlobalMemory: insert barriers where one thread reads what another one wrote.

    S[tx] = A[tx]                               S[tx] = A[tx]
    B[tx] = S[31 - tx]                          T.tvm_storage_sync("shared")
                                                B[tx] = S[31 - tx]

Two accesses of memory of the scope need a barrier between them if different threads may touch the
same element and one of them writes; also from one iteration of a loop to the next. A barrier stands
right before the statement that needs it, outside of loops that do not need it themselves. Nothing
is inserted where the index shows that each thread stays with its own elements, or that versions of
a buffer (``k % 2``) lie apart.

An asynchronous copy counts as a write where the program waits for it. Bulk copies arrive at
barriers in shared memory that the program has, which also say when a place is free again: nothing
is inserted between a bulk copy and another access if the later one has waited for such a barrier. A
barrier within a branch that not all threads take is an error, since it would never be passed. In a
branch that threads of one warp take, a barrier of the warp that is there orders them.

The scopes of ThreadSync: "shared", "shared.dyn" and "warp"; "global" for memory that the blocks of
a grid exchange, only where the option ``tir.detect_global_barrier`` is on.

OrderGlobalMemory does the same for values that the threads of one block exchange through global
memory. The barrier of a block orders shared and global memory; a back end whose barriers name what
they order (OpenCL) names both. Unlike shared memory, global memory is seldom there to exchange
values, and is accessed at places that nobody can compare (``B[P[tx]]``). So what is only possible
is not refused: there is no barrier in a branch that not all threads take, nor in a loop where some
wait for others at barriers in shared memory; what an update in place touches (``B[P[tx]] += x``)
belongs to its thread, and atomic additions may meet. Refused is what blocks of threads exchange for
certain (``grid_exchange``), since no barrier can help.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import (
    EQ,
    And,
    Call,
    IntImm,
    Node,
    PrimExpr,
    Range,
    Var,
)
from tilesmith.ir.intrinsic_table import intrinsic_call
from tilesmith.ir.intrinsics import tvm_storage_sync
from tilesmith.ir.operators import all_of, is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, called_name, is_call, nodes
from tilesmith.ir.transform import PassContext
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import loads, stores, uses_variable
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_list,
    stmt_seq,
)
from tilesmith.tir.transform.threads.access_finder import AccessFinder
from tilesmith.tir.transform.threads.access_summary import AccessSummary, merged
from tilesmith.tir.transform.threads.grid_exchange import refuse_exchange_between_blocks
from tilesmith.tir.transform.threads.one_warp import (
    has_warp_barrier,
    takes_one_warp,
    waiting_warp,
)
from tilesmith.tir.transform.threads.thread_conflicts import (
    Access,
    Threads,
    is_handed_over,
    may_meet,
)
from tilesmith.tir.transform.threads.thread_places import PlaceProver

__all__ = ["order_global_memory", "thread_sync", "thread_sync_as_configured"]


class _Inserter:
    """Inserts barriers into one kernel.

    ``whole_grid``: barriers for all threads of the kernel, not for those of a block.
    ``warp_size``: threads that a barrier of a warp orders in a branch; 0 where there is none.
    """

    def __init__(self, scope: str, whole_grid: bool, warp_size: int) -> None:
        self.scope = scope
        self.whole_grid = whole_grid
        self.warp_size = warp_size
        self.is_one_warp = False  # all threads that are here are of one warp
        self.threads: Threads = {}
        self.prover = PlaceProver()
        self.fixed: frozenset[tuple[Var, int]] = frozenset()  # what conditions say about axes
        self.written: set[Var] = set()  # pointers through which the kernel may write
        self.axes: dict[str, Var] = {}
        self.others: dict[Var, Var] = {}  # further variables of an axis → its first one
        self.uneven: set[Var] = set()  # variables that differ between threads
        self.background: list[Access] = []  # copies that have been begun
        self.in_async_scope = False
        self.extra = 0  # barriers that were inserted
        self.apart = 0  # statements around that not all threads execute
        self.may_have_roles = False  # whether some threads may wait for others by themselves
        self.order = 1  # counts bulk copies, waits for their barriers, and accesses after those
        self.waited = 0  # when the last of these waits was

    # Accesses.

    @property
    def is_lenient(self) -> bool:
        """True for global memory of a block, where what is only possible is not refused."""
        return self.scope == "global" and not self.whole_grid

    def covers(self, pointer: Var) -> bool:
        return (pointer.storage_scope or "global") == self.scope

    def changes(self, indices: Sequence[PrimExpr]) -> bool:
        """Return whether indices read memory that the kernel may write."""
        return any(load.buffer.data in self.written for load in loads(indices))

    def accesses(self, *nodes: Any) -> AccessSummary:
        """Return the accesses of expressions, or of a statement without nested statements."""
        finder = AccessFinder(self)
        for node in nodes:
            finder.visit(node)
        summary = AccessSummary()
        summary.head, summary.tail = list(finder.found), list(finder.found)
        return summary

    def conflict(self, some: list[Access], others: list[Access], begun: int = 0) -> bool:
        """Return whether earlier accesses need a barrier before later ones; if these are in the
        next iteration of a loop, ``begun`` says when it has begun.
        """
        if self.apart:
            return False
        return any(
            not is_handed_over(a, b, begun) and may_meet(a, b, self.threads, self.prover)
            for a in some
            for b in others
        )

    # Statements: each method gives the new statement and its summary.

    def visit(self, stmt: Stmt) -> tuple[Stmt, AccessSummary]:
        method = getattr(self, "visit_" + type(stmt).__name__, None)
        if method is not None:
            summarized: tuple[Stmt, AccessSummary] = method(stmt)
            return summarized
        return stmt, self.accesses(stmt)

    def barrier(self) -> Stmt:
        self.extra += 1
        if self.whole_grid:
            blocks: Any = 1
            lead = []
            for tag, var in self.axes.items():
                if tag.startswith("blockIdx"):
                    blocks = blocks * self.threads[var]
                lead.append(var.equal(0))
            arguments = ("global", all_of(*lead), blocks)
            return Evaluate(intrinsic_call("int32", "tvm_storage_sync", *arguments))
        # One barrier of a block is for all memory that its threads share.
        return Evaluate(tvm_storage_sync("warp" if self.scope == "warp" else "shared"))

    def visit_SeqStmt(self, node: SeqStmt) -> tuple[Stmt, AccessSummary]:
        total, stmts = AccessSummary(), []
        for stmt in node.seq:
            new, summary = self.visit(stmt)
            if self.conflict(total.tail, summary.head):
                stmts.append(self.barrier())
                total.tail, total.synced = [], True
            stmts.append(new)
            total.then(summary)
        changed = len(stmts) != len(node.seq) or any(a is not b for a, b in zip(stmts, node.seq))
        return (stmt_seq(*stmts, span=node.span) if changed else node), total

    def visit_Evaluate(self, node: Evaluate) -> tuple[Stmt, AccessSummary]:
        call = node.value
        name = called_name(call)
        if name == "tir.tvm_storage_sync" and self.passes(str(call.args[0].value)):  # type: ignore[attr-defined]
            summary = AccessSummary()
            summary.synced = True
            return node, summary
        if name == "tir.ptx_wait_group":
            return node, self.arrived()
        if name == "tir.ptx_wait_barrier":
            self.order += 1
            self.waited = self.order
        return node, self.accesses(node)

    def passes(self, scope: str) -> bool:
        """Return whether a barrier of a scope orders accesses to the memory that this pass
        handles.
        """
        if scope == "global" or scope == self.scope or (scope == "warp" and self.is_one_warp):
            return True
        return scope in ("shared", "shared.dyn") and not self.whole_grid

    def arrived(self) -> AccessSummary:
        """Return a summary in which pending asynchronous copies count as writes, for accesses after
        a wait.
        """
        summary = AccessSummary()
        summary.tail = list(self.background)
        return summary

    def visit_For(self, node: For) -> tuple[Stmt, AccessSummary]:
        if self.differs(node.extent, node.min):
            self.uneven.add(node.loop_var)
            return self.together(node, self.for_body)
        self.prover.common[node.loop_var] = Range.from_min_extent(node.min, node.extent)
        has_roles = self.may_have_roles and _has_roles(self, node.body)
        self.apart += has_roles
        found = self.for_body(node)
        self.apart -= has_roles
        return found

    def for_body(self, node: For) -> tuple[Stmt, AccessSummary]:
        begun = len(self.background)
        started = self.order
        bounds = self.accesses(node.min, node.extent)
        body, inner = self.visit(node.body)
        if self.background[begun:]:  # copies of one iteration may arrive in a later one
            self.background[begun:] = self.outside(self.background[begun:], node)
            body, inner = self.visit(node.body)
            self.background[begun:] = self.outside(self.background[begun:], node)
        if not is_const(node.extent, 1):
            if inner.synced:
                later = [access.later(node.loop_var) for access in inner.head]
                carried = self.conflict(inner.tail, later, started)
            else:
                head = self.outside(inner.head, node)
                carried = self.conflict(self.outside(inner.tail, node), head, started)
            if carried:
                body = stmt_seq(self.barrier(), *stmt_list(body))
                inner.head, inner.synced = [], True
        inner.head = self.outside(inner.head, node)
        inner.tail = self.outside(inner.tail, node)
        if not (isinstance(node.extent, IntImm) and node.extent.value > 0):
            inner.synced = False  # there may be no iteration at all
        bounds.then(inner)
        return (node if body is node.body else node.with_fields(body=body)), bounds

    def outside(self, accesses: list[Access], loop: For) -> list[Access]:
        domain = Range.from_min_extent(loop.min, loop.extent)
        return [
            access
            if any(var is loop.loop_var for var, _ in access.loops)
            else access.inside(loop.loop_var, domain)
            for access in accesses
        ]

    def visit_While(self, node: While) -> tuple[Stmt, AccessSummary]:
        if self.differs(node.condition):
            return self.together(node, self.while_body)
        return self.while_body(node)

    def while_body(self, node: While) -> tuple[Stmt, AccessSummary]:
        started = self.order
        total = self.accesses(node.condition)
        body, inner = self.visit(node.body)
        total.then(inner)
        if self.conflict(total.tail, total.head, started):
            body = stmt_seq(*stmt_list(body), self.barrier())
        total.synced = False
        return (node if body is node.body else node.with_fields(body=body)), total

    def visit_IfThenElse(self, node: IfThenElse) -> tuple[Stmt, AccessSummary]:
        if self.differs(node.condition):
            return self.together(node, self.branches)
        return self.branches(node)

    def branches(self, node: IfThenElse) -> tuple[Stmt, AccessSummary]:
        total = self.accesses(node.condition)
        outer = self.fixed, self.is_one_warp
        self.fixed |= self.fixed_axes(node.condition)
        if self.warp_size and not self.whole_grid:
            self.is_one_warp |= takes_one_warp(
                node.condition, self.threads, lambda one: self.others.get(one, one), self.warp_size
            )
        then_case, first = self.visit(node.then_case)
        if self.is_one_warp and not outer[1] and has_warp_barrier(then_case):
            first = self.accesses(then_case)  # the other warps have not waited
            first.head = [one._replace(place=None, loops=()) for one in first.head]
            first.tail = list(first.head)
        self.fixed, self.is_one_warp = outer
        second = AccessSummary()
        else_case = node.else_case
        if else_case is not None:
            else_case, second = self.visit(else_case)
        both = AccessSummary()
        both.head = merged(first.head, second.head)
        both.tail = merged(first.tail, second.tail)
        both.synced = first.synced and second.synced
        total.then(both)
        if then_case is node.then_case and else_case is node.else_case:
            return node, total
        return node.with_fields(then_case=then_case, else_case=else_case), total

    def fixed_axes(self, condition: PrimExpr) -> frozenset[tuple[Var, int]]:
        """Return the axes of threads for which a condition leaves one index."""
        if is_call(condition, "tir.likely"):
            return self.fixed_axes(condition.args[0])
        if isinstance(condition, And):
            return self.fixed_axes(condition.a) | self.fixed_axes(condition.b)
        if isinstance(condition, EQ) and isinstance(condition.b, IntImm):
            axis = condition.a
            axis = self.others.get(axis, axis) if isinstance(axis, Var) else axis
            if isinstance(axis, Var) and axis in self.threads:
                return frozenset([(axis, condition.b.value)])
        return frozenset()

    def together(self, node: Any, visit: Any) -> tuple[Stmt, AccessSummary]:
        """Visit a statement that not all threads execute, so that it must contain no barrier."""
        if self.is_lenient:
            self.apart += 1
            found: tuple[Stmt, AccessSummary] = visit(node)
            self.apart -= 1
            return found
        before, waited, warp = self.extra, self.waited, self.is_one_warp
        self.is_one_warp = False
        new, summary = visit(node)
        self.waited, self.is_one_warp = waited, warp  # others have not waited
        if self.extra != before:
            raise UnsupportedError(
                f"threads exchange memory of scope '{self.scope}' inside of a branch or loop that "
                "not all of them take",
                span=node.span,
                notes=("a barrier there would never be passed; move the exchange outside",),
            )
        return new, summary

    def differs(self, *nodes: Any) -> bool:
        """Return whether values differ between the threads that wait for each other."""
        return any_node(nodes, lambda node: _may_differ(node, self.uneven), enter=_may_vary)

    def visit_LetStmt(self, node: LetStmt) -> tuple[Stmt, AccessSummary]:
        if self.differs(node.value):
            self.uneven.add(node.var)
        total = self.accesses(node.value)
        body, inner = self.visit(node.body)
        inner.head = [_without(access, node.var) for access in inner.head]
        inner.tail = [_without(access, node.var) for access in inner.tail]
        total.then(inner)
        return (node if body is node.body else node.with_fields(body=body)), total

    def visit_AssertStmt(self, node: AssertStmt) -> tuple[Stmt, AccessSummary]:
        total = self.accesses(node.condition)
        body, inner = self.visit(node.body)
        total.then(inner)
        return (node if body is node.body else node.with_fields(body=body)), total

    def with_body(self, node: Any) -> tuple[Stmt, AccessSummary]:
        body, inner = self.visit(node.body)
        return (node if body is node.body else node.with_fields(body=body)), inner

    def visit_Allocate(self, node: Allocate) -> tuple[Stmt, AccessSummary]:
        return self.with_body(node)

    def visit_AllocateConst(self, node: AllocateConst) -> tuple[Stmt, AccessSummary]:
        return self.with_body(node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> tuple[Stmt, AccessSummary]:
        return self.with_body(node)

    def visit_AttrStmt(self, node: AttrStmt) -> tuple[Stmt, AccessSummary]:
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            self.start_axis(node)
        if node.attr_key == "async_scope":
            outer, self.in_async_scope = self.in_async_scope, True
            found = self.with_body(node)
            self.in_async_scope = outer
            return found
        if node.attr_key == "async_wait_queue_scope":
            total = self.arrived()
            inside: Any = node.body
            body, inner = self.visit(inside.body if isinstance(inside, AttrStmt) else inside)
            if self.conflict(total.tail, inner.head):
                body = stmt_seq(self.barrier(), *stmt_list(body))
                total.tail, total.synced = [], True
            total.then(inner)
            if isinstance(inside, AttrStmt):
                body = inside if body is inside.body else inside.with_fields(body=body)
            return (node if body is node.body else node.with_fields(body=body)), total
        return self.with_body(node)

    def start_axis(self, node: AttrStmt) -> None:
        tag = node.node.thread_tag
        shares = ("threadIdx", "blockIdx") if self.whole_grid else ("threadIdx",)
        if tag.startswith(shares):
            extent = node.value
            first = self.axes.setdefault(tag, node.node.var)
            if first is not node.node.var:  # launched again further inside: the same threads
                self.others[node.node.var] = first
            elif self.scope != "warp" or tag == "threadIdx.x":  # a warp has memory of its own
                self.threads[first] = extent.value if isinstance(extent, IntImm) else 0
            self.uneven.add(node.node.var)
        else:
            self.prover.common[node.node.var] = Range.from_min_extent(0, node.value)


def _without(access: Access, variable: Var) -> Access:
    """Return an access as seen from outside of a variable's scope."""
    if access.place is not None and uses_variable(access.place, {variable}):
        return access._replace(place=None)
    return access


def _may_differ(node: Node, uneven: set[Var]) -> bool:
    """Return whether the value of a node may differ between threads."""
    if isinstance(node, BufferLoad):
        # Registers belong to each thread; a load from other memory is the same for equal indices.
        return node.buffer.scope().startswith(("local", "warp"))
    return isinstance(node, Var) and node in uneven


def _may_vary(node: Node) -> bool:
    """Return whether a node may differ between threads (it is not declared thread-invariant)."""
    return not is_call(node, "tir.tvm_thread_invariant")


def _has_roles(owner: _Inserter, body: Stmt) -> bool:
    """Return whether some threads alone wait at barriers in shared memory: they may be turns behind
    those for which they wait, so that all of them never meet in this loop.
    """
    return any_node(body, lambda node: isinstance(node, IfThenElse)
                    and owner.differs(node.condition) and _waits(node))  # fmt: skip


def _waits(node: Node) -> bool:
    return any_node(node, lambda inner: is_call(inner, "tir.ptx_wait_barrier"))


def _written(kernel: Stmt) -> set[Var]:
    pointers = {store.buffer.data for store in stores(kernel)}
    for call in nodes(kernel, Call):
        pointers.update([one for one in call.args if isinstance(one, Var) and one.dtype.is_handle])
        if is_call(call, "tir.address_of") and isinstance(call.args[0], BufferLoad):
            pointers.add(call.args[0].buffer.data)
    return pointers


class _Kernels(Rewriter):
    """Visits each kernel separately: code outside of kernels needs no barriers."""

    def __init__(self, scope: str, whole_grid: bool, warp_size: int) -> None:
        self.scope = scope
        self.whole_grid = whole_grid
        self.warp_size = warp_size

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            if self.scope == "global" and not self.whole_grid:
                refuse_exchange_between_blocks(node)
            inserter = _Inserter(self.scope, self.whole_grid, self.warp_size)
            inserter.written = _written(node)
            inserter.may_have_roles = inserter.is_lenient and _waits(node)
            return inserter.visit(node)[0]
        body = self.visit(node.body)
        return node if body is node.body else node.with_fields(body=body)


def thread_sync(func: PrimFunc, storage_scope: str, whole_grid: bool = False) -> PrimFunc:
    """Return ``func`` with the barriers that memory of a scope needs, for the threads of a block or
    for all threads of a kernel.
    """
    kernels = _Kernels(storage_scope, whole_grid, waiting_warp(func))
    return func.with_body(kernels.visit(func.body))


@compiler_pass("tir.ThreadSync")
def thread_sync_as_configured(func: PrimFunc, context: PassContext, storage_scope: str) -> PrimFunc:
    """Inserts barriers for memory of a scope ("shared", "shared.dyn", "warp", or "global" with the
    option ``tir.detect_global_barrier``)."""
    if storage_scope != "global":
        return thread_sync(func, storage_scope)
    if not context.get_config("tir.detect_global_barrier", False):
        return func
    return thread_sync(func, storage_scope, whole_grid=True)


@compiler_pass("tir.OrderGlobalMemory")
def order_global_memory(func: PrimFunc) -> PrimFunc:
    """Inserts barriers where the threads of a block exchange values through global memory."""
    return thread_sync(func, "global")
