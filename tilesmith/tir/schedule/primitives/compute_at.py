"""compute_at and reverse_compute_at: moving a block under a loop of its consumers or producers.

Both ask which part of the buffers is touched by the other blocks in one iteration of the loop, find
the values of the moved block's iterators that belong to that part, and make loops over these.
"""

from __future__ import annotations

from tilesmith.arith import Analyzer, detect_iter_map, eval_set
from tilesmith.ir import IntImm, Mul, PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, floordiv, is_const, maximum, minimum
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.schedule.primitives.blocks import (
    check_complete_or_reduction,
    check_covers_domain,
    consumers_of,
    is_output_block,
    producers_of,
    ranges_between,
    scope_of,
)
from tilesmith.tir.schedule.primitives.common import (
    Replace,
    analyzer_for,
    loop_range,
    refuse_at,
    simplified,
    variables_in,
)
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef, child_statements
from tilesmith.tir.stmt import Block, BlockRealize, For, ForKind, Stmt, stmt_list, stmt_seq

__all__ = ["compute_at", "remove_block", "reverse_compute_at"]

Interval = tuple[PrimExpr, PrimExpr]  # both ends belong to it
Domains = dict[Var, Interval]  # by iterator; those left out take all their values


def compute_at(
    state: ScheduleState, sref: StmtSRef, loop_sref: StmtSRef, preserve_unit_loops: bool, index: int
) -> None:
    """Move a producer under a loop of its consumers; see ``Schedule.compute_at``."""
    scope = _check_place(state, "compute_at", sref, loop_sref)
    block: Block = state.stmt(sref).block
    if is_output_block(state, sref, scope):
        raise refuse_at(
            state,
            "compute_at",
            f"block '{block.name_hint}' writes an output of its scope",
            sref,
            "compute_at moves a producer to its consumers; reverse_compute_at moves a consumer",
        )
    consumers = consumers_of(state, sref, scope)
    below = set(state.blocks_below(loop_sref))
    for consumer in consumers:
        if consumer not in below:
            name = state.stmt(consumer).block.name_hint
            raise refuse_at(
                state,
                "compute_at",
                f"block '{block.name_hint}' is read by '{name}', which is not under the loop",
                consumer,
            )
    if not consumers:
        raise refuse_at(
            state, "compute_at", f"nobody reads what block '{block.name_hint}' writes", sref
        )
    _check_order(state, "compute_at", sref, loop_sref, scope)
    buffers = [region.buffer for region in block.writes]
    touched = _touched(state, consumers, loop_sref, buffers, reads=True)
    domains = _producer_domains(block, touched)
    _move(state, "compute_at", sref, loop_sref, scope, domains, preserve_unit_loops, index)


def reverse_compute_at(
    state: ScheduleState, sref: StmtSRef, loop_sref: StmtSRef, preserve_unit_loops: bool, index: int
) -> None:
    """Move a consumer under a loop of its producers; see ``Schedule.reverse_compute_at``."""
    scope = _check_place(state, "reverse_compute_at", sref, loop_sref)
    block: Block = state.stmt(sref).block
    producers = producers_of(state, sref, scope)
    below = set(state.blocks_below(loop_sref))
    under = [producer for producer in producers if producer in below]
    read = {id(region.buffer) for region in block.reads}
    for producer in producers:
        if producer not in below and _shares(state, producer, under, read):
            name = state.stmt(producer).block.name_hint
            raise refuse_at(
                state,
                "reverse_compute_at",
                f"block '{block.name_hint}' reads what '{name}' writes, which is not "
                "under the loop",
                producer,
            )
    if not under:
        raise refuse_at(
            state,
            "reverse_compute_at",
            f"no producer of block '{block.name_hint}' is under the loop",
            loop_sref,
            "reverse_compute_at moves a consumer to its producers; compute_at moves a producer",
        )
    _check_order(state, "reverse_compute_at", sref, loop_sref, scope)
    check_covers_domain(state, "reverse_compute_at", sref)
    _check_finished(state, sref, under, loop_sref)
    buffers = [region.buffer for region in block.reads]
    touched = _touched(state, under, loop_sref, buffers, reads=False)
    domains = _consumer_domains(state, sref, loop_sref, touched)
    _move(state, "reverse_compute_at", sref, loop_sref, scope, domains, preserve_unit_loops, index)


def _shares(
    state: ScheduleState, producer: StmtSRef, under: list[StmtSRef], read: set[int]
) -> bool:
    """Whether a producer outside of the loop writes a buffer that one inside writes too."""
    outside = {id(region.buffer) for region in state.stmt(producer).block.writes} & read
    inside = {id(region.buffer) for sref in under for region in state.stmt(sref).block.writes}
    return bool(outside & inside)


