"""Chooses the default schedule of a function for devices with threads.

The rules of ``schedule_rules.gpu`` come first; what none of them takes is spread over threads:
elementwise blocks are inlined, one thread computes one element of a block, and what a reduction
sums up stays in registers, together with the block that reads it where that reads each element
once. Right for every function, and fast for elementwise ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilesmith.ir import GlobalVar, IntImm, PrimExpr, Var
from tilesmith.schedule_rules.default_gpu_schedule import schedule_block, thread_count
from tilesmith.schedule_rules.elementwise.inline import inline_elementwise, top_blocks
from tilesmith.schedule_rules.gpu.facts import has_parallel_rows
from tilesmith.schedule_rules.gpu.rules import schedule_by_rules
from tilesmith.schedule_rules.loops import describe
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target
from tilesmith.tir.expr import IterVarType
from tilesmith.tir.queries import has_loop_of_kind, uses_variable
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.stmt import Block, ForKind

__all__ = ["schedule_for_device"]

_MOST_THREADS = 256
"""Larger blocks leave fewer registers to each thread, and more of them idle at the end."""


def schedule_for_device(sch: Schedule, target: Target) -> Schedule:
    """Apply the first rule that takes the function, else spread its blocks over threads."""
    found = schedule_by_rules(sch, target)
    if found is not None:
        return found
    return _on_threads(sch, min(thread_count(target), _MOST_THREADS))


def _on_threads(sch: Schedule, threads: int) -> Schedule:
    """Spread each block over threads."""
    (variable,) = sch.mod.get_global_vars()
    function: Any = sch.mod[variable]
    if has_loop_of_kind(function.body, ForKind.THREAD_BINDING):
        return sch
    inline_elementwise(sch)
    for block in _remaining(sch, variable):
        if not has_parallel_rows(sch.get(block)):
            sch = _scheduled(sch, block, threads)
    return sch


def _remaining(sch: Schedule, variable: GlobalVar) -> Sequence[BlockRV]:
    """Return the blocks, the last one first, so that it can take in what it reads."""
    return list(reversed(top_blocks(sch, variable)))


def _scheduled(sch: Schedule, block: BlockRV, threads: int) -> Schedule:
    """Spread a block over threads, unless another one has taken it in."""
    if any(sch.get(loop).kind is ForKind.THREAD_BINDING for loop in sch.get_loops(block)):
        return sch
    summed = None
    if _reduces(sch, block):  # a thread stores its sum once, at the end
        summed, block = block, sch.cache_write(block, 0, "local")
    thread = schedule_block(sch, block, threads)
    for producer in sch.get_producers(block):
        if _is_read_once(sch, producer):
            sch = _attempt(sch, producer, partial(_take_in, producer=producer, thread=thread))
    if summed is not None and not _is_bound(sch, summed):  # then other threads store its sums
        sch.set_scope(summed, 0, "global")
        schedule_block(sch, summed, threads)
    return sch


def _is_bound(sch: Schedule, block: BlockRV) -> bool:
    return any(sch.get(loop).kind is ForKind.THREAD_BINDING for loop in sch.get_loops(block))


def _attempt(sch: Schedule, block: BlockRV, change: Callable[[Schedule], object]) -> Schedule:
    """Return the schedule after a change, or the unchanged one if some primitive refuses."""
    trial = sch.copy()
    try:
        change(trial)
    except ScheduleError as error:
        record_fallback("schedule", describe(sch, block), error)
        return sch
    return trial


def _reduces(sch: Schedule, block: BlockRV) -> bool:
    """Return whether a block is a reduction that sets its elements to a beginning itself."""
    node = sch.get(block)
    kinds = {one.iter_type for one in node.iter_vars}
    is_plain = kinds <= {IterVarType.DataPar, IterVarType.CommReduce} and len(node.writes) == 1
    return node.init is not None and is_plain and IterVarType.CommReduce in kinds


def _is_read_once(sch: Schedule, block: BlockRV) -> bool:
    """Return whether a block is a reduction whose only reader runs as often as it has elements."""
    readers = sch.get_consumers(block)
    return (
        _reduces(sch, block)
        and len(readers) == 1
        and _same_elements(sch.get(block), sch.get(readers[0]))
    )


def _take_in(sch: Schedule, producer: BlockRV, thread: LoopRV) -> None:
    """Compute a reduction in the thread that reads it, which must be the only one."""
    sch.compute_at(producer, thread, preserve_unit_loops=True)
    node = sch.get(producer)
    realize = sch.cursor(producer).stmt
    parallel = [
        value
        for one, value in zip(node.iter_vars, realize.iter_values)
        if one.iter_type == IterVarType.DataPar
    ]
    loops = sch.get_loops(producer)
    own = loops[[sch.get(loop) for loop in loops].index(sch.get(thread)) + 1 :]
    for loop in own:
        of = sch.get(loop)
        if _uses_any(parallel, of.loop_var) and not _is_one(of.extent):
            raise ScheduleError("a thread reads several elements of what it would sum up")
    sch.set_scope(producer, 0, "local")


def _same_elements(producer: Block, consumer: Block) -> bool:
    """Return whether a block runs as often as another one has elements."""
    (written,) = producer.writes
    steps = [one.dom.extent for one in consumer.iter_vars if one.dom is not None]
    return _factors(steps) == _factors(written.buffer.shape)


def _factors(sizes: Sequence[PrimExpr]) -> tuple[int, list[str]]:
    """Return the product of the sizes that are known, and the others."""
    known = math.prod([size.value for size in sizes if isinstance(size, IntImm)])
    return known, sorted([str(size) for size in sizes if not isinstance(size, IntImm)])


def _uses_any(values: Sequence[PrimExpr], variable: Var) -> bool:
    """Return whether one of some values depends on a variable."""
    return any(uses_variable(value, {variable}) for value in values)


def _is_one(size: PrimExpr) -> bool:
    return isinstance(size, IntImm) and size.value == 1
