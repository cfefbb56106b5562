"""Primitives on reductions: decompose_reduction and rfactor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith import IterMapLevel, detect_iter_map
from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.intrinsics import if_then_else
from tilesmith.ir.operators import all_of, is_const
from tilesmith.ir.queries import conjuncts, mentions, variables
from tilesmith.tir.analysis import get_block_access_region
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.functor import Substitution
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule.blocks import check_reduction_starts, scope_of, why_not_reduction
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import (
    analyzer_for,
    domain_of_loops,
    loop_range,
    without_views,
)
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.combiners import Combiner, combiner_of
from tilesmith.tir.schedule.primitives.copies import without_lets
from tilesmith.tir.stmt import Block, BlockRealize, For, ForKind, Stmt, stmt_seq

__all__ = ["decompose_reduction", "rfactor"]


@primitive()
def decompose_reduction(block: BlockCursor, loop: LoopCursor) -> BlockCursor:
    """Split a reduction block into an initialisation, inserted before ``loop``, and an update.

    Gives the block of the initialisation.
    """
    realize = block.stmt
    node = realize.block
    scope = scope_of(block)
    reason = why_not_reduction(block, scope)
    if reason:
        raise refuse(
            f"block '{node.name_hint}' is not a reduction block: {reason}",
            block,
            "only a block with T.init() can be split into an initialisation and an update",
        )
    loops = block.loops()
    if loop not in loops:
        raise refuse(f"the loop is not an ancestor of block '{node.name_hint}'", loop)
    inside = loops[loops.index(loop) :]
    bound = realize.with_fields(iter_values=without_lets(block, realize.iter_values))
    check_reduction_starts(block)
    _check_no_repetition(bound, inside)
    _check_no_outer_reduction(bound, loops[: loops.index(loop)], loop)
    _check_start_is_known(block, loop)
    init_nest, init_block = _init_nest(bound, inside)
    reads = [*node.writes, *node.reads]
    update = Block(
        node.iter_vars, reads, node.writes, node.name_hint + "_update", node.body, None,
        node.alloc_buffers, node.match_buffers, node.annotations, node.span,
    )  # fmt: skip
    replaced = _replace_block(loop.stmt, realize, realize.with_fields(block=update))
    loop.replace(stmt_seq(init_nest, replaced), {node: update})
    return loop.block_of(init_block)


def _check_start_is_known(block: BlockCursor, loop: LoopCursor) -> None:
    """Check that what a reduction starts from is computed before the chosen loop."""
    init = block.block.init
    read = [] if init is None else [load.buffer for load in loads(init)]
    for other in loop.blocks_below():
        written = [region.buffer for region in other.block.writes]
        if other != block and any(buffer in read for buffer in written):
            raise refuse(
                f"the init of block '{block.block.name_hint}' reads what block "
                f"'{other.block.name_hint}' writes inside of loop '{loop.stmt.loop_var.name}'",
                loop,
                "choose a loop inside of which only the reduction stands",
            )


def _replace_block(stmt: Stmt, old: BlockRealize, new: BlockRealize) -> Stmt:
    if stmt is old:
        return new
    if isinstance(stmt, BlockRealize):
        return stmt
    return stmt.map_children(
        lambda child: _replace_block(child, old, new) if isinstance(child, Stmt) else child
    )


def _check_no_repetition(realize: BlockRealize, inside: Sequence[LoopCursor]) -> None:
    """Check that no loop from the chosen one inwards merely repeats the block: its results would
    accumulate repeatedly.
    """
    driving = set(variables(realize.iter_values))
    for cursor in inside:
        loop = cursor.stmt
        if loop.loop_var not in driving and not is_const(loop.extent, 1):
            raise refuse(
                f"loop '{loop.loop_var.name}' repeats block '{realize.block.name_hint}', which "
                "has to be initialised each time",
                cursor,
                "decompose at a loop inside of it",
            )
    ranges = {cursor.stmt.loop_var: loop_range(cursor.stmt) for cursor in inside}
    values = list(realize.iter_values)
    once = not values or any(
        detect_iter_map(values, ranges, condition, IterMapLevel.Bijective).indices
        for condition in (True, realize.predicate)
    )
    if not once:
        raise refuse(
            f"block '{realize.block.name_hint}' may run several times for the same values of its "
            f"iterators, and has to be initialised each time",
            inside[0],
            "decompose at a loop further in",
        )


def _check_no_outer_reduction(
    realize: BlockRealize, outer: Sequence[LoopCursor], loop_cursor: LoopCursor
) -> None:
    """Check that no loop outside the chosen one drives a reduction: the result would be initialised
    repeatedly.
    """
    for cursor in outer:
        variable = cursor.stmt.loop_var
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
            if iterator.iter_type == IterVar.CommReduce and mentions(value, {variable}):
                raise refuse(
                    f"loop '{variable.name}' carries the reduction iterator "
                    f"'{iterator.var.name}' and is outside of "
                    f"loop '{loop_cursor.stmt.loop_var.name}'",
                    cursor,
                    "decompose at this loop or further out",
                )


def _reads_of(block: Block) -> tuple[BufferRegion, ...]:
    """Return the regions that an initialisation reads: its start values and tables of indices."""
    if next(loads(block.body), None) is None:
        return ()
    return tuple(get_block_access_region(block, {})[0])


def _init_predicate(predicate: PrimExpr, gone: list[For]) -> PrimExpr:
    """Return the part of a block's predicate that applies to its initialisation, which lacks some
    loops.

    A condition on a loop that is gone speaks of the reduction only: the rest is kept. A loop of one
    iteration says nothing, also next to one that stays.
    """
    single = Substitution({loop.loop_var: loop.min for loop in gone if is_const(loop.extent, 1)})
    dropped = {loop.loop_var for loop in gone}
    kept = [
        clause
        for clause in conjuncts(single.visit(predicate))
        if not dropped.intersection(variables(clause))
    ]
    return all_of(*kept) if kept else const(True, "bool")


def _init_nest(realize: BlockRealize, inside: Sequence[LoopCursor]) -> tuple[Stmt, Block]:
    """Return the initialisation block under copies of the loops that its iterators need."""
    block = realize.block
    assert block.init is not None  # it is a reduction block
    renamed: dict[Var, PrimExpr] = {}
    iterators, values = [], []
    for iterator, value in zip(block.iter_vars, realize.iter_values):
        if iterator.iter_type != IterVar.CommReduce:
            new = IterVar(
                iterator.dom,
                Var(iterator.var.name + "_init", iterator.var.dtype),
                iterator.iter_type,
            )
            renamed[iterator.var] = new.var
            iterators.append(new)
            values.append(value)
    needed = set(variables(values))
    nest: list[tuple[For, Var]] = []
    loop_mapping: dict[Var, PrimExpr] = {}
    for cursor in inside:
        loop = cursor.stmt
        if loop.loop_var in needed:
            variable = Var(loop.loop_var.name + "_init", loop.loop_var.dtype)
            nest.append((loop, variable))
            loop_mapping[loop.loop_var] = variable
    dropped = {cursor.stmt.loop_var for cursor in inside} - set(loop_mapping)
    rename, relocate = Substitution(renamed), Substitution(loop_mapping)
    init_block = Block(
        tuple(iterators),
        (),
        [rename.visit(region) for region in block.writes],
        block.name_hint + "_init",
        rename.visit(without_views(block, block.init)),
        annotations=block.annotations,
        span=block.span,
    )
    init_block = init_block.with_fields(reads=_reads_of(init_block))
    gone = [loop for loop in [s.stmt for s in inside] if loop.loop_var in dropped]
    predicate = relocate.visit(_init_predicate(realize.predicate, gone))
    body: Stmt = BlockRealize([relocate.visit(value) for value in values], predicate, init_block)
    for loop, variable in reversed(nest):
        # A thread that updates elements sets them before: the binding to threads stays.
        body = loop.with_fields(
            loop_var=variable,
            min=relocate.visit(loop.min),
            extent=relocate.visit(loop.extent),
            body=body,
        )
    return body, init_block


# --- rfactor --------------------------------------------------------------------------------------


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
    for outer, inner in zip(loops, loops[1:]):
        if outer.stmt.body is not inner.stmt:
            raise refuse("the loops around the block hold other statements too", outer)
    combiner = combiner_of(block)
    values = without_lets(block, realize.iter_values)
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
    return _Rfactor(block, loop, combiner, factor_axis).apply(loops, scope)


def _check_rfactor_loops(
    realize: BlockRealize, loop: For, loops: Sequence[LoopCursor], loop_cursor: LoopCursor
) -> None:
    spatial: set[Var] = set()
    reduction: set[Var] = set()
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        group = reduction if iterator.iter_type == IterVar.CommReduce else spatial
        group.update(variables(value))
    if loop.loop_var not in reduction or loop.loop_var in spatial:
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

    def write_back(self, loops: Sequence[LoopCursor]) -> Stmt:
        """Return the nest that combines the partial results: spatial loops and the factored one."""
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
        nest: list[tuple[For, Var]] = []
        for cursor in loops:
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
        return Block(
            tuple(iterators),
            [BufferRegion.from_point(partial, places) for partial in self.partials],
            [BufferRegion.from_point(target, indices) for target in combiner.buffers],
            block.name_hint,
            combiner.update(combiner.buffers, indices, values),
            combiner.initialise(combiner.buffers, indices, starts),
            annotations=block.annotations,
            span=block.span,
        )

    def apply(self, loops: Sequence[LoopCursor], scope: BlockCursor) -> BlockCursor:
        """Insert both blocks into the program; returns the first one."""
        factored = self.factored(loops)
        nest = _replace_block(loops[0].stmt, self.realize, factored)
        back = self.write_back(loops)
        # The reduction block's identity goes on to the write-back block, as users expect.
        loops[0].replace(stmt_seq(nest, back), {self.block: self.final})
        add_allocation(scope, self.partials)
        return loops[0].block_of(factored.block)


def add_allocation(scope: BlockCursor, buffers: list[Buffer]) -> None:
    """Let a block allocate further buffers."""
    realize = scope.stmt
    block = realize.block.with_fields(alloc_buffers=(*realize.block.alloc_buffers, *buffers))
    scope.replace(realize.with_fields(block=block), {realize.block: block})


__all__ += ["add_allocation"]
