"""Chooses the default schedule of a function by the form of its loops, without tuning.

Elementwise blocks are inlined; then each remaining block gets the schedule for its kind. A rule
that does not apply leaves the function unchanged: correct, only slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilesmith.ir import IRModule
from tilesmith.schedule_rules.contraction import (
    find_contraction,
    multiplies_and_adds,
    schedule_contraction,
)
from tilesmith.schedule_rules.elementwise import schedule_simple
from tilesmith.schedule_rules.inline import inline_elementwise, top_blocks
from tilesmith.schedule_rules.loops import describe, is_marked
from tilesmith.schedule_rules.row_chains import (
    RowChain,
    find_row_chains,
    inline_into_row_reductions,
)
from tilesmith.schedule_rules.row_kernel import feeds_threads, schedule_row_chain
from tilesmith.schedule_rules.row_reduction import runs_along_rows
from tilesmith.schedule_rules.transposed import transpose_operand
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import fallbacks_within, record_fallback
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of, part
from tilesmith.target.machine import MachineModel, machine_model
from tilesmith.tir import BlockRealize, PrimFunc
from tilesmith.tir.queries import statements
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.transform.dtypes.widen_indices import widen_mixed_indices

__all__ = ["default_schedule", "schedule_for_cpu"]


def default_schedule(function: PrimFunc, target: Target) -> PrimFunc:
    """Apply the default schedule that the back end of a target names, if it names one."""
    record = back_end_of(target)
    if record.default_schedule is None:
        return function
    name = function.attrs.get("global_symbol", "main")
    given = IRModule({name: widen_mixed_indices(function)})  # loops that are fused have one dtype
    sch = Schedule(given, error_render_level="fast")
    with fallbacks_within(str(name)):
        sch = part(record.default_schedule)(sch, target)
    return sch.mod[name].with_attr("tir.is_scheduled", True)


def schedule_for_cpu(sch: Schedule, target: Target) -> Schedule:
    """Apply the default schedule for CPUs: vectors, register tiles, parallel outer loops."""
    inline_elementwise(sch)
    machine = machine_model(target)
    threads = target.num_cores or machine.cores
    for rule in (_contractions, _row_reductions, _simple_blocks):
        sch = rule(sch, machine, threads)
    return sch


def _attempt(sch: Schedule, block: BlockRV, change: Callable[[Schedule], object]) -> Schedule:
    """Return the schedule after a change, or the unchanged one if some primitive refuses."""
    trial = sch.copy()
    try:
        change(trial)
    except ScheduleError as error:
        record_fallback("schedule", describe(sch, block), error)
        return sch
    return trial


_NO_TILES = "no register tiles: an operand does not move by 0 or 1 along the result's last axis"


def _blocks(sch: Schedule) -> list[BlockRV]:
    (variable,) = sch.mod.get_global_vars()
    return top_blocks(sch, variable)


def _contractions(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    for block in _blocks(sch):
        if not _is_there(sch, block):
            continue
        if find_contraction(sch.get(block)) is None and multiplies_and_adds(sch.get(block)):
            sch = _attempt(sch, block, partial(transpose_operand, block=block))
        plan = find_contraction(sch.get(block))
        if plan is not None:
            sch = _attempt(
                sch,
                block,
                lambda s, b=block, p=plan: schedule_contraction(s, b, p, machine, threads),
            )
        elif multiplies_and_adds(sch.get(block)) and not runs_along_rows(sch, block):
            record_fallback("schedule", describe(sch, block), _NO_TILES)
    return sch


def _is_there(sch: Schedule, block: BlockRV) -> bool:
    try:
        sch.get(block)
    except ScheduleError:
        return False
    return True


def _row_reductions(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    for chain in find_row_chains(sch, inline_into_row_reductions(sch, _blocks(sch))):
        before = sch
        if feeds_threads(sch, chain, machine, threads):
            sch = _attempt_chain(sch, chain, machine, threads)
        if sch is before:
            for block in chain.blocks:
                if sch.get(block).init is not None and runs_along_rows(sch, block):
                    single = RowChain((block,), chain.rows)
                    sch = _attempt_chain(sch, single, machine, threads)
    return sch


def _attempt_chain(sch: Schedule, chain: RowChain, machine: MachineModel, threads: int) -> Schedule:
    change = partial(schedule_row_chain, chain=chain, machine=machine, threads=threads)
    return _attempt(sch, chain.blocks[-1], change)


def _simple_blocks(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    for block in _blocks(sch):
        loops = sch.get_loops(block)
        is_free = loops and not any(is_marked(sch, loop) for loop in loops)
        if is_free and not _holds_several_blocks(sch, loops[0]):
            change = partial(schedule_simple, block=block, machine=machine, threads=threads)
            sch = _attempt(sch, block, change)
    return sch


def _holds_several_blocks(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether a rule has merged a block with others already."""
    found = [one for one in statements(sch.get(loop)) if isinstance(one, BlockRealize)]
    return len(found) > 1
