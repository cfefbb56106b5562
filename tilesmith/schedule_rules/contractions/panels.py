"""Copies an operand of a contraction into panels: its columns of one register tile side by side.

    for i, j, k: Y[i, j] += A[i, k] * B[k, j]
  becomes
    for j0, k, j1: P[j0, k, j1] = B[k, j0 * T + j1]          (zeros behind the last column)
    for i, j, k: Y[i, j] += A[i, k] * P[j // T, k, j % T]

In panels the tile reads one stream. In place, the rows of a matrix with a power of two of columns
fall into few sets of the caches. While the row tiles use a panel, the next one can be prefetched.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Var
from tilesmith.schedule_rules.contractions.contraction import Contraction, panel_operand
from tilesmith.schedule_rules.loops import PARTITIONED, loop_extent
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import Block
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.transform.loops.prefetch_next_run import PREFETCH_NEXT

__all__ = ["copy_into_panels", "prefetch_next_panel"]


def copy_into_panels(
    sch: Schedule, block: BlockRV, plan: Contraction, width: int, lanes: int, is_parallel: bool
) -> None:
    """Copy the operand of the vectors into panels before the contraction."""
    stream = panel_operand(plan)
    if stream is None:
        raise ScheduleError("the operand of the vectors cannot be copied into panels")
    node: Block = sch.get(block)
    buffer, indices = stream.load.buffer, stream.load.indices
    number = next(k for k, one in enumerate(node.reads) if one.buffer is buffer)
    reduced = {axis.variable for axis in plan.nest.reduced}
    steps = [place for place, index in enumerate(indices) if index in reduced]
    last = len(indices) - 1
    batch = [place for place in range(last) if place not in steps]
    copy = sch.cache_read(block, number, "global")

    def in_panels(*old: Var) -> list[Any]:
        outer, inner = old[last] // width, old[last] % width
        return [*[old[k] for k in batch], outer, *[old[k] for k in steps], inner]

    columns: Any = buffer.shape[last]
    is_padded = columns.value % width != 0
    value = 0.0 if buffer.dtype.is_float else 0
    sch.transform_layout(copy, ("write", 0), in_panels, pad_value=value if is_padded else None)
    loops = sch.get_loops(copy)
    if is_padded:  # the loops run over the panels then
        *outer, panel = loops[: len(batch) + 1]
        inside, row = loops[len(batch) + 1 : -1], loops[-1]
    else:
        panel, row = sch.split(loops[last], [None, width])
        outer, inside = [loops[k] for k in batch], [loops[k] for k in steps]
    first, lane = sch.split(row, [None, lanes])
    sch.vectorize(lane)
    _order(sch, outer, panel, inside, [first, lane], is_padded, is_parallel)


def _order(
    sch: Schedule, outer: list[LoopRV], panel: LoopRV, inside: list[LoopRV], row: list[LoopRV],
    is_padded: bool, is_parallel: bool,
) -> None:  # fmt: skip
    """Order the loops of the copy: row after row on one thread, which reads one stream; panels
    outside where threads share them.
    """
    if is_padded:
        for loop in (panel, *row):
            sch.annotate(loop, *PARTITIONED)
    if not is_parallel:
        sch.reorder(*outer, *inside, panel, *row)
        return
    sch.reorder(*outer, panel, *inside, *row)
    if is_padded and not outer:
        sch.parallel(panel)
    else:
        sch.parallel(sch.fuse(*outer) if is_padded else sch.fuse(*outer, panel))


def prefetch_next_panel(sch: Schedule, block: BlockRV, count: int) -> None:
    """Let each step of the reduction around the last ``count`` loops of a block, those of its
    register tile, prefetch a part of the panel that comes next.
    """
    around = sch.get_loops(block)[:-count]
    innermost = next((one for one in reversed(around) if loop_extent(sch, one) != 1), None)
    if innermost is not None:
        sch.annotate(innermost, PREFETCH_NEXT, True)
