"""Schedules of matrix products by matrix units, for tests: mma of NVIDIA's, MFMA of AMD's GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.ir.queries import nodes
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.stmt import BufferStore
from tilesmith.tir.tensor_intrin import TensorIntrin

__all__ = ["mfma_schedule", "mma_schedule"]

IndexMap = Callable[[Any, Any], Sequence[Any]]
TILE = 16
"""Rows and columns of the results of one intrinsic."""
VECTOR_BYTES = 16
"""What a thread copies to shared memory at once."""
PADDING_BYTES = 16
"""Bytes after each row in shared memory, which spread the rows over its banks."""


@dataclass(frozen=True)
class _Intrinsics:
    """The names of what loads, multiplies, fills and stores tiles, and the threads that do it."""

    load_a: str
    load_b: str
    multiply: str
    fill: str
    store: str
    warp_size: int


def mma_schedule(
    workload: PrimFunc,
    k_inner: int,
    in_dtype: str,
    b_transposed: bool,
    i_factors: Sequence[int],
    j_factors: Sequence[int],
    k_factors: Sequence[int],
    index_map_A: IndexMap,
    index_map_B: IndexMap,
    index_map_C: IndexMap,
    ldmatrix_a_intrin: str,
    ldmatrix_b_intrin: str,
    mma_intrin: str,
    mma_fill_intrin: str,
    mma_store_intrin: str,
    shared_scope: str = "shared",
) -> Schedule:
    """Return the schedule of a product (block "C") by ldmatrix and mma.

    Rows and columns are divided into tiles of 16, these by five factors: for two axes of blocks of
    threads, for warps (threadIdx.y), and for two loops of a warp. The sum is divided into
    steps of ``k_inner``, these by three factors: for copies to shared memory, for loads into
    registers, and for a loop over loaded tiles.

    An index map gives the tile of an element, then the thread and the position in it. These two are
    taken from the descriptions of the intrinsics, whose layouts are those of the registers: a map
    may name them by another layout of the same tile.
    """
    names = _Intrinsics(
        ldmatrix_a_intrin, ldmatrix_b_intrin, mma_intrin, mma_fill_intrin, mma_store_intrin, 32
    )
    factors, maps = (i_factors, j_factors, k_factors), (index_map_A, index_map_B, index_map_C)
    return _schedule(workload, k_inner, in_dtype, b_transposed, factors, maps, names, shared_scope)


def mfma_schedule(
    workload: PrimFunc,
    k_inner: int,
    in_dtype: str,
    b_transposed: bool,
    i_factors: Sequence[int],
    j_factors: Sequence[int],
    k_factors: Sequence[int],
    index_map_A: IndexMap,
    index_map_B: IndexMap,
    index_map_C: IndexMap,
    ldmatrix_a_intrin: str,
    ldmatrix_b_intrin: str,
    mfma_intrin: str,
    mfma_fill_intrin: str,
    mfma_store_intrin: str,
    shared_scope: str = "shared",
) -> Schedule:
    """Return the schedule of a product (block "C") by MFMA; see `mma_schedule`."""
    names = _Intrinsics(
        ldmatrix_a_intrin, ldmatrix_b_intrin, mfma_intrin, mfma_fill_intrin, mfma_store_intrin, 64
    )
    factors, maps = (i_factors, j_factors, k_factors), (index_map_A, index_map_B, index_map_C)
    return _schedule(workload, k_inner, in_dtype, b_transposed, factors, maps, names, shared_scope)


def _schedule(
    workload: PrimFunc,
    k_inner: int,
    in_dtype: str,
    b_transposed: bool,
    factors: tuple[Sequence[int], Sequence[int], Sequence[int]],
    maps: tuple[IndexMap, IndexMap, IndexMap],
    names: _Intrinsics,
    shared_scope: str,
) -> Schedule:
    sch = Schedule(workload)
    inner = sch.get_block("C")
    sizes = (TILE, TILE, k_inner)
    outer, tile = zip(
        *[sch.split(loop, [None, size]) for loop, size in zip(sch.get_loops(inner), sizes)]
    )
    sch.reorder(*outer, *tile)
    block = sch.blockize(tile[0])
    i, j, k = [sch.split(loop, list(parts)) for loop, parts in zip(outer, factors)]
    sch.reorder(
        i[0], j[0], i[1], j[1], j[2], i[2], k[0], k[1], i[3], j[3], k[2], i[4], j[4]
    )  # fmt: skip
    warps = sch.fuse(j[2], i[2])
    sch.bind(sch.fuse(i[0], j[0]), "blockIdx.x")
    sch.bind(sch.fuse(i[1], j[1]), "blockIdx.y")
    sch.bind(warps, "threadIdx.y")

    threads = (factors[0][2] * factors[1][2], names.warp_size)
    b_tile = (TILE, k_inner) if b_transposed else (k_inner, TILE)
    loads = []
    for index in range(2):
        shared = sch.cache_read(block, index, shared_scope)
        loads.append(sch.cache_read(block, index, "warp"))
        sch.compute_at(loads[-1], k[1])
        sch.compute_at(shared, k[0])
        _copy_by_threads(sch, shared, threads, DataType(in_dtype))
    store = sch.cache_write(block, 0, "warp")
    sch.reverse_compute_at(store, warps)
    fill = sch.decompose_reduction(block, k[0])

    for copy, size, index_map, name, side in (
        (loads[0], (TILE, k_inner), maps[0], names.load_a, "write"),
        (loads[1], b_tile, maps[1], names.load_b, "write"),
        (store, (TILE, TILE), maps[2], names.store, "read"),
    ):
        first = _tile_of(sch, copy, size)
        sch.transform_layout(copy, (side, 0), _with_registers(index_map, name))
        sch.tensorize(first, name)
    sch.tensorize(block, names.multiply)
    sch.tensorize(fill, names.fill)
    return sch


def _copy_by_threads(
    sch: Schedule, copy: BlockRV, threads: tuple[int, int], dtype: DataType
) -> None:
    """Spread a copy to shared memory over all threads of a block, in vectors."""
    vector = VECTOR_BYTES // dtype.nbytes
    fused = sch.fuse(*sch.get_loops(copy)[-2:])
    _, warp, thread, lane = sch.split(fused, [None, *threads, vector])
    sch.bind(warp, "threadIdx.y")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)
    padding = PADDING_BYTES // dtype.nbytes
    sch.storage_align(copy, 0, axis=-2, factor=2 * padding, offset=padding)


def _tile_of(sch: Schedule, block: BlockRV, size: tuple[int, int]) -> LoopRV:
    """Return the first of two loops over one tile."""
    i, j = sch.get_loops(block)[-2:]
    i0, i1 = sch.split(i, [None, size[0]])
    j0, j1 = sch.split(j, [None, size[1]])
    sch.reorder(i0, j0, i1, j1)
    return i1


def _with_registers(index_map: IndexMap, name: str) -> IndexMap:
    """Return the map whose thread and position are those in an intrinsic's description."""
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    (store,) = nodes(intrin.desc.body, BufferStore)
    sides = [(store.buffer, store.indices)]
    if isinstance(store.value, BufferLoad):
        sides.append((store.value.buffer, store.value.indices))
    places = [indices for buffer, indices in sides if buffer.scope() == "warp"]
    tiles = [(buffer, indices) for buffer, indices in sides if buffer.scope() != "warp"]
    if len(places) != 1 or len(tiles) != 1:
        raise ScheduleError(f"the intrinsic '{name}' does not copy a tile to or from a warp")
    (place,), ((buffer, indices),) = places, tiles
    sizes = [size.value for size in buffer.shape if isinstance(size, IntImm)]

    def mapped(i: Any, j: Any) -> list[Any]:
        inside = dict(zip(indices, (i % sizes[0], j % sizes[1])))
        return [*list(index_map(i, j))[:-2], *[substitute(part, inside) for part in place]]

    return mapped
