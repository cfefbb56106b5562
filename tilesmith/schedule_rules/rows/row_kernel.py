"""Schedules row chains as one kernel: each row passes through all blocks while it is in registers
or in the nearest cache.

    parallel for i:
        partial results of the first reduction, in vectors; then its result
        for k_0: an elementwise block, in vectors
        ...
"""

from __future__ import annotations

from math import prod

from tilesmith.ir import IntImm
from tilesmith.schedule_rules.loops import PARTITIONED, iterator_extent, split_loops
from tilesmith.schedule_rules.prefetch import fetch_rows_ahead
from tilesmith.schedule_rules.rows.row_chains import RowChain
from tilesmith.schedule_rules.rows.row_reduction import (
    runs_along_rows,
    split_row,
    vectorize_partial_results,
)
from tilesmith.schedule_rules.work import is_worth_threads
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["feeds_threads", "schedule_row_chain"]

_NEAR_BYTES = 16 * 1024
"""Rows of intermediate results up to this size are local: on the stack or in registers."""

_VECTORS_OF_SHORT_ROW = 16  # rows of more vectors keep the machine busy by themselves


def feeds_threads(sch: Schedule, chain: RowChain, machine: MachineModel, threads: int) -> bool:
    """Return whether there are rows for all threads, or too little work for threads."""
    rows = 1
    for loop in sch.get_loops(chain.blocks[-1])[: chain.rows]:
        extent = sch.get(loop).extent
        if not isinstance(extent, IntImm):
            return True
        rows *= extent.value
    return rows // chain.group >= threads or not is_worth_threads(sch, chain.blocks, machine)


def schedule_row_chain(sch: Schedule, chain: RowChain, machine: MachineModel, threads: int) -> None:
    """Move the steps of a chain under the rows of its sink; run each in vectors."""
    *steps, sink = chain.blocks
    lanes = machine.lanes(32)
    is_parallel = threads > 1 and is_worth_threads(sch, chain.blocks, machine)
    for step in steps:
        size = _row_bytes(sch, step, chain)
        if size is not None and size <= _NEAR_BYTES:
            for number in range(len(sch.get(step).writes)):
                sch.set_scope(step, number, "local")
    together = _rows_at_once(sch, chain, lanes)
    nests = []
    for number, block in enumerate(chain.blocks):
        group = chain.group if block is sink else 1
        nests += _vectorize_block(sch, block, chain.rows, group, machine, is_first=number == 0)
    if together > 1:
        for rows in nests:
            rows[-1], _ = sch.split(rows[-1], [None, together])
    if len(nests) > 1 and chain.rows:
        sch.merge(*[rows[-1] for rows in nests])
    if is_parallel and chain.rows:
        sch.parallel(sch.fuse(*nests[0]))


def _rows_at_once(sch: Schedule, chain: RowChain, lanes: int) -> int:
    """Return how many rows each block works on before the next one follows.

    The results of a short row are waited for longer than it takes to add its elements; other rows
    fill the gaps.
    """
    node: Block = sch.get(chain.blocks[0])
    if len(chain.blocks) == 1 or not chain.rows or chain.group > 1:
        return 1
    extents = [iterator_extent(one) for one in node.iter_vars]
    rows, columns = extents[chain.rows - 1], extents[chain.rows :]
    if rows is None or None in columns:
        return 1
    if prod([one or 1 for one in columns]) > _VECTORS_OF_SHORT_ROW * lanes:
        return 1
    return next((count for count in (4, 2) if rows % count == 0), 1)


def _vectorize_block(
    sch: Schedule, block: BlockRV, rows: int, group: int, machine: MachineModel, is_first: bool
) -> list[list[LoopRV]]:
    """Run a block in vectors, row by row; return the loops over the rows of each nest that this
    makes. The first block of a chain brings rows from far away.
    """
    lanes = machine.lanes(32)
    if sch.get(block).init is None:
        loops = sch.get_loops(block)[:rows]
        if group > 1:
            loops[-1], _ = sch.split(loops[-1], [None, group])
        _vectorize_row(sch, block, rows, lanes)
        return [loops]
    partial = split_row(sch, block, lanes) if runs_along_rows(sch, block) else []
    if partial and is_first:
        _, reduction = split_loops(sch, partial[0], sch.get_loops(partial[0]))
        fetch_rows_ahead(sch, reduction[-1], partial[0], machine)
    for one in partial:
        vectorize_partial_results(sch, one)
    return [sch.get_loops(one)[:rows] for one in (*partial, block)]


def _row_bytes(sch: Schedule, block: BlockRV, chain: RowChain) -> int | None:
    """Return the bytes of one row of what a block writes; None if that is not known."""
    total = 0
    for region in sch.get(block).writes:
        sizes = region.buffer.shape[chain.rows :]
        if not all(isinstance(size, IntImm) for size in sizes):
            return None
        total += prod([size.value for size in sizes]) * region.buffer.dtype.nbytes
    return total


def _vectorize_row(sch: Schedule, block: BlockRV, rows: int, lanes: int) -> None:
    """Run the innermost loop of an elementwise block in vectors."""
    spatial, _ = split_loops(sch, block, sch.get_loops(block)[rows:])
    if not spatial:
        return
    extent = sch.get(spatial[-1]).extent
    while isinstance(extent, IntImm) and lanes > extent.value:
        lanes //= 2
    if lanes < 2:
        return
    tiles, vector = sch.split(spatial[-1], [None, lanes])
    sch.vectorize(vector)
    if not isinstance(extent, IntImm) or extent.value % lanes:
        sch.annotate(tiles, *PARTITIONED)
