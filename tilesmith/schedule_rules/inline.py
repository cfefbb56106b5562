"""Inlines elementwise blocks into their consumers."""

from __future__ import annotations

from tilesmith.ir import GlobalVar
from tilesmith.schedule_rules.loops import describe
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import Block, IterVar
from tilesmith.tir.schedule import BlockRV, Schedule
from tilesmith.tir.schedule.cursor import FunctionCursor

__all__ = ["inline_elementwise", "top_blocks"]


def inline_elementwise(sch: Schedule) -> None:
    """Inline each block without a reduction into its consumers, except where that repeats work."""
    for variable in sch.mod.get_global_vars():
        for block in top_blocks(sch, variable):
            if _is_inside(sch, block) and _is_cheap(sch, block):
                try:
                    sch.compute_inline(block)
                except ScheduleError as error:
                    record_fallback("inlining", describe(sch, block), error)


def top_blocks(sch: Schedule, variable: GlobalVar) -> list[BlockRV]:
    """Return the blocks right below the root block of a function, without adding to the trace."""
    root = FunctionCursor(sch.state, variable).root()
    return [sch.variables.new_block(block) for block in root.blocks_below()]


def _is_inside(sch: Schedule, block: BlockRV) -> bool:
    """Return whether only blocks of this function read what a block writes."""
    (written,) = [region.buffer for region in sch.get(block).writes[:1]] or (None,)
    outputs = [one for f in sch.mod.functions.values() for one in f.buffer_map.values()]
    return bool(sch.get_consumers(block)) and not any(written is one for one in outputs)


def _is_cheap(sch: Schedule, block: BlockRV) -> bool:
    """Return whether a block is one elementwise store whose consumers read each element about
    once.
    """
    node: Block = sch.get(block)
    if node.init is not None or any(i.iter_type != IterVar.DataPar for i in node.iter_vars):
        return False
    for consumer in sch.get_consumers(block):
        if any(i.iter_type != IterVar.DataPar for i in sch.get(consumer).iter_vars):
            return False  # a reduction reads its inputs many times
    return True
