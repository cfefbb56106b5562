"""Finds what a statement of a kernel accesses: which memory, where, and how certain that is.

ThreadSync and OrderGlobalMemory compare these accesses; what they know at the statement (conditions
around it, waits before it) is kept with each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tilesmith.ir import Call, IntImm, PrimExpr, Var, Visitor, structural_equal
from tilesmith.ir.queries import called_name, is_call
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads
from tilesmith.tir.register_operands import RegisterOperand, register_operands
from tilesmith.tir.stmt import BufferStore
from tilesmith.tir.transform.threads.thread_conflicts import Access, access_of, range_access

__all__ = ["AccessFinder", "Surroundings"]

_BULK_COPIES = ("tir.ptx_cp_async_bulk", "tir.ptx_cp_async_bulk_tensor")
_TILE_STORES = ("tir.mma_store", "tir.tvm_store_matrix_sync")


class Surroundings(Protocol):
    """What is known where a statement stands."""

    scope: str
    """The scope of the memory that is looked at."""
    others: dict[Var, Var]
    """Further variables of an axis of threads → its first one."""
    fixed: frozenset[tuple[Var, int]]
    """What conditions say about axes of threads."""
    background: list[Access]
    """Copies that have been begun."""
    in_async_scope: bool
    order: int
    """Counts bulk copies, waits for their barriers, and accesses after those."""
    waited: int
    """When the last of these waits was."""

    def covers(self, pointer: Var) -> bool:
        """Return whether the memory of a pointer is looked at."""

    def changes(self, indices: Sequence[PrimExpr]) -> bool:
        """Return whether indices read memory that the kernel may write."""


class AccessFinder(Visitor):
    """Collects the accesses of a statement, reads before writes."""

    def __init__(self, owner: Surroundings) -> None:
        self.owner = owner
        self.found: list[Access] = []
        self.updated: BufferStore | None = None  # the update in place that is visited
        self.stores_tile = False  # a warp stores a tile of its own, whose place nobody can compare

    def add(self, access: Access) -> None:
        if self.owner.covers(access.pointer):
            alone = self.stores_tile and access.writes and self.owner.scope == "global"
            found = access._replace(atomic=True) if alone else access
            if self.owner.others and found.place is not None:
                found = found._replace(place=substitute(found.place, self.owner.others))
            owner = self.owner
            owner.order += owner.waited > 0 or found.bulk
            found = found._replace(order=owner.order, waited=owner.waited)
            self.found.append(found._replace(fixed=owner.fixed))

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit_children(node)
        access = access_of(node.buffer.data, node.indices, node.buffer.dtype, False)
        own = self.updated is not None and _same_element(node, self.updated)
        self.add(access._replace(own=own))

    def visit_BufferStore(self, node: BufferStore) -> None:
        before = [
            one
            for one in loads(node.value, node.buffer)
            if _same_element(one, node) and not self.owner.changes(node.indices)
        ]
        self.updated = node if before else None
        self.visit_children(node)
        access = access_of(node.buffer.data, node.indices, node.buffer.dtype, True)
        self.add(access._replace(own=bool(before)))
        self.updated = None
        if self.owner.in_async_scope and self.owner.covers(access.pointer):
            self.owner.background.append(access)

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle and self.owner.covers(node):
            self.found += [Access(node, None, 1, None, writes) for writes in (False, True)]

    def visit_Call(self, node: Call) -> None:
        name = called_name(node)
        outer, self.stores_tile = self.stores_tile, self.stores_tile or name in _TILE_STORES
        self.call(node, name)
        self.stores_tile = outer

    def call(self, node: Call, name: str) -> None:
        """Add the accesses of a call."""
        if name == "tir.tvm_access_ptr":
            self.visit(node.args[2])
            mask = node.args[4]
            bits = mask.value if isinstance(mask, IntImm) else 3
            for bit, writes in ((1, False), (2, True)):
                if bits & bit and isinstance(node.args[1], Var):
                    self.add(range_access(node, writes))
        elif name == "tir.atomic_add" and is_call(node.args[0], "tir.address_of"):
            place: Any = node.args[0].args[0]
            for inner in (*place.indices, *node.args[1:]):
                self.visit(inner)
            for writes in (False, True):
                found = access_of(place.buffer.data, place.indices, place.buffer.dtype, writes)
                self.add(found._replace(atomic=True))
        elif name == "tir.ptx_cp_async" and isinstance(node.args[0], Var):
            target, source = Access(node.args[0], None, 1, None, True), node.args[2]
            self.add(target)
            if self.owner.covers(target.pointer):
                self.owner.background.append(target)
            if isinstance(source, Var):
                self.add(Access(source, None, 1, None, False))
        elif name in _BULK_COPIES and isinstance(node.args[0], Var):
            # One thread issues several of them, and barriers in shared memory order them.
            self.add(Access(node.args[0], None, 1, None, True, atomic=True, bulk=True))
            for argument in node.args[1:]:
                if isinstance(argument, Var) and argument.dtype.is_handle:
                    self.add(Access(argument, None, 1, None, False))  # the source
                else:
                    self.visit(argument)
        elif operands := register_operands(node):
            self.registers(node, operands)
        else:
            self.visit_children(node)

    def registers(self, node: Call, operands: Sequence[RegisterOperand]) -> None:
        """Add the accesses of an instruction of a matrix unit: other pointers are only read."""
        taken = set()
        for place, count, reads, writes in operands:
            pointer, index = node.args[place : place + 2]
            if not isinstance(pointer, Var):
                continue
            taken.add(place)
            dtype = getattr(getattr(pointer.type_annotation, "element_type", None), "dtype", None)
            for kind, happens in ((False, reads), (True, writes)):
                if happens:  # instructions meet in registers of one thread only
                    self.add(Access(pointer, index, count, dtype, kind, atomic=True))
        for place, argument in enumerate(node.args):
            if place in taken:
                continue
            if isinstance(argument, Var) and argument.dtype.is_handle:
                writes = called_name(node) == "tir.mma_store"
                self.add(Access(argument, None, 1, None, writes))
            else:
                self.visit(argument)


def _same_element(load: BufferLoad, store: BufferStore) -> bool:
    return load.buffer is store.buffer and structural_equal(load.indices, store.indices)
