"""Spreads unscheduled blocks over the threads of a GPU: the pass DefaultGPUSchedule.

The spatial loops of a block are fused and split over blocks of threads; reduction loops stay
inside. Functions with the attribute ``tir.is_scheduled``, blocks under loops that are bound to
threads already, and functions for targets without threads stay as they are.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import pass_factory
from tilesmith.schedule_rules.gpu.facts import has_parallel_rows
from tilesmith.schedule_rules.loops import describe
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target
from tilesmith.target.gpu_machine import max_threads_per_block
from tilesmith.tir.expr import IterVarType
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import has_loop_of_kind, uses_variable
from tilesmith.tir.schedule import Schedule
from tilesmith.tir.stmt import BlockRealize, For, ForKind

__all__ = [
    "DefaultGPUSchedule", "default_gpu_schedule", "default_gpu_schedules", "schedule_block",
    "thread_count",
]  # fmt: skip


_FEWEST_THREADS = 32
"""Blocks of fewer threads waste the device; then the last block does too much rather."""


def thread_count(target: Any) -> int:
    """Return the number of threads of a block; 0 for a target without threads."""
    if target is None:
        return 0
    return max_threads_per_block(Target(target))


def schedule_block(sch: Any, block: Any, threads: int) -> Any:
    """Bind the loops of a block to blocks of at most so many threads; return the loop of
    threads.
    """
    loops = sch.get_loops(block)
    realize: BlockRealize = sch.cursor(block).stmt
    spatial: list[Any] = []
    inner: list[Any] = []
    for loop in loops:
        variable = sch.get(loop).loop_var
        reduces = any(
            iterator.iter_type != IterVarType.DataPar and uses_variable(value, {variable})
            for iterator, value in zip(realize.block.iter_vars, realize.iter_values)
        )
        (inner if reduces else spatial).append(loop)
    if not spatial or any(_is_empty(sch.get(loop)) for loop in loops):
        # one thread; loops without iterations stay as they are: nothing is to be divided
        spatial, threads = [sch.add_unit_loop(loops[0] if loops else block)], 1
    if inner and len(loops) > 1:
        sch.reorder(*spatial, *inner)
    if _has_open_sizes(sch, spatial):
        trial = sch.copy()
        try:
            _bind_fused(trial, spatial, threads)
        except ScheduleError as error:
            record_fallback("schedule", describe(sch, block), error)
            return _bind_in_groups(sch, spatial, threads)
    return _bind_fused(sch, spatial, threads)


def _bind_fused(sch: Any, spatial: list[Any], threads: int) -> Any:
    """Bind loops as one; return the loop of threads."""
    fused = sch.fuse(*spatial) if len(spatial) > 1 else spatial[0]
    extent = sch.get(fused).extent
    if len(spatial) > 1 and isinstance(extent, IntImm):
        # The block recovers the fused iterators by div and mod; a predicate would hide that.
        most = max(1, min(threads, extent.value))
        exact = next(n for n in range(most, 0, -1) if not extent.value % n)
        if exact >= _FEWEST_THREADS or extent.value <= threads:
            threads = exact
    bx, tx = sch.split(fused, [None, threads])
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    return tx


_FEWEST_LOOPS = 4  # fewer of them with open sizes can be told apart after they are fused


def _has_open_sizes(sch: Any, loops: list[Any]) -> bool:
    """Return whether so many sizes are open that fused iterators may not be told apart."""
    known = [isinstance(sch.get(loop).extent, IntImm) for loop in loops]
    return len(loops) >= _FEWEST_LOOPS and known.count(False) > 1


def _bind_in_groups(sch: Any, spatial: list[Any], threads: int) -> Any:
    """Bind loops as axes of the grid, each with one size that is open at most; return the loop of
    threads, or the innermost one in them: what is more than three axes stays in each thread.
    """
    groups: list[list[Any]] = [[]]
    for loop in spatial:
        is_open = not isinstance(sch.get(loop).extent, IntImm)
        if is_open and any(not isinstance(sch.get(one).extent, IntImm) for one in groups[-1]):
            groups.append([])
        groups[-1].append(loop)
    fused = [sch.fuse(*group) if len(group) > 1 else group[0] for group in groups]
    first, *middle, last = fused
    by, tx = sch.split(last, [None, threads])
    if len(middle) > 1:
        sch.reorder(first, middle[0], by, tx, *middle[1:])
    # the first group may be long: only blockIdx.x may
    for loop, tag in zip((first, by, *middle[:1]), ("blockIdx.x", "blockIdx.y", "blockIdx.z")):
        sch.bind(loop, tag)
    sch.bind(tx, "threadIdx.x")
    return middle[-1] if len(middle) > 1 else tx


def _is_empty(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and loop.extent.value == 0


def default_gpu_schedule(func: PrimFunc, threads: int) -> PrimFunc:
    """Bind the loops of ``func``'s blocks to blocks of at most ``threads`` threads."""
    if func.attrs.get("tir.is_scheduled"):
        return func
    if not isinstance(func.body, BlockRealize) or has_loop_of_kind(
        func.body, ForKind.THREAD_BINDING
    ):
        return func
    sch = Schedule(IRModule({"main": func}))
    for block in sch.get_child_blocks(sch.get_block("root")):
        if not has_parallel_rows(sch.get(block)):
            schedule_block(sch, block, threads)
    return sch.mod["main"].with_attr("tir.is_scheduled", True)


@compiler_pass("tir.DefaultGPUSchedule")
def default_gpu_schedules(mod: IRModule) -> IRModule:
    """Spreads unscheduled functions over threads, for the function's target or the current one."""
    current = Target.current(allow_none=True)
    for variable, func in list(mod.functions.items()):
        if isinstance(func, PrimFunc):
            threads = thread_count(func.attrs.get("target") or current)
            if threads:
                mod[variable] = default_gpu_schedule(func, threads)
    return mod


DefaultGPUSchedule = pass_factory("tir.DefaultGPUSchedule")
