"""Tells which elements of a buffer the stores inside a block write, whatever it declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import compress
from typing import Any

from tilesmith.arith import Analyzer, estimate_region_strict_bound
from tilesmith.ir import PrimExpr, Ramp, Range, Var, const
from tilesmith.ir.operators import is_const, moved
from tilesmith.ir.queries import mentions, nodes, variables
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion
from tilesmith.tir.functor import Substitution, substitute
from tilesmith.tir.queries import loads, statements, stores
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Stmt,
    While,
)

__all__ = ["Writes", "exact_box", "writes_always", "writes_of"]


def exact_box(region: Sequence[Range], ranges: dict[Var, Range]) -> list[Range] | None:
    """Return the box that a region covers without gaps over all values of some variables, else
    None.
    """
    single = {var: range_.min for var, range_ in ranges.items() if is_const(range_.extent, 1)}
    if single:
        region = [Range.from_min_extent(*substitute((r.min, r.extent), single)) for r in region]
    changes = [mentions([part.min, part.extent], ranges) for part in region]
    found = estimate_region_strict_bound(list(compress(region, changes)), ranges)
    if found is None:
        return None
    analyzer = Analyzer()
    boxes = iter(found)
    box = []
    for part, is_changing in zip(region, changes):
        low, extent = part.min, part.extent
        if is_changing:
            covered = next(boxes)
            low, extent = covered.min_value, moved(covered.max_value - covered.min_value, 1)
        box.append(Range.from_min_extent(analyzer.simplify(low), analyzer.simplify(extent)))
    return box


class Writes(Enum):
    """Which elements of the region that it declares a block stores."""

    ALWAYS = "all of them, always"
    CONDITIONALLY = "all of them, but a condition may skip a store"
    WITH_GAPS = "maybe not all of them"


def writes_of(block: Block, buffer: Buffer) -> Writes:
    """Return which elements of a buffer that its region spans a block stores."""
    if _leaves_gaps(block, buffer):
        return Writes.WITH_GAPS
    for match in nodes(block.body, MatchBufferRegion):
        if match.source.buffer is buffer:
            return Writes.CONDITIONALLY  # nobody has looked what is written through the match
    for stmt in statements(block.body):
        if isinstance(stmt, BufferStore):
            if stmt.buffer is buffer and stmt.predicate is not None:
                return Writes.CONDITIONALLY
        elif _is_conditional(stmt) and next(stores(stmt, buffer), None) is not None:
            return Writes.CONDITIONALLY
    return Writes.ALWAYS


def writes_always(block: Block, buffer: Buffer) -> bool:
    """Return whether a block stores all elements of a buffer that its region spans, and no
    condition can skip a store.
    """
    return writes_of(block, buffer) is Writes.ALWAYS


def _leaves_gaps(block: Block, buffer: Buffer) -> bool:
    """Return whether the stores inside a block may leave out elements of the region of a buffer
    that it declares: loops that step over elements, places that loaded values choose, or a region
    that is larger than what is written. What is written through pointers is believed.
    """
    analyzer = Analyzer()
    for iterator in block.iter_vars:
        analyzer.bind(iterator.var, iterator.domain)
    regions = [region for region in block.writes if region.buffer is buffer]
    regions += [
        BufferRegion.full_region(match.buffer)
        for match in block.match_buffers
        if match.source.buffer is buffer
    ]
    return not all(_is_filled(block.body, region, analyzer) for region in regions)


def _is_filled(body: Stmt, region: BufferRegion, analyzer: Analyzer) -> bool:
    boxes: list[list[Range]] = []
    for written, loops in _stores_in_loops(body, region.buffer, {}, {}):
        box = _box_of(written, loops)
        if box is None:
            return False
        boxes.append(box)
    prove = analyzer.can_prove
    return not boxes or all(
        any(prove(box[axis].min <= part.min) for box in boxes)
        and any(prove(box[axis].min + box[axis].extent >= part.min + part.extent) for box in boxes)
        for axis, part in enumerate(region.region)
    )


def _stores_in_loops(
    stmt: Any, buffer: Buffer, loops: dict[Var, Range], bound: dict[Var, PrimExpr]
) -> Iterator[tuple[list[Range], dict[Var, Range]]]:
    """Yield the elements that each store writes, in terms of the loops around it, and these."""
    bind = Substitution(bound)
    if isinstance(stmt, BufferStore):
        if stmt.buffer is buffer:
            yield [_lanes(bind.visit(index)) for index in stmt.indices], loops
        return
    if isinstance(stmt, For):
        low, extent = bind.visit(stmt.min), bind.visit(stmt.extent)
        loops = {**loops, stmt.loop_var: Range.from_min_extent(low, extent)}
    elif isinstance(stmt, BlockRealize):
        values = [bind.visit(value) for value in stmt.iter_values]
        bound = {**bound, **{it.var: v for it, v in zip(stmt.block.iter_vars, values)}}
        stmt = stmt.block
    elif isinstance(stmt, LetStmt):
        bound = {**bound, stmt.var: bind.visit(stmt.value)}
    for child in stmt.children():
        if isinstance(child, Stmt):
            yield from _stores_in_loops(child, buffer, loops, bound)


def _lanes(index: PrimExpr) -> Range:
    """Return the elements of an index, of all its lanes; an extent of 0 stands for gaps."""
    if isinstance(index, Ramp):
        extent = index.lanes if is_const(index.stride, 1) else 0
        return Range.from_min_extent(index.base, const(extent, index.base.dtype))
    extent = 0 if index.dtype.lanes > 1 else 1
    return Range.from_min_extent(index, const(extent, index.dtype.element))


def _box_of(region: list[Range], loops: dict[Var, Range]) -> list[Range] | None:
    """Return the box that a store writes over its loops; None if it leaves gaps."""
    if any(is_const(one.extent, 0) or any(True for _ in loads(one.min)) for one in region):
        return None
    used = {var: loops[var] for var in _used_loops(region, loops)}
    return exact_box(region, used)


def _used_loops(region: list[Range], loops: dict[Var, Range]) -> dict[Var, None]:
    """Return the loops that a region depends on, those of their ranges too."""
    found: dict[Var, None] = {}
    for var in variables(region):
        if var in loops:
            found.update({**_used_loops([loops[var]], loops), var: None})
    return found


def _is_conditional(stmt: Stmt) -> bool:
    if isinstance(stmt, BlockRealize):
        return not is_const(stmt.predicate, 1)
    return isinstance(stmt, (IfThenElse, While))
