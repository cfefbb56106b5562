"""StorageRewrite: lets allocations with disjoint live ranges share memory.

    a = T.allocate([64], "float32")             a = T.allocate([64], "float32")
    ... a ...                                   ... a ...
    b = T.allocate([32], "float32")             ... a (instead of b) ...
    ... b (a is dead) ...

Allocations of constant size move to the beginning of the function, or of the body of the parallel
or vectorized loop or virtual thread that they stand in (each iteration has its own memory), so that
nothing is allocated again and again; shared memory moves to the beginning of its kernel. Memory in
scope "local" (which is meant for registers) stays where it is.

Memory serves allocations up to 16 times smaller, whatever their dtype, and grows for larger ones of
the same dtype. Where a loop computes each element from the same element of a buffer that is not
read afterwards, both share memory. Single values of up to 32 bits are left for registers. Memory
that nobody uses goes, with the buffers that are declared in it. Global memory of open size leaves
serial loops.

Threads that share memory have to wait for each other between its uses. ThreadSync, which comes
later, inserts the barriers where all threads pass them; so shared memory that is used only where
some threads may not come is left alone, and memory of asynchronous copies. A target whose shading
language declares shared memory with a type shares it within one dtype.

The special memory of a device ("local.L0A", see ``memory_info``) becomes one allocation, in which
what is live at the same time lies side by side. Memory that is accessed in vectors only gets
vectors as its elements (PointerValueTypeRewrite).
"""

from __future__ import annotations

from math import lcm

from tilesmith.ir import Var, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import PassContext
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.target.kind import VULKAN, WEBGPU
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.stmt import Allocate, AttrStmt, DeclBuffer, For, Stmt
from tilesmith.tir.transform.storage.allocation_lives import Life, LifeFinder, memory_bits
from tilesmith.tir.transform.storage.computed_in_place import element_for_element
from tilesmith.tir.transform.storage.lifted_allocations import lift_allocations
from tilesmith.tir.transform.storage.memory_info import has_special_memory, memory_info
from tilesmith.tir.transform.storage.merged_memory import MergedMemory, Part
from tilesmith.tir.transform.storage.pointer_value_type_rewrite import with_vector_elements

__all__ = ["storage_rewrite", "storage_rewrite_as_configured"]


def is_computed_in_place(old: Life, new: Life) -> bool:
    """Return whether the loop that last reads an allocation computes another one from it, element
    by element.

    The loop is the one that both are used in for the last and the first time.
    """
    loop = old.last_in
    if loop is None or not isinstance(loop, For) or old.depth != new.depth:
        return False
    if old.allocation.dtype is not new.allocation.dtype or old.size != new.size:
        return False
    if old.is_viewed or new.is_viewed or _is_shared(old):
        return False
    if not old.first < new.first < old.last < new.last:
        return False
    return element_for_element(loop, old.allocation.buffer_var, new.allocation.buffer_var)


def _is_shared(life: Life) -> bool:
    return life.scope.startswith("shared")


