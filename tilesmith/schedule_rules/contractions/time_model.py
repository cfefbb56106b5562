"""Predicts how many cycles a schedule of a contraction takes, without running it.

The innermost loop is bound by the multiply-add ports, the load ports, and the latency of its chains
of sums. On top come the bytes that the loops above it move from each level of the memory, which
follow from the working set of each loop, the time to pack an operand, and to divide the work among
threads: each takes a smaller product of its own.

Every kernel is taken to read what the threads wrote by rows, the first thread the first ones, and
its results to be read so. Threads that divide the columns read rows of each other. The weights were
set by hand from measured kernels; `python -m benchmarks.run predictions` compares predictions with
measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from tilesmith.schedule_rules.contractions.loop_nest import TYPICAL
from tilesmith.schedule_rules.contractions.tiles import WAITING_FOR_L2, Tile, tile_steps
from tilesmith.schedule_rules.work import is_even
from tilesmith.target.machine import MachineModel

__all__ = [
    "Candidate",
    "Level",
    "Product",
    "Time",
    "levels_of",
    "may_prefetch",
    "parallel_levels",
    "predict",
]

_WAITING_FOR_FIRST = 0.7
"""The share of the time for bytes that a core reads for the first time that computing does not
hide."""
_PREFETCH_CYCLES = 0.05
"""Cycles that a prefetch in each step of the innermost loop costs."""
_TILE_CYCLES = 20.0
"""Cycles around a tile: addresses, and filling and draining the pipelines."""
_SCATTERED = 4.0
"""How much more of L2 than of L1 rows at a power of two reach: pages lie anywhere in memory."""
_COPY_SHARE = 0.45
"""The share of a level's bandwidth that a copy into panels reaches."""


@dataclass(frozen=True)
class Product:
    """A contraction as the model sees it; sizes in elements, strides and operands in bytes."""

    batch: int
    """Iterations of the axes along which both operands move."""
    shared: int
    """Iterations of further axes along which the vectors are used again."""
    rows: int
    columns: int
    depth: int
    left_bytes: int
    """Bytes of the operand of the rows, for one iteration of the batch."""
    row_stride: int
    """Bytes from one of its rows to the next."""
    element_bytes: int
    """Bytes of an element of the operand of the vectors."""
    depth_stride: int
    """Bytes from one of its rows (a step of the reduction) to the next."""
    packed_width: int | None = None
    """The width of its panels, if it lies in panels."""
    result_bytes: int = 4
    """Bytes of an element in the accumulators."""
    rows_are_known: bool = True
    columns_are_known: bool = True
    depth_is_known: bool = True
    may_pack: bool = False

    @property
    def right_bytes(self) -> int:
        """Bytes of the operand of the vectors, for one iteration of the batch."""
        return self.columns * self.depth * self.element_bytes


@dataclass(frozen=True)
class Candidate:
    """The parameters of a schedule."""

    rows: int
    """Rows of the register tile."""
    vectors: int
    """Vectors of the register tile."""
    block: int | None
    """Row tiles that use a panel of columns before the next one comes; None: all rows do."""
    packs: bool
    """Whether the operand of the vectors is copied into panels first."""
    prefetches: bool = False
    """Whether the panel that comes next is prefetched while all row tiles use one."""

    def describe(self) -> str:
        """Return the parameters in words."""
        order = "panels outermost" if self.block is None else f"blocks of {self.block} row tiles"
        ahead = ", next panel prefetched" if self.prefetches else ""
        return (
            f"{self.rows}x{self.vectors} vectors, {order}{', packed' if self.packs else ''}{ahead}"
        )


@dataclass(frozen=True)
class Time:
    """Predicted cycles by component."""

    compute: float
    """The register tiles with their data in L1, among all threads."""
    l2: float
    """What waiting for L2 adds."""
    l3: float
    """What waiting for L3 and memory adds."""
    packing: float
    exchange: float = 0.0
    """What waiting for data adds that other threads wrote."""
    fork: float = 0.0
    stream: float = 0.0
    """What waiting for panels adds that the model packed: they come from memory in each run."""

    @property
    def total(self) -> float:
        """All components together."""
        near = self.compute + self.l2 + self.l3
        return near + self.packing + self.exchange + self.fork + self.stream


