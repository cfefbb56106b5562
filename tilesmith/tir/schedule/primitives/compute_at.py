"""Defines compute_at and reverse_compute_at, which move a block under a loop of its consumers or
producers.

Both ask which part of the buffers is touched by the other blocks in one iteration of the loop, find
the values of the moved block's iterators that belong to that part, and make loops over these.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from tilesmith.arith import Analyzer, find_iter_map
from tilesmith.ir import LT, FloorDiv, IntImm, PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, is_const, maximum, minimum, moved
from tilesmith.ir.queries import mentions, variables
from tilesmith.tir.expr import IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.schedule.blocks import (
    check_complete_or_reduction,
    check_covers_domain,
    check_in_sight,
    check_inputs_stay,
    consumers_of,
    is_output_block,
    producers_of,
    runs_for_all,
    scope_of,
)
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import (
    analyzer_for,
    iterator_values,
    loop_range,
    remove_block,
)
from tilesmith.tir.schedule.parameters import LoopOrMark
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.compute_inline import compute_inline, reverse_compute_inline
from tilesmith.tir.schedule.primitives.copies import exact_region_at
from tilesmith.tir.schedule.primitives.domains import (
    Domains,
    Interval,
    consumer_domains,
    producer_domains,
    ranges_around,
    touched_parts,
)
from tilesmith.tir.schedule.sizes import learn_sizes
from tilesmith.tir.schedule.state import StmtSRef, child_statements
from tilesmith.tir.stmt import BlockRealize, For, ForKind, Stmt, stmt_list, stmt_seq

__all__ = ["compute_at", "reverse_compute_at"]


@primitive()
def compute_at(
    block: BlockCursor, loop: LoopOrMark, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Move a producer under a loop of its consumers; it computes only the region that they read
    there.

    ``index``: where among the statements of the loop: -1 the last possible place, -2 the first,
    k the k-th. Refuses output blocks, consumers outside of the loop, blocks that are not
    complete or reduction blocks. A mark instead of a loop (``sample_compute_location``) leaves
    the block where it is or inlines it.
    """
    if isinstance(loop, StmtSRef):
        if loop is StmtSRef.inline_mark():
            compute_inline(block)
        return
    scope = _check_place(block, loop)
    node = block.block
    if is_output_block(block, scope):
        raise refuse(
            f"block '{node.name_hint}' is an output block of its scope",
            block,
            "compute_at moves a producer to its consumers; reverse_compute_at moves a consumer",
        )
    consumers = consumers_of(block, scope)
    below = set(loop.blocks_below())
    for consumer in consumers:
        if consumer not in below:
            name = consumer.block.name_hint
            raise refuse(
                f"block '{node.name_hint}' is read by '{name}'; the primitive requires all the "
                "consumer(s) to be under the loop",
                consumer,
                f"choose a loop that is around '{name}' as well, or compute_inline the block",
            )
    if not consumers:
        raise refuse(f"block '{node.name_hint}' has no consumers in its scope", block)
    _check_order(block, loop, scope)
    # Of the other iterators, the values that the consumers need are enough.
    check_covers_domain(block, {i.var for i in node.iter_vars if i.iter_type == IterVar.CommReduce})
    buffers = [region.buffer for region in node.writes]
    touched = touched_parts(consumers, loop, buffers, reads=True)
    domains = producer_domains(node, touched)
    place = _Place(loop, scope, preserve_unit_loops, index)
    _move(block, place, domains)