def _check_place(
    state: ScheduleState, primitive: str, sref: StmtSRef, loop_sref: StmtSRef
) -> StmtSRef:
    scope = scope_of(state, sref, primitive)
    name = state.stmt(sref).block.name_hint
    if state.scope(loop_sref) is not scope:
        raise refuse_at(
            state, primitive, f"the loop is not in the scope of block '{name}'", loop_sref
        )
    if loop_sref in set(state.ancestors(sref)):
        raise refuse_at(state, primitive, f"the loop is around block '{name}' already", loop_sref)
    check_complete_or_reduction(state, sref, scope, primitive)
    return scope


def _touched(
    state: ScheduleState,
    blocks: list[StmtSRef],
    loop_sref: StmtSRef,
    buffers: list[Buffer],
    reads: bool,
) -> dict[int, list[Interval]]:
    """What blocks read (or write) of buffers in one iteration of a loop: intervals by buffer."""
    wanted = {id(buffer) for buffer in buffers}
    found: dict[int, list[Interval]] = {}
    analyzer = analyzer_for(state, loop_sref)
    loop = state.stmt(loop_sref)
    analyzer.bind(loop.loop_var, loop_range(loop))
    for sref in blocks:
        realize: BlockRealize = state.stmt(sref)
        ranges = ranges_between(state, sref, loop_sref)
        bind = Replace({i.var: v for i, v in zip(realize.block.iter_vars, realize.iter_values)})
        for region in realize.block.reads if reads else realize.block.writes:
            if id(region.buffer) not in wanted:
                continue
            shared = _threads_around(state, loop_sref, region.buffer.scope()) if reads else {}
            intervals = []
            for part in region.region:
                low = bind.visit(part.min)
                high = low + bind.visit(part.extent) - 1
                everywhere = {**shared, **ranges}
                intervals.append(
                    _relaxed(analyzer, low, high, everywhere, region.buffer, len(intervals))
                )
            known = found.get(id(region.buffer))
            found[id(region.buffer)] = (
                intervals if known is None else _union(analyzer, known, intervals)
            )
    return found


def _threads_around(
    state: ScheduleState, loop_sref: StmtSRef, storage_scope: str
) -> dict[Var, Range]:
    """Loops over threads around a place that share memory of a scope: it holds what all of them
    need, not what one does."""
    tags: tuple[str, ...] = ()
    if storage_scope.startswith("shared"):
        tags = ("threadIdx", "vthread")
    elif storage_scope == "warp" or storage_scope.startswith("wmma."):
        tags = ("threadIdx.x",)
    elif not storage_scope.startswith("local"):
        tags = ("threadIdx", "vthread", "blockIdx")
    found = {}
    for sref in (loop_sref, *state.ancestors(loop_sref)):
        loop = state.stmt(sref)
        binding = getattr(loop, "thread_binding", None)
        if binding is not None and binding.thread_tag.startswith(tags):
            found[loop.loop_var] = loop_range(loop)
    return found


def _relaxed(
    analyzer: Analyzer,
    low: PrimExpr,
    high: PrimExpr,
    ranges: dict[Var, Range],
    buffer: Buffer,
    axis: int,
) -> Interval:
    """``[low, high]`` over all values of some variables; all of the axis if unknown."""
    if ranges:
        below, above = eval_set(low, ranges), eval_set(high, ranges)
        low, high = below.min_value, above.max_value
        size = buffer.shape[axis]
        if not (below.has_lower_bound() and above.has_upper_bound()):
            return const(0, size.dtype), simplified(analyzer, size - 1)
    return simplified(analyzer, low), simplified(analyzer, high)


def _union(analyzer: Analyzer, a: list[Interval], b: list[Interval]) -> list[Interval]:
    return [
        (simplified(analyzer, minimum(x[0], y[0])), simplified(analyzer, maximum(x[1], y[1])))
        for x, y in zip(a, b)
    ]


def _producer_domains(block: Block, touched: dict[int, list[Interval]]) -> Domains:
    """Which values of each iterator write the touched parts; iterators left out: all of them."""
    domains: Domains = {}
    analyzer = Analyzer()
    for region in block.writes:
        intervals = touched.get(id(region.buffer))
        if intervals is None:
            continue
        for part, interval in zip(region.region, intervals):
            solved = _solve(analyzer, part, interval)
            if solved is None:
                continue
            variable, low, high, _ = solved
            known = domains.get(variable)
            if known is not None:
                low, high = minimum(low, known[0]), maximum(high, known[1])
            domains[variable] = (analyzer.simplify(low), analyzer.simplify(high))
    return domains


