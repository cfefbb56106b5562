"""Schedules reductions along rows: partial results in the lanes of a vector.

  for i, k: S[i] += A[i, k]
becomes
  for i:
      P[lanes] = 0
      for k_0: P[lane] += A[i, k_0 * lanes + lane]      (in vectors)
      for lane: S[i] += P[lane]
"""

from __future__ import annotations

from tilesmith.ir import IntImm, Var
from tilesmith.schedule_rules.loops import FEWEST_FOR_THREADS, describe, split_loops, step
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import Block, BufferStore, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = ["runs_along_rows", "schedule_row_reduction"]

_FEWEST_IN_ROW = 32  # windows of fewer elements are not rows


def runs_along_rows(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the last reduction iterator runs along the last axis of the loads, at stride
    1, or does not occur in a load.
    """
    node: Block = sch.get(block)
    if node.init is None or not isinstance(node.body, BufferStore):
        return False
    reduction = [i for i in node.iter_vars if i.iter_type == IterVar.CommReduce]
    if not reduction:
        return False
    last: Var = reduction[-1].var
    domain = reduction[-1].dom
    extent = domain.extent if domain is not None else None
    target = node.body.buffer
    inputs = [one for one in loads(node.body.value) if one.buffer is not target and one.indices]
    steps = [step(one, last) for one in inputs]
    if isinstance(extent, IntImm) and extent.value < _FEWEST_IN_ROW:
        return bool(inputs) and all(one.indices[-1] is last for one in inputs)
    return 1 in steps and all(one in (0, 1) for one in steps)


def schedule_row_reduction(sch: Schedule, block: BlockRV, lanes: int, threads: int) -> None:
    """Split the rows over the lanes of vectors; run outer loops in parallel."""
    loops = sch.get_loops(block)
    spatial, reduction = split_loops(sch, block, loops)
    if not reduction:  # rows of one element have no loop
        return
    extent = sch.get(reduction[-1]).extent
    if not isinstance(extent, IntImm) or extent.value % lanes or extent.value < 2 * lanes:
        steps = extent.value if isinstance(extent, IntImm) else f"{extent}"
        reason = (
            f"the reduction has {steps} steps, not a multiple of {lanes} of at least {2 * lanes}"
        )
        record_fallback("vectorization", describe(sch, block), reason)
        return
    total = 1
    for loop in loops:
        size = sch.get(loop).extent
        total *= size.value if isinstance(size, IntImm) else 1 << 10
    lane = sch.split(reduction[-1], [None, lanes])[1]
    partial = sch.rfactor(lane, len(sch.get(block).writes[0].region))
    final_spatial, _ = split_loops(sch, block, sch.get_loops(block))
    sch.set_scope(partial, 0, "local")
    if final_spatial:
        sch.compute_at(partial, final_spatial[-1])
    inner = sch.get_loops(partial)[len(final_spatial) :]
    kinds, reductions = split_loops(sch, partial, inner)
    vector, rest = kinds[-1], reductions
    sch.reorder(*rest, vector)
    sch.vectorize(vector)
    sch.decompose_reduction(partial, rest[0])
    if final_spatial and threads > 1 and total >= FEWEST_FOR_THREADS:
        sch.parallel(sch.fuse(*final_spatial))
