"""Chooses the default schedule of a function by the form of its loops, without tuning.

Elementwise blocks are inlined; then each remaining block gets the schedule for its kind. A rule
that does not apply leaves the function unchanged: correct, only slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import PassContext
from tilesmith.schedule_rules.contractions.amx import has_amx, is_sum_of_pairs, schedule_amx
from tilesmith.schedule_rules.contractions.contraction import (
    Contraction,
    find_contraction,
    multiplies_and_adds,
)
from tilesmith.schedule_rules.contractions.grouped import find_groups, schedule_groups
from tilesmith.schedule_rules.contractions.register_tiles import schedule_contraction
from tilesmith.schedule_rules.contractions.transformed_contraction import (
    find_transformed,
    schedule_transformed,
)
from tilesmith.schedule_rules.contractions.transposed import transpose_operand
from tilesmith.schedule_rules.contractions.two_sums import find_two_sums, schedule_two_sums
from tilesmith.schedule_rules.elementwise.elementwise import schedule_simple
from tilesmith.schedule_rules.elementwise.inline import inline_elementwise, top_blocks
from tilesmith.schedule_rules.elementwise.look_ups import looks_up, schedule_look_up
from tilesmith.schedule_rules.elementwise.permutation import (
    Permutation,
    find_permutation,
    schedule_permutation,
)
from tilesmith.schedule_rules.loops import describe, is_marked, loop_extent
from tilesmith.schedule_rules.rows.exponents import bound_exponents
from tilesmith.schedule_rules.rows.row_chains import (
    RowChain,
    find_row_chains,
    inline_into_row_reductions,
)
from tilesmith.schedule_rules.rows.row_kernel import feeds_threads, schedule_row_chain
from tilesmith.schedule_rules.rows.row_reduction import runs_along_rows
from tilesmith.schedule_rules.windows.channels_last import find_windows, schedule_windows
from tilesmith.schedule_rules.windows.group_lanes import find_group_lanes, schedule_group_lanes
from tilesmith.schedule_rules.windows.planes import find_planes, schedule_planes
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import fallbacks_within, record_fallback
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of, part
from tilesmith.target.kind import CPU
from tilesmith.target.machine import MachineModel, machine_model
from tilesmith.tir import BlockRealize, PrimFunc
from tilesmith.tir.queries import statements
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.transform.dtypes.widen_indices import widen_mixed_indices

__all__ = ["default_schedule", "prepare_for_rules", "schedule_by_rules", "schedule_for_cpu"]

_Change = Callable[[Schedule], object]


def default_schedule(function: PrimFunc, target: Target) -> PrimFunc:
    """Apply the default schedule that the back end of a target names, if it names one."""
    sch = schedule_by_rules(function, target)
    if sch is None:
        return function
    (variable,) = sch.mod.get_global_vars()
    return sch.mod[variable].with_attr("tir.is_scheduled", True)


def prepare_for_rules(function: PrimFunc, target: Target) -> PrimFunc:
    """Return the function that the rules schedule, which computes the same: its loops have one
    dtype, and for CPUs the exponents of a softmax have a bound.
    """
    function = widen_mixed_indices(function)  # loops that are fused have one dtype
    return bound_exponents(function) if target.kind.device_type == CPU else function


def schedule_by_rules(function: PrimFunc, target: Target) -> Schedule | None:
    """Return the default schedule; None if the back end of a target has none. Its trace applies to
    the function that ``prepare_for_rules`` returns.
    """
    record = back_end_of(target)
    if record.default_schedule is None:
        return None
    name = function.attrs.get("global_symbol", "main")
    prepared = prepare_for_rules(function, target)
    sch = Schedule(IRModule({name: prepared}), error_render_level="fast")
    with fallbacks_within(str(name)):
        return part(record.default_schedule)(sch, target)


def schedule_for_cpu(sch: Schedule, target: Target) -> Schedule:
    """Apply the default schedule for CPUs: vectors, register tiles, parallel outer loops."""
    inline_elementwise(sch)
    machine = machine_model(target)
    threads = target.num_cores or machine.cores
    if has_amx(target):
        sch = _products_of_tiles(sch, threads)
    rules = (
        _transformed,
        _two_sums,
        _windows_and_groups,
        _transpositions,
        _contractions,
        _row_reductions,
        _permutations,
        _look_ups,
        _simple_blocks,
    )
    for rule in rules:
        sch = rule(sch, machine, threads)
    return sch


def _attempt(sch: Schedule, block: BlockRV, change: _Change) -> Schedule:
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


def _each(sch: Schedule, find: Callable[[Schedule, BlockRV], _Change | None]) -> Schedule:
    """Attempt what is found for each block that is there still, runs, and has no schedule yet."""
    for block in _blocks(sch):
        if _is_there(sch, block) and not _is_done(sch, block) and not _never_runs(sch, block):
            change = find(sch, block)
            if change is not None:
                sch = _attempt(sch, block, change)
    return sch


def _each_plan(
    sch: Schedule,
    find: Callable[[Schedule, BlockRV], Any],
    change: Callable[..., object],
) -> Schedule:
    """Attempt ``change(sch, block=…, plan=…)`` for each such block for which a plan is found."""

    def planned(sch: Schedule, block: BlockRV) -> _Change | None:
        plan = find(sch, block)
        return None if plan is None else partial(change, block=block, plan=plan)

    return _each(sch, planned)


def _products_of_tiles(sch: Schedule, threads: int) -> Schedule:
    """Schedule sums of products of bfloat16 for AMX; those that do not fit are left to vectors."""

    def find(sch: Schedule, block: BlockRV) -> Contraction | None:
        return find_contraction(sch.get(block)) if is_sum_of_pairs(sch.get(block)) else None

    return _each_plan(sch, find, partial(schedule_amx, threads=threads))


def _transformed(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    change = partial(schedule_transformed, machine=machine, threads=threads)
    return _each_plan(sch, find_transformed, change)


def _two_sums(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    def find(sch: Schedule, block: BlockRV) -> _Change | None:
        width = find_two_sums(sch.get(block))
        if width is None:
            return None
        return partial(
            schedule_two_sums, block=block, width=width, machine=machine, threads=threads
        )

    return _each(sch, find)


def _windows_and_groups(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    def find(sch: Schedule, block: BlockRV) -> _Change | None:
        node = sch.get(block)
        found: Callable[..., object] | None = None
        if (windows := find_windows(node)) is not None:
            found = partial(schedule_windows, plan=windows)
        elif (narrow := find_group_lanes(node, machine.lanes(32))) is not None:
            found = partial(schedule_group_lanes, plan=narrow)
        elif (groups := find_groups(node)) is not None:
            found = partial(schedule_groups, plan=groups)
        elif (planes := find_planes(node)) is not None:
            found = partial(schedule_planes, plan=planes)
        return found and partial(found, block=block, machine=machine, threads=threads)

    return _each(sch, find)


def _transpositions(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    def find(sch: Schedule, block: BlockRV) -> _Change | None:
        node = sch.get(block)
        may_turn = multiplies_and_adds(node) and find_contraction(node) is None
        return partial(transpose_operand, block=block) if may_turn else None

    return _each(sch, find)


def _contractions(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    def find(sch: Schedule, block: BlockRV) -> Contraction | None:
        plan = find_contraction(sch.get(block))
        if plan is None and multiplies_and_adds(sch.get(block)) and not runs_along_rows(sch, block):
            record_fallback("schedule", describe(sch, block), _NO_TILES)
        return plan

    return _each_plan(sch, find, partial(schedule_contraction, machine=machine, threads=threads))


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


def _permutations(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    is_scalar = PassContext.current().get_config("tir.disable_vectorize", False)
    if is_scalar or machine.vector_bytes < 16:
        return sch  # the transposes of tiles are written in vectors

    def find(sch: Schedule, block: BlockRV) -> Permutation | None:
        return find_permutation(sch.get(block))

    return _each_plan(sch, find, partial(schedule_permutation, machine=machine, threads=threads))


def _look_ups(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    if not machine.looks_up_singly:
        return sch

    def find(sch: Schedule, block: BlockRV) -> _Change | None:
        loops, lanes = sch.get_loops(block), machine.lanes(32)
        is_long = bool(loops) and (loop_extent(sch, loops[-1]) or lanes) >= lanes
        if not is_long or not looks_up(sch.get(block)) or _holds_several_blocks(sch, loops[0]):
            return None
        return partial(schedule_look_up, block=block, machine=machine, threads=threads)

    return _each(sch, find)


def _simple_blocks(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    def find(sch: Schedule, block: BlockRV) -> _Change | None:
        loops = sch.get_loops(block)
        if not loops or _holds_several_blocks(sch, loops[0]):
            return None
        return partial(schedule_simple, block=block, machine=machine, threads=threads)

    return _each(sch, find)


def _holds_several_blocks(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether a rule has merged a block with others already."""
    found = [one for one in statements(sch.get(loop)) if isinstance(one, BlockRealize)]
    return len(found) > 1


def _never_runs(sch: Schedule, block: BlockRV) -> bool:
    return any(loop_extent(sch, loop) == 0 for loop in sch.get_loops(block))


def _is_done(sch: Schedule, block: BlockRV) -> bool:
    """Return whether another rule scheduled a block."""
    return any(is_marked(sch, loop) for loop in sch.get_loops(block))
