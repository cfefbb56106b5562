"""Shared parts of the primitives: rewriting with stable identities, ranges of loops, bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer, find_iter_map
from tilesmith.arith.iter_nodes import sum_of_digits
from tilesmith.ir import (
    Add,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Range,
    Rewriter,
    Var,
)
from tilesmith.ir.operators import all_of, cast, is_const
from tilesmith.ir.queries import conjuncts, variables
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.functor import Substitution
from tilesmith.tir.redirection import AccessRedirection, ViewRedirection
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.state import child_statements
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, LetStmt, Stmt, stmt_seq

__all__ = [
    "Rebuild",
    "Redirect",
    "SimplifiedSubstitution",
    "SimplifyBindings",
    "analyzer_for",
    "append_predicate",
    "domain_around",
    "domain_of_loops",
    "is_one",
    "loop_range",
    "parent_of",
    "remove_block",
    "rewrite",
    "iterator_values",
    "without_lets",
    "without_views",
]


class Rebuild(Rewriter):
    """A rewriter that records the replacement of each block, so that blocks keep their identity."""

    def __init__(self) -> None:
        self.reuse: dict[Block, Block] = {}

    def visit_Block(self, block: Block) -> Block:
        """Rewrite the body and record the change."""
        new = self.children(block)
        if new is not block:
            self.reuse[block] = new
        return new


class SimplifiedSubstitution(Substitution):
    """Replaces variables; indices and ranges that change are simplified."""

    def __init__(self, mapping: Mapping[Var, PrimExpr], analyzer: Analyzer) -> None:
        super().__init__(mapping)
        self.analyzer = analyzer

    def _simplified(self, old: PrimExpr, new: PrimExpr) -> PrimExpr:
        return old if new is old else simplified(self.analyzer, new)

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        """Rewrite a read, with simple indices."""
        new = self.children(load)
        if new is load:
            return load
        indices = [self._simplified(a, b) for a, b in zip(load.indices, new.indices)]
        return new.with_fields(indices=tuple(indices))

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        """Rewrite a write, with simple indices."""
        new = self.children(store)
        if new is store:
            return store
        indices = [self._simplified(a, b) for a, b in zip(store.indices, new.indices)]
        return new.with_fields(indices=tuple(indices))

    def visit_Range(self, part: Range) -> Range:
        """Rewrite one axis of a region."""
        new = self.children(part)
        if new is part:
            return part
        low = self._simplified(part.min, new.min)
        return Range.from_min_extent(low, self._simplified(part.extent, new.extent))


class Redirect(AccessRedirection):
    """Redirects the accesses of one buffer; records the replacement of each block."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old = old
        self.new = new
        self.reuse: dict[Block, Block] = {}

    def redirected(self, buffer: Buffer) -> Buffer | None:
        """Return the new buffer in place of the old one."""
        return self.new if buffer is self.old else None

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Sequence[PrimExpr]:
        """Return the indices: those given."""
        return indices

    def visit_Block(self, block: Block) -> Block:
        """Rewrite the inside and the allocations, and note the change."""
        new = super().visit_Block(block)
        if new is not block:
            self.reuse[block] = new
        return new


def rewrite(cursor: Cursor, rewriter: Rebuild | Redirect | Substitution) -> None:
    """Rewrite a loop or block with all that is in it; blocks keep their identities."""
    cursor.replace(rewriter.visit(cursor.stmt), rewriter.reuse)


def without_views(block: Block, stmt: Stmt) -> Stmt:
    """Return ``stmt``, a part of a block, with accesses through the block's views redirected to
    their source buffers.
    """
    sources = {match.buffer: match.source for match in block.match_buffers}
    changed: Stmt = ViewRedirection(sources).visit(stmt)
    return changed


class SimplifyBindings(Rebuild):
    """Writes the bindings of the nearest blocks' iterators as sums of digits of the loops.

    Bindings that are not such sums stay as they are, and so do predicates: schedules that users
    know spell a split loop there as ``(i_0 * 8 + i_1) * 4 + i_2``. Without ``preserve_unit_iters``,
    the variable of a loop of one iteration becomes its only value.
    """

    def __init__(self, domain: dict[Var, Range], preserve_unit_iters: bool) -> None:
        super().__init__()
        self.domain = domain
        self.preserve_unit_iters = preserve_unit_iters

    def visit_For(self, loop: For) -> For:
        """Record the loop's range, then go on inside."""
        self.domain[loop.loop_var] = loop_range(loop)
        body = self.visit(loop.body)
        return loop if body is loop.body else loop.with_fields(body=body)

    def visit_BlockRealize(self, realize: BlockRealize) -> BlockRealize:
        """Simplify the bindings; the inside of the block stays."""
        values = realize.iter_values
        if all(self._is_plain(value) for value in values):
            return realize
        found = find_iter_map(
            values,
            self.domain,
            realize.predicate,
            simplify_trivial_iterators=not self.preserve_unit_iters,
        )
        if not found.indices:
            return realize
        bounded = [
            frozenset(variables(clause)).intersection(self.domain)
            for clause in conjuncts(realize.predicate)
        ]
        written = [sum_of_digits(form, bounded) for form in found.indices]
        return realize.with_fields(
            iter_values=tuple([cast(old.dtype, new) for old, new in zip(values, written)])
        )

    def _is_plain(self, value: PrimExpr) -> bool:
        """Return whether an expression is already simple: a loop variable, a constant, or the
        result of a split or fuse of a plain variable.
        """
        if isinstance(value, Var):
            return self._is_loop(value)
        if isinstance(value, Add) and isinstance(value.a, Mul):
            outer, inner, factor = value.a.a, value.b, value.a.b
            return (
                isinstance(factor, IntImm)
                and isinstance(outer, Var)
                and isinstance(inner, Var)
                and self._is_loop(outer)
                and self._is_loop(inner)
                and self._extent(inner) == factor.value
            )
        if isinstance(value, (FloorDiv, FloorMod)) and isinstance(value.a, Var):
            extent, by = self._extent(value.a), value.b
            return isinstance(by, IntImm) and 1 < by.value < extent and extent % by.value == 0
        return is_const(value)

    def _is_loop(self, variable: Var) -> bool:
        domain = self.domain.get(variable)
        return self.preserve_unit_iters or domain is None or not is_one(domain.extent)

    def _extent(self, variable: Var) -> int:
        """Return the extent of a loop that starts at 0; 0 if it is not constant."""
        domain = self.domain.get(variable)
        if domain is None or not isinstance(domain.extent, IntImm) or not is_const(domain.min, 0):
            return 0
        return int(domain.extent.value)

    def visit_PrimExpr(self, expr: PrimExpr) -> PrimExpr:
        """Keep expressions outside of bindings."""
        return expr

    def visit_Var(self, variable: Var) -> PrimExpr:
        """Keep variables outside of bindings."""
        return variable


