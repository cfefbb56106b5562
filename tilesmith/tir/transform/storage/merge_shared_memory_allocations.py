"""MergeSharedMemoryAllocations: merges the shared memory of a kernel into one allocation.

    A_s = T.allocate([64], "float16",           buf = T.allocate([192], "uint8", "shared.dyn")
                     "shared.dyn")              A_s = T.decl_buffer((64,), "float16", data=buf)
    B_s = T.allocate([16], "float32",           B_s = ... B_s[i] becomes B_s[i + 32] ...
                     "shared.dyn")

A launch gives a kernel one piece of dynamic shared memory. Buffers with disjoint live ranges
share parts of it: there must be a barrier between the last use of one and the first use of the
other (so this pass comes after ThreadSync), also from one iteration of a loop
around both to the next. With the option ``tir.merge_static_smem`` static shared memory ("shared")
is merged in the same way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from tilesmith.ir import IntImm, PointerType, PrimExpr, PrimType, Var, Visitor, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call, variables
from tilesmith.ir.transform import PassContext
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.memory_planner import Allocation, LiveRanges, plan_offsets
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from tilesmith.tir.tensor_copies import tile_alignments
from tilesmith.tir.transform.storage.merged_memory import MergedMemory, Part

__all__ = [
    "merge_dynamic_shared_memory",
    "merge_shared_memory_allocations",
    "merge_shared_memory_as_configured",
]

ALIGNMENT = 16  # bytes: the largest access of a thread


@dataclass(eq=False)
class _Loop:
    """A loop by the positions of its first and last statement, and its uses of outer
    allocations."""

    first: int
    last: int = -1
    carried: list[Var] = field(default_factory=list)  # live across iterations


class _Life:
    """The live range of an allocation, the loops around it, and its offset."""

    def __init__(self, allocation: Allocate, loops: tuple[_Loop, ...]) -> None:
        self.allocation = allocation
        self.loops = loops  # outermost first
        self.offset: int | PrimExpr = 0

    def nbytes(self) -> int | None:
        """Return the size, if it is constant."""
        size = self.allocation.dtype.nbytes
        for extent in self.allocation.extents:
            if not isinstance(extent, IntImm):
                return None
            size *= extent.value
        return size

    def symbolic_nbytes(self, alignment: int) -> PrimExpr:
        """Return the size as an expression, a multiple of the alignment."""
        size: PrimExpr = const(self.allocation.dtype.nbytes, "int32")
        for extent in self.allocation.extents:
            size = size * (extent if extent.dtype == "int32" else extent.astype("int32"))
        return (size + (alignment - 1)) // alignment * alignment


class _LifeFinder(Visitor):
    """Numbers the statements of a kernel; records uses, loops and barriers."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.position = 0
        self.loops: list[_Loop] = []  # around the present statement
        self.branches = 0
        self.lives: dict[Var, _Life] = {}
        self.ranges: LiveRanges[Var] = LiveRanges()  # in positions
        self.barriers: list[int] = []

    def visit_Allocate(self, node: Allocate) -> None:
        if (node.buffer_var.storage_scope or "") == self.scope and not node.annotations:
            self.lives[node.buffer_var] = _Life(node, tuple(self.loops))
        self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)
        if node.var.dtype.is_handle:
            self.ranges.view(node.var, variables(node.value))
        self.visit(node.body)

    def use(self, pointer: Var) -> None:
        for root in self.ranges.roots([pointer]):
            life = self.lives.get(root)
            if life is None:
                continue
            inner = self.loops[len(life.loops) :]
            # Used in a loop that does not allocate it: live from the beginning of the loop.
            self.ranges.use(root, inner[0].first if inner else self.position, self.position)
            if inner:
                inner[0].carried.append(root)  # and to its end, which is not known yet

    def visit_Var(self, node: Var) -> None:
        self.use(node)

    def visit_Buffer(self, node: Buffer) -> None:
        self.use(node.data)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.visit(node.body)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.position += 1
        self.visit_children(node)

    def visit_Evaluate(self, node: Evaluate) -> None:
        self.position += 1
        call = node.value
        if is_call(call, "tir.tvm_storage_sync"):
            if str(call.args[0].value) != "warp" and not self.branches:  # type: ignore[attr-defined]
                self.barriers.append(self.position)
        self.visit_children(node)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.position += 1
        self.branches += 1
        self.visit_children(node)
        self.branches -= 1

    def visit_loop(self, node: For | While) -> None:
        self.position += 1
        loop = _Loop(self.position)
        self.loops.append(loop)
        self.visit_children(node)
        self.loops.pop()
        self.position += 1
        loop.last = self.position
        for root in loop.carried:
            self.ranges.use(root, loop.last)

    visit_For = visit_loop
    visit_While = visit_loop

    def epochs(self, root: Var) -> tuple[tuple[int, int], ...]:
        """Return the epochs (regions between barriers), by number, in which an allocation is live.

        Two allocations may share bytes if a barrier stands between them, so if they have no epoch
        in common. From the last epoch of a loop to the first one of its next iteration there is no
        barrier: for what is allocated in the loop, both are one more epoch of the loop's own.
        """
        ((first, last),) = self.ranges.of(root)
        first_epoch = bisect_left(self.barriers, first)
        last_epoch = bisect_right(self.barriers, last)
        found = [(first_epoch, last_epoch)]
        for loop in self.lives[root].loops:
            begins = first_epoch == bisect_left(self.barriers, loop.first)
            ends = last_epoch == bisect_right(self.barriers, loop.last)
            if begins or ends:
                # Negative, unlike all other epochs: positions count from 1.
                found.append((-loop.first, -loop.first))
        return tuple(found)


