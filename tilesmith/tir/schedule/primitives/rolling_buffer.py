"""Defines rolling_buffer, which makes the buffer of a producer circular if its regions overlap
across iterations.

A producer under a loop of its consumers writes rows ``[i * s + c, i * s + c + e)`` of a buffer in
iteration i. Where e > s, the first e - s of them have been computed in the iteration before. The
buffer shrinks to e rows, row r lies at ``r % e``, and only new rows are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, any_of, floormod, is_const, moved
from tilesmith.ir.queries import mentions, variables
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion, IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.schedule.blocks import (
    NOT_AFFINE,
    check_covers_domain,
    is_output_block,
    ranges_between,
    scope_of,
    why_not_complete,
    why_not_reduction,
)
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import Redirect, parent_of
from tilesmith.tir.schedule.parameters import WrittenBuffer
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.cache import buffer_with, region_of
from tilesmith.tir.schedule.primitives.compute_inline import check_plain_access
from tilesmith.tir.schedule.primitives.copies import (
    analyzer_inside,
    bound_region,
    common_place,
    exact_region_at,
    region_at,
)
from tilesmith.tir.schedule.primitives.written_elements import writes_always
from tilesmith.tir.stmt import For, ForKind

__all__ = ["rolling_buffer"]


class _Rolling(NamedTuple):
    """The rolling dimension and loop, the number of rows of one iteration, and the number of new
    ones.
    """

    axis: int
    loop: For
    low: PrimExpr
    rows: int
    new_rows: int


@primitive()
def rolling_buffer(block: BlockCursor, write_buffer_index: WrittenBuffer) -> None:
    """Make the buffer of a producer circular, so that each iteration computes only new rows.

    The block stands under a loop of its consumers (``compute_at``), and the parts that it
    writes in successive iterations overlap by constant amounts. Along the first such dimension
    the buffer keeps as many rows as one iteration needs, row r at ``r % rows``.
    """
    region = region_of(block, write_buffer_index, reads=False)
    buffer = region.buffer
    scope = scope_of(block)
    node = block.block
    if is_output_block(block, scope):
        reason = f"block '{node.name_hint}' is an output block of its scope"
        raise refuse(reason, block)
    _check_kind(block, scope)
    check_covers_domain(block)
    consumers = [
        other
        for other in scope.blocks_below()
        if other != block and any(r.buffer is buffer for r in other.block.reads)
    ]
    place = common_place(scope, [block, *consumers]) if consumers else scope
    if not isinstance(place, LoopCursor):
        raise refuse(
            f"block '{node.name_hint}' and its consumers share no loop",
            block,
            "move it under a loop of its consumers first (compute_at)",
        )
    for user in (block, *consumers):
        check_plain_access(user, buffer)
    rolling = _find(block, region, place)
    _check_consumers(block, consumers, region, place)
    _apply(block, scope, buffer, rolling)


def _check_kind(cursor: BlockCursor, scope: BlockCursor) -> None:
    """Check that a block is complete or a reduction; its bindings need not be affine, because
    regions overlap.
    """
    first = why_not_complete(cursor, scope)
    second = why_not_reduction(cursor, scope) if first else ""
    if second and second != NOT_AFFINE:
        name = cursor.block.name_hint
        reason = f"block '{name}' is neither complete ({first}) nor a reduction block ({second})"
        raise refuse(reason, cursor)


def _find(cursor: BlockCursor, region: BufferRegion, place: LoopCursor) -> _Rolling:
    """Return the first dimension in which the regions of successive iterations overlap."""
    name = region.buffer.name
    part = _part_written(cursor, region, place)
    around = [place, *place.ancestors()]
    loops = {
        stmt.loop_var: stmt
        for stmt in [ancestor.stmt for ancestor in around]
        if isinstance(stmt, For)
    }
    # The innermost loop first: where a row depends on several, rows roll with that one.
    order = list(loops)
    analyzer = analyzer_inside(place)
    for axis, one in enumerate(part):
        used = [variable for variable in order if mentions(one.min, {variable})]
        if not used or not isinstance(one.extent, IntImm):
            continue
        loop = loops[used[0]]
        step = _step(analyzer, one.min, loop.loop_var)
        if step is None or not 0 < step < one.extent.value or is_const(loop.extent, 1):
            continue
        rolling = _Rolling(axis, loop, one.min, one.extent.value, step)
        _check_loops(cursor, place, rolling, part)
        return rolling
    raise refuse(
        f"the parts of '{name}' in successive iterations do not overlap",
        place,
        "they must move by a constant step that is smaller than the part",
    )


def _part_written(cursor: BlockCursor, region: BufferRegion, place: LoopCursor) -> list[Range]:
    """Return the box that a block fills in one iteration; refuses a part with gaps."""
    part = exact_region_at(cursor, region, place)
    if part is None or not writes_always(cursor.block, region.buffer):
        reason = f"the part of '{region.buffer.name}' that one iteration writes is not a full box"
        raise refuse(reason, cursor)
    return part


def _step(analyzer: Analyzer, low: PrimExpr, variable: Var) -> int | None:
    """Return the distance between the regions of successive iterations, if it is constant."""
    after = substitute(low, {variable: variable + 1})
    step = analyzer.simplify(after - low)
    return step.value if isinstance(step, IntImm) else None


def _check_loops(
    cursor: BlockCursor, place: LoopCursor, rolling: _Rolling, part: list[Range]
) -> None:
    """Check that all other loops run identically in each iteration of the rolling loop."""
    loop = rolling.loop
    if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
        reason = f"loop '{loop.loop_var.name}' does not run in order, so that rows cannot be kept"
        raise refuse(reason, cursor.loop_of(loop.loop_var))
    for ancestor in (place, *place.ancestors()):
        inner = ancestor.stmt
        if inner is loop or not isinstance(inner, For):
            break
        if mentions([inner.min, inner.extent], {loop.loop_var}):
            reason = f"loop '{inner.loop_var.name}' depends on '{loop.loop_var.name}'"
            raise refuse(reason, ancestor)
    for axis, other in enumerate(part):
        if axis != rolling.axis and mentions([other.min, other.extent], {loop.loop_var}):
            reason = f"two dimensions of the buffer move with loop '{loop.loop_var.name}'"
            raise refuse(reason, cursor)


def _check_consumers(
    cursor: BlockCursor,
    consumers: Sequence[BlockCursor],
    region: BufferRegion,
    place: LoopCursor,
) -> None:
    """Check that consumers read only rows that the same iteration would write without rolling."""
    analyzer = analyzer_inside(place)
    part, buffer = _part_written(cursor, region, place), region.buffer
    blocks = place.blocks_below()
    for consumer in consumers:
        block = consumer.block
        if any(other.buffer is buffer for other in block.writes):
            reason = f"block '{block.name_hint}' writes '{buffer.name}' too"
            raise refuse(reason, consumer)
        if blocks.index(consumer) < blocks.index(cursor):
            reason = f"block '{block.name_hint}' reads '{buffer.name}' before it is written"
            raise refuse(reason, consumer)
        for read in block.reads:
            if read.buffer is not buffer:
                continue
            needed = region_at(consumer, read, place)
            for inner, outer in zip(needed, part):
                within = analyzer.can_prove(inner.min >= outer.min) and analyzer.can_prove(
                    inner.min + inner.extent <= outer.min + outer.extent
                )
                if not within:
                    reason = (
                        f"block '{block.name_hint}' reads parts of '{buffer.name}' that are not "
                        "written in the same iteration"
                    )
                    raise refuse(reason, consumer)


class _Circular(Redirect):
    """Reduces one index of every access to a buffer modulo the number of rows kept."""

    def __init__(self, old: Buffer, new: Buffer, axis: int, rows: int) -> None:
        super().__init__(old, new)
        self.axis = axis
        self.rows = rows

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        """Return the row of the circular buffer that holds an element."""
        made = list(indices)
        made[self.axis] = floormod(made[self.axis], const(self.rows, made[self.axis].dtype))
        return made

    def ranges(self, buffer: Buffer, ranges: tuple[Range, ...]) -> list[Range]:
        """Return the new ranges: one row stays one row, several rows become the whole dimension."""
        parts = list(ranges)
        rows = parts[self.axis]
        dtype = rows.min.dtype
        if is_const(rows.extent, 1):
            parts[self.axis] = Range.from_min_extent(
                floormod(rows.min, const(self.rows, dtype)), const(1, dtype)
            )
        else:
            parts[self.axis] = Range.from_min_extent(const(0, dtype), const(self.rows, dtype))
        return parts


def _apply(cursor: BlockCursor, scope: BlockCursor, buffer: Buffer, rolling: _Rolling) -> None:
    """Shrink the buffer, and restrict the producer to new rows."""
    realize = cursor.stmt
    analyzer = analyzer_inside(parent_of(cursor))
    for variable, domain in ranges_between(cursor, scope).items():
        analyzer.bind(variable, domain)
    region = next(r for r in realize.block.writes if r.buffer is buffer)
    row = bound_region(realize, region)[rolling.axis]
    # Of a part of several rows (a block that writes some at once) the last one decides.
    last = moved(row.min + row.extent, -1)
    offset = analyzer.simplify(last - rolling.low)
    overlap = const(rolling.rows - rolling.new_rows, offset.dtype)
    is_first = rolling.loop.loop_var < moved(rolling.loop.min, 1)
    condition = any_of(is_first, overlap <= offset)
    predicate = all_of(realize.predicate, condition)
    # From here on the order matters: rows are overwritten.
    rows = set(variables(region.region[rolling.axis].min))
    iterators = [
        i.with_fields(iter_type=IterVar.Ordered) if i.var in rows else i
        for i in realize.block.iter_vars
    ]
    block = realize.block.with_fields(iter_vars=tuple(iterators))
    new_realize = realize.with_fields(predicate=predicate, block=block)
    cursor.replace(new_realize, {realize.block: block})
    shape = list(buffer.shape)
    shape[rolling.axis] = const(rolling.rows, shape[rolling.axis].dtype)
    new = buffer_with(buffer, buffer.name, shape=tuple(shape), strides=())
    rewrite = _Circular(buffer, new, rolling.axis, rolling.rows)
    before = scope.stmt
    scope.replace(rewrite.visit(before), rewrite.reuse)
