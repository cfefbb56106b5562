"""The default schedule of a function: chosen by looking at its loops, without tuning.

Steps: inline what is elementwise; then give each block that remains a schedule of its own kind.
"""

from __future__ import annotations

from tilesmith.ir import IntImm, IRModule
from tilesmith.schedule_rules.inline import inline_elementwise
from tilesmith.support.errors import ScheduleError
from tilesmith.target import Target
from tilesmith.tir import Block, For, IterVar, PrimFunc
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["default_schedule"]

_FEWEST_FOR_THREADS = 4096  # elements below which a parallel loop costs more than it saves


def default_schedule(function: PrimFunc, target: Target) -> PrimFunc:
    """A function with the default schedule for a target."""
    name = function.attrs.get("global_symbol", "main")
    sch = Schedule(IRModule({name: function}), error_render_level="fast")
    inline_elementwise(sch)
    lanes = vector_lanes(target)
    root = _root(sch)
    for block in sch.get_child_blocks(root):
        _schedule_block(sch, block, lanes)
    return sch.mod[name].with_attr("tir.is_scheduled", True)


def vector_lanes(target: Target) -> int:
    """How many float32 a vector register of the target holds."""
    from tilesmith.target.machine import machine_model

    return machine_model(target).vector_bytes // 4


def _root(sch: Schedule) -> BlockRV:
    (variable,) = sch.mod.get_global_vars()
    (made,) = sch._new_blocks([sch.state.root(variable)])
    return made


def _extent(sch: Schedule, loop: LoopRV) -> int:
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else 1 << 20


def _schedule_block(sch: Schedule, block: BlockRV, lanes: int) -> None:
    node: Block = sch.get(block)
    loops = sch.get_loops(block)
    if not loops:
        return
    spatial, reduction = split_loops(sch, block, loops)
    if not spatial:
        return
    if reduction:
        _parallel_outer(sch, spatial)
        return
    if any(isinstance(sch.get(loop), For) and len(loops) != len(node.iter_vars) for loop in loops):
        return
    try:
        fused = sch.fuse(*spatial)
        total = _extent(sch, fused)
        if total < 2 * lanes or not isinstance(sch.get(fused).extent, IntImm):
            if not isinstance(sch.get(fused).extent, IntImm):
                sch.parallel(fused)
            return
        inner = lanes if total % lanes == 0 else 1
        if inner == 1:
            sch.parallel(fused)
            return
        outer, vector = sch.split(fused, [None, inner])
        sch.vectorize(vector)
        if total >= _FEWEST_FOR_THREADS:
            sch.parallel(outer)
    except ScheduleError:
        return  # the loops stay as they are: right, only slower


def split_loops(
    sch: Schedule, block: BlockRV, loops: list[LoopRV]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """The loops that drive data-parallel iterators, and those that drive reductions."""
    from tilesmith.tir.schedule.primitives.common import variables_in

    realize = sch.state.stmt(sch.get_sref(block))
    reduction_vars = set()
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        if iterator.iter_type != IterVar.DataPar:
            reduction_vars.update(variables_in(value))
    spatial = [loop for loop in loops if sch.get(loop).loop_var not in reduction_vars]
    return spatial, [loop for loop in loops if loop not in spatial]


def _parallel_outer(sch: Schedule, spatial: list[LoopRV]) -> None:
    try:
        sch.parallel(sch.fuse(*spatial))
    except ScheduleError:
        return