def _place(finder: _LifeFinder, lives: dict[Var, _Life], alignment: int) -> PrimExpr:
    """Give each allocation its offset, a multiple of the alignment; return the total bytes."""
    sizes = {root: life.nbytes() for root, life in lives.items()}
    fixed = {root: size for root, size in sizes.items() if size is not None}
    allocations = [Allocation(size, finder.epochs(root)) for root, size in fixed.items()]
    plan = plan_offsets(allocations, alignment)
    for root, offset in zip(fixed, plan.offsets):
        lives[root].offset = offset
    is_last = len(fixed) == len(lives)
    end = plan.total if is_last else -(-plan.total // alignment) * alignment
    total: PrimExpr = const(end, "int32")
    for root, life in lives.items():  # sizes known only at run time come last
        if root not in fixed:
            life.offset = total
            total = total + life.symbolic_nbytes(alignment)
    return total


class _Kernels(Rewriter):
    """Merges within each kernel; the allocation is right inside of its launch attributes."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.depth = 0

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "thread_extent" or not isinstance(node.node, IterVar):
            body = self.visit(node.body)
        elif _launches(node.body):
            body = self.visit(node.body)
        else:
            body = self.merge(node.body)
        return node if body is node.body else node.with_fields(body=body)

    def merge(self, kernel: Stmt) -> Stmt:
        finder = _LifeFinder(self.scope)
        finder.visit(kernel)
        lives = {var: life for var, life in finder.lives.items() if finder.ranges.of(var)}
        if len(lives) < 2:
            return kernel
        aligned = tile_alignments(kernel)  # of copies that the hardware carries out by itself
        alignment = max([ALIGNMENT, *[aligned[root] for root in lives if root in aligned]])
        total = _place(finder, lives, alignment)
        parts = {root: Part(life.allocation, life.offset) for root, life in lives.items()}
        name = "buf_dyn_shmem" if self.scope == "shared.dyn" else "buf_shmem"
        memory = Var(name, PointerType(PrimType("uint8"), self.scope))
        body = MergedMemory(memory, parts).visit(kernel)
        return Allocate(memory, "uint8", (total,), True, body)


def _launches(stmt: Stmt) -> bool:
    """Return whether a statement launches a further thread axis directly."""
    while isinstance(stmt, (AttrStmt, DeclBuffer)):
        if isinstance(stmt, AttrStmt) and stmt.attr_key == "thread_extent":
            return True
        stmt = stmt.body
    return False


def merge_shared_memory_allocations(func: PrimFunc, scope: str = "shared.dyn") -> PrimFunc:
    """Return ``func`` with one allocation of shared memory of a scope in each kernel."""
    return func.with_body(_Kernels(scope).visit(func.body))


@compiler_pass("tir.MergeSharedMemoryAllocations")
def merge_shared_memory_as_configured(func: PrimFunc, context: PassContext) -> PrimFunc:
    """Merges dynamic shared memory; static memory too with the option ``tir.merge_static_smem``."""
    func = merge_shared_memory_allocations(func, "shared.dyn")
    if context.get_config("tir.merge_static_smem", False):
        func = merge_shared_memory_allocations(func, "shared")
    return func


@compiler_pass("tir.MergeDynamicSharedMemoryAllocations")
def merge_dynamic_shared_memory(func: PrimFunc) -> PrimFunc:
    """Merges dynamic shared memory, under the older name of the pass."""
    return merge_shared_memory_allocations(func, "shared.dyn")
