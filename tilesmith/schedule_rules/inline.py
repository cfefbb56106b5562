"""Inlining of elementwise blocks into their consumers."""

from __future__ import annotations

from tilesmith.support.errors import ScheduleError
from tilesmith.tir import Block, IterVar
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = ["inline_elementwise"]


def inline_elementwise(sch: Schedule) -> None:
    """Inline each block without a reduction into its consumers, except where that repeats work."""
    for variable in sch.mod.get_global_vars():
        state = sch.state
        root = state.root(variable)
        for sref in state.blocks_below(root):
            (block,) = sch._new_blocks([sref])
            if _is_cheap(sch, block):
                try:
                    sch.compute_inline(block)
                except ScheduleError:
                    continue


def _is_cheap(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block is one elementwise store whose consumers read each element about once."""
    node: Block = sch.get(block)
    if node.init is not None or any(i.iter_type != IterVar.DataPar for i in node.iter_vars):
        return False
    for consumer in sch.get_consumers(block):
        if any(i.iter_type != IterVar.DataPar for i in sch.get(consumer).iter_vars):
            return False  # a reduction reads its inputs again and again
    return True