@primitive()
def reverse_compute_at(
    block: BlockCursor, loop: LoopOrMark, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """Move a consumer under a loop of its producers; it processes only the region that they write
    there.

    All producers have to be under the loop. Refuses places inside of a producer's reduction,
    and consumers that would read elements not written yet, run several times, or not run for all
    that they write. Marks as in ``compute_at``.
    """
    if isinstance(loop, StmtSRef):
        if loop is StmtSRef.inline_mark():
            reverse_compute_inline(block)
        return
    scope = _check_place(block, loop)
    node = block.block
    producers = producers_of(block, scope)
    below = set(loop.blocks_below())
    under = [producer for producer in producers if producer in below]
    for producer in producers:
        if under and producer not in below:
            name = producer.block.name_hint
            raise refuse(
                f"block '{node.name_hint}' reads what '{name}' writes; the primitive requires all "
                "the producers to be under the loop",
                producer,
                f"move '{name}' there first, or choose a loop that is around it as well",
            )
    if not under:
        raise refuse(
            f"no producer of block '{node.name_hint}' is under the loop",
            loop,
            "reverse_compute_at moves a consumer to its producers; compute_at moves a producer",
        )
    _check_order(block, loop, scope, is_reverse=True)
    check_covers_domain(block)
    _check_finished(block, under, loop)
    buffers = [region.buffer for region in node.reads]
    touched = touched_parts(under, loop, buffers, reads=False) | _own_parts(block, under, loop)
    domains, is_open = consumer_domains(block, loop, touched)
    place = _Place(loop, scope, preserve_unit_loops, index, is_reverse=True, is_open=is_open)
    _move(block, place, domains)


def _own_parts(
    cursor: BlockCursor, producers: Sequence[BlockCursor], loop_cursor: LoopCursor
) -> dict[int, list[Interval]]:
    """Return which parts of memory that is private to each thread the thread itself has made, by
    buffer: a consumer can read no other ones. Refuses where they are not known.
    """
    around = [one.stmt for one in (loop_cursor, *loop_cursor.loops())]
    tags = [one.thread_binding.thread_tag for one in around if one.thread_binding is not None]
    if not any(tag.startswith(("threadIdx", "vthread")) for tag in tags):
        return {}
    read = {region.buffer for region in cursor.block.reads}
    parts: dict[int, list[Interval]] = {}
    for producer in producers:
        for region in producer.block.writes:
            if region.buffer not in read or region.buffer.scope() != "local":
                continue
            box = exact_region_at(producer, region, loop_cursor)
            made = [(one.min, moved(one.min + one.extent, -1)) for one in box or ()]
            known = parts.setdefault(id(region.buffer), made)
            if box is None or not _are_equal(known, made):
                name = cursor.block.name_hint
                reason = (
                    f"block '{name}' reads '{region.buffer.name}', of which each thread has its "
                    "own, and it is not known which part a thread makes"
                )
                raise refuse(reason, loop_cursor)
    return parts


def _are_equal(some: list[Interval], others: list[Interval]) -> bool:
    analyzer = Analyzer()
    return all(
        analyzer.can_prove_equal(one, other)
        for ends in zip(some, others)
        for one, other in zip(*ends)
    )


def _check_place(cursor: BlockCursor, loop_cursor: LoopCursor) -> BlockCursor:
    scope = scope_of(cursor)
    name = cursor.block.name_hint
    if loop_cursor.scope() != scope:
        raise refuse(f"the loop and block '{name}' are not in the same block scope", loop_cursor)
    if loop_cursor in set(cursor.ancestors()):
        raise refuse(
            f"the loop is already an ancestor of block '{name}'",
            loop_cursor,
            "choose a loop of another nest: that of a consumer or producer",
        )
    check_complete_or_reduction(cursor, scope)
    check_inputs_stay(cursor, scope)
    check_in_sight(cursor, [loop_cursor])
    return scope


def _check_finished(
    cursor: BlockCursor, under: Sequence[BlockCursor], loop_cursor: LoopCursor
) -> None:
    """Check that the new place is not inside a reduction loop: the result is complete only after
    that loop.
    """
    around = ranges_around(cursor, loop_cursor)
    for producer in under:
        realize = producer.stmt
        for iterator, value in zip(realize.block.iter_vars, iterator_values(producer)):
            if iterator.iter_type != IterVar.CommReduce:
                continue
            for variable in variables(value):
                if variable in around and not is_const(around[variable].extent, 1):
                    raise refuse(
                        f"the reduction of block '{realize.block.name_hint}' is complete only "
                        "after "
                        f"loop '{variable.name}'",
                        cursor.loop_of(variable),
                    )


def _check_order(
    cursor: BlockCursor, loop_cursor: LoopCursor, scope: BlockCursor, is_reverse: bool = False
) -> None:
    """Check that the buffers of a block are not written or read between its old and its new
    place."""
    blocks = scope.blocks_below()
    below = set(loop_cursor.blocks_below())
    here, first = blocks.index(cursor), min(blocks.index(other) for other in below)
    last = max(blocks.index(other) for other in below)
    passed = blocks[here + 1 : last + 1] if here < first else blocks[first:here]
    own = cursor.block
    reads = {id(region.buffer) for region in own.reads}
    writes = {id(region.buffer) for region in own.writes}
    for other in passed:
        block = other.block
        written = any(id(region.buffer) in reads for region in block.writes)
        read = any(id(region.buffer) in writes for region in block.reads)
        if (written and not (is_reverse and other in below)) or (read and is_reverse):
            verb = "writes what it reads" if written else "reads what it writes"
            raise refuse(f"block '{block.name_hint}' {verb}, and block '{own.name_hint}' "
                "would pass it", other)  # fmt: skip


class _Place(NamedTuple):
    """The new place of a block; ``is_reverse``: the block is a consumer.

    ``is_open``: it is still to be proven that the block runs there for all its values.
    """

    loop: LoopCursor
    scope: BlockCursor
    preserve_unit_loops: bool
    number: int
    is_reverse: bool = False
    is_open: bool = False


def _move(cursor: BlockCursor, where: _Place, domains: Domains) -> None:
    """Remove the block and insert it under the loop, inside new loops over its domains."""
    realize = cursor.stmt
    loop_cursor = where.loop
    place = _position(cursor, loop_cursor, where.scope, where.number)
    analyzer = analyzer_for(loop_cursor)
    loop = loop_cursor.stmt
    analyzer.bind(loop.loop_var, loop_range(loop))
    learn_sizes(analyzer, loop_cursor)
    nest = _nest(analyzer, realize, domains, where.preserve_unit_loops, not where.is_reverse)
    if where.is_reverse:
        _check_runs_once(cursor, where, nest)
    before = child_statements(loop)
    anchor = before[place] if place < len(before) else None
    if anchor is not None:
        anchor_cursor = loop_cursor.at(anchor)
    remove_block(cursor)
    cursor.state.adopt(cursor.sref, realize.block)
    loop = loop_cursor.stmt
    statements = stmt_list(loop.body)
    if anchor is None:
        statements = [*statements, nest]
    else:
        target = anchor_cursor.stmt
        position = next(k for k, stmt in enumerate(statements) if _contains(stmt, target))
        statements = [*statements[:position], nest, *statements[position:]]
    loop_cursor.replace(loop.with_fields(body=stmt_seq(*statements)))


def _check_runs_once(cursor: BlockCursor, where: _Place, nest: Stmt) -> None:
    """Check that a consumer at its new place runs once for each value of its iterators, with
    reductions in order."""
    loop_cursor = where.loop
    ranges = ranges_around(cursor, loop_cursor)
    inner = nest
    while isinstance(inner, For):
        ranges[inner.loop_var] = loop_range(inner)
        inner = inner.body
    realize: BlockRealize = inner  # type: ignore[assignment]
    for around in reversed(list(cursor.ancestors())):
        stmt = around.stmt
        if isinstance(stmt, For):
            ranges[stmt.loop_var] = loop_range(stmt)
    values = list(realize.iter_values)
    name = realize.block.name_hint
    _check_runs_at_all(cursor, where, values)
    if values and not find_iter_map(values, ranges, realize.predicate).indices:
        reason = f"block '{name}' would be computed several times"
        raise refuse(reason, loop_cursor)
    _check_made_each_time(cursor, where, values)
    if where.is_open and not runs_for_all(realize, ranges):
        reason = f"block '{name}' would not run for all values of its iterators"
        raise refuse(reason, loop_cursor)
    _check_reductions_ascend(where, realize, ranges)
    _check_carriers(cursor, where, values)


def _check_runs_at_all(cursor: BlockCursor, where: _Place, values: list[PrimExpr]) -> None:
    """Check that loops that choose none of the consumer's values have an iteration where the
    consumer has one: what it reads only under a condition may be empty, and so may be the loops
    that make it.
    """
    ranges = ranges_around(cursor, where.loop)
    used = set(variables(values))
    analyzer = Analyzer()
    around = where.loop.loops()
    shared = next((loop for loop in reversed(cursor.loops()) if loop in around), None)
    if shared is not None:
        learn_sizes(analyzer, shared)
    with ExitStack() as stack:
        for iterator in cursor.block.iter_vars:
            stack.enter_context(analyzer.constraint_scope(iterator.domain.extent >= 1))
        for variable, range_ in ranges.items():
            if variable not in used and not analyzer.can_prove(range_.extent >= 1):
                reason = (
                    f"loop '{variable.name}' may have no iteration, and block "
                    f"'{cursor.block.name_hint}' would not run"
                )
                raise refuse(reason, where.loop.loop_of(variable))


def _check_carriers(cursor: BlockCursor, where: _Place, values: list[PrimExpr]) -> None:
    """Check that the loops that would carry the reduction of a block may do so: those that run in
    order, or those over threads, whose sums the lowering combines; not both."""
    block = cursor.block
    reduced = [v for i, v in zip(block.iter_vars, values) if i.iter_type == IterVar.CommReduce]
    carriers = [
        ancestor
        for ancestor in (where.loop, *where.loop.loops())
        if mentions(reduced, {ancestor.stmt.loop_var})
    ]
    over_threads = [carrier for carrier in carriers if _combines_threads(carrier.stmt)]
    for carrier in carriers:
        loop = carrier.stmt
        if carrier in over_threads:
            continue
        if over_threads or loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            reason = (
                f"loop '{loop.loop_var.name}' would carry the reduction of block "
                f"'{block.name_hint}'"
            )
            advice = ""
            if over_threads:
                advice = "rfactor the loop over threads: they combine one sum of each thread"
            raise refuse(reason, carrier, advice)


def _combines_threads(loop: For) -> bool:
    """Return whether the lowering combines what the iterations of a loop add to a result."""
    thread = loop.thread_binding
    return thread is not None and thread.thread_tag.startswith("threadIdx")


def _check_reductions_ascend(
    where: _Place, realize: BlockRealize, ranges: dict[Var, Range]
) -> None:
    """Check that reduction iterators start at their smallest values, where the block initialises
    its result.
    """
    analyzer = analyzer_for(where.loop)
    for variable, range_ in ranges.items():
        analyzer.bind(variable, range_)
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        if iterator.iter_type != IterVar.CommReduce:
            continue
        for variable in variables(value):
            if variable not in ranges:
                continue
            step = substitute(value, {variable: variable + 1}) - value
            if not analyzer.can_prove(step >= 0):
                reason = (
                    f"loop '{variable.name}' would run backwards through the reduction of block "
                    f"'{realize.block.name_hint}', which begins where '{iterator.var.name}' is "
                    "least"
                )
                raise refuse(reason, where.loop)


def _check_made_each_time(cursor: BlockCursor, where: _Place, values: list[PrimExpr]) -> None:
    """Check that iterations that run a consumer repeatedly also recompute its inputs."""
    used = set(variables(values))
    below = set(where.loop.blocks_below())
    for ancestor in (where.loop, *where.loop.ancestors()):
        loop = ancestor.stmt
        if not isinstance(loop, For):
            break
        if loop.loop_var in used or is_const(loop.extent, 1):
            continue
        for producer in producers_of(cursor, where.scope):
            if producer in below and mentions(producer.stmt.predicate, {loop.loop_var}):
                name = producer.block.name_hint
                reason = f"block '{name}' does not run in each iteration of the loop"
                raise refuse(reason, ancestor)


def _contains(stmt: Stmt, target: Stmt) -> bool:
    return stmt is target or any(inner is target for inner in _nearest(stmt))


def _nearest(stmt: Stmt) -> Sequence[Stmt]:
    return [] if isinstance(stmt, (For, BlockRealize)) else child_statements(stmt)


def _position(cursor: BlockCursor, loop_cursor: LoopCursor, scope: BlockCursor, index: int) -> int:
    """Return the statement of the loop to insert before: after all producers, before all
    consumers."""
    children = child_statements(loop_cursor.stmt)
    producers = {s.stmt for s in producers_of(cursor, scope)}
    consumers = {s.stmt for s in consumers_of(cursor, scope)}
    first, last = 0, len(children)
    for number, child in enumerate(children):
        blocks = [child] if isinstance(child, BlockRealize) else _blocks_in(child)
        if any(block in producers for block in blocks):
            first = number + 1
        if last == len(children) and any(block in consumers for block in blocks):
            last = number
    if first > last:
        raise refuse("a producer comes after a consumer under the loop", loop_cursor)
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        raise refuse(f"index {index} is not between {first} and {last}", loop_cursor)
    return index


def _blocks_in(stmt: Stmt) -> list[BlockRealize]:
    found: list[BlockRealize] = []
    for inner in child_statements(stmt):
        if isinstance(inner, BlockRealize):
            found.append(inner)
        else:
            found += _blocks_in(inner)
    return found


def _nest(
    analyzer: Analyzer,
    realize: BlockRealize,
    domains: Domains,
    preserve_unit_loops: bool,
    may_repeat: bool,
) -> Stmt:
    """Return the block under new loops over the domains of its iterators.

    A block that ``may_repeat`` may be computed for more values than one iteration needs.
    """
    loops: list[tuple[Var, PrimExpr]] = []
    values: list[PrimExpr] = []
    conditions: list[PrimExpr] = []
    for iterator in realize.block.iter_vars:
        interval = domains.get(iterator.var)
        low, extent, checks = _loop_domain(analyzer, iterator, interval, may_repeat)
        if is_const(extent, 1) and not preserve_unit_loops:
            values.append(low)
        else:
            variable = Var(f"ax{len(loops)}", iterator.var.dtype)
            loops.append((variable, extent))
            analyzer.bind(variable, Range.from_min_extent(const(0, variable.dtype), extent))
            values.append(variable if is_const(low, 0) else low + variable)
        for check in checks:
            condition = substitute(check, {iterator.var: values[-1]})
            if not analyzer.can_prove(condition):
                conditions.append(_without_quotient(analyzer, analyzer.simplify(condition)))
    predicate = all_of(*conditions) if conditions else const(True, "bool")
    body: Stmt = realize.with_fields(iter_values=tuple(values), predicate=predicate)
    for variable, extent in reversed(loops):
        body = For(variable, const(0, variable.dtype), extent, ForKind.SERIAL, body)
    return body


def _without_quotient(analyzer: Analyzer, condition: PrimExpr) -> PrimExpr:
    """Return ``x // m < n`` as ``x < n * m``: the form of a tail's condition, which iterator maps
    understand.
    """
    if isinstance(condition, LT) and isinstance(condition.a, FloorDiv):
        divisor = condition.a.b
        if not isinstance(divisor, IntImm) and analyzer.can_prove(divisor >= 1):
            return condition.a.a < analyzer.simplify(condition.b * divisor)
    return condition


def _loop_domain(
    analyzer: Analyzer, iterator: IterVar, interval: Interval | None, may_repeat: bool
) -> tuple[PrimExpr, PrimExpr, list[PrimExpr]]:
    """Return start and extent of the loop for an iterator, and the conditions that the block must
    check.
    """
    domain = iterator.domain
    if interval is None:
        return domain.min, domain.extent, []
    low, high = interval
    extent = analyzer.simplify(moved(high - low, 1))
    end = domain.min + domain.extent
    if isinstance(extent, IntImm):
        whole = may_repeat or (analyzer.can_prove(low <= domain.min) and
                               analyzer.can_prove(high >= end - 1))  # fmt: skip
        if whole and isinstance(domain.extent, IntImm) and extent.value >= domain.extent.value:
            return domain.min, domain.extent, []
        checks = [] if analyzer.can_prove(low >= domain.min) else [domain.min <= iterator.var]
        return low, extent, [*checks, iterator.var < end]
    low = analyzer.simplify(maximum(low, domain.min))
    extent = analyzer.simplify(minimum(moved(high, 1), end) - low)
    return low, extent, []
