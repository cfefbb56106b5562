"""Schedules look-ups: blocks that copy elements from places that are read from memory.

    for i, j: B[i, j] = A[i, checked(I[i, j], ...)]
  becomes
    for i:
        for j: T[j] = checked(I[i, j], ...)         (vectors)
        for j: B[i, j] = A[i, T[j]]                 (one by one)

Where a machine loads scattered elements one by one, vectors only make it more work: taking indices
out of them and putting elements in. The places themselves, with their checks, are computed in
vectors, once for all rows if they are the same.
"""

from __future__ import annotations

import math

from tilesmith.ir import IntImm
from tilesmith.ir.queries import mentions
from tilesmith.schedule_rules.loops import PARTITIONED, loop_extent, split_loops
from tilesmith.schedule_rules.work import cycles_of
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, BufferLoad, BufferStore
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["looks_up", "schedule_look_up"]

_CHUNK = 128
"""Places that are computed before they are used. (With 1024, all of them are computed while no copy
waits for memory: a tenth slower for elements from L2.)"""
_SHARED = 4096
"""Places that are computed once for all rows: they stay in L1."""
_ROWS_FOR_A_THREAD = 8
_STEPS = 8  # of the copying loop that run together


def looks_up(block: Block) -> bool:
    """Return whether a block copies elements whose places are read, and vary in its last axis."""
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
        return False
    if block.init is not None or not block.iter_vars:
        return False
    last = {block.iter_vars[-1].var}
    computed = [index for index in store.value.indices if any(True for _ in loads(index))]
    return (
        any(mentions(index, last) for index in computed)
        and not any(isinstance(index, BufferLoad) for index in computed)
        and not any(True for index in store.indices for _ in loads(index))
    )


def schedule_look_up(sch: Schedule, block: BlockRV, machine: MachineModel, threads: int) -> None:
    """Compute the places in vectors, a part of a row or one row for all; then copy."""
    spatial, _ = split_loops(sch, block, sch.get_loops(block))
    cycles = cycles_of(sch, [block], machine, 1)
    *outer, row = spatial
    rows = list(outer)
    extent = loop_extent(sch, row)
    places = sch.cache_index(block, "local")
    own = [one for one in places if not _is_shared(sch, one)]
    uneven = None
    if (own or not outer) and (extent is None or extent > _CHUNK):
        tiles, row = sch.split(row, [None, _CHUNK])
        uneven = tiles if extent is None or extent % _CHUNK else None
        outer.append(tiles)
        own = [one for one in places if one in own or len(outer) == 1]
    for one in places:
        if one in own and outer:
            sch.compute_at(one, outer[-1])
        _vectorize(sch, one, machine.lanes(32))
    sch.annotate(row, "llvm.loop.vectorize.enable", False)
    sch.annotate(row, "llvm.loop.unroll.count", _STEPS)
    divided: list[LoopRV] = []
    if threads > 1 and cycles >= machine.fewest_parallel_cycles and outer:
        divided = rows if _are_enough(sch, rows, threads) else outer
    if uneven is not None and (uneven not in divided or len(divided) == 1):
        sch.annotate(uneven, *PARTITIONED)  # not a part of a loop that is made of several
    if divided:
        sch.parallel(sch.fuse(*divided) if len(divided) > 1 else divided[0])


def _are_enough(sch: Schedule, rows: list[LoopRV], threads: int) -> bool:
    """Return whether threads can divide whole rows: only the last part of a row needs checks, which
    then stay there.
    """
    sizes = [loop_extent(sch, one) for one in rows]
    known = [size for size in sizes if size is not None]
    return len(known) == len(sizes) and math.prod(known) >= _ROWS_FOR_A_THREAD * threads


def _is_shared(sch: Schedule, block: BlockRV) -> bool:
    """Return whether a block computes few places, the same for all rows."""
    sizes = sch.get(block).writes[0].buffer.shape
    return len(sizes) == 1 and isinstance(sizes[0], IntImm) and sizes[0].value <= _SHARED


def _vectorize(sch: Schedule, block: BlockRV, lanes: int) -> None:
    loop = sch.get_loops(block)[-1]
    extent = loop_extent(sch, loop)
    tiles, vector = sch.split(loop, [None, lanes])
    sch.vectorize(vector)
    if extent is None or extent % lanes:
        sch.annotate(tiles, *PARTITIONED)
