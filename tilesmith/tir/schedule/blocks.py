"""Finds blocks and their properties: dependences, completeness, affine bindings.

Definitions. A block is *dominant* in its scope if it is the only one there that writes its output
buffers. A *complete* block is dominant, has data-parallel iterators only, and reads nothing that it
writes. A *reduction* block is dominant, has an ``init``, data-parallel and reduction iterators, and
its output indices do not use the latter; no loop repeats its updates without its ``init``. A
binding is *affine* if the values of the iterators are independent quasi-affine combinations of the
loops around the block.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from tilesmith.arith import (
    Analyzer,
    IntervalSet,
    estimate_region_strict_bound,
    eval_set,
    find_iter_map,
)
from tilesmith.ir import PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.operators import all_of, is_const, moved
from tilesmith.ir.queries import conjuncts, mentions, nodes, variables
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.queries import buffers, is_used_as_pointer
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import (
    analyzer_for,
    domain_of_loops,
    iterator_values,
    loop_range,
)
from tilesmith.tir.schedule.repetition import repeats_updates
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, DeclBuffer, For, Stmt

__all__ = [
    "check_complete_or_reduction",
    "consumers_of",
    "has_affine_binding",
    "producers_of",
    "scope_of",
]


NOT_AFFINE = "its binding is not affine"


def scope_of(cursor: Cursor) -> BlockCursor:
    """Return the block around a loop or block."""
    scope = cursor.scope()
    if scope is None:
        raise refuse("the root block cannot be moved or changed by this primitive", cursor)
    return scope


def read_buffers(block: Block) -> list[Buffer]:
    """Return the buffers that a block reads."""
    return [region.buffer for region in block.reads]


def written_buffers(block: Block) -> list[Buffer]:
    """Return the buffers that a block writes."""
    return [region.buffer for region in block.writes]


def is_declared_again(stmt: Stmt, buffer: Buffer) -> bool:
    """Return whether a statement accesses the memory of a buffer through another one, declared at
    the same pointer."""
    return any(other is not buffer and other.data is buffer.data for other in buffers(stmt))


def check_accessed_by_name(blocks: Sequence[BlockCursor], buffer: Buffer) -> None:
    """Check that blocks access a buffer through no other one: their accesses are to be redirected,
    which those through the other one would not be."""
    for cursor in blocks:
        if is_declared_again(cursor.stmt, buffer):
            raise refuse(
                f"block '{cursor.block.name_hint}' accesses '{buffer.name}' through another buffer "
                "at the same pointer",
                cursor,
            )


def is_declared_below(place: Cursor, buffer: Buffer) -> bool:
    """Return whether a buffer is declared below a place: its first block may not know it."""
    return any(one.buffer is buffer for one in nodes(place.stmt, DeclBuffer))


def _declared_around(stmt: Stmt, target: Stmt) -> list[Buffer] | None:
    """Return the buffers declared by the statements around a part of a statement; None if it is not
    a part of it, or lies in a block of it."""
    if stmt is target:
        return []
    if isinstance(stmt, BlockRealize):
        return None
    for child in stmt.children():
        found = _declared_around(child, target) if isinstance(child, Stmt) else None
        if found is not None:
            return [stmt.buffer, *found] if isinstance(stmt, DeclBuffer) else found
    return None


def check_in_sight(cursor: BlockCursor, places: Sequence[Cursor]) -> None:
    """Check that other places of a block's scope see the buffers that the block uses: what is
    declared around its loops only is unknown elsewhere."""
    body = scope_of(cursor).block.body
    own = _declared_around(body, cursor.stmt)
    used = buffers(cursor.stmt) if own else []
    for place in places if own else []:
        there = {id(buffer) for buffer in _declared_around(body, place.stmt) or []}
        for buffer in own or []:
            if id(buffer) not in there and any(one is buffer for one in used):
                raise refuse(
                    f"block '{cursor.block.name_hint}' uses '{buffer.name}', which is declared "
                    "around its loops only",
                    place,
                    "declare the buffer around both places",
                )


def check_not_a_pointer(owner: Cursor, buffer: Buffer, cursor: BlockCursor) -> None:
    """Check that the elements of a buffer are only accessed by their indices below its owner: a
    function that gets a pointer to it, or another buffer declared over its memory, knows the layout
    and dtype that it has."""
    aliased = is_declared_again(owner.stmt, buffer)
    declared = any(one.buffer is buffer for one in nodes(owner.function.body, DeclBuffer))
    if aliased or declared or is_used_as_pointer(owner.stmt, buffer):
        raise refuse(
            f"buffer '{buffer.name}' is used as a pointer ({buffer.name}.data), by code that knows "
            "its present layout",
            cursor,
            "copy it first (cache_read, cache_write) and change the copy",
        )


def producers_of(cursor: BlockCursor, scope: BlockCursor) -> list[BlockCursor]:
    """Return the blocks of a scope before this one that write what it reads."""
    reads = {id(buffer) for buffer in read_buffers(cursor.block)}
    found = []
    for other in scope.blocks_below():
        if other == cursor:
            break
        if any(id(buffer) in reads for buffer in written_buffers(other.block)):
            found.append(other)
    return found


def consumers_of(cursor: BlockCursor, scope: BlockCursor) -> list[BlockCursor]:
    """Return the blocks of a scope after this one that read what it writes."""
    writes = {id(buffer) for buffer in written_buffers(cursor.block)}
    found, after = [], False
    for other in scope.blocks_below():
        if other == cursor:
            after = True
        elif after and any(id(buffer) in writes for buffer in read_buffers(other.block)):
            found.append(other)
    return found


def is_output_block(cursor: BlockCursor, scope: BlockCursor) -> bool:
    """Return whether a block writes a buffer from outside of its scope."""
    inside = {id(buffer) for buffer in scope.block.alloc_buffers}
    return any(id(buffer) not in inside for buffer in written_buffers(cursor.block))


def is_dominant(cursor: BlockCursor, scope: BlockCursor) -> bool:
    """Return whether no other block of the scope writes the outputs of this one."""
    outputs = {id(buffer) for buffer in written_buffers(cursor.block)}
    for other in scope.blocks_below():
        if other != cursor:
            if any(id(buffer) in outputs for buffer in written_buffers(other.block)):
                return False
    return True


def why_not_complete(cursor: BlockCursor, scope: BlockCursor) -> str:
    """Return the reason why a block is not complete; "" if it is complete."""
    block = cursor.block
    for iterator in block.iter_vars:
        if iterator.iter_type != IterVar.DataPar:
            return f"iterator '{iterator.var.name}' is not data-parallel"
    written = {id(buffer) for buffer in written_buffers(block)}
    for buffer in read_buffers(block):
        if id(buffer) in written:
            return f"it reads and writes buffer '{buffer.name}'"
    if not is_dominant(cursor, scope):
        return "another block of the scope writes the same buffer"
    return ""


def why_not_reduction(cursor: BlockCursor, scope: BlockCursor) -> str:
    """Return the reason why a block is not a reduction block; "" if it is one."""
    block = cursor.block
    if block.init is None:
        return "it has no T.init()"
    reduction = set()
    for iterator in block.iter_vars:
        if iterator.iter_type == IterVar.CommReduce:
            reduction.add(iterator.var)
        elif iterator.iter_type != IterVar.DataPar:
            return f"iterator '{iterator.var.name}' is neither data-parallel nor a reduction"
    if isinstance(block.init, BufferStore) and isinstance(block.body, BufferStore):
        if not structural_equal(block.init.indices, block.body.indices):
            return "its init and its update write different elements"
    for region in block.writes:
        for variable in variables(region.region):
            if variable in reduction:
                return (
                    f"reduction iterator '{variable.name}' indexes the output "
                    f"'{region.buffer.name}'"
                )
    if not is_dominant(cursor, scope):
        return "another block of the scope writes the same buffer"
    repetition = repeats_updates(cursor)
    if repetition:
        return repetition
    return "" if has_affine_binding(cursor) else NOT_AFFINE


def check_complete_or_reduction(cursor: BlockCursor, scope: BlockCursor) -> None:
    """Refuse a block that is neither complete nor a reduction."""
    first = why_not_complete(cursor, scope)
    if not first:
        return
    second = why_not_reduction(cursor, scope)
    if second:
        name = cursor.block.name_hint
        raise refuse(
            f"block '{name}' is neither complete ({first}) nor a reduction block ({second})", cursor
        )


def has_affine_binding(cursor: BlockCursor, top: LoopCursor | None = None) -> bool:
    """Return whether the iterators of a block are independent affine functions of the loops around
    it.

    ``top``: it is enough if they are so where the loops outside of this one are constants.
    """
    realize = cursor.stmt
    loops = cursor.loops()
    if not realize.iter_values:
        return True
    if _trivially_affine(realize, loops):
        return True
    if top is not None and has_affine_binding(cursor):
        return True
    domain = domain_of_loops(loops)
    predicate = realize.predicate
    if top is not None and top in loops:
        domain = domain_of_loops(loops[loops.index(top) :])
        # a condition on outer loops only is a constant here
        parts = [
            part
            for part in conjuncts(predicate, through_likely=True)
            if any(variable in domain for variable in variables(part))
        ]
        predicate = all_of(*parts)
    values = iterator_values(cursor)
    if find_iter_map(values, domain, predicate).indices:
        return True
    # Independence without the condition implies independence for the iterations that it leaves.
    return bool(find_iter_map(values, domain).indices)


def _trivially_affine(realize: BlockRealize, loops: Sequence[LoopCursor]) -> bool:
    """Return whether each iterator is bound to a loop of its own, or to a constant (the frequent
    case)."""
    free = {cursor.stmt.loop_var for cursor in loops}
    for value in realize.iter_values:
        if value in free:
            free.discard(value)
        elif not isinstance(value, type(const(0))):
            return False
    return True


def check_covers_domain(cursor: BlockCursor, wanted: Container[Var] | None = None) -> None:
    """Check that a block runs for all values of its iterators, in all combinations; or for all of
    some, whatever the values of the others are.

    Loops through a part of the domains only, as through a triangle, and a condition that leaves out
    values of the iterators would be lost with the loops.
    """
    realize: BlockRealize = cursor.stmt
    ranges = ranges_between(cursor, scope_of(cursor))
    if wanted is not None:
        pairs = zip(realize.block.iter_vars, realize.iter_values)
        ranges = _driving([value for iterator, value in pairs if iterator.var in wanted], ranges)
    if not runs_for_all(realize, ranges, wanted):
        raise refuse(
            f"the loops around block '{realize.block.name_hint}' may leave out some values of its "
            "iterators, or some combinations of them",
            cursor,
            "the domains in T.axis have to be those that the loops run through",
        )
    check_no_condition(cursor)


def check_no_condition(cursor: BlockCursor) -> None:
    """Check that the condition of a block only cuts off iterations outside of its iterators'
    domains."""
    clause = own_condition(cursor)
    if clause is not None:
        name = cursor.block.name_hint
        reason = f"block '{name}' runs under a condition of its own: {clause}"
        raise refuse(reason, cursor)


def runs_for_all(
    realize: BlockRealize, ranges: dict[Var, Range], wanted: Container[Var] | None = None
) -> bool:
    """Return whether loops bind a block's iterators (or some of them) to all values of their
    domains, in all combinations."""
    analyzer = Analyzer()
    taken: set[Var] = set()
    iterators, values = [], []
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        if wanted is not None and iterator.var not in wanted:
            continue
        if (
            isinstance(value, Var)
            and value in ranges
            and value not in taken
            and not mentions(ranges[value], ranges.keys())
        ):
            taken.add(value)
            if _covers(analyzer, ranges[value].min, _last(ranges[value]), iterator):
                continue
            return False
        iterators.append(iterator)
        values.append(value)
    if not values:
        return True
    if not taken.intersection(variables(values)):
        box = _box_of(realize, values, ranges)
        if box is not None:
            return all(
                _covers(analyzer, covered.min_value, covered.max_value, iterator)
                for covered, iterator in zip(box, iterators)
            )
    for iterator, value in zip(iterators, values):
        used = _with_ranges(value, ranges)
        if used & taken:
            return False
        taken |= used
        covered = eval_set(value, ranges)
        if not (covered.has_lower_bound() and covered.has_upper_bound()):
            return False
        if not _covers(analyzer, covered.min_value, covered.max_value, iterator):
            return False
    return True


def _box_of(
    realize: BlockRealize, values: Sequence[PrimExpr], ranges: dict[Var, Range]
) -> list[IntervalSet] | None:
    """Return the box of which values take all combinations, None if that is not known."""
    points = [Range.from_min_extent(value, const(1, value.dtype)) for value in values]
    box = estimate_region_strict_bound(points, ranges, realize.predicate)
    return box or estimate_region_strict_bound(points, ranges)


def reduction_without_start(
    realize: BlockRealize, ranges: dict[Var, Range], analyzer: Analyzer
) -> IterVar | None:
    """Return a reduction iterator whose least value the loops may leave out, where the block would
    initialise its result; None if there is none.

    Loops that drive other iterators as well, as after fuse, have to run through all combinations:
    one element may have its start where another one lacks it.
    """
    bindings = list(zip(realize.block.iter_vars, realize.iter_values))
    for iterator, value in bindings:
        if realize.block.init is None or iterator.iter_type != IterVar.CommReduce:
            continue
        own = _driving([value], ranges)
        others = [bound for _, bound in bindings if bound is not value and mentions(bound, own)]
        if others:
            around = _driving([value, *others], ranges)
            box = _box_of(realize, [value, *others], around)
            if box is None or not analyzer.can_prove(box[0].min_value <= iterator.domain.min):
                return iterator
            continue
        taken = eval_set(value, own)
        if taken.has_lower_bound() and analyzer.can_prove(taken.min_value <= iterator.domain.min):
            continue
        if not runs_for_all(realize, own, {iterator.var}):
            return iterator
    return None


def check_reduction_starts(cursor: BlockCursor) -> None:
    """Check that the loops around a reduction block run through the start of the reduction, where
    its init is carried out."""
    scope = scope_of(cursor)
    ranges = ranges_between(cursor, scope)
    iterator = reduction_without_start(cursor.stmt, ranges, analyzer_for(scope))
    if iterator is not None:
        raise refuse(
            f"the loops around block '{cursor.block.name_hint}' may leave out the start of its "
            f"reduction iterator '{iterator.var.name}', and with it the init",
            cursor,
        )


def _driving(values: list[PrimExpr], ranges: dict[Var, Range]) -> dict[Var, Range]:
    """Return the ranges of the loops that values depend on. The others count as any one iteration:
    what a loop takes in a triangle, it does not take in each row."""
    used = set(variables(values))
    return {variable: range_ for variable, range_ in ranges.items() if variable in used}


def _last(range_: Range) -> PrimExpr:
    last: PrimExpr = moved(range_.min + range_.extent, -1)
    return last


def _covers(analyzer: Analyzer, low: PrimExpr, last: PrimExpr, iterator: IterVar) -> bool:
    """Return whether values from ``low`` to ``last`` include the domain of an iterator."""
    starts = analyzer.can_prove(low <= iterator.domain.min)
    return starts and analyzer.can_prove(last >= _last(iterator.domain))


def _with_ranges(value: PrimExpr, ranges: dict[Var, Range]) -> set[Var]:
    """Return the loops that a binding uses, and those that their ranges depend on."""
    found: set[Var] = set()
    pending = [*variables(value)]
    while pending:
        variable = pending.pop()
        if variable in ranges and variable not in found:
            found.add(variable)
            pending += variables(ranges[variable])
    return found


def own_condition(cursor: BlockCursor) -> PrimExpr | None:
    """Return a condition in a block's predicate that may exclude values inside its iterators'
    domains, or None.
    """
    realize = cursor.stmt
    if is_const(realize.predicate, 1):
        return None
    analyzer = analyzer_for(cursor)
    within = []
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        within += [
            value >= iterator.domain.min,
            value < iterator.domain.min + iterator.domain.extent,
        ]
    for clause in conjuncts(realize.predicate):
        with analyzer.constraint_scope(all_of(*within) if within else const(True, "bool")):
            if not analyzer.can_prove(clause):
                return clause
    return None


def check_inputs_stay(cursor: BlockCursor, scope: BlockCursor) -> None:
    """Check that no producer in a common loop overwrites the inputs of a block, so that they are
    the same at any place.
    """
    loops = set(cursor.loops())
    name = cursor.block.name_hint
    for producer in producers_of(cursor, scope):
        block = producer.block
        ordered = any(
            i.iter_type not in (IterVar.DataPar, IterVar.CommReduce) for i in block.iter_vars
        )
        if ordered and loops.intersection(producer.loops()):
            reason = (
                f"block '{name}' reads what '{block.name_hint}' writes, which holds for the same "
                "iteration only"
            )
            raise refuse(reason, producer)


def check_inputs_last(
    cursor: BlockCursor, scope: BlockCursor, later: Sequence[BlockCursor]
) -> None:
    """Check that the blocks that a block moves behind do not change its inputs."""
    check_inputs_stay(cursor, scope)
    blocks = scope.blocks_below()
    block = cursor.block
    reads = {id(buffer) for buffer in read_buffers(block)}
    end = max([blocks.index(other) for other in later], default=0)
    for other in blocks[blocks.index(cursor) + 1 : end + 1]:
        passed = other.block
        if any(id(buffer) in reads for buffer in written_buffers(passed)):
            reason = (
                f"block '{passed.name_hint}' writes what it reads, "
                f"and block '{block.name_hint}' would pass it"
            )
            raise refuse(reason, other)


def ranges_between(cursor: Cursor, outer: Cursor) -> dict[Var, Range]:
    """Return the ranges of the loops around ``cursor`` that are inside ``outer``."""
    ranges = {}
    for ancestor in cursor.ancestors():
        if ancestor == outer:
            break
        stmt = ancestor.stmt
        if isinstance(stmt, For):
            ranges[stmt.loop_var] = loop_range(stmt)
    return ranges


__all__ += [
    "check_accessed_by_name",
    "check_covers_domain",
    "check_in_sight",
    "check_inputs_last",
    "check_inputs_stay",
    "own_condition",
    "ranges_between",
]
