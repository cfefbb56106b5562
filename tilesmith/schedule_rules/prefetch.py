"""Decides how far ahead of its loads a loop along memory fetches lines.

The prefetchers of the machine follow such a loop too; they are late where each load touches two
lines (rows that do not begin at a line), and where data come from L3. They do not know the next row
where its place is read from memory.
"""

from __future__ import annotations

from tilesmith.ir import Var
from tilesmith.ir.queries import mentions
from tilesmith.schedule_rules.work import bytes_read
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, BufferLoad
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.transform.loops.prefetch_rows import PREFETCH_ROWS

__all__ = [
    "PREFETCH_BYTES", "fetch_elements_ahead", "fetch_looked_up_rows", "fetch_rows_ahead",
    "looks_up_rows",
]  # fmt: skip

PREFETCH_BYTES = "prefetch_bytes"
"""The annotation of a loop that back ends read: how far ahead its loads of vectors fetch lines."""


def fetch_rows_ahead(sch: Schedule, loop: LoopRV, block: BlockRV, machine: MachineModel) -> None:
    """Let the loop of a reduction along rows fetch ahead what the block reads."""
    size = bytes_read(sch.get(block))
    if size:
        ahead = machine.l3_prefetch if _is_in_l3(size, machine) else machine.row_prefetch
        _annotate(sch, loop, ahead)


def fetch_elements_ahead(
    sch: Schedule, loop: LoopRV, block: BlockRV, machine: MachineModel
) -> None:
    """Let the loop of an elementwise block fetch ahead what comes from L3. From memory, the lines
    that are written compete with those that are fetched.
    """
    size = bytes_read(sch.get(block))
    if size and _is_in_l3(size, machine):
        _annotate(sch, loop, machine.l3_prefetch)


def looks_up_rows(block: Block, row: Var) -> bool:
    """Return whether a block reads from places that do not depend on its iterator along rows, and
    are read from memory themselves.
    """
    return any(
        mentions(load.indices[-1:], {row}) and _is_read(load, row) for load in loads(block.body)
    )


def _is_read(load: BufferLoad, row: Var) -> bool:
    places = [index for index in load.indices[:-1] if any(True for _ in loads(index))]
    return bool(places) and not mentions(places, {row})


def fetch_looked_up_rows(sch: Schedule, loop: LoopRV, machine: MachineModel) -> None:
    """Let a loop over rows fetch those of its later steps ahead."""
    if machine.l3_prefetch:
        sch.annotate(loop, PREFETCH_ROWS, machine.l3_prefetch)


def _annotate(sch: Schedule, loop: LoopRV, ahead: int) -> None:
    if ahead:
        sch.annotate(loop, PREFETCH_BYTES, ahead)


def _is_in_l3(size: int, machine: MachineModel) -> bool:
    """Return whether data of so many bytes lie in L3 when a kernel begins."""
    return machine.l2_bytes < size <= machine.l3_bytes // 2
