"""Gives results of reductions over nothing their first values.

    for i, k in T.grid(4, n):           for i in range(4):
        with T.block("C"): ...              if n <= 0:
                                                with T.block("C_init"): ...  # C[i] = 0.0
                                            for k in range(n):
                                                with T.block("C"): ...

A block runs its ``init`` in the first iteration of its reduction. Where a loop of the reduction may
have no iterations, the ``init`` also stands in front of the loops of the reduction, under that
condition.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.arith import Analyzer, estimate_region_strict_bound
from tilesmith.ir import FloorDiv, FloorMod, Not, PrimExpr, Range, Rewriter, Var, const
from tilesmith.ir.operators import all_of, any_of, less_equal, moved
from tilesmith.ir.queries import conjuncts, variables
from tilesmith.tir.expr import BufferRegion, IterVar
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.queries import buffers, reads_memory
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    stmt_seq,
)

__all__ = ["complete_reductions"]


def complete_reductions(body: Stmt) -> Stmt:
    """Return a statement in which reductions over nothing store their first values."""
    return _Completer().visit(body)


class _Completer(Rewriter):
    """Keeps the statements around the present one, up to the block around, from outside inwards."""

    def __init__(self) -> None:
        self.path: list[Stmt] = []
        self.inits: dict[int, list[Stmt]] = {}  # by the id of the loop that they precede

    def visit_For(self, loop: For) -> Stmt:
        self.path.append(loop)
        new = self.children(loop)
        self.path.pop()
        inits = self.inits.pop(id(loop), [])
        return stmt_seq(*inits, new) if inits else new

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        self.path.append(let)
        new = self.children(let)
        self.path.pop()
        return new

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        cases = []
        for condition, case in (
            (branch.condition, branch.then_case),
            (Not(branch.condition), branch.else_case),
        ):
            self.path.append(IfThenElse(condition, branch.then_case))
            cases.append(None if case is None else self.visit(case))
            self.path.pop()
        if cases[0] is branch.then_case and cases[1] is branch.else_case:
            return branch
        return branch.with_fields(then_case=cases[0], else_case=cases[1])

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        if realize.block.init is not None:
            self.complete(realize)
        outer, self.path = self.path, []
        new = self.children(realize)
        self.path = outer
        return new

    def visit_PrimExpr(self, expr: PrimExpr) -> PrimExpr:
        return expr

    def complete(self, realize: BlockRealize) -> None:
        """Note the ``init`` of a block in front of the outermost loop of its reduction, if one of
        these loops may have no iterations.
        """
        reducing: list[PrimExpr] = []
        values: dict[IterVar, PrimExpr] = {}
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
            if iterator.iter_type == IterVar.CommReduce:
                reducing.append(value)
            else:
                values[iterator] = value
        driving = {var for value in reducing for var in _iterating(value)}
        loops = [one for one in self.path if isinstance(one, For) and one.loop_var in driving]
        carried = {loop.loop_var for loop in loops}
        for let in self.path:  # what a let takes from these loops is carried as well
            if isinstance(let, LetStmt) and not carried.isdisjoint(variables(let.value)):
                carried.add(let.var)
        extents = [
            loop.extent for loop in loops if carried.isdisjoint(variables(loop.extent))
        ]  # another extent belongs to a tile, which is not empty
        extents = self.maybe_empty(extents)
        if not extents:
            return
        around = {one.loop_var for one in self.path if isinstance(one, For)}
        driven = [it for it, value in values.items() if not carried.isdisjoint(variables(value))]
        ranges = [iterator.domain for iterator in driven]
        if not around.isdisjoint(variables(extents)) and any(
            set(variables(values[it])) & around - carried for it in driven
        ):  # the domains have parts whose reductions are not empty
            parts = self.reached([values[iterator] for iterator in driven], carried)
            if parts is None:
                return
            ranges = parts
        domains: list[tuple[Var, Range]] = []
        for iterator, domain in zip(driven, ranges):
            domains.append((Var(iterator.var.name, iterator.var.dtype), domain))
            values[iterator] = domains[-1][0]
        inside = self.path[self.path.index(loops[0]) + 1 :]
        init: Stmt = _init_realize(realize, list(values.values()), carried)
        for var, domain in reversed(domains):
            init = For(var, domain.min, domain.extent, ForKind.SERIAL, init)
        nest = _around(init, inside, carried, any_of(*[less_equal(one, 0) for one in extents]))
        self.inits.setdefault(id(loops[0]), []).append(nest)

    def reached(self, values: list[PrimExpr], carried: set[Var]) -> list[Range] | None:
        """Return all that iterators would reach in loops of the reduction that had iterations: the
        formulas hold where there are none as well. None if that is no box."""
        loops = {
            one.loop_var: Range.from_min_extent(one.min, one.extent)
            for one in self.path
            if isinstance(one, For) and one.loop_var in carried
        }
        points = [Range.from_min_extent(value, const(1, value.dtype)) for value in values]
        found = estimate_region_strict_bound(points, loops)
        if found is None:
            return None
        ranges = [
            Range.from_min_extent(part.min_value, moved(part.max_value - part.min_value, 1))
            for part in found
        ]
        return ranges if carried.isdisjoint(variables(ranges)) else None

    def maybe_empty(self, extents: list[PrimExpr]) -> list[PrimExpr]:
        """Return the extents that are not known to be positive."""
        analyzer = Analyzer()
        for loop in self.path:
            if isinstance(loop, For):
                analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        return [one for one in extents if not analyzer.can_prove(one >= 1)]


def _iterating(value: PrimExpr) -> list[Var]:
    """Return the variables of a binding apart from sizes: those that it divides by."""
    if isinstance(value, (FloorDiv, FloorMod)):
        return _iterating(value.a)
    if isinstance(value, Var):
        return [value]
    parts = [child for child in value.children() if isinstance(child, PrimExpr)]
    return [var for part in parts for var in _iterating(part)]


def _init_realize(realize: BlockRealize, values: list[PrimExpr], carried: set[Var]) -> BlockRealize:
    """Return a block that stores the first values, without the iterators of the reduction."""
    block = realize.block
    kept = [it for it in block.iter_vars if it.iter_type != IterVar.CommReduce]
    own = {it.var for it in block.iter_vars} - {it.var for it in kept}
    assert block.init is not None
    views = [match for match in block.match_buffers if own.isdisjoint(variables([match.source]))]
    touched = set(buffers(block.init))
    touched |= {match.source.buffer for match in views if match.buffer in touched}

    def of_init(regions: Sequence[BufferRegion]) -> list[BufferRegion]:
        return [
            region if own.isdisjoint(variables([region])) else BufferRegion.full_region(buffer)
            for region in regions
            if (buffer := region.buffer) in touched
        ]

    reads = of_init(block.reads) if reads_memory(block.init) else []
    init = Block(
        kept, reads, of_init(block.writes), block.name_hint + "_init",
        block.init, None, (), views, span=block.span,
    )  # fmt: skip
    clauses = [one for one in conjuncts(realize.predicate) if carried.isdisjoint(variables(one))]
    return BlockRealize(values, all_of(*clauses) if clauses else const(True, "bool"), init)


def _around(stmt: Stmt, inside: list[Stmt], carried: set[Var], condition: PrimExpr) -> Stmt:
    """Return a statement under copies of the loops and conditions that it needs, and under the
    condition that the reduction is empty.
    """
    mentioned = set(variables(condition))
    copied = [one for one in inside if not _depends(one, carried)]
    bound = {one.loop_var if isinstance(one, For) else getattr(one, "var", None) for one in copied}
    is_inner = not mentioned.isdisjoint(bound)
    if is_inner:
        stmt = IfThenElse(condition, stmt)
    for one in reversed(copied):
        if isinstance(one, For):
            stmt = one.with_fields(body=stmt)
        elif isinstance(one, LetStmt):
            stmt = LetStmt(one.var, one.value, stmt, one.span)
        elif isinstance(one, IfThenElse):
            stmt = IfThenElse(one.condition, stmt)
    return renew_defs(stmt if is_inner else IfThenElse(condition, stmt))


def _depends(stmt: Stmt, carried: set[Var]) -> bool:
    """Return whether a loop, condition or let is about the reduction, so that the first values do
    not need it.
    """
    if isinstance(stmt, For):
        return stmt.loop_var in carried
    about = stmt.value if isinstance(stmt, LetStmt) else getattr(stmt, "condition", None)
    return about is not None and not carried.isdisjoint(variables(about))
