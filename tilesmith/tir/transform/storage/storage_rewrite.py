"""StorageRewrite: lets allocations with disjoint live ranges share memory.

    a = T.allocate([64], "float32")             a = T.allocate([64], "float32")
    ... a ...                                   ... a ...
    b = T.allocate([32], "float32")             ... a (instead of b) ...
    ... b (a is dead) ...

Allocations of constant size move to the beginning of the function, or of the body of the parallel
or vectorized loop or virtual thread that they stand in (each iteration has its own memory), so that
nothing is allocated again and again. Memory in scope "local"
(which is meant for registers) and in the scopes of devices stays where it is.

Memory serves allocations up to 16 times smaller, whatever their dtype, and grows for larger ones of
the same dtype. Where a loop computes each element from the same element of a buffer that is not
read afterwards, both share memory. Single values of up to 32 bits are left for registers. Memory
that nobody uses goes, with the buffers that are declared in it.
"""

from __future__ import annotations

from tilesmith.ir import IntImm, Var, Visitor, const
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import PassContext
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    Stmt,
    While,
)
from tilesmith.tir.transform.storage.computed_in_place import element_for_element

__all__ = ["storage_rewrite", "storage_rewrite_as_configured"]


class _Life:
    """An allocation with its live range."""

    __slots__ = ("allocation", "depth", "first", "last", "last_in", "region", "size")

    def __init__(self, allocation: Allocate, size: int, depth: int, region: int) -> None:
        self.allocation = allocation
        self.size = size  # elements
        self.last_in: For | While | AttrStmt | None = None  # the loop that is used in last
        self.depth = depth
        self.region = region  # id of the statement in `_has_own_memory` around, 0 for the function
        self.first = -1
        self.last = -1

    @property
    def bits(self) -> int:
        return self.size * _bits(self.allocation.dtype)


def _bits(dtype: DataType) -> int:
    """Return the number of bits that an element occupies in memory: a boolean occupies a byte."""
    return (8 if dtype.is_bool else dtype.bits) * dtype.lanes


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


def _can_move(allocation: Allocate) -> bool:
    return (
        allocation.buffer_var.storage_scope in ("", "global")
        and not allocation.annotations
        and is_const(allocation.condition, 1)
        and _constant_size(allocation) is not None
    )


class _LifeFinder(Visitor):
    """Numbers the statements and records where each allocation is used first and last.

    An allocation outside of a loop that is used in it is live as long as the loop runs.
    """

    def __init__(self) -> None:
        self.position = 0
        self.loops: list[tuple[int, set[Var]]] = []  # first position, pointers from outside used
        self.regions = [0]
        self.in_kernel = False
        self.lives: dict[Var, _Life] = {}

    def use(self, pointer: Var) -> None:
        life = self.lives.get(pointer)
        if life is None:
            return
        life.last, life.last_in = self.position, None
        if life.first < 0:
            life.first = self.position
        for _, used in self.loops[life.depth :]:
            used.add(pointer)

    def visit_Var(self, var: Var) -> None:
        self.use(var)

    def visit_Buffer(self, buffer: Buffer) -> None:
        self.use(buffer.data)

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> None:
        self.visit(declaration.body)

    def visit_Allocate(self, allocation: Allocate) -> None:
        if _can_move(allocation):
            size = _constant_size(allocation)
            assert size is not None
            life = _Life(allocation, size, len(self.loops), self.regions[-1])
            self.lives[allocation.buffer_var] = life
        self.visit(allocation.body)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.position += 1
        self.visit_children(store)

    def visit_Evaluate(self, evaluation: Evaluate) -> None:
        self.position += 1
        self.visit_children(evaluation)

    def visit_For(self, loop: For) -> None:
        if not _has_own_memory(loop):
            self.visit_loop(loop)
            return
        self.regions.append(id(loop))
        self.visit_loop(loop)
        self.regions.pop()

    def visit_AttrStmt(self, attr: AttrStmt) -> None:
        # Threads do not wait for each other: allocations of a kernel are live until its end.
        is_kernel = attr.attr_key == "thread_extent" and not self.in_kernel
        if _has_own_memory(attr):
            self.regions.append(id(attr))
            self.visit_loop(attr)
            self.regions.pop()
            return
        if not is_kernel:
            self.visit_children(attr)
            return
        self.in_kernel = True
        self.visit_loop(attr)
        self.in_kernel = False

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

    visit_While = visit_loop


def is_computed_in_place(old: _Life, new: _Life) -> bool:
    """Return whether the loop that last reads an allocation computes another one from it, element
    by element.

    The loop is the one that both are used in for the last and the first time.
    """
    loop = old.last_in
    if loop is None or not isinstance(loop, For) or old.depth != new.depth:
        return False
    if old.allocation.dtype is not new.allocation.dtype or old.size != new.size:
        return False
    if not old.first < new.first < old.last < new.last:
        return False
    return element_for_element(loop, old.allocation.buffer_var, new.allocation.buffer_var)


