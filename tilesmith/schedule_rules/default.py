"""Chooses the default schedule of a function by the form of its loops, without tuning.

Elementwise blocks are inlined; then each remaining block gets the schedule for its kind. A rule
that does not apply leaves the function unchanged: correct, only slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilesmith.ir import IntImm, IRModule
from tilesmith.ir.queries import mentions, variables
from tilesmith.schedule_rules.amx import has_amx, is_sum_of_pairs, schedule_amx
from tilesmith.schedule_rules.contraction import (
    find_contraction,
    multiplies_and_adds,
    schedule_contraction,
)
from tilesmith.schedule_rules.inline import inline_elementwise, top_blocks
from tilesmith.schedule_rules.loops import (
    FEWEST_FOR_THREADS,
    PARTITIONED,
    describe,
    joins_elements,
    split_loops,
)
from tilesmith.schedule_rules.permutation import find_permutation, schedule_permutation
from tilesmith.schedule_rules.row_reduction import runs_along_rows, schedule_row_reduction
from tilesmith.schedule_rules.transformed_contraction import (
    find_transformed,
    schedule_transformed,
)
from tilesmith.schedule_rules.transposed import transpose_operand
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import fallbacks_within, record_fallback
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of, part
from tilesmith.target.machine import MachineModel, machine_model
from tilesmith.tir import Block, ForKind, IterVar, PrimFunc
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
    if has_amx(target):
        sch = _products_of_tiles(sch, threads)
    rules = (_transformed, _contractions, _row_reductions, _permutations, _simple_blocks)
    for rule in rules:
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


def _products_of_tiles(sch: Schedule, threads: int) -> Schedule:
    """Schedule sums of products of bfloat16 for AMX; those that do not fit are left to vectors."""
    for block in _blocks(sch):
        if not _is_there(sch, block) or not is_sum_of_pairs(sch.get(block)):
            continue
        plan = find_contraction(sch.get(block))
        if plan is not None:
            change = partial(schedule_amx, block=block, plan=plan, threads=threads)
            sch = _attempt(sch, block, change)
    return sch


def _transformed(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    for block in _blocks(sch):
        plan = find_transformed(sch, block)
        if plan is not None:
            change = partial(
                schedule_transformed, block=block, plan=plan, machine=machine, threads=threads
            )
            sch = _attempt(sch, block, change)
    return sch


def _contractions(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    for block in _blocks(sch):
        if not _is_there(sch, block) or _is_scheduled(sch, block):
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
    lanes = machine.lanes(32)
    for block in _blocks(sch):
        loops = sch.get_loops(block)
        if (
            loops
            and not any(_is_marked(sch, loop) for loop in loops)
            and runs_along_rows(sch, block)
        ):
            sch = _attempt(
                sch, block, lambda s, b=block: schedule_row_reduction(s, b, lanes, threads)
            )
    return sch


def _permutations(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    for block in _blocks(sch):
        if machine.vector_bytes < 16 or any(_is_marked(sch, one) for one in sch.get_loops(block)):
            continue
        plan = find_permutation(sch.get(block))
        if plan is not None:
            chosen = partial(
                schedule_permutation, block=block, plan=plan, machine=machine, threads=threads
            )
            sch = _attempt(sch, block, chosen)
    return sch


def _simple_blocks(sch: Schedule, machine: MachineModel, threads: int) -> Schedule:
    lanes = machine.lanes(32)
    for block in _blocks(sch):
        loops = sch.get_loops(block)
        if loops and not any(_is_marked(sch, loop) for loop in loops):
            sch = _attempt(sch, block, lambda s, b=block: _schedule_simple(s, b, lanes, threads))
    return sch


def _is_scheduled(sch: Schedule, block: BlockRV) -> bool:
    """Return whether a block has become an instruction, or lies under loops with marks."""
    return any(_is_marked(sch, loop) for loop in sch.get_loops(block))


def _is_marked(sch: Schedule, loop: LoopRV) -> bool:
    node = sch.get(loop)
    return node.kind is not ForKind.SERIAL or bool(node.annotations)


def _extent(sch: Schedule, loop: LoopRV) -> int:
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else 1 << 16


def _schedule_simple(sch: Schedule, block: BlockRV, lanes: int, threads: int) -> None:
    """Parallelise outer loops; vectorise the innermost one if its extent divides evenly.

    Otherwise the loop stays scalar: LLVM vectorises it with a tail.
    """
    loops = sch.get_loops(block)
    spatial, reduction = split_loops(sch, block, loops)
    if not spatial:
        return
    total = 1
    for loop in loops:
        total *= _extent(sch, loop)
    outer, inner = spatial, None
    if not reduction or _runs_along(sch.get(block), sch, spatial[-1]):
        outer, inner = spatial[:-1], spatial[-1]
    if reduction and inner is not None and _extent(sch, inner) >= lanes:
        _reduction_outside(sch, block, reduction, inner, lanes)
    elif inner is not None and joins_elements(sch.get(block)):
        pass  # LLVM sees that the bytes of a word are one load, if they are no vectors yet
    elif inner is not None and _extent(sch, inner) % lanes:
        if _extent(sch, inner) > 1:
            reason = (
                f"the innermost loop has {_extent(sch, inner)} steps, not a multiple of {lanes}"
            )
            record_fallback("vectorization", describe(sch, block), reason)
    elif inner is not None:
        is_even = isinstance(sch.get(inner).extent, IntImm)
        tiles, vector = sch.split(inner, [None, lanes])
        sch.vectorize(vector)
        if not is_even:
            sch.annotate(tiles, *PARTITIONED)
    if outer and threads > 1 and total >= FEWEST_FOR_THREADS:
        sch.parallel(sch.fuse(*outer))


def _runs_along(block: Block, sch: Schedule, loop: LoopRV) -> bool:
    """Return whether all loads of a reduction are contiguous along a spatial loop."""
    variable = sch.get(loop).loop_var
    inner = [i.var for i in block.iter_vars if i.iter_type == IterVar.DataPar]
    if not inner:
        return False
    last = inner[-1]
    if variable is None or not block.reads:
        return False
    return all(
        not variables(region.region[-1].min) or mentions(region.region[-1].min, {last})
        for region in block.reads
        if region.region
    )


def _reduction_outside(
    sch: Schedule, block: BlockRV, reduction: list[LoopRV], inner: LoopRV, lanes: int
) -> None:
    """Schedule a reduction over outer axes (pooling, depthwise convolution): vectors along the last
    axis.
    """
    first, second = sch.split(inner, [None, lanes])
    sch.reorder(first, *reduction, second)
    sch.vectorize(second)
    sch.decompose_reduction(block, reduction[0])