class _Slot:
    """Memory that several allocations use one after the other."""

    __slots__ = ("apart", "bits", "end", "latest", "life")

    def __init__(self, life: Life) -> None:
        self.life = life  # the first one, which the memory is named after
        self.latest = life
        self.bits = life.bits
        self.end = life.last
        self.apart = set(life.apart)

    @property
    def size(self) -> int:
        """Return the number of elements of the first allocation's dtype."""
        return -(-self.bits // memory_bits(self.life.allocation.dtype))

    def takes(self, life: Life, exact_dtypes: bool) -> bool:
        """Return whether an allocation fits into this memory, which may be enlarged.

        ``exact_dtypes``: shared memory holds one dtype.
        """
        dtype, own = life.allocation.dtype, self.life.allocation.dtype
        if life.scope != self.life.scope or (_is_shared(life) and not self.has_barriers_for(life)):
            return False
        if self.end >= life.first:
            return is_computed_in_place(self.latest, life)
        if min(self.bits, life.bits) <= REGISTER_BITS:
            return dtype is own
        if not life.bits <= self.bits * MOST_WASTE <= life.bits * MOST_WASTE**2:
            return False
        if dtype is own:
            return True
        may_differ = not (exact_dtypes and _is_shared(life))
        return may_differ and life.bits <= self.bits and dtype.lanes == own.lanes == 1

    def has_barriers_for(self, life: Life) -> bool:
        """Return whether all threads pass the places between earlier uses and those of ``life``, so
        that ThreadSync can insert barriers.
        """
        if has_special_memory(life.scope):  # for which nothing inserts barriers
            return False
        return self.life.is_plain and life.is_plain and self.apart.isdisjoint(life.apart)

    def add(self, life: Life) -> None:
        """Give the memory to one more allocation."""
        self.bits = max(self.bits, life.bits)
        self.end, self.latest = life.last, life
        self.apart |= life.apart


MOST_WASTE = 16
"""Memory is not given to what is so many times smaller or larger."""
REGISTER_BITS = 32

_Slots = list[tuple[_Slot, list[Life]]]


def _assign(lives: list[Life], exact_dtypes: bool = False) -> dict[int, _Slots]:
    """Return for each region its slots, each with the allocations that share it."""
    regions: dict[int, _Slots] = {}
    for life in sorted(lives, key=_start):
        slots = regions.setdefault(life.region, [])
        free = [entry for entry in slots if entry[0].takes(life, exact_dtypes)]
        if free:
            # The slot that is used in place, or the best fit; a smaller one grows.
            slot, members = min(
                free,
                key=lambda entry: (entry[0].end < life.first, abs(entry[0].bits - life.bits)),
            )
            slot.add(life)
            members.append(life)
        else:
            slots.append((_Slot(life), [life]))
    return regions


def _start(life: Life) -> int:
    return life.first


class _Rewriter(BufferRemapper):
    def __init__(self, regions: dict[int, _Slots], unused: set[Var]) -> None:
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
        slots = self.regions.get(region, [])
        special: dict[str, _Slots] = {}
        for slot, members in reversed(slots):
            if has_special_memory(slot.life.scope):
                special.setdefault(slot.life.scope, []).insert(0, (slot, members))
            else:
                body = _allocated(slot.life.allocation, slot.size, body)
        for scope, own in special.items():
            body = _one_allocation(scope, own, body)
        return body


def _allocated(first: Allocate, size: int, body: Stmt) -> Stmt:
    """Return ``body`` in memory of a number of elements that is named after an allocation."""
    extents = (const(size, first.extents[0].dtype),)
    return Allocate(first.buffer_var, first.dtype, extents, True, body, None, first.span)


def _one_allocation(scope: str, slots: _Slots, body: Stmt) -> Stmt:
    """Return ``body`` with the slots of a device's memory in one allocation; check its size."""
    info = memory_info(scope)
    widest = 8 if info is None or info.max_simd_bits is None else info.max_simd_bits
    parts: dict[Var, Part] = {}
    total = 0
    apart: list[_Slot] = []
    for slot, members in slots:
        sizes = {bits for life in members for bits in life.element_bits}
        if not all(life.is_plain and life.is_flat for life in members) or min(sizes) < 8:
            # Something computes with its address, or elements are parts of bytes.
            apart.append(slot)
            continue
        alignment = lcm(8, widest, *sizes)
        total = -(-total // alignment) * alignment
        parts[slot.life.allocation.buffer_var] = Part(slot.life.allocation, total // 8)
        total += slot.bits
    _check_limit(scope, total + sum([slot.bits for slot in apart]), slots)
    for slot in reversed(apart):
        body = _allocated(slot.life.allocation, slot.size, body)
    if not parts:
        return body
    first = next(iter(parts.values())).allocation
    if len(parts) > 1:
        del parts[first.buffer_var]
        body = MergedMemory(first.buffer_var, parts).visit(body)
    return _allocated(first, -(-total // memory_bits(first.dtype)), body)


def _check_limit(scope: str, bits: int, slots: _Slots) -> None:
    info = memory_info(scope)
    if info is None or info.max_num_bits is None or bits <= info.max_num_bits:
        return
    names = ", ".join([f"'{slot.life.allocation.buffer_var.name}'" for slot, _ in slots])
    raise UnsupportedError(
        f"{names} need {bits} bits of '{scope}' at the same time, which has {info.max_num_bits}",
        span=slots[0][0].life.allocation.span,
        notes=("use smaller tiles, or keep fewer of them at the same time",),
    )


def _has_typed_shared_memory(func: PrimFunc) -> bool:
    """Return whether the target's shading language declares shared memory with a type."""
    target = func.attrs.get("target") or Target.current(allow_none=True)
    return isinstance(target, Target) and target.kind.device_type in (VULKAN, WEBGPU)


def storage_rewrite(func: PrimFunc, vector_elements: bool = True) -> PrimFunc:
    """Return ``func`` with allocations of constant size moved outward and shared where they can
    be.
    """
    finder = LifeFinder()
    finder.visit(func.body)
    if finder.lives:
        lives = [life for life in finder.lives.values() if life.first >= 0]
        unused = {pointer for pointer, life in finder.lives.items() if life.first < 0}
        rewriter = _Rewriter(_assign(lives, _has_typed_shared_memory(func)), unused)
        func = func.with_body(rewriter.with_slots(0, rewriter.visit(func.body)))
    func = func.with_body(lift_allocations(func.body))
    return with_vector_elements(func, parameters=False) if vector_elements else func


@compiler_pass("tir.StorageRewrite")
def storage_rewrite_as_configured(
    func: PrimFunc, context: PassContext, vector_elements: bool = True
) -> PrimFunc:
    """Lets allocations share memory, except with the option ``tir.disable_storage_rewrite``.

    Without ``vector_elements`` memory keeps its elements: our back ends find vectors in memory of
    scalars themselves.
    """
    disabled = context.get_config("tir.disable_storage_rewrite", False)
    return func if disabled else storage_rewrite(func, vector_elements)
