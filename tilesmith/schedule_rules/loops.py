"""Queries about the loops of a block."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.queries import variables
from tilesmith.tir import IterVar
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["FEWEST_FOR_THREADS", "describe", "split_loops"]

FEWEST_FOR_THREADS = 1 << 16
"""Elements below which a parallel loop costs more than it saves."""


def describe(sch: Schedule, block: BlockRV) -> str:
    """Return the name of a block for reports."""
    return f"block '{sch.get(block).name_hint}'"


def split_loops(
    sch: Schedule, block: BlockRV, loops: list[LoopRV]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the loops that drive data-parallel iterators, and those that drive reductions."""
    realize: Any = sch.cursor(block).stmt
    reduction_vars = set()
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        if iterator.iter_type != IterVar.DataPar:
            reduction_vars.update(variables(value))
    spatial = [loop for loop in loops if sch.get(loop).loop_var not in reduction_vars]
    return spatial, [loop for loop in loops if loop not in spatial]
