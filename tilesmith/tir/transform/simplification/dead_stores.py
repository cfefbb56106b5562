"""Removes dead stores: stores that are overwritten before they are read.

    for i in range(4, 12):                      for i in range(16):
        A[i] = 0                                    A[i] = B[i]
    for i in range(16):
        A[i] = B[i]

It goes through a program from its end to its beginning and tracks the elements that are overwritten
later: by single stores, by loops, under conditions. A read takes the elements that it may touch out
of them. Stores to allocated memory that nobody reads are dead as well. A removed value that has a
side effect is still evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Broadcast, PrimExpr, Range, Rewriter, Var, const
from tilesmith.ir.operators import all_of, any_of
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import can_fail, has_side_effect, loads, reads_memory
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)
from tilesmith.tir.transform.simplification.buffer_elements import Elements, negated
from tilesmith.tir.transform.simplification.known_values import IN_TURN
from tilesmith.tir.transform.simplification.touched_elements import (
    each,
    has_pointer_names,
    is_of_threads,
    loaded_elements,
    read_elements,
    read_pointers,
    under,
)

__all__ = ["without_dead_stores"]

_MOST_SETS = 32  # overwritten elements that are tracked at a time
_OVERWRITTEN = const(True, "bool")  # the "value" of the sets, which makes them proven ones
# Attributes that change nothing of what the statements in them read and write. Others
# ("volatile_scope", "async_scope", ...) may.
_PLAIN_ATTRIBUTES = ("pragma_", "storage_alignment", "target", "device_", "compute_scope")


def _stored_elements(store: BufferStore) -> Elements | None:
    """Return the elements that a store certainly writes; None if they have no formula."""
    if store.predicate is not None:
        return None
    lanes = next((index.dtype.lanes for index in store.indices if index.dtype.lanes != 1), 1)
    mark = _OVERWRITTEN if lanes == 1 else Broadcast(_OVERWRITTEN, lanes)
    found = Elements.of_access(store.buffer, store.indices, mark)
    return None if found.value is None else found


def _all_elements(buffer: Buffer) -> Elements:
    points = {Var(f"x{axis}", size.dtype): Range(size) for axis, size in enumerate(buffer.shape)}
    return Elements(buffer, list(points), _OVERWRITTEN, (), points)


class _Remover(Rewriter):
    """Visits statements in the opposite order of their execution.

    ``outer``: the elements that are overwritten, before they are read, after the present loop,
    branch or block; ``made``: those that are overwritten in the part of it that has been visited.
    """

    def __init__(self, overlapping: set[Var]) -> None:
        self.analyzer = Analyzer()
        self.outer: list[Elements] = []
        self.made: list[Elements] = []
        self.overlapping = overlapping  # pointers that may point to the same memory
        self.unread: set[Var] = set()  # allocations that are only written
        self.together = False  # among threads, or iterations that run at the same time

    # -- what is overwritten

    def without(self, sets: Sequence[Elements], reads: Sequence[Elements]) -> list[Elements]:
        """Return the sets without elements that loads may read."""
        left = list(sets)
        for read in reads:
            if self.together and read.buffer.scope() != "local":
                read = Elements(read.buffer, None)  # another thread reads at another index
            pointer = read.buffer.data
            if pointer in self.overlapping:
                others = self.overlapping - {pointer}
                left = [elements for elements in left if elements.buffer.data not in others]
            rest = [elements.without(read, self.analyzer) for elements in left]
            left = [elements for elements in rest if elements is not None]
        return left

    def kept(self, sets: Sequence[Elements], pointers: set[Var | None]) -> list[Elements]:
        """Return the sets in memory that none of some pointers points to."""
        if pointers & self.overlapping:
            pointers = pointers | self.overlapping
        if None in pointers:
            return []
        return [elements for elements in sets if elements.buffer.data not in pointers]

    def read(self, reads: Sequence[Elements], pointers: set[Var | None]) -> None:
        """Note what the present part of the program reads."""
        self.outer = self.kept(self.without(self.outer, reads), pointers)
        self.made = self.kept(self.without(self.made, reads), pointers)

    def evaluate(self, *expressions: PrimExpr | None) -> None:
        """Note what is read to evaluate expressions."""
        for expr in expressions:
            if expr is not None:
                self.read(loaded_elements(expr), read_pointers(expr))

    def inside(self, stmt: Stmt, after: Sequence[Elements]) -> tuple[Stmt, list[Elements]]:
        """Visit a part of the program at whose end some elements are known to be overwritten
        later. Return it and what it overwrites."""
        saved = self.outer, self.made
        self.outer, self.made = list(after)[-_MOST_SETS:], []
        new = self.visit(stmt)
        made = self.made
        self.outer, self.made = saved
        return new, made

    def overwrite(self, elements: Sequence[Elements]) -> None:
        """Note what the present part of the program overwrites."""
        self.made += elements
        del self.made[:-_MOST_SETS]

    @property
    def later(self) -> list[Elements]:
        return [*self.outer, *self.made]

    def is_dead(self, store: BufferStore) -> bool:
        """Return whether all elements that a store writes are overwritten before they are read."""
        if has_side_effect(store.indices) or can_fail(store.indices):
            return False
        if store.buffer.data in self.unread:
            return True
        own = Elements.of_access(store.buffer, store.indices)
        if own.indices is None:
            return False
        for var, lanes in own.iterators.items():
            self.analyzer.bind(var, lanes)
        under_what: list[PrimExpr] = []
        for elements in self.later:
            if elements.buffer is not store.buffer:
                continue
            membership = elements.membership(own.indices)
            if membership is None:
                continue
            open_parts = [part for part in membership[0] if not self.analyzer.can_prove(part)]
            if not open_parts:
                return True
            under_what.append(all_of(*open_parts))
        # several parts of the program that overwrite it may cover all cases
        return len(under_what) > 1 and self.analyzer.can_prove(any_of(*under_what))

    # -- statements

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        parts = [self.visit(stmt) for stmt in reversed(sequence.seq)][::-1]
        if all(a is b for a, b in zip(parts, sequence.seq)):
            return sequence
        return stmt_seq(*parts, span=sequence.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if self.is_dead(store):
            if not has_side_effect(store.value) and not can_fail(store.value):
                return stmt_seq()
            self.evaluate(store.value)
            return Evaluate(store.value)
        elements = _stored_elements(store)
        if elements is not None:
            self.overwrite([elements])
        self.evaluate(*store.indices, store.value, store.predicate)
        return store

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        self.evaluate(evaluation.value)
        return evaluation

    def visit_For(self, loop: For) -> Stmt:
        var, low, extent = loop.loop_var, loop.min, loop.extent
        reads, pointers = read_elements(loop.body), read_pointers(loop.body)
        everything = each(reads, lambda e: e.over(var, low, extent))
        outside = self.together
        self.bind_loop(loop)
        if loop.kind in IN_TURN:
            earlier = each(reads, lambda e: e.over(var, low, var - low))
            later = each(reads, lambda e: e.over(var, var + 1, low + extent - var - 1))
            after = self.kept(self.without(self.later, later), pointers)
            body, made = self.inside(loop.body, after)
            self.bind_loop(loop)  # another loop may have the same variable
            made = self.kept(self.without(made, earlier), pointers)
            made = each(made, lambda e: e.over(var, low, extent))
        else:
            self.together = True
            whole = [Elements(read.buffer, None) for read in reads]
            after = self.kept(self.without(self.later, whole), pointers)
            body, made = self.inside(loop.body, after)[0], []
        self.together = outside
        self.read(everything, pointers)
        self.overwrite(made)
        self.evaluate(low, extent)
        return loop if body is loop.body else loop.with_fields(body=body)

    def bind_loop(self, loop: For) -> None:
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))

    def visit_While(self, loop: While) -> Stmt:
        self.read(read_elements(loop), read_pointers(loop))
        body, _ = self.inside(loop.body, self.later)
        return loop if body is loop.body else loop.with_fields(body=body)

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        condition, opposite = branch.condition, negated(branch.condition)
        reads: list[Elements] = []
        pointers: set[Var | None] = set()
        made: list[Elements] = []
        cases: list[Stmt | None] = []
        for held, case in ((condition, branch.then_case), (opposite, branch.else_case)):
            if case is None:
                cases.append(None)
                continue
            with self.analyzer.constraint_scope(held):
                new, found = self.inside(case, self.later)
            cases.append(new)
            reads += under(read_elements(case), held)
            pointers |= read_pointers(case)
            made += under(found, held)
        self.read(reads, pointers)
        self.overwrite(made)
        self.evaluate(condition)
        if cases[0] is branch.then_case and cases[1] is branch.else_case:
            return branch
        return IfThenElse(condition, cases[0], cases[1], branch.span)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        var, value = let.var, let.value
        if var.dtype.is_integer and var.dtype.lanes == 1 and not reads_memory(value):
            self.analyzer.bind(var, value)
        body = self.visit(let.body)
        self.outer = each(self.outer, lambda e: e.replaced(var, value))
        self.made = each(self.made, lambda e: e.replaced(var, value))
        self.evaluate(value)
        return let if body is let.body else let.with_fields(body=body)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        block = realize.block
        if block.match_buffers:  # views of memory that has another name outside
            self.outer, self.made = [], []
            return realize
        self.read(read_elements(realize), read_pointers(realize))
        for iterator in block.iter_vars:
            self.analyzer.bind(iterator.var, iterator.dom)
        self.note_unread([buffer.data for buffer in block.alloc_buffers], realize)
        init = None if block.init is None else self.inside(block.init, [])[0]
        body, _ = self.inside(block.body, [])
        if init is block.init and body is block.body:
            return realize
        return realize.with_fields(block=block.with_fields(init=init, body=body))

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key.startswith(_PLAIN_ATTRIBUTES):
            return self.around(attribute, [attribute.value])
        if not is_of_threads(attribute):
            self.outer, self.made = [], []
            return attribute
        outside, self.together = self.together, True
        self.read(read_elements(attribute), read_pointers(attribute))
        thread = attribute.node.var
        self.analyzer.bind(thread, Range(attribute.value.astype(thread.dtype)))
        body, _ = self.inside(attribute.body, self.later)
        self.together = outside
        return attribute if body is attribute.body else attribute.with_fields(body=body)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        pointer, body = allocation.buffer_var, allocation.body
        self.note_unread([pointer], body)
        if isinstance(body, DeclBuffer) and body.buffer.data is pointer:
            self.overwrite([_all_elements(body.buffer)])  # its memory ends here
        return self.around(allocation, [*allocation.extents, allocation.condition])

    def note_unread(self, pointers: Sequence[Var], scope: Stmt) -> None:
        used = read_pointers(scope) | {load.buffer.data for load in loads(scope)}
        self.unread.update([pointer for pointer in pointers if pointer not in used])

    def visit_AllocateConst(self, allocation: AllocateConst) -> Stmt:
        return self.around(allocation, [])

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> Stmt:
        return self.around(declaration, [])

    def visit_AssertStmt(self, check: AssertStmt) -> Stmt:
        return self.around(check, [check.condition])

    def around(self, stmt: Any, expressions: Sequence[PrimExpr]) -> Stmt:
        """Visit a statement that runs its body once, after some expressions."""
        body = self.visit(stmt.body)
        self.evaluate(*expressions)
        new: Stmt = stmt if body is stmt.body else stmt.with_fields(body=body)
        return new

    def visit_default(self, node: Any) -> Any:
        if isinstance(node, Stmt):
            return self.apart(node)
        return node

    def apart(self, stmt: Stmt) -> Stmt:
        """Visit a statement of which nothing is known: no fact passes its borders."""
        self.outer, self.made = [], []
        new: Stmt = stmt.map_children(self.part)
        return new

    def part(self, node: Any) -> Any:
        return self.inside(node, [])[0] if isinstance(node, Stmt) else node


def without_dead_stores(func: PrimFunc) -> PrimFunc:
    """Return ``func`` without stores that later ones overwrite.

    Parameters may point to the same memory unless the function has the attribute ``tir.noalias``.
    """
    if has_pointer_names(func):
        return func
    overlapping: set[Var] = set()
    if not func.attrs.get("tir.noalias", False):
        overlapping = {buffer.data for buffer in func.buffer_map.values()}
        overlapping |= {param for param in func.params if param.dtype.is_handle}
    return func.with_body(_Remover(overlapping).visit(func.body))