def _consumer_domains(
    state: ScheduleState, sref: StmtSRef, loop_sref: StmtSRef, touched: dict[int, list[Interval]]
) -> Domains:
    """Which values of each iterator read what one iteration of the loop makes.

    Each iteration must make all that these values read, and all iterations together all that the
    block reads; else it would run on what is not there yet, or not at all. Refuses where that
    cannot be shown.
    """
    block: Block = state.stmt(sref).block
    name = state.stmt(loop_sref).loop_var.name
    analyzer = analyzer_for(state, loop_sref)
    analyzer.bind(state.stmt(loop_sref).loop_var, loop_range(state.stmt(loop_sref)))
    for iterator in block.iter_vars:
        analyzer.bind(iterator.var, iterator.dom)
    ranges = _ranges_around(state, sref, loop_sref)
    domains: Domains = {}
    for region in block.reads:
        intervals = touched.get(id(region.buffer), [])
        for part, interval, size in zip(region.region, intervals, region.buffer.shape):
            if _is_whole(analyzer, interval, size):
                continue
            solved = _solve(analyzer, part, interval)
            reason = ""
            if solved is None:
                reason = (
                    f"the part of '{region.buffer.name}' that block '{block.name_hint}' reads "
                    "is no iterator"
                )
            elif not analyzer.can_prove(part.extent <= solved[3]):
                reason = (
                    f"block '{block.name_hint}' reads '{region.buffer.name}' over several "
                    f"iterations of '{name}'"
                )
            elif not _is_whole(analyzer, _over(interval, ranges), size) or not _is_whole(
                analyzer, (-part.min, size - part.min - part.extent), const(1, size.dtype)
            ):
                reason = (
                    f"the loop does not make all of '{region.buffer.name}' that block "
                    f"'{block.name_hint}' reads"
                )
            else:
                variable, low, high, _ = solved
                found = (analyzer.simplify(low), analyzer.simplify(high))
                known = domains.setdefault(variable, found)
                if not all(analyzer.can_prove_equal(x, y) for x, y in zip(known, found)):
                    reason = (
                        f"the producers of block '{block.name_hint}' make different parts in "
                        f"'{name}'"
                    )
            if reason:
                raise refuse_at(state, "reverse_compute_at", reason, sref)
    return domains


def _is_whole(analyzer: Analyzer, interval: Interval, size: PrimExpr) -> bool:
    """Whether ``[0, size)`` lies within an interval."""
    return analyzer.can_prove(interval[0] <= 0) and analyzer.can_prove(interval[1] >= size - 1)


def _over(interval: Interval, ranges: dict[Var, Range]) -> Interval:
    """The union of an interval over all values of some variables."""
    below, above = eval_set(interval[0], ranges), eval_set(interval[1], ranges)
    if not (below.has_lower_bound() and above.has_upper_bound()):
        return interval
    return below.min_value, above.max_value


def _ranges_around(state: ScheduleState, sref: StmtSRef, loop_sref: StmtSRef) -> dict[Var, Range]:
    """The ranges of a loop and of those around it that are not around a block."""
    own = set(state.ancestors(sref))
    ranges = {}
    for ancestor in (loop_sref, *state.ancestors(loop_sref)):
        if ancestor in own:
            break
        loop: For = state.stmt(ancestor)
        ranges[loop.loop_var] = loop_range(loop)
    return ranges


def _check_finished(
    state: ScheduleState, sref: StmtSRef, under: list[StmtSRef], loop_sref: StmtSRef
) -> None:
    """A reduction is complete only after its loops: the new place must not be inside of one."""
    around = _ranges_around(state, sref, loop_sref)
    for producer in under:
        realize: BlockRealize = state.stmt(producer)
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
            if iterator.iter_type != IterVar.CommReduce:
                continue
            for variable in variables_in(value):
                if variable in around and not is_const(around[variable].extent, 1):
                    raise refuse_at(
                        state,
                        "reverse_compute_at",
                        f"the reduction of block '{realize.block.name_hint}' is complete only "
                        "after "
                        f"loop '{variable.name}'",
                        state.loop_of(variable, sref),
                    )


