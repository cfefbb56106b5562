"""Schedules reductions along rows: partial results in the lanes of a vector.

  for i, k: S[i] += A[i, k]
becomes
  for i:
      P[lanes] = 0
      for k_0: P[lane] += A[i, k_0 * lanes + lane]      (in vectors)
      for lane: S[i] += P[lane]

Reduced axes that follow each other in memory are one row. The number of lanes decides the order of
the additions, never the number of threads.
"""

from __future__ import annotations

from tilesmith.ir import IntImm, PrimExpr, Var
from tilesmith.ir.queries import mentions
from tilesmith.schedule_rules.loops import (
    FEWEST_FOR_THREADS,
    PARTITIONED,
    describe,
    split_loops,
    step,
)
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import Block, BufferLoad, BufferStore, IterVar
from tilesmith.tir.queries import loads, statements
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["runs_along_rows", "schedule_row_reduction"]

_FEWEST_IN_WINDOW = 32  # windows of fewer elements are not rows


def _inputs(block: Block) -> list[BufferLoad]:
    """Return the loads of a reduction but for those of its results; empty for any other block."""
    stores = [one for one in statements(block.body) if isinstance(one, BufferStore)]
    if block.init is None or not stores:
        return []
    results = [store.buffer for store in stores]
    found = [load for load in loads(block.body) if load.indices]
    return [load for load in found if not any(load.buffer is one for one in results)]


def _reduced(block: Block) -> list[IterVar]:
    return [one for one in block.iter_vars if one.iter_type == IterVar.CommReduce]


def _extent(iterator: IterVar) -> PrimExpr | None:
    return None if iterator.dom is None else iterator.dom.extent


def runs_along_rows(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the last reduction iterator runs along the last axis of the loads, at stride
    1, or does not occur in a load.
    """
    node: Block = sch.get(block)
    reduction, inputs = _reduced(node), _inputs(node)
    if not reduction or not inputs:
        return False
    last, extent = reduction[-1].var, _extent(reduction[-1])
    if isinstance(extent, IntImm) and extent.value < _FEWEST_IN_WINDOW:
        return all(one.indices[-1] is last for one in inputs)
    steps = [step(one, last) for one in inputs]
    return 1 in steps and all(one in (0, 1) for one in steps)


def _in_one_row(block: Block) -> int:
    """Return how many of the last reduction iterators run along one row: they are the last indices
    of all loads that they occur in, and cover these axes.
    """
    reduction = _reduced(block)
    count = 1
    while count < len(reduction):
        row = reduction[-count - 1 :]
        variables: set[Var] = {one.var for one in row}
        for load in _inputs(block):
            if not mentions(load.indices, variables):
                continue
            axes = zip(row, load.indices[-len(row) :], load.buffer.shape[-len(row) :])
            if len(load.indices) < len(row) or not all(
                index is one.var and _same(_extent(one), size) for one, index, size in axes
            ):
                return count
            if mentions(load.indices[: -len(row)], variables):
                return count
        count += 1
    return count


def _same(a: PrimExpr | None, b: PrimExpr) -> bool:
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value


def schedule_row_reduction(sch: Schedule, block: BlockRV, lanes: int, threads: int) -> None:
    """Split the rows over the lanes of vectors; run outer loops in parallel."""
    spatial, reduction = split_loops(sch, block, sch.get_loops(block))
    if not reduction:  # rows of one element have no loop
        return
    row = _row(sch, block, reduction)
    extent = sch.get(row).extent
    if isinstance(extent, IntImm) and extent.value < 2 * lanes:
        reason = f"the reduction has {extent.value} steps, fewer than {2 * lanes}"
        record_fallback("vectorization", describe(sch, block), reason)
        return
    total = 1
    for loop in sch.get_loops(block):
        size = sch.get(loop).extent
        total *= size.value if isinstance(size, IntImm) else 1 << 10
    tiles, lane = sch.split(row, [None, lanes])
    if not isinstance(extent, IntImm) or extent.value % lanes:
        sch.annotate(tiles, *PARTITIONED)
    partial = sch.rfactor(lane, len(sch.get(block).writes[0].region))
    for number in range(len(sch.get(partial).writes)):
        sch.set_scope(partial, number, "local")
    *loops, vector = sch.get_loops(partial)
    outer, rest = split_loops(sch, partial, loops)
    sch.reorder(*outer, *rest, vector)
    if outer:
        sch.reverse_compute_at(block, outer[-1])
    sch.vectorize(vector)
    sch.decompose_reduction(partial, rest[0])
    if outer and threads > 1 and total >= FEWEST_FOR_THREADS:
        sch.parallel(sch.fuse(*outer))


def _row(sch: Schedule, block: BlockRV, reduction: list[LoopRV]) -> LoopRV:
    """Return the loop along the row; fuse those of axes that follow each other."""
    count = _in_one_row(sch.get(block))
    if count == 1 or len(reduction) != len(_reduced(sch.get(block))):
        return reduction[-1]
    return sch.fuse(*reduction[-count:])
