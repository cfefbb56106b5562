"""Computes the values of a block's iterators that access the region of one iteration of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tilesmith.arith import Analyzer, IntervalSet, eval_set
from tilesmith.ir import IntImm, Mul, PrimExpr, Range, Var, const
from tilesmith.ir.operators import floordiv, is_const, maximum, minimum, moved
from tilesmith.ir.queries import variables
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion
from tilesmith.tir.functor import Substitution, substitute
from tilesmith.tir.schedule.blocks import ranges_between
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.needed_regions import narrowed
from tilesmith.tir.schedule.nests import analyzer_for, iterator_values, loop_range, simplified
from tilesmith.tir.schedule.primitives.inverse import inverse_of
from tilesmith.tir.schedule.sizes import learn_sizes
from tilesmith.tir.stmt import Block, For

__all__ = [
    "Domains",
    "Interval",
    "consumer_domains",
    "producer_domains",
    "ranges_around",
    "scale_of",
    "touched_parts",
]

Interval = tuple[PrimExpr, PrimExpr]  # both ends belong to it
Domains = dict[Var, Interval]  # by iterator; those left out take all their values


def touched_parts(
    blocks: Sequence[BlockCursor], loop_cursor: LoopCursor, buffers: list[Buffer], reads: bool
) -> dict[int, list[Interval]]:
    """Return the regions that blocks read (or write) in one iteration of a loop: intervals by
    buffer.
    """
    wanted = {id(buffer) for buffer in buffers}
    found: dict[int, list[Interval]] = {}
    analyzer = analyzer_for(loop_cursor)
    loop = loop_cursor.stmt
    analyzer.bind(loop.loop_var, loop_range(loop))
    learn_sizes(analyzer, loop_cursor)
    for cursor in blocks:
        realize = cursor.stmt
        ranges = ranges_between(cursor, loop_cursor)
        values = iterator_values(cursor)
        bind = Substitution({i.var: v for i, v in zip(realize.block.iter_vars, values)})
        for region in realize.block.reads if reads else realize.block.writes:
            if id(region.buffer) not in wanted:
                continue
            shared = _threads_around(loop_cursor, region.buffer.scope()) if reads else {}
            everywhere = {**shared, **ranges}
            intervals: list[Interval] = []
            for part in region.region:
                low = bind.visit(part.min)
                high = moved(low + bind.visit(part.extent), -1)
                intervals.append(
                    _relaxed(analyzer, low, high, everywhere, region.buffer, len(intervals))
                )
            if reads:
                intervals = narrowed(realize.block, region.buffer, intervals, bind, everywhere)
            known = found.get(id(region.buffer))
            found[id(region.buffer)] = (
                intervals if known is None else _union(analyzer, known, intervals)
            )
    return found


def _threads_around(loop_cursor: LoopCursor, storage_scope: str) -> dict[Var, Range]:
    """Return the enclosing loops over threads that share memory of a scope, which must hold the
    elements for all of them. It is empty for global memory: there each thread computes the elements
    that it reads.
    """
    tags: tuple[str, ...] = ()
    if storage_scope.startswith("shared"):
        tags = ("threadIdx", "vthread")
    elif storage_scope in ("warp", "warpgroup") or storage_scope.startswith("wmma."):
        tags = ("threadIdx.x",)
    found = {}
    for cursor in (loop_cursor, *loop_cursor.ancestors()):
        loop = cursor.stmt
        if isinstance(loop, For) and loop.thread_binding is not None:
            if loop.thread_binding.thread_tag.startswith(tags):
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
    """Return the bounds ``[low, high]`` over all values of some variables; the whole axis if they
    are unknown.
    """
    if ranges:
        below, above = analyzer.int_set(low, ranges), analyzer.int_set(high, ranges)
        low, high = below.min_value, above.max_value
        size = buffer.shape[axis]
        if not (below.has_lower_bound() and above.has_upper_bound()):
            return const(0, size.dtype), simplified(analyzer, moved(size, -1))
    return simplified(analyzer, low), simplified(analyzer, high)


def _union(analyzer: Analyzer, a: list[Interval], b: list[Interval]) -> list[Interval]:
    return [
        (simplified(analyzer, minimum(x[0], y[0])), simplified(analyzer, maximum(x[1], y[1])))
        for x, y in zip(a, b)
    ]


def producer_domains(block: Block, touched: dict[int, list[Interval]]) -> Domains:
    """Return the values of each iterator that write the accessed regions; missing iterators need
    all values.
    """
    domains: Domains = {}
    is_first = True
    analyzer = Analyzer()
    for region in block.writes:
        intervals = touched.get(id(region.buffer))
        if intervals is None:
            continue
        found = _domains_of_region(analyzer, block, region, intervals)
        if is_first:
            domains, is_first = found, False
            continue
        # An iterator that one of the buffers leaves open has to take all values.
        domains = {
            variable: (
                analyzer.simplify(minimum(known[0], found[variable][0])),
                analyzer.simplify(maximum(known[1], found[variable][1])),
            )
            for variable, known in domains.items()
            if variable in found
        }
    return domains


def _domains_of_region(
    analyzer: Analyzer, block: Block, region: BufferRegion, intervals: list[Interval]
) -> Domains:
    """Return the values of the iterators whose region may overlap a box; missing iterators:
    possibly all values.
    """
    domains: Domains = {}
    for part, interval in zip(region.region, intervals):
        solved = _solve(analyzer, block, part, interval)
        if solved is None:
            continue
        variable, low, high, _ = solved
        known = domains.get(variable)
        if known is not None:
            low, high = minimum(low, known[0]), maximum(high, known[1])
        domains[variable] = (analyzer.simplify(low), analyzer.simplify(high))
    used = set(variables([part.min for part in region.region]))
    if any(i.var in used and i.var not in domains for i in block.iter_vars):
        for variable, interval in _inverted(analyzer, block, region, intervals).items():
            domains.setdefault(variable, interval)
    return domains


def _inverted(
    analyzer: Analyzer, block: Block, region: BufferRegion, intervals: list[Interval]
) -> Domains:
    """Invert indices like ``_domains_of_region`` where an iterator occurs in several dimensions or
    a dimension has several iterators: the indices together determine the iterators (``v // 4, v %
    4`` determine v).
    """
    if not all(is_const(part.extent, 1) for part in region.region):
        return {}
    domains = {iterator.var: iterator.domain for iterator in block.iter_vars}
    indices = [part.min for part in region.region]
    placeholders, values = inverse_of(indices, domains)
    boxes = {p: IntervalSet(low, high) for p, (low, high) in zip(placeholders, intervals)}
    found: Domains = {}
    used = set(variables(indices))
    for variable, value in values.items():
        if variable not in used:
            continue
        covered = eval_set(value, boxes)
        if covered.has_lower_bound() and covered.has_upper_bound():
            low, high = covered.min_value, covered.max_value
            found[variable] = (analyzer.simplify(low), analyzer.simplify(high))
    return found


def consumer_domains(
    cursor: BlockCursor, loop_cursor: LoopCursor, touched: dict[int, list[Interval]]
) -> tuple[Domains, bool]:
    """Return the values of each iterator that read the elements that one iteration of the loop
    writes.

    Each iteration must make all that these values read, and all iterations together all that the
    block reads; else it would read elements that are not written yet, or not run at all. Refuses
    where that cannot be proven. The second result: whether it still has to be proven that all
    iterations together run the block for all of its values.
    """
    return _ConsumerDomains(cursor, loop_cursor).find(touched)


class _ConsumerDomains:
    def __init__(self, cursor: BlockCursor, loop_cursor: LoopCursor) -> None:
        self.cursor = cursor
        self.block = cursor.block
        self.loop_name = loop_cursor.stmt.loop_var.name
        self.analyzer = analyzer_for(loop_cursor)
        self.analyzer.bind(loop_cursor.stmt.loop_var, loop_range(loop_cursor.stmt))
        for iterator in self.block.iter_vars:
            self.analyzer.bind(iterator.var, iterator.domain)
        self.ranges = ranges_around(cursor, loop_cursor)
        self.domains: Domains = {}
        self.is_inverted = False

    def refuse(self, reason: str, advice: str = "") -> Exception:
        """Return the error of the primitive, located at the consumer."""
        return refuse(reason, self.cursor, advice)

    def find(self, touched: dict[int, list[Interval]]) -> tuple[Domains, bool]:
        """Return the values for all regions that the block reads."""
        for region in self.block.reads:
            intervals = touched.get(id(region.buffer), [])
            open_ = [
                (part, interval, size)
                for part, interval, size in zip(region.region, intervals, region.buffer.shape)
                if not _is_whole(self.analyzer, interval, size)
            ]
            solved = [
                _solve(self.analyzer, self.block, part, interval) for part, interval, _ in open_
            ]
            if any(one is None for one in solved):
                self._invert(region, intervals)
            for (part, interval, size), one in zip(open_, solved):
                self._check_made(region, part, interval, size)
                if one is None:
                    continue
                variable, low, high, step = one
                if not self._is_made_at_once(part, interval, (variable, low, high), step):
                    raise self.refuse(
                        f"block '{self.block.name_hint}' reads '{region.buffer.name}' over several "
                        f"iterations of '{self.loop_name}'",
                        "choose a loop further out, or compute_at the producer under the consumer",
                    )
                self._note(variable, (low, high))
        return self.domains, self.is_inverted

    def _is_made_at_once(
        self,
        part: Range,
        interval: Interval,
        values: tuple[Var, PrimExpr, PrimExpr],
        step: PrimExpr,
    ) -> bool:
        """Return whether all that some values of an iterator read lies within what one iteration of
        the loop makes."""
        if is_const(part.extent, 1):
            return True  # the values were chosen so
        if not self.analyzer.can_prove(part.extent <= step):
            return False
        variable, low, high = values
        read = eval_set(part, {variable: IntervalSet(low, high)})
        return (
            read.has_lower_bound()
            and read.has_upper_bound()
            and self.analyzer.can_prove(read.min_value >= interval[0])
            and self.analyzer.can_prove(read.max_value <= interval[1])
        )

    def _check_made(
        self, region: BufferRegion, part: Range, interval: Interval, size: PrimExpr
    ) -> None:
        """Check that all iterations together write all elements that the block reads."""
        inside = (-part.min, size - part.min - part.extent)
        if not (
            _is_whole(self.analyzer, inside, const(1, size.dtype))
            and self._is_made(region.buffer, interval, size)
        ):
            raise self.refuse(
                f"the loop does not make all of '{region.buffer.name}' that block "
                f"'{self.block.name_hint}' reads"
            )

    def _is_made(self, buffer: Buffer, interval: Interval, size: PrimExpr) -> bool:
        """Return whether the parts of all iterations together are all of a dimension."""
        with ExitStack() as stack:
            # The block reads inside of the buffer, so where it runs no size is 0.
            for known in buffer.shape:
                if isinstance(known, Var):
                    stack.enter_context(self.analyzer.constraint_scope(known >= 1))
            return _is_whole(self.analyzer, _over(self.analyzer, interval, self.ranges), size)

    def _note(self, variable: Var, interval: Interval) -> None:
        found = (self.analyzer.simplify(interval[0]), self.analyzer.simplify(interval[1]))
        known = self.domains.setdefault(variable, found)
        if not all(self.analyzer.can_prove_equal(x, y) for x, y in zip(known, found)):
            raise self.refuse(
                f"the producers of block '{self.block.name_hint}' make different parts in "
                f"'{self.loop_name}'"
            )

    def _invert(self, region: BufferRegion, intervals: list[Interval]) -> None:
        """Return the values of iterators that no single dimension determines; their reads must lie
        within the written region.
        """
        found = _inverted(self.analyzer, self.block, region, intervals)
        boxes = {
            iterator.var: IntervalSet(*found[iterator.var])
            if iterator.var in found
            else IntervalSet.from_range(iterator.domain)
            for iterator in self.block.iter_vars
        }
        for part, (low, high) in zip(region.region, intervals):
            covered = eval_set(part.min, boxes)
            within = (
                bool(found)
                and covered.has_lower_bound()
                and covered.has_upper_bound()
                and self.analyzer.can_prove(covered.min_value >= low)
                and self.analyzer.can_prove(covered.max_value <= high)
            )
            if not within:
                raise self.refuse(
                    f"the part of '{region.buffer.name}' that block '{self.block.name_hint}' reads "
                    f"does not tell its iterators in one iteration of '{self.loop_name}'"
                )
        for variable, interval in found.items():
            self._note(variable, interval)
        self.is_inverted = True


def _is_whole(analyzer: Analyzer, interval: Interval, size: PrimExpr) -> bool:
    """Return whether an interval contains ``[0, size)``."""
    return analyzer.can_prove(interval[0] <= 0) and analyzer.can_prove(
        interval[1] >= moved(size, -1)
    )


def _over(analyzer: Analyzer, interval: Interval, ranges: dict[Var, Range]) -> Interval:
    """Return the union of an interval over all values of some variables."""
    below, above = analyzer.int_set(interval[0], ranges), analyzer.int_set(interval[1], ranges)
    if not (below.has_lower_bound() and above.has_upper_bound()):
        return interval
    return below.min_value, above.max_value


def ranges_around(cursor: BlockCursor, loop_cursor: LoopCursor) -> dict[Var, Range]:
    """Return the ranges of a loop and its enclosing loops that do not enclose the block."""
    own = set(cursor.ancestors())
    ranges = {}
    for ancestor in (loop_cursor, *loop_cursor.ancestors()):
        loop = ancestor.stmt
        if ancestor in own or not isinstance(loop, For):
            break
        ranges[loop.loop_var] = loop_range(loop)
    return ranges


def _solve(
    analyzer: Analyzer, block: Block, part: Range, interval: Interval
) -> tuple[Var, PrimExpr, PrimExpr, PrimExpr] | None:
    """Return the values of the only iterator in ``part`` at which the part overlaps the interval,
    and its step.

    Serves ``v * c + d`` with a constant c > 0, the step: parts of c elements lie side by side. An
    extent that changes with the iterators counts as the largest one: values too many do no harm.
    """
    extent = part.extent
    iterators = {iterator.var: iterator.domain for iterator in block.iter_vars}
    if not iterators.keys().isdisjoint(variables(extent)):
        extents = eval_set(extent, iterators)
        if not extents.has_upper_bound():
            return None
        extent = extents.max_value
    used = variables(part.min)
    if len(used) != 1:
        return None
    (variable,) = used
    scale = scale_of(analyzer, part.min, variable)
    if scale is None:
        return None
    factor, offset = scale
    step = const(factor, variable.dtype)
    low, high = interval[0] - offset, interval[1] - offset
    if factor == 1:
        return variable, low - moved(extent, -1), high, step
    return variable, floordiv(low - extent + step, step), floordiv(high, step), step


def scale_of(analyzer: Analyzer, expr: PrimExpr, variable: Var) -> tuple[int, PrimExpr] | None:
    """Return ``(c, d)`` if an expression is ``variable * c + d`` with a constant c > 0, else
    None.
    """
    at_zero = analyzer.simplify(substitute(expr, {variable: 0}))
    at_one = analyzer.simplify(substitute(expr, {variable: 1}))
    step = analyzer.simplify(at_one - at_zero)
    if not isinstance(step, IntImm) or step.value <= 0:
        return None
    if not analyzer.can_prove_equal(
        expr, Mul(variable, const(step.value, variable.dtype)) + at_zero
    ):
        return None
    return step.value, at_zero