def _check_order(
    state: ScheduleState, primitive: str, sref: StmtSRef, loop_sref: StmtSRef, scope: StmtSRef
) -> None:
    """What a block reads and writes must not be written or read on its way to the new place."""
    blocks = state.blocks_below(scope)
    below = set(state.blocks_below(loop_sref))
    here, first = blocks.index(sref), min(blocks.index(other) for other in below)
    last = max(blocks.index(other) for other in below)
    passed = blocks[here + 1 : last + 1] if here < first else blocks[first:here]
    own: Block = state.stmt(sref).block
    reads = {id(region.buffer) for region in own.reads}
    writes = {id(region.buffer) for region in own.writes}
    is_reverse = primitive == "reverse_compute_at"
    for other in passed:
        block: Block = state.stmt(other).block
        written = any(id(region.buffer) in reads for region in block.writes)
        read = any(id(region.buffer) in writes for region in block.reads)
        if (written and not (is_reverse and other in below)) or (read and is_reverse):
            verb = "writes what it reads" if written else "reads what it writes"
            raise refuse_at(
                state, primitive, f"block '{block.name_hint}' {verb}, and block '{own.name_hint}' "
                "would pass it", other,
            )  # fmt: skip


def _solve(
    analyzer: Analyzer, part: Range, interval: Interval
) -> tuple[Var, PrimExpr, PrimExpr, PrimExpr] | None:
    """The values of the one iterator in ``part`` for which it meets the interval, and its step.

    Serves ``v * c + d`` with a constant c > 0, the step: parts of c elements lie side by side.
    """
    used = list(variables_in(part.min))
    if len(used) != 1:
        return None
    (variable,) = used
    scale = _scale(analyzer, part.min, variable)
    if scale is None:
        return None
    factor, offset = scale
    step = const(factor, variable.dtype)
    low, high = interval[0] - offset, interval[1] - offset
    if factor == 1:
        return variable, low - (part.extent - 1), high, step
    return variable, floordiv(low - part.extent + step, step), floordiv(high, step), step


def _scale(analyzer: Analyzer, expr: PrimExpr, variable: Var) -> tuple[int, PrimExpr] | None:
    at_zero = analyzer.simplify(Replace({variable: const(0, variable.dtype)}).visit(expr))
    at_one = analyzer.simplify(Replace({variable: const(1, variable.dtype)}).visit(expr))
    step = analyzer.simplify(at_one - at_zero)
    if not isinstance(step, IntImm) or step.value <= 0:
        return None
    if not analyzer.can_prove_equal(
        expr, Mul(variable, const(step.value, variable.dtype)) + at_zero
    ):
        return None
    return step.value, at_zero


def _move(
    state: ScheduleState,
    primitive: str,
    sref: StmtSRef,
    loop_sref: StmtSRef,
    scope: StmtSRef,
    domains: Domains,
    preserve_unit_loops: bool,
    index: int,
) -> None:
    """Take the block out and put it under the loop, within new loops over the domains."""
    realize: BlockRealize = state.stmt(sref)
    place = _place(state, primitive, sref, loop_sref, scope, index)
    analyzer = analyzer_for(state, loop_sref)
    loop: For = state.stmt(loop_sref)
    analyzer.bind(loop.loop_var, loop_range(loop))
    nest = _nest(analyzer, realize, domains, preserve_unit_loops)
    if primitive == "reverse_compute_at":
        _check_runs_once(state, sref, loop_sref, nest)
    before = child_statements(loop)
    anchor = before[place] if place < len(before) else None
    if anchor is not None:
        anchor_sref = state.get_sref(anchor)
    remove_block(state, sref)
    state.adopt(sref, realize.block)
    loop = state.stmt(loop_sref)
    statements = stmt_list(loop.body)
    if anchor is None:
        statements = [*statements, nest]
    else:
        target = state.stmt(anchor_sref)
        position = next(k for k, stmt in enumerate(statements) if _contains(stmt, target))
        statements = [*statements[:position], nest, *statements[position:]]
    state.replace(loop_sref, loop.with_fields(body=stmt_seq(*statements)))


def _check_runs_once(state: ScheduleState, sref: StmtSRef, loop_sref: StmtSRef, nest: Stmt) -> None:
    """At its new place a consumer runs once for each value of its
    iterators, reductions in order."""
    ranges = _ranges_around(state, sref, loop_sref)
    inner = nest
    while isinstance(inner, For):
        ranges[inner.loop_var] = loop_range(inner)
        inner = inner.body
    realize: BlockRealize = inner  # type: ignore[assignment]
    for sref_around in reversed(list(state.ancestors(sref))):
        stmt = state.stmt(sref_around)
        if isinstance(stmt, For):
            ranges[stmt.loop_var] = loop_range(stmt)
    values = list(realize.iter_values)
    name = realize.block.name_hint
    if values and not detect_iter_map(values, ranges, realize.predicate).indices:
        reason = f"block '{name}' would be computed several times"
        raise refuse_at(state, "reverse_compute_at", reason, loop_sref)
    for ancestor in (loop_sref, *state.ancestors(loop_sref)):
        loop = state.stmt(ancestor)
        if not isinstance(loop, For):
            break
        if loop.kind in (ForKind.SERIAL, ForKind.UNROLLED):
            continue
        for iterator, value in zip(realize.block.iter_vars, values):
            if iterator.iter_type == IterVar.CommReduce and loop.loop_var in variables_in(value):
                reason = f"loop '{loop.loop_var.name}' would carry the reduction of block '{name}'"
                raise refuse_at(state, "reverse_compute_at", reason, ancestor)