def simplified(analyzer: Analyzer, expr: PrimExpr) -> PrimExpr:
    """Return ``expr`` simplified; variables and constants are returned at once."""
    if isinstance(expr, Var) or is_const(expr):
        return expr
    return analyzer.simplify(expr)


def is_one(expr: PrimExpr) -> bool:
    """Return whether an expression is the constant 1."""
    return is_const(expr, 1)


def loop_range(loop: For) -> Range:
    """Return the range of a loop's variable."""
    return Range.from_min_extent(loop.min, loop.extent)


def analyzer_for(cursor: Cursor) -> Analyzer:
    """Return an analyzer that knows the ranges of the loops around a statement, across blocks."""
    analyzer = Analyzer()
    for ancestor in reversed(list(cursor.ancestors())):
        stmt = ancestor.stmt
        if isinstance(stmt, For):
            analyzer.bind(stmt.loop_var, loop_range(stmt))
        else:
            for iterator in stmt.block.iter_vars:
                analyzer.bind(iterator.var, iterator.domain)
    return analyzer


def domain_around(cursor: Cursor) -> dict[Var, Range]:
    """Return the ranges of the loops around a statement, up to the next block."""
    return domain_of_loops(cursor.loops())


def domain_of_loops(cursors: Sequence[LoopCursor]) -> dict[Var, Range]:
    """Return the ranges of the variables of some loops."""
    return {cursor.stmt.loop_var: loop_range(cursor.stmt) for cursor in cursors}


class _AppendPredicate(Rebuild):
    """Adds a condition to the nearest blocks."""

    def __init__(self, condition: PrimExpr) -> None:
        super().__init__()
        self.condition = condition

    def visit_BlockRealize(self, realize: BlockRealize) -> BlockRealize:
        predicate = all_of(realize.predicate, self.condition)
        return realize.with_fields(predicate=predicate)

    def visit_PrimExpr(self, expr: PrimExpr) -> PrimExpr:
        return expr

    def visit_Var(self, variable: Var) -> PrimExpr:
        return variable


def append_predicate(stmt: Stmt, condition: PrimExpr) -> Stmt:
    """Add a condition to the nearest blocks in ``stmt``."""
    return _AppendPredicate(condition).visit(stmt)


def parent_of(cursor: Cursor) -> Cursor:
    """Return the directly enclosing loop or block; raises a refusal if there is none."""
    found = cursor.parent()
    if found is None:
        raise refuse("no loop or block stands around it", cursor)
    return found


def remove_block(cursor: BlockCursor) -> None:
    """Remove a block from the program, and the loops that become empty."""
    top: Cursor = cursor
    parent = parent_of(top)
    while len(child_statements(parent.stmt)) == 1:
        if isinstance(parent, BlockCursor):
            raise refuse("it is the only statement of its scope", cursor)
        top, parent = parent, parent_of(parent)
    top.replace(stmt_seq())


def iterator_values(cursor: BlockCursor) -> list[PrimExpr]:
    """Return the values of a block's iterators in terms of loop variables: what lets between the
    loops stand for is written out.
    """
    return without_lets(cursor, cursor.stmt.iter_values)


def without_lets(cursor: Cursor, nodes: Sequence[Any]) -> list[Any]:
    """Return expressions or ranges of a block in terms of loop variables only: let variables
    between the loops are replaced by their values.
    """
    used = set(variables(nodes))
    loops = {loop.stmt.loop_var for loop in cursor.loops()}
    found = list(nodes)
    if used <= loops:
        return found
    inner: Any = cursor.stmt
    for ancestor in cursor.ancestors():
        outer = ancestor.stmt
        for let in reversed(_lets_towards(outer, inner)):
            replace = Substitution({let.var: let.value})
            found = [replace.visit(node) for node in found]
        inner = outer
    return found


def _lets_towards(outer: Any, inner: Any) -> list[LetStmt]:
    """Return the lets between a loop (or block) and a statement directly below it."""

    def walk(stmt: Any) -> list[LetStmt] | None:
        if stmt is inner:
            return []
        if isinstance(stmt, (For, BlockRealize)):
            return None
        for child in stmt.children():
            found = walk(child) if isinstance(child, Stmt) else None
            if found is not None:
                return [stmt, *found] if isinstance(stmt, LetStmt) else found
        return None

    return walk(outer.block.body if isinstance(outer, BlockRealize) else outer.body) or []
