"""Defines rfactor, which makes the iterations of a reduction loop independent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.intrinsics import if_then_else
from tilesmith.ir.operators import all_of, is_const
from tilesmith.ir.queries import conjuncts, mentions, variables
from tilesmith.tir.analysis import get_block_access_region
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.functor import Substitution
from tilesmith.tir.schedule.blocks import check_reduction_starts, scope_of, why_not_reduction
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import (
    analyzer_for,
    domain_of_loops,
    iterator_values,
    loop_range,
)
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.combiners import Combiner, combiner_of
from tilesmith.tir.schedule.primitives.reduction import add_allocation, with_block
from tilesmith.tir.schedule.repetition import runs_once
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    Stmt,
    stmt_list,
    stmt_seq,
)

__all__ = ["rfactor"]


@primitive(trace="RFactor")
def rfactor(loop: LoopCursor, factor_axis: int) -> BlockCursor:
    """Make the iterations of a reduction loop independent: the first block stores partial results
    in a buffer with one more dimension (at ``factor_axis``), a second block combines them; returns
    the first block.
    """
    blocks = loop.blocks_below()
    if len(blocks) != 1:
        raise refuse("the loop must hold exactly one block", loop)
    stmt = loop.stmt
    if stmt.kind is not ForKind.SERIAL:
        reason = f"loop '{stmt.loop_var.name}' is not serial"
        advice = "rfactor first; bind, vectorize or unroll the loop of the new block"
        raise refuse(reason, loop, advice)
    block = blocks[0]
    scope = scope_of(block)
    reason = why_not_reduction(block, scope)
    realize = block.stmt
    if reason:
        raise refuse(f"block '{realize.block.name_hint}' is not a reduction block: {reason}", block)
    loops = block.loops()
    shared = _shared_loops(block, loops)
    combiner = combiner_of(block)
    values = iterator_values(block)
    if any(one is not other for one, other in zip(values, realize.iter_values)):
        raise refuse(
            f"variables lie between block '{realize.block.name_hint}' and its loops (lets)",
            block,
            "bind the iterators to the loops themselves",
        )
    if realize.block.match_buffers:
        raise refuse(
            f"block '{realize.block.name_hint}' sees its buffers through views (match_buffer)",
            block,
            "write the accesses to the buffers themselves",
        )
    stmt = loop.stmt
    check_reduction_starts(block)
    _check_rfactor_loops(realize, stmt, loops, loop)
    ndim = len(combiner.indices)
    if not -ndim - 1 <= factor_axis <= ndim:
        raise refuse(
            f"factor_axis {factor_axis} is not within {ndim} dimensions",
            loop,
            f"the new axis can stand at 0 (before the first dimension) to {ndim} (behind the last)",
        )
    factor_axis = factor_axis if factor_axis >= 0 else factor_axis + ndim + 1
    return _Rfactor(block, loop, combiner, factor_axis).apply(loops, shared, scope)


def _shared_loops(block: BlockCursor, loops: Sequence[LoopCursor]) -> int:
    """Return how many of the loops around a reduction hold other blocks too.

    These may not drive the reduction; the partial results, which are computed in front of them all,
    may not depend on what the other blocks write.
    """
    shared = 0
    for number, (outer, inner) in enumerate(zip(loops, loops[1:])):
        if outer.stmt.body is inner.stmt:
            continue
        if not any(part is inner.stmt for part in stmt_list(outer.stmt.body)):
            raise refuse("the loops around the block hold other statements too", outer)
        shared = number + 1
    realize = block.stmt
    reduced = [
        value
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values)
        if iterator.iter_type == IterVar.CommReduce
    ]
    for outer in loops[:shared]:
        if mentions(reduced, {outer.stmt.loop_var}):
            raise refuse("the reduction loops around the block hold other statements too", outer)
    if not shared:
        return 0
    own = [region.buffer for region in (*realize.block.reads, *realize.block.writes)]
    for other in loops[0].blocks_below():
        if other != block and any(region.buffer in own for region in other.block.writes):
            raise refuse(
                f"block '{other.block.name_hint}' writes what block '{realize.block.name_hint}' "
                "uses; the partial results are computed in front of their common loops",
                other,
            )
    if _accesses_outside_blocks(loops[0].stmt):
        raise refuse("the loops around the block hold statements outside of blocks", loops[0])
    return shared


def _accesses_outside_blocks(stmt: Stmt) -> bool:
    """Return whether something outside of all blocks below a statement accesses memory."""
    stack: list[Any] = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, (BufferLoad, BufferStore)):
            return True
        if not isinstance(node, BlockRealize):
            stack.extend(node.children())
    return False


def _check_rfactor_loops(
    realize: BlockRealize, loop: For, loops: Sequence[LoopCursor], loop_cursor: LoopCursor
) -> None:
    spatial: set[Var] = set()
    reduction: set[Var] = set()
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        group = reduction if iterator.iter_type == IterVar.CommReduce else spatial
        group.update(variables(value))
    is_idle = is_const(loop.extent, 1) and loop.loop_var not in spatial
    if loop.loop_var not in reduction and not is_idle or loop.loop_var in spatial:
        raise refuse(
            f"loop '{loop.loop_var.name}' does not drive reduction iterators only",
            loop_cursor,
            "reduction loops of the block: "
            + (", ".join(sorted([v.name for v in reduction - spatial])) or "none"),
        )
    around = {cursor.stmt.loop_var for cursor in loops}
    for other in loops:
        variable = other.stmt.loop_var
        if variable in reduction and mentions(loop_range(other.stmt), around):
            raise refuse(
                f"the range of loop '{variable.name}' depends on other loops",
                other,
                "the buffer of partial results needs one shape for all of their iterations",
            )
        if variable in reduction and variable in spatial:
            raise refuse(f"loop '{variable.name}' drives both kinds of iterators", other)
    driving = [other.stmt for other in loops if other.stmt.loop_var in reduction]
    if not runs_once(realize, driving):
        raise refuse(
            f"the reduction loops of block '{realize.block.name_hint}' may run several times "
            "through its reduction, and each time would add to the partial results",
            loop_cursor,
            "do not fuse a loop that repeats the block with a reduction loop",
        )


def _from_zero(loop: For) -> PrimExpr:
    """Return the number of an iteration of a loop."""
    return loop.loop_var if is_const(loop.min, 0) else loop.loop_var - loop.min


class _Rfactor:
    """The two blocks that replace the original one.

    The factored block computes ``partial[..., f, ...]`` under all loops, with iterator f for the
    factored loop; the write-back block combines the partial results over f. Where a choice has
    equal candidates, it may fall on another one of them than before.
    """

    def __init__(
        self, cursor: BlockCursor, loop_cursor: LoopCursor, combiner: Combiner, factor_axis: int
    ) -> None:
        self.cursor = cursor
        self.loop_cursor = loop_cursor
        self.combiner = combiner
        self.axis = factor_axis
        self.realize = cursor.stmt
        self.block = self.realize.block
        self.loop = loop_cursor.stmt
        self.partials: list[Buffer] = []
        for target in combiner.buffers:
            shape = list(target.shape)
            shape.insert(factor_axis, self.loop.extent)
            self.partials.append(
                decl_buffer(shape, target.dtype, target.name + "_rf", scope=target.scope())
            )

    def _partial_indices(self, indices: Any, factor: PrimExpr) -> list[PrimExpr]:
        new = list(indices)
        new.insert(self.axis, factor)
        return new

    def factored(self, loops: Sequence[LoopCursor]) -> BlockRealize:
        """Return the block that computes partial results."""
        block, combiner = self.block, self.combiner
        factor = self._factor_iterator(IterVar.DataPar)
        iterators: list[IterVar] = [factor]
        values: list[PrimExpr] = [_from_zero(self.loop)]
        mapping: dict[Var, PrimExpr] = {}
        added: dict[Var, IterVar] = {self.loop.loop_var: factor}
        for iterator, value in zip(block.iter_vars, self.realize.iter_values):
            if iterator.iter_type == IterVar.CommReduce and mentions(value, {self.loop.loop_var}):
                # The iterator becomes an expression of one iterator for each loop that drives it.
                replacements: dict[Var, PrimExpr] = {}
                for variable in variables(value):
                    if all(s.stmt.loop_var is not variable for s in loops):
                        continue  # a size
                    if variable not in added:
                        added[variable] = self._iterator_of(variable, loops)
                        iterators.append(added[variable])
                        values.append(variable)
                    replacements[variable] = self._value_of(variable, added[variable])
                mapping[iterator.var] = Substitution(replacements).visit(value)
                continue
            new = IterVar(
                iterator.dom, Var(iterator.var.name, iterator.var.dtype), iterator.iter_type
            )
            mapping[iterator.var] = new.var
            iterators.append(new)
            values.append(value)
        replace = Substitution(mapping)
        indices = self._partial_indices(
            [replace.visit(index) for index in combiner.indices], factor.var
        )
        identities = [replace.visit(identity) for identity in combiner.identities]
        predicate, guard = self._conditions(loops, added)
        values_in = [replace.visit(value) for value in combiner.values]
        if guard is not None:
            values_in = [
                if_then_else(guard, value, identity)
                for value, identity in zip(values_in, identities)
            ]
        if any(iterator.iter_type == IterVar.CommReduce for iterator in iterators):
            body = combiner.update(self.partials, indices, values_in)
            init = combiner.initialise(self.partials, indices, identities)
        else:  # each partial result is one value
            body, init = combiner.initialise(self.partials, indices, values_in), None
        made = Block(
            tuple(iterators),
            [replace.visit(region) for region in block.reads],
            [BufferRegion.from_point(partial, indices) for partial in self.partials],
            block.name_hint + "_rf",
            body,
            init,
            annotations=block.annotations,
            span=block.span,
        )
        return BlockRealize(tuple(values), predicate, made)

    def _conditions(
        self, loops: Sequence[LoopCursor], iterators: dict[Var, IterVar]
    ) -> tuple[PrimExpr, PrimExpr | None]:
        """Return the predicate of the factored block, and a guard of its value.

        Each partial result must be initialised. So a condition that can fail for some iteration of
        the factored loop in all iterations of the others guards the value instead.
        """
        conditions = conjuncts(self.realize.predicate)
        if not conditions:
            return const(True, "bool"), None
        analyzer = analyzer_for(self.cursor)
        inner = [s.stmt for s in loops if s.stmt.loop_var in iterators]
        first = Substitution({loop.loop_var: loop.min for loop in inner if loop is not self.loop})
        rename = Substitution({v: self._value_of(v, i) for v, i in iterators.items()})
        kept: list[PrimExpr] = []
        moved: list[PrimExpr] = []
        for clause in conditions:
            uses_loop = mentions(clause, {self.loop.loop_var})
            if not uses_loop or analyzer.can_prove(first.visit(clause)):
                kept.append(clause)
                continue
            for variable in variables(clause):
                if variable not in iterators and variable in domain_of_loops(loops):
                    reason = f"a condition ties loop '{variable.name}' to the factored loop"
                    raise refuse(reason, self.loop_cursor)
            moved.append(rename.visit(clause))
        predicate = all_of(*kept) if kept else const(True, "bool")
        return predicate, all_of(*moved) if moved else None

    def _iterator_of(self, variable: Var, loops: Sequence[LoopCursor]) -> IterVar:
        loop = next(s.stmt for s in loops if s.stmt.loop_var is variable)
        return IterVar(
            loop_range(loop), Var("v" + variable.name, variable.dtype), IterVar.CommReduce
        )

    def _value_of(self, variable: Var, iterator: IterVar) -> PrimExpr:
        """Return the value of a loop variable in terms of its iterator: the factored loop counts
        from 0 there, as the places of partial results do."""
        is_factored = variable is self.loop.loop_var and not is_const(self.loop.min, 0)
        return iterator.var + self.loop.min if is_factored else iterator.var

    def write_back(self, loops: Sequence[LoopCursor], shared: int) -> Stmt:
        """Return the nest that combines the partial results: spatial loops and the factored one;
        it stays inside of the loops that it shares with other blocks."""
        pairs = list(zip(self.block.iter_vars, self.realize.iter_values))
        spatial = [value for iterator, value in pairs if iterator.iter_type == IterVar.DataPar]
        needed = {self.loop.loop_var, *variables(spatial)}
        # Conditions on reduction loops are checked in the factored block. The others may
        # name loops of one iteration besides.
        reduced = [value for iterator, value in pairs if iterator.iter_type != IterVar.DataPar]
        driven = {s.stmt.loop_var for s in loops}
        gone = {self.loop.loop_var, *driven.intersection(variables(reduced))}
        kept = [c for c in conjuncts(self.realize.predicate) if not gone & set(variables(c))]
        needed.update(variables(kept))
        # Loops of one iteration stay: the block is found under as many loops as before.
        for one in (s.stmt for s in loops):
            if is_const(one.extent, 1) and is_const(one.min) and one.loop_var not in gone:
                needed.add(one.loop_var)
        nest: list[tuple[For, Var]] = []
        for cursor in loops[shared:]:
            loop = cursor.stmt
            if loop.loop_var in needed:
                nest.append((loop, Var(loop.loop_var.name, loop.loop_var.dtype)))
        relocated: dict[Var, PrimExpr] = {loop.loop_var: variable for loop, variable in nest}
        relocate = Substitution(relocated)
        self.final = self._final_block()
        values = [
            relocate.visit(_from_zero(self.loop)),
            *[relocate.visit(value) for value in spatial],
        ]
        predicate = all_of(*[relocate.visit(c) for c in kept]) if kept else const(True, "bool")
        body: Stmt = BlockRealize(tuple(values), predicate, self.final)
        for loop, variable in reversed(nest):
            plain = loop is self.loop
            body = For(
                variable,
                relocate.visit(loop.min),
                relocate.visit(loop.extent),
                ForKind.SERIAL if plain else loop.kind,
                body,
                None if plain else loop.thread_binding,
                span=loop.span,
            )
        return body

    def _factor_iterator(self, kind: int) -> IterVar:
        """Return an iterator for the factored loop."""
        loop, variable = self.loop, self.loop.loop_var
        domain = Range.from_min_extent(const(0, variable.dtype), loop.extent)
        return IterVar(domain, Var("v" + variable.name, variable.dtype), kind)

    def _final_block(self) -> Block:
        """Return the block that combines the partial results over the factored loop."""
        block, combiner = self.block, self.combiner
        factor = self._factor_iterator(IterVar.CommReduce)
        iterators = [factor]
        mapping: dict[Var, PrimExpr] = {}
        for iterator in block.iter_vars:
            if iterator.iter_type == IterVar.DataPar:
                own = Var(iterator.var.name, iterator.var.dtype)
                mapping[iterator.var] = own
                iterators.append(IterVar(iterator.dom, own, IterVar.DataPar))
        replace = Substitution(mapping)
        indices = [replace.visit(index) for index in combiner.indices]
        places = self._partial_indices(indices, factor.var)
        values = [BufferLoad(partial, places) for partial in self.partials]
        starts = [replace.visit(start) for start in combiner.starts]
        final = Block(
            tuple(iterators),
            [BufferRegion.from_point(partial, places) for partial in self.partials],
            [BufferRegion.from_point(target, indices) for target in combiner.buffers],
            block.name_hint,
            combiner.update(combiner.buffers, indices, values),
            combiner.initialise(combiner.buffers, indices, starts),
            annotations=block.annotations,
            span=block.span,
        )
        results = {*self.partials, *combiner.buffers}
        found, _, _ = get_block_access_region(final, {})
        # What the places and the starts read:
        others = [region for region in found if region.buffer not in results]
        return final.with_fields(reads=(*final.reads, *others))

    def apply(self, loops: Sequence[LoopCursor], shared: int, scope: BlockCursor) -> BlockCursor:
        """Insert both blocks into the program; returns the first one."""
        factored = self.factored(loops)
        back = self.write_back(loops, shared)
        first = loops[0].stmt
        if shared:
            nest = self._in_front(loops, factored)
            rest = _with_statement(first, loops[shared].stmt, back)
        else:
            nest, rest = with_block(first, self.realize, factored), back
        # The reduction block's identity goes on to the write-back block, as users expect.
        loops[0].replace(stmt_seq(nest, rest), {self.block: self.final})
        add_allocation(scope, self.partials)
        return loops[0].block_of(factored.block)

    def _in_front(self, loops: Sequence[LoopCursor], factored: BlockRealize) -> Stmt:
        """Return the factored block under copies of all its loops."""
        fresh = {s.stmt.loop_var: Var(s.stmt.loop_var.name, s.stmt.loop_var.dtype) for s in loops}
        rename = Substitution(fresh)
        nest: Stmt = factored.with_fields(
            iter_values=tuple([rename.visit(value) for value in factored.iter_values]),
            predicate=rename.visit(factored.predicate),
        )
        for cursor in reversed(loops):
            loop = cursor.stmt
            nest = loop.with_fields(
                loop_var=fresh[loop.loop_var],
                min=rename.visit(loop.min),
                extent=rename.visit(loop.extent),
                body=nest,
            )
        return nest


def _with_statement(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """Return a nest of loops with one statement replaced."""
    if stmt is old:
        return new
    if isinstance(stmt, For):
        return stmt.with_fields(body=_with_statement(stmt.body, old, new))
    parts = stmt_list(stmt)
    return stmt_seq(*[_with_statement(one, old, new) for one in parts]) if parts[1:] else stmt
