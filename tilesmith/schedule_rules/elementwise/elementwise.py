"""Schedules blocks by themselves: elementwise ones, and reductions whose results lie side by side.

Axes that all accesses run through together are one loop, so that vectors do not end at every row.
"""

from __future__ import annotations

from tilesmith.ir import IntImm, Var
from tilesmith.ir.queries import mentions, nodes, variables
from tilesmith.schedule_rules.loops import (
    PARTITIONED,
    describe,
    iterator_extent,
    joins_elements,
    split_loops,
)
from tilesmith.schedule_rules.prefetch import (
    fetch_elements_ahead,
    fetch_looked_up_rows,
    looks_up_rows,
)
from tilesmith.schedule_rules.work import cycles_of
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, BufferLoad, BufferStore, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["schedule_simple"]

_UNKNOWN = 1 << 16
"""Steps of a loop whose extent is not known."""


def _extent(sch: Schedule, loop: LoopRV) -> int:
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else _UNKNOWN


def schedule_simple(sch: Schedule, block: BlockRV, machine: MachineModel, threads: int) -> None:
    """Run the innermost loop in vectors, and outer loops in parallel if that is worth it."""
    spatial, reduction = split_loops(sch, block, sch.get_loops(block))
    if not spatial:
        return
    lanes = machine.lanes(32)
    along = not reduction or _runs_along(sch.get(block))
    cycles = cycles_of(sch, [block], machine, lanes if along else 1)
    tiles = None
    outer = spatial
    looked_up = False
    if not reduction:
        spatial = _fuse_joint_axes(sch, block, spatial)
        outer = spatial[:-1]
        looked_up = bool(outer) and looks_up_rows(sch.get(block), sch.get(block).iter_vars[-1].var)
        tiles = _vectorize_elements(sch, block, spatial[-1], machine, not looked_up)
    elif along:
        outer = spatial[:-1]
        if _extent(sch, spatial[-1]) >= lanes:
            _reduction_outside(sch, block, reduction, spatial[-1], lanes)
    if threads > 1 and cycles >= machine.fewest_parallel_cycles:
        if tiles is not None and all(_extent(sch, loop) == 1 for loop in outer):
            sch.parallel(tiles)
        elif outer:
            outer = [sch.fuse(*outer)]
            sch.parallel(*outer)
    if looked_up and tiles is not None:
        fetch_looked_up_rows(sch, outer[-1], machine)


def _fuse_joint_axes(sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
    """Fuse the innermost loops that every access runs through as one, or stays the same in."""
    node: Block = sch.get(block)
    space = [one for one in node.iter_vars if one.iter_type == IterVar.DataPar]
    own = [sch.get(loop).loop_var for loop in loops]
    realize = sch.cursor(block).stmt
    if list(realize.iter_values) != own or len(space) != len(node.iter_vars):
        return loops
    for count in range(len(loops), 1, -1):
        if _is_joint(node, space[-count:]):
            return [*loops[:-count], sch.fuse(*loops[-count:])]
    return loops


def _is_joint(node: Block, axes: list[IterVar]) -> bool:
    """Return whether all accesses run through some axes in the order of memory, or not at all."""
    store = node.body
    if not isinstance(store, BufferStore):
        return False
    inner = {one.var for one in axes}
    outside = nodes(store.value, Var, enter=lambda one: not isinstance(one, BufferLoad))
    if any(one in inner for one in outside):
        return False
    return all(
        not mentions(access.indices, inner) or _runs_through(access, axes)
        for access in (store, *loads(store.value))
    )


def _runs_through(access: BufferLoad | BufferStore, axes: list[IterVar]) -> bool:
    """Return whether the last indices of an access are iterators that cover these axes."""
    count = len(axes)
    places, sizes = access.indices[-count:], access.buffer.shape[-count:]
    if len(places) < count or mentions(access.indices[:-count], {one.var for one in axes}):
        return False
    return all(place is one.var for place, one in zip(places, axes)) and all(
        isinstance(size, IntImm) and size.value == iterator_extent(one)
        for size, one in zip(sizes[1:], axes[1:])
    )


def _vectorize_elements(
    sch: Schedule, block: BlockRV, loop: LoopRV, machine: MachineModel, runs_on: bool = True
) -> LoopRV | None:
    """Run a loop in vectors; return the loop over the vectors. None if it stays as it is.

    ``runs_on``: the next row follows the end of this one.
    """
    lanes, extent = machine.lanes(32), _extent(sch, loop)
    if extent == 1 or joins_elements(sch.get(block)):
        return None  # LLVM sees that the bytes of a word are one load, if they are no vectors yet
    if extent < lanes:
        reason = f"the innermost loop has {extent} steps, fewer than {lanes}"
        record_fallback("vectorization", describe(sch, block), reason)
        return None
    is_even = isinstance(sch.get(loop).extent, IntImm) and extent % lanes == 0
    tiles, vector = sch.split(loop, [None, lanes])
    sch.vectorize(vector)
    if runs_on:
        fetch_elements_ahead(sch, tiles, block, machine)
    if not is_even:
        sch.annotate(tiles, *PARTITIONED)
    return tiles


def _runs_along(block: Block) -> bool:
    """Return whether the last index of each load of a reduction, if it varies, moves with the
    last iterator of the results.
    """
    inner = [i.var for i in block.iter_vars if i.iter_type == IterVar.DataPar]
    if not inner or not block.reads:
        return False
    last = inner[-1]
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
