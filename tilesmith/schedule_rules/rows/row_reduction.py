"""Splits reductions along rows: partial results in the lanes of vectors.

  for i, k: S[i] += A[i, k]
becomes
  for i:
      P[lanes] = 0
      for k_0: P[lane] += A[i, k_0 * lanes + lane]      (in vectors)
      Q[lanes / 4] = 0
      for j: Q[lane] += P[j * lanes / 4 + lane]         (in vectors)
      for lane: S[i] += Q[lane]

There are several vectors of lanes where rows are long, because an addition takes several cycles.
Reduced axes that follow each other in memory are one row. The number of lanes decides the order of
the additions, never the number of threads.
"""

from __future__ import annotations

from tilesmith.ir import IntImm, PrimExpr, Var
from tilesmith.ir.queries import mentions
from tilesmith.schedule_rules.loops import PARTITIONED, describe, split_loops, step
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import Block, BufferLoad, BufferStore, IterVar
from tilesmith.tir.queries import loads, statements
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["runs_along_rows", "split_row", "vectorize_partial_results"]

_FEWEST_IN_WINDOW = 32  # windows of fewer elements are not rows
_MOST_VECTORS = 4  # vectors of partial results
_FEWEST_LANES = 4  # of a vector that is worth its while


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


def split_row(sch: Schedule, block: BlockRV, lanes: int) -> list[BlockRV]:
    """Split a reduction over the lanes of vectors; return the blocks of the partial results, in the
    order of the program. None for rows that are too short.
    """
    _, reduction = split_loops(sch, block, sch.get_loops(block))
    if not reduction:  # rows of one element have no loop
        return []
    row = _row(sch, block, reduction)
    extent = sch.get(row).extent
    width = _MOST_VECTORS * lanes
    if isinstance(extent, IntImm):
        while width > extent.value:
            width //= 2
    if width < _FEWEST_LANES:
        reason = f"the reduction has {extent} steps, fewer than {_FEWEST_LANES}"
        record_fallback("vectorization", describe(sch, block), reason)
        return []
    tiles, lane = sch.split(row, [None, width])
    if not isinstance(extent, IntImm) or extent.value % width:
        sch.annotate(tiles, *PARTITIONED)
    partial = [_factor(sch, block, lane)]
    while width > _FEWEST_LANES:
        width = max(width // 4, _FEWEST_LANES)
        _, lane = sch.split(sch.get_loops(block)[-1], [None, width])
        partial.append(_factor(sch, block, lane))
    return partial


def _factor(sch: Schedule, block: BlockRV, lane: LoopRV) -> BlockRV:
    """Make the results of the steps of a loop results of their own."""
    partial: BlockRV = sch.rfactor(lane, len(sch.get(block).writes[0].region))
    for number in range(len(sch.get(partial).writes)):
        sch.set_scope(partial, number, "local")
    return partial


def vectorize_partial_results(sch: Schedule, block: BlockRV) -> None:
    """Run the innermost data-parallel loop of a block of partial results in vectors, below its
    reductions.
    """
    spatial, reduction = split_loops(sch, block, sch.get_loops(block))
    sch.reorder(*spatial[:-1], *reduction, spatial[-1])
    sch.vectorize(spatial[-1])
    sch.decompose_reduction(block, reduction[0])


def _row(sch: Schedule, block: BlockRV, reduction: list[LoopRV]) -> LoopRV:
    """Return the loop along the row; fuse those of axes that follow each other."""
    count = _in_one_row(sch.get(block))
    if count == 1 or len(reduction) != len(_reduced(sch.get(block))):
        return reduction[-1]
    return sch.fuse(*reduction[-count:])