class _Slot:
    """Memory that several allocations use one after the other."""

    __slots__ = ("bits", "end", "latest", "life")

    def __init__(self, life: _Life) -> None:
        self.life = life  # the first one, which the memory is named after
        self.latest = life
        self.bits = life.bits
        self.end = life.last

    @property
    def size(self) -> int:
        """Return the number of elements of the first allocation's dtype."""
        return -(-self.bits // _bits(self.life.allocation.dtype))

    def takes(self, life: _Life) -> bool:
        """Return whether an allocation fits into this memory, which may be enlarged."""
        dtype, own = life.allocation.dtype, self.life.allocation.dtype
        if self.end >= life.first:
            return is_computed_in_place(self.latest, life)
        if min(self.bits, life.bits) <= REGISTER_BITS:
            return dtype is own
        if not life.bits <= self.bits * MOST_WASTE <= life.bits * MOST_WASTE**2:
            return False
        return dtype is own or (life.bits <= self.bits and dtype.lanes == own.lanes == 1)


MOST_WASTE = 16
"""Memory is not given to what is so many times smaller or larger."""
REGISTER_BITS = 32


def _assign(lives: list[_Life]) -> dict[int, list[tuple[_Slot, list[_Life]]]]:
    """Return for each region its slots, each with the allocations that share it."""
    regions: dict[int, list[tuple[_Slot, list[_Life]]]] = {}
    for life in sorted(lives, key=_start):
        slots = regions.setdefault(life.region, [])
        free = [entry for entry in slots if entry[0].takes(life)]
        if free:
            # The slot that is used in place, or the best fit; a smaller one grows.
            slot, members = min(
                free,
                key=lambda entry: (entry[0].end < life.first, abs(entry[0].bits - life.bits)),
            )
            slot.bits = max(slot.bits, life.bits)
            slot.end, slot.latest = life.last, life
            members.append(life)
        else:
            slots.append((_Slot(life), [life]))
    return regions


def _start(life: _Life) -> int:
    return life.first


class _Rewriter(BufferRemapper):
    def __init__(
        self, regions: dict[int, list[tuple[_Slot, list[_Life]]]], unused: set[Var]
    ) -> None:
        super().__init__()
        self.regions = regions
        self.unused = unused
        self.pointers: dict[Var, Var] = {}
        for slots in regions.values():
            for slot, members in slots:
                for life in members:
                    self.pointers[life.allocation.buffer_var] = slot.life.allocation.buffer_var

    def visit_Var(self, var: Var) -> Var:
        return self.pointers.get(var, var)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        if allocation.buffer_var in self.pointers or allocation.buffer_var in self.unused:
            return self.visit(allocation.body)
        return self.children(allocation)

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> Stmt:
        if declaration.buffer.data in self.unused:
            return self.visit(declaration.body)
        return super().visit_DeclBuffer(declaration)

    def visit_For(self, loop: For) -> Stmt:
        body = self.with_slots(id(loop), self.visit(loop.body))
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        if body is loop.body and low is loop.min and extent is loop.extent:
            return loop
        return loop.with_fields(min=low, extent=extent, body=body)

    def visit_AttrStmt(self, attr: AttrStmt) -> Stmt:
        new = self.children(attr)
        body = self.with_slots(id(attr), new.body)
        return new if body is new.body else new.with_fields(body=body)

    def with_slots(self, region: int, body: Stmt) -> Stmt:
        """Return ``body`` with the allocations of a region in front of it."""
        for slot, _ in reversed(self.regions.get(region, [])):
            first = slot.life.allocation
            extents = (const(slot.size, first.extents[0].dtype),)
            body = Allocate(first.buffer_var, first.dtype, extents, True, body, None, first.span)
        return body


def storage_rewrite(func: PrimFunc) -> PrimFunc:
    """Return ``func`` with allocations of constant size moved outward and shared where they can
    be."""
    finder = _LifeFinder()
    finder.visit(func.body)
    if not finder.lives:
        return func
    lives = [life for life in finder.lives.values() if life.first >= 0]
    unused = {pointer for pointer, life in finder.lives.items() if life.first < 0}
    rewriter = _Rewriter(_assign(lives), unused)
    return func.with_body(rewriter.with_slots(0, rewriter.visit(func.body)))


@compiler_pass("tir.StorageRewrite")
def storage_rewrite_as_configured(func: PrimFunc, context: PassContext) -> PrimFunc:
    """Lets allocations share memory, except with the option ``tir.disable_storage_rewrite``."""
    disabled = context.get_config("tir.disable_storage_rewrite", False)
    return func if disabled else storage_rewrite(func)