def _parts(size: int, tile: int) -> list[tuple[int, int]]:
    """Return the extents of the tiles along an axis, each with how often it occurs."""
    whole, rest = divmod(size, tile)
    return [(one, count) for one, count in ((tile, whole), (rest, 1)) if one and count]


def _share_missing(size: float, capacity: float) -> float:
    """Return the share of a working set that a cache does not keep: caches fill up gradually."""
    if capacity <= 0:
        return 1.0
    return min(1.0, max(0.0, (size - 0.5 * capacity) / capacity))


def _reachable(
    capacity: int, ways: int, stride: int, run: int, count: int, machine: MachineModel
) -> float:
    """Return the bytes of a cache that runs of bytes at a stride can occupy: rows at a multiple of
    a power of two fall into few of its sets.
    """
    line = machine.line_bytes
    sets = max(1, capacity // (line * ways))
    if stride % line or count <= 1:
        return capacity
    apart = sets // math.gcd(stride // line, sets)
    return min(capacity, min(sets, apart * max(1, run // line)) * ways * line)


def _compute(product: Product, candidate: Candidate, machine: MachineModel) -> float:
    """Return the cycles of all tiles on one thread, with their data in L1."""
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    conflict = _conflict(product, candidate, machine)
    total = 0.0
    for columns, panels in _parts(product.columns, candidate.vectors * lanes):
        vectors = -(-columns // lanes)
        for rows, tiles in _parts(product.rows, candidate.rows):
            step = tile_steps(Tile(rows, vectors), machine) + conflict
            around = _TILE_CYCLES + 1.5 * rows * vectors
            total += panels * tiles * (step * product.depth + around)
    return total * product.batch * product.shared


def _conflict(product: Product, candidate: Candidate, machine: MachineModel) -> float:
    """Return the cycles that a step waits if the rows of a tile lie in one set of L1."""
    sets = max(1, machine.l1_bytes // (machine.line_bytes * machine.l1_ways))
    if product.row_stride == 0 or product.row_stride % (sets * machine.line_bytes):
        return 0.0
    if candidate.rows + 2 <= machine.l1_ways:
        return 0.0
    return 0.5 * candidate.rows * machine.line_bytes / machine.l2_bandwidth


class _Traffic(NamedTuple):
    """Bytes that move for one iteration of the batch, and where those behind L2 come from."""

    l2: float
    far_rows: float
    """Of the operand of the rows, from behind L2."""
    far_panels: float
    """Of the operand of the vectors. The first reading of panels that the model packed does not
    count: see `_stream`."""
    from_memory: float
    """The share of what comes from behind L2 that comes from memory."""


def _traffic(product: Product, candidate: Candidate, machine: MachineModel) -> _Traffic:
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    width = candidate.vectors * lanes
    panels = -(-product.columns // width)
    row_tiles = -(-product.rows // candidate.rows)
    panel: float = min(width, product.columns) * product.depth * product.element_bytes
    left, right = product.left_bytes, product.right_bytes
    if candidate.block is None:
        blocks, used, tiles_in = 1, float(left), row_tiles * product.shared
    else:
        per_pass = -(-row_tiles // candidate.block)
        blocks, tiles_in = product.shared * per_pass, min(candidate.block, row_tiles)
        used = left / max(1, product.shared) * tiles_in / row_tiles
    l1, l2 = float(machine.l1_bytes), float(machine.l2_bytes)
    if product.packed_width is None and not candidate.packs:
        run = width * product.element_bytes
        place = (product.depth_stride, run, product.depth, machine)
        l1 = _reachable(machine.l1_bytes, machine.l1_ways, *place)
        l2 = _SCATTERED * _reachable(machine.l2_bytes, machine.l2_ways, *place)
        l2 = min(l2, float(machine.l2_bytes))
        if product.depth_stride > run:
            panel *= 1 + machine.unaligned_lines * machine.line_bytes / run
    wasted = 0.0
    if 0 < product.row_stride < machine.line_bytes:  # the rows of a tile share a line in each step
        wasted = machine.unaligned_lines * machine.line_bytes * product.depth
    tile = used / max(1, tiles_in) + wasted
    rows = panels * (used + tiles_in * wasted)
    again = blocks * panels * (tiles_in - 1) * panel
    near: float = blocks * (right + rows * _share_missing(tile + panel, machine.l1_bytes))
    near += again * _share_missing(tile + panel, l1)
    far_panels = float(0 if product.packed_width is not None else right)
    far_panels += (blocks - 1) * right * _share_missing(right + used, l2)
    far_panels += again * _share_missing(panel + tile, l2)
    far_rows = float(left)
    far_rows += blocks * (panels - 1) * used * _share_missing(used + panel, machine.l2_bytes)
    everything = product.batch * (left + right)
    if everything <= 0.5 * machine.l2_bytes:
        far_rows = far_panels = 0.0
    return _Traffic(near, far_rows, far_panels, _share_missing(everything, machine.l3_bytes))


def _stream(product: Product, candidate: Candidate, machine: MachineModel, compute: float) -> float:
    """Return the cycles that a thread waits for the first reading of packed weights. The layers of
    a model share the caches, so none finds its own in L2, and large ones come from memory.
    """
    if product.packed_width is None:
        return 0.0
    whole = product.batch * product.right_bytes
    is_small = whole <= 0.5 * machine.l2_bytes and machine.l3_bytes > 0
    moved = whole / (machine.l3_bandwidth if is_small else machine.memory_bandwidth)
    if not candidate.prefetches:
        return _WAITING_FOR_FIRST * moved
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    rows = product.rows if product.rows_are_known else min(product.rows, TYPICAL)
    tiles = -(-rows // candidate.rows) * product.shared * product.batch
    steps = tiles * -(-product.columns // (candidate.vectors * lanes)) * product.depth
    return _PREFETCH_CYCLES * steps + max(0.0, moved - compute)


def may_prefetch(product: Product, candidate: Candidate, machine: MachineModel) -> bool:
    """Return whether several row tiles use a packed panel before a next one."""
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    if product.columns_are_known and product.columns <= candidate.vectors * lanes:
        return False
    tiles = -(-product.rows // candidate.rows)
    used = tiles * product.shared if candidate.block is None else min(candidate.block, tiles)
    return product.packed_width is not None and used > 1


@dataclass(frozen=True)
class Level:
    """A loop, or several of one kind, around the register tile."""

    name: str
    """"batch", "columns" (panels), "shared", "blocks" (of row tiles) or "rows" (row tiles)."""
    count: int
    is_uneven: bool = False
    """Whether the last iteration is a smaller one, which is a loop of its own."""


def levels_of(product: Product, candidate: Candidate, machine: MachineModel) -> list[Level]:
    """Return the loops around the register tile of a candidate, outermost first."""
    width = candidate.vectors * machine.lanes(8 * max(4, product.result_bytes))
    uneven = not product.columns_are_known or product.columns % width != 0
    columns = Level("columns", -(-product.columns // width), uneven)
    uneven = not product.rows_are_known or product.rows % candidate.rows != 0
    tiles = -(-product.rows // candidate.rows)
    batch, shared = Level("batch", product.batch), Level("shared", product.shared)
    if candidate.block is None:
        return [batch, columns, shared, Level("rows", tiles, uneven)]
    if candidate.block == 1:
        return [batch, shared, Level("rows", tiles, uneven), columns]
    is_smaller = product.rows % (candidate.rows * candidate.block) != 0
    blocks = Level("blocks", -(-tiles // candidate.block), is_smaller)
    uneven = uneven or tiles % candidate.block != 0
    return [batch, shared, blocks, columns, Level("rows", candidate.block, uneven)]


def parallel_levels(levels: list[Level], threads: int) -> list[Level]:
    """Return the outermost loops whose iterations threads share: as many as it takes to deal them
    out evenly. A loop with a smaller last iteration is shared only on its own.
    """
    chosen: list[Level] = []
    tasks = 1
    for level in levels:
        if level.is_uneven:
            if tasks == 1:
                return [level]
            break
        chosen.append(level)
        tasks *= level.count
        if is_even(tasks, threads):
            break
    return chosen


def _share(
    product: Product, candidate: Candidate, shared: list[Level], threads: int, lanes: int
) -> float:
    """Return the share of the work of the thread that has the most to do. A smaller last iteration
    of a loop is divided off from it, and one thread runs it after the others, but for blocks: a
    smaller one is a branch of the loop.
    """
    if shared and shared[0].is_uneven:
        size, unit = product.rows, candidate.rows
        if shared[0].name == "columns":
            size, unit = product.columns, candidate.vectors * lanes
        elif shared[0].name == "blocks":
            unit *= candidate.block or 1
            return min(1.0, -(-shared[0].count // threads) * unit / size)
        whole, rest = divmod(size, unit)
        return (_ceil(whole / threads) * unit * bool(whole) + rest) / size
    tasks = max(1, math.prod([level.count for level in shared]))
    return -(-tasks // threads) / tasks


def _part(
    product: Product, candidate: Candidate, shared: list[Level], share: float, lanes: int
) -> Product:
    """Return what one of the threads computes, that run a share of some loops as one loop."""
    parts = {"batch": 1.0, "shared": 1.0, "columns": 1.0, "rows": 1.0}
    for level in shared:
        part = max(share, 1 / level.count)
        share = min(1.0, share * level.count)
        parts["rows" if level.name == "blocks" else level.name] *= part
    width = candidate.vectors * lanes
    rows = min(product.rows, _ceil(product.rows * parts["rows"], candidate.rows))
    columns = min(product.columns, _ceil(product.columns * parts["columns"], width))
    left = product.left_bytes * parts["shared"] * rows / product.rows
    return replace(
        product,
        batch=_ceil(product.batch * parts["batch"]),
        shared=_ceil(product.shared * parts["shared"]),
        rows=rows,
        columns=columns,
        left_bytes=max(1, round(left)),
    )


def _ceil(size: float, unit: int = 1) -> int:
    return max(1, math.ceil(size / unit - 1e-6)) * unit


def _exchanged(product: Product, part: Product, threads: int) -> float:
    """Return the bytes that a thread reads of what other threads wrote: rows of one operand where
    it computes some of the columns (and so those who read its results); the other operand, unless
    that was packed when the model was compiled, where it computes some of the rows.
    """
    total = 0.0
    if part.columns < product.columns:
        results = part.rows * part.shared * part.columns * product.result_bytes
        total += part.left_bytes + results
    if part.rows * part.shared < product.rows * product.shared and product.packed_width is None:
        total += part.right_bytes
    return part.batch * total * (1 - 1 / threads)


def _waiting(
    product: Product, candidate: Candidate, machine: MachineModel, behind: float
) -> tuple[float, float]:
    """Return the cycles of waiting for L2, and for what is behind it."""
    moved = _traffic(product, candidate, machine)
    l2 = WAITING_FOR_L2 * product.batch * moved.l2 / machine.l2_bandwidth
    far = machine.row_waiting * moved.far_rows + machine.panel_waiting * moved.far_panels
    return l2, product.batch * far * behind


def predict(
    product: Product, candidate: Candidate, machine: MachineModel, threads: int = 1
) -> Time:
    """Return the predicted cycles of a candidate."""
    compute = _compute(product, candidate, machine)
    from_memory = _traffic(product, candidate, machine).from_memory
    behind = (1 - from_memory) / (machine.l3_bandwidth or machine.memory_bandwidth)
    behind += from_memory / machine.memory_bandwidth
    l2, l3 = _waiting(product, candidate, machine, behind)
    packing = 0.0
    if candidate.packs:
        moved = 2 * product.batch * product.right_bytes
        fits = moved <= 0.5 * machine.l2_bytes
        rate = machine.l2_bandwidth if fits else 1 / behind
        packing = moved / (_COPY_SHARE * rate)
    stream = _stream(product, candidate, machine, compute)
    serial = compute + l2 + l3 + packing + stream
    if threads < 2 or serial < machine.fewest_parallel_cycles:
        return Time(compute, l2, l3, packing, stream=stream)
    shared = parallel_levels(levels_of(product, candidate, machine), threads)
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    share = _share(product, candidate, shared, threads, lanes)
    part = _part(product, candidate, shared, share, lanes)
    l2, l3 = _waiting(part, candidate, machine, behind)
    exchange = _WAITING_FOR_FIRST * _exchanged(product, part, threads) / machine.remote_bandwidth
    fork = machine.fork_cycles * (2 if candidate.packs else 1)
    stream = _stream(part, candidate, machine, compute * share)
    return Time(compute * share, l2, l3, packing / threads, exchange, fork, stream)