def _contains(stmt: Stmt, target: Stmt) -> bool:
    return stmt is target or any(inner is target for inner in _nearest(stmt))


def _nearest(stmt: Stmt) -> list[Stmt]:
    return [] if isinstance(stmt, (For, BlockRealize)) else child_statements(stmt)


def _place(
    state: ScheduleState,
    primitive: str,
    sref: StmtSRef,
    loop_sref: StmtSRef,
    scope: StmtSRef,
    index: int,
) -> int:
    """Before which statement of the loop to insert: after all producers, before all consumers."""
    children = child_statements(state.stmt(loop_sref))
    producers = {state.stmt(s) for s in producers_of(state, sref, scope)}
    consumers = {state.stmt(s) for s in consumers_of(state, sref, scope)}
    first, last = 0, len(children)
    for number, child in enumerate(children):
        blocks = [child] if isinstance(child, BlockRealize) else _blocks_in(child)
        if any(block in producers for block in blocks):
            first = number + 1
        if last == len(children) and any(block in consumers for block in blocks):
            last = number
    if first > last:
        raise refuse_at(
            state, primitive, "a producer comes after a consumer under the loop", loop_sref
        )
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        raise refuse_at(
            state, primitive, f"index {index} is not between {first} and {last}", loop_sref
        )
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
) -> Stmt:
    """The block under new loops over the domains of its iterators."""
    loops: list[tuple[Var, PrimExpr]] = []
    values: list[PrimExpr] = []
    conditions: list[PrimExpr] = []
    for iterator in realize.block.iter_vars:
        low, extent, checks = _loop_domain(analyzer, iterator, domains.get(iterator.var))
        if is_const(extent, 1) and not preserve_unit_loops:
            values.append(low)
        else:
            variable = Var(f"ax{len(loops)}", iterator.var.dtype)
            loops.append((variable, extent))
            analyzer.bind(variable, Range.from_min_extent(const(0, variable.dtype), extent))
            values.append(variable if is_const(low, 0) else low + variable)
        for check in checks:
            condition = Replace({iterator.var: values[-1]}).visit(check)
            if not analyzer.can_prove(condition):
                conditions.append(condition)
    predicate = all_of(*conditions) if conditions else const(True, "bool")
    body: Stmt = realize.with_fields(iter_values=tuple(values), predicate=predicate)
    for variable, extent in reversed(loops):
        body = For(variable, const(0, variable.dtype), extent, ForKind.SERIAL, body)
    return body


def _loop_domain(
    analyzer: Analyzer, iterator: IterVar, interval: Interval | None
) -> tuple[PrimExpr, PrimExpr, list[PrimExpr]]:
    """Start and extent of the loop for an iterator, and conditions on it to check inside."""
    domain = iterator.dom
    if interval is None:
        return domain.min, domain.extent, []
    low, high = interval
    extent = analyzer.simplify(high - low + 1)
    end = domain.min + domain.extent
    if isinstance(extent, IntImm):
        if isinstance(domain.extent, IntImm) and extent.value >= domain.extent.value:
            return domain.min, domain.extent, []
        checks = [iterator.var < end]
        if not analyzer.can_prove(low >= domain.min):
            checks.append(iterator.var >= domain.min)
        return low, extent, checks
    low = analyzer.simplify(maximum(low, domain.min))
    extent = analyzer.simplify(minimum(high + 1, end) - low)
    return low, extent, []


def remove_block(state: ScheduleState, sref: StmtSRef) -> None:
    """Take a block out of the program, with the loops that hold nothing else."""
    top = sref
    while True:
        parent = state.parent(top)
        if parent is None or not isinstance(state.stmt(parent), For):
            break
        if len(child_statements(state.stmt(parent))) > 1:
            break
        top = parent
    parent_stmt = state.stmt(state.parent(top))
    if isinstance(parent_stmt, BlockRealize) and len(child_statements(parent_stmt)) == 1:
        raise refuse_at(state, "removing a block", "it is all that its scope does", sref)
    state.replace(top, stmt_seq())
