"""Finds the live ranges of allocations, and which of them may lie elsewhere or share memory."""

from __future__ import annotations

from tilesmith.ir import Call, IntImm, Var, Visitor
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import is_call, variables
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.queries import loads
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    While,
)
from tilesmith.tir.transform.storage.memory_info import has_special_memory

__all__ = ["Life", "LifeFinder", "memory_bits"]


class Life:
    """An allocation with its live range."""

    __slots__ = (
        "allocation", "apart", "depth", "element_bits", "first", "is_flat", "is_plain", "is_viewed",
        "last", "last_in", "region", "size",
    )  # fmt: skip

    def __init__(self, allocation: Allocate, size: int, depth: int, region: int) -> None:
        self.allocation = allocation
        self.size = size  # elements
        self.last_in: For | While | AttrStmt | None = None  # the loop that is used in last
        self.depth = depth
        self.region = region  # id of the statement around that the memory belongs to, 0: function
        self.first = -1
        self.last = -1
        self.is_plain = True  # it is only loaded and stored, by statements that run in their order
        self.is_viewed = False  # also through pointers that are computed from its own
        self.is_flat = True  # its elements are addressed from its start, with one index
        self.element_bits = {element_bits(allocation.dtype)}  # as it is declared and accessed
        self.apart: set[int] = set()  # statements around uses that some threads may leave out

    @property
    def scope(self) -> str:
        return self.allocation.buffer_var.storage_scope or "global"

    @property
    def bits(self) -> int:
        return self.size * memory_bits(self.allocation.dtype)


def element_bits(dtype: DataType) -> int:
    """Return the number of bits of an element: a boolean has a byte."""
    return (8 if dtype.is_bool else dtype.bits) * dtype.lanes


