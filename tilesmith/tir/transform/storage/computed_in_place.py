"""Decides whether a loop computes each element of one buffer from the same element of another."""

from __future__ import annotations

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, Ramp, Var, Visitor, const, structural_equal
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import AttrStmt, BufferStore, DeclBuffer, For, While

__all__ = ["element_for_element"]


class _Uses(Visitor):
    """The stores to ``new``, with the loops around each, and whether ``old`` is read only in
    them."""

    def __init__(self, old: Var, new: Var) -> None:
        self.old, self.new = old, new
        self.loops: list[For] = []
        self.store: BufferStore | None = None
        self.stores: list[tuple[BufferStore, list[For]]] = []
        self.fits = True

    def visit_For(self, loop: For) -> None:
        self.loops.append(loop)
        self.visit_children(loop)
        self.loops.pop()

    def visit_While(self, loop: While) -> None:
        self.fits = False

    def visit_AttrStmt(self, attribute: AttrStmt) -> None:
        self.visit(attribute.body)

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> None:
        self.visit(declaration.body)

    def visit_BufferStore(self, store: BufferStore) -> None:
        for index in store.indices:
            self.visit(index)
        if store.predicate is not None:
            self.visit(store.predicate)
        if store.buffer.data is not self.new:
            self.fits &= store.buffer.data is not self.old
            self.visit(store.value)
            return
        self.stores.append((store, list(self.loops)))
        self.store = store
        self.visit(store.value)
        self.store = None

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        if load.buffer.data is self.new:
            self.fits = False
        if load.buffer.data is self.old:
            store = self.store
            self.fits &= (
                store is not None
                and load.dtype is store.value.dtype
                and len(load.indices) == len(store.indices)
                and all(structural_equal(a, b) for a, b in zip(load.indices, store.indices))
            )
            return  # its indices are the store's
        self.visit_children(load)

    def visit_Var(self, var: Var) -> None:
        if var is self.old or var is self.new:  # as a pointer
            self.fits = False


def element_for_element(loop: For, old: Var, new: Var) -> bool:
    """Return whether ``loop`` stores each element of ``new`` once, and computes it from the same
    element of ``old`` only.

    Both are pointers to memory that is addressed with one index. Then one may take the place of
    the other.
    """
    uses = _Uses(old, new)
    uses.visit(loop)
    if not uses.fits or len(uses.stores) != 1:
        return False
    store, loops = uses.stores[0]
    return len(store.indices) == 1 and _is_once(store.indices[0], loops)


def _is_once(index: PrimExpr, loops: list[For]) -> bool:
    """Return whether an index is different in each iteration of the loops."""
    analyzer = Analyzer()
    reach = 1
    if isinstance(index, Ramp):
        if not isinstance(index.stride, IntImm) or index.stride.value != 1:
            return False
        reach, index = index.lanes, index.base
    if index.dtype.lanes > 1:
        return False
    steps: list[tuple[int, int]] = []
    for loop in loops:
        moved = substitute(index, {loop.loop_var: loop.loop_var + const(1, loop.loop_var.dtype)})
        step = analyzer.simplify(moved - index)
        if not isinstance(step, IntImm) or not isinstance(loop.extent, IntImm):
            return False
        if loop.extent.value > 1:
            steps.append((abs(step.value), loop.extent.value))
    for size, extent in sorted(steps):
        if size < reach:
            return False
        reach = size * (extent - 1) + reach
    return True