def memory_bits(dtype: DataType) -> int:
    """Return the number of bits that an element occupies in memory: whole bytes, also of int4."""
    return -(-element_bits(dtype) // 8) * 8


def _constant_size(allocation: Allocate) -> int | None:
    size = 1
    for extent in allocation.extents:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size


def _has_own_memory(stmt: For | AttrStmt) -> bool:
    """Return whether each iteration of a statement has its own copy of what is allocated inside,
    because iterations may run at the same time.
    """
    if isinstance(stmt, For):
        return stmt.kind in (ForKind.PARALLEL, ForKind.VECTORIZED)
    return stmt.attr_key == "virtual_thread"


class LifeFinder(Visitor):
    """Numbers the statements and records where each allocation is used first and last.

    An allocation outside of a loop that is used in it is live as long as the loop runs.
    """

    def __init__(self) -> None:
        self.position = 0
        self.loops: list[tuple[int, set[Var]]] = []  # first position, pointers from outside used
        self.regions = [0]  # of ordinary memory
        self.near_regions = [0]  # of the memory of threads and devices
        self.apart: list[int] = []  # branches and loops of a kernel that some threads may leave out
        self.in_kernel = False
        self.is_asynchronous = False
        self.lives: dict[Var, Life] = {}
        self.views: dict[Var, list[Var]] = {}  # pointers computed from others

    # Uses.

    def use(self, pointer: Var) -> None:
        for base in self.views.get(pointer, ()):
            self.use(base)
            if base in self.lives:
                self.lives[base].is_viewed = True
        life = self.lives.get(pointer)
        if life is None:
            return
        life.last, life.last_in = self.position, None
        life.apart.update(self.apart)
        life.is_plain = life.is_plain and not self.is_asynchronous
        if life.first < 0:
            life.first = self.position
        for _, used in self.loops[life.depth :]:
            used.add(pointer)

    def escape(self, pointer: Var) -> None:
        """Record that the pointer itself is used, not only elements behind it."""
        self.use(pointer)
        if pointer in self.lives:
            self.lives[pointer].is_plain = False

    def visit_Var(self, var: Var) -> None:
        if var.dtype.is_handle:
            self.escape(var)

    def visit_Buffer(self, buffer: Buffer) -> None:
        self.use(buffer.data)
        life = self.lives.get(buffer.data)
        if life is not None:
            life.is_flat = life.is_flat and _is_flat(buffer)
            life.element_bits.add(element_bits(buffer.dtype))

    def visit_Call(self, call: Call) -> None:
        if is_call(call, "tir.address_of") and isinstance(call.args[0], BufferLoad):
            pointer = call.args[0].buffer.data
            self.escape(pointer)
            if pointer in self.lives:
                self.lives[pointer].is_viewed = True
        self.visit_children(call)

    def visit_LetStmt(self, let: LetStmt) -> None:
        if let.var.dtype.is_handle:
            pointers = [var for var in variables(let.value) if var.dtype.is_handle]
            self.views[let.var] = pointers + [load.buffer.data for load in loads(let.value)]
        self.visit_children(let)

    # Declarations.

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> None:
        self.visit(declaration.body)

    def visit_Allocate(self, allocation: Allocate) -> None:
        region = self.region_of(allocation)
        size = _constant_size(allocation)
        if region is not None and size is not None and is_const(allocation.condition, 1):
            self.lives[allocation.buffer_var] = Life(allocation, size, len(self.loops), region)
        self.visit(allocation.body)

    def region_of(self, allocation: Allocate) -> int | None:
        """Return the statement at whose beginning an allocation may stand; None if it stays."""
        scope = allocation.buffer_var.storage_scope
        if allocation.annotations:
            return None
        if scope in ("", "global"):
            return self.regions[-1]
        if has_special_memory(scope) or (scope == "shared" and self.in_kernel):
            return self.near_regions[-1]
        return None

    # Statements.

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.position += 1
        self.visit_children(store)

    def visit_Evaluate(self, evaluation: Evaluate) -> None:
        self.position += 1
        self.visit_children(evaluation)

    def visit_IfThenElse(self, branch: IfThenElse) -> None:
        self.visit_apart(branch)

    def visit_While(self, loop: While) -> None:
        self.apart.append(id(loop))
        self.visit_loop(loop)
        self.apart.pop()

    def visit_For(self, loop: For) -> None:
        if loop.kind is ForKind.THREAD_BINDING:
            self.visit_threads(loop)
            return
        has_own_memory = _has_own_memory(loop)
        has_own_count = not (isinstance(loop.extent, IntImm) and isinstance(loop.min, IntImm))
        if has_own_memory:
            self.regions.append(id(loop))
            self.near_regions.append(id(loop))
        if has_own_count:
            self.apart.append(id(loop))
        self.visit_loop(loop)
        if has_own_count:
            self.apart.pop()
        if has_own_memory:
            self.regions.pop()
            self.near_regions.pop()

    def visit_AttrStmt(self, attr: AttrStmt) -> None:
        if _has_own_memory(attr):
            self.regions.append(id(attr))
            self.near_regions.append(id(attr))
            self.visit_loop(attr)
            self.regions.pop()
            self.near_regions.pop()
        elif attr.attr_key == "thread_extent":
            self.visit_threads(attr)
        elif attr.attr_key == "pragma_parallel_launch_point":
            self.visit_region(attr)
        elif attr.attr_key == "async_scope":
            outer, self.is_asynchronous = self.is_asynchronous, True
            self.visit_children(attr)
            self.is_asynchronous = outer
        else:
            self.visit_children(attr)

    def visit_region(self, attr: AttrStmt) -> None:
        """Visit loops whose workers wait for each other only where the program says so: what is
        allocated around and between the loops is live as long as they run.
        """
        before, start = set(self.lives), self.position + 1
        self.visit_loop(attr)
        for pointer, life in self.lives.items():
            if pointer not in before and life.first >= 0:
                life.first, life.last, life.last_in = start, self.position, None

    def visit_threads(self, launch: For | AttrStmt) -> None:
        # Threads do not wait for each other: allocations of a kernel are live until its end.
        self.near_regions.append(id(launch))
        if self.in_kernel:
            self.visit_children(launch)
        else:
            self.in_kernel = True
            self.visit_loop(launch)
            self.in_kernel = False
        self.near_regions.pop()

    def visit_apart(self, branch: IfThenElse) -> None:
        self.apart.append(id(branch))
        self.visit_children(branch)
        self.apart.pop()

    def visit_loop(self, loop: For | While | AttrStmt) -> None:
        self.position += 1
        used: set[Var] = set()
        start = self.position
        self.loops.append((start, used))
        self.visit_children(loop)
        self.loops.pop()
        self.position += 1
        for pointer in used:
            life = self.lives[pointer]
            life.first = min(life.first, start)
            life.last, life.last_in = self.position, loop


def _is_flat(buffer: Buffer) -> bool:
    return len(buffer.shape) == 1 and not buffer.strides and is_const(buffer.elem_offset, 0)
