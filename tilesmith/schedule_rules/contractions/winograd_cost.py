"""Decides where Winograd's algorithm pays, and how high its strips are, by a model of time.

Multiplications that are saved stand against transforms, larger weights and products of fewer rows.
All times are cycles of one core; what waits for memory hides partly behind arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tilesmith.schedule_rules.contractions.tiles import (
    Tile,
    best_rows,
    best_tile,
    ranked_tiles,
    tile_cost,
)
from tilesmith.target.machine import MachineModel

__all__ = ["WINOGRAD_ERRORS", "ConvolutionSize", "WinogradPlan", "winograd_plan"]

WINOGRAD_ERRORS = {2: 0.0, 4: 5e-5}
"""The sizes of a tile, with the error to expect of them: the greatest difference from the exact
results, relative to the greatest of these. Tiles of 2 are as exact as sums of products."""

_TAPS = 3
_FLOAT = 4
_GAIN = 0.95
"""At most this part of the time of direct sums makes the larger weights worth while."""
_NEAR, _FAR = 0.2, 0.7
"""The parts of waiting for the second-level cache and for what is behind it that do not hide."""
_AGAIN = 0.5
"""The same for the transformed data, which each tile of outputs reads in one stream."""
_BANDWIDTH_OF_CORES = 1.2
"""How much more several cores get from memory than one, measured with two."""
_AHEAD = 0.3
"""The part of the time for what is fetched ahead of its use that does not hide."""


@dataclass(frozen=True)
class ConvolutionSize:
    """The sizes of a convolution of 3 by 3 taps without dilation."""

    images: int
    height: int
    """Rows of results."""
    width: int
    inputs: int
    """Channels of a group, as the outputs."""
    outputs: int
    groups: int = 1
    stride: int = 1

    def width_of(self, tile: int) -> int:
        """Return the data and the points that a tile of results has along an axis."""
        return (tile - 1) * self.stride + _TAPS


@dataclass(frozen=True)
class WinogradPlan:
    """How to convolve by tiles of ``tile`` by ``tile`` results."""

    tile: int
    rows: int
    """Rows of tiles in a strip."""
    width: int
    """Output channels in a tile of packed weights."""


@lru_cache(maxsize=256)  # layers of a network repeat
def winograd_plan(
    size: ConvolutionSize, machine: MachineModel, tolerance: float = 0.0
) -> WinogradPlan | None:
    """Return the fastest plan whose error is at most ``tolerance``, None if direct sums are as
    good.
    """
    if size.groups > 1 and size.outputs % machine.lanes(32):
        return None  # the rule wants groups of whole vectors
    best, plan = _GAIN * _direct_time(size, machine), None
    for tile, error in WINOGRAD_ERRORS.items():
        if error > tolerance:
            continue
        for rows in _strip_heights(-(-size.height // tile)):
            made = _plan(size, tile, rows, machine)
            time = _time(size, made, machine)
            if time < best:
                best, plan = time, made
    return plan


def _strip_heights(rows: int) -> list[int]:
    """Return the least heights that give different numbers of strips."""
    return sorted({-(-rows // strips) for strips in range(1, rows + 1)})


def _plan(size: ConvolutionSize, tile: int, rows: int, machine: MachineModel) -> WinogradPlan:
    columns = -(-size.width // tile)
    chosen = best_tile(rows * columns, size.outputs, machine)
    if size.groups > 1:
        chosen = _even_tile(rows * columns, size.outputs, machine)
    return WinogradPlan(tile, rows, chosen.vectors * machine.lanes(32))


def _even_tile(rows: int, columns: int, machine: MachineModel) -> Tile:
    """Return the best tile whose vectors divide the columns."""
    lanes = machine.lanes(32)
    count = columns // lanes
    even = [one for one in range(1, count + 1) if count % one == 0]
    return ranked_tiles(rows, columns, lanes, even, machine, True)[0][1]


def _multiply_time(rows: int, vectors: int, machine: MachineModel) -> float:
    """Return the cycles for one multiply-add of a vector in tiles of rows and vectors."""
    best = Tile(best_rows(rows, vectors, machine), vectors)
    return tile_cost(best, machine)


def _weights_time(
    amount: int, times: int, multiply: float, is_ahead: bool, machine: MachineModel
) -> float:
    """Return the time to wait for weights that are read so many times.

    The layers of a network share the caches, so that weights beyond half of the second level come
    from memory at first, and from L3 again. ``is_ahead``: each panel is fetched while the one
    before it is multiplied, which takes ``multiply`` cycles in all.
    """
    first, cores = min(times, machine.cores), machine.cores
    if amount <= machine.l2_bytes // 2:
        far, near = amount / machine.l3_bandwidth * _FAR, amount / machine.l2_bandwidth * _NEAR
        return first * far + (times - first) * near
    moved = amount / machine.memory_bandwidth
    if times < cores:  # each core reads a part of its own
        moved *= cores / min(cores, _BANDWIDTH_OF_CORES)
    again = amount / (machine.l3_bandwidth or machine.memory_bandwidth)

    def waiting(cycles: float) -> float:
        hidden = max(cycles - multiply / times, _AHEAD * cycles)
        return hidden if is_ahead else _FAR * cycles

    return first * waiting(moved) + (times - first) * waiting(again)


def _direct_time(size: ConvolutionSize, machine: MachineModel) -> float:
    lanes, pixels = machine.lanes(32), size.height * size.width
    vectors = best_tile(size.width, size.outputs, machine).vectors
    step = _multiply_time(size.width, vectors, machine)
    products = size.images * pixels * _TAPS * _TAPS * size.inputs * -(-size.outputs // lanes)
    weights = _TAPS * _TAPS * size.inputs * size.outputs * _FLOAT
    multiply = products * step
    is_ahead = size.height > 1
    waiting = _weights_time(weights, size.images, multiply, is_ahead, machine)
    return size.groups * (multiply + waiting) / machine.cores


def _time(size: ConvolutionSize, plan: WinogradPlan, machine: MachineModel) -> float:
    lanes, points = machine.lanes(32), size.width_of(plan.tile) ** 2
    columns = -(-size.width // plan.tile)
    tiles = plan.rows * columns  # of a strip
    outputs = -(-size.outputs // plan.width)
    strips = size.images * -(-size.height // (plan.tile * plan.rows))
    vectors = plan.width // lanes
    step = _multiply_time(tiles, vectors, machine)
    multiply = points * tiles * size.inputs * outputs * vectors * step
    # One addition and one multiplication more or less for each point and axis.
    added = 2 * points * tiles * (-(-size.inputs // lanes) + outputs * vectors)
    data = points * tiles * size.inputs * _FLOAT
    # Between two readings of the data, all weights of a tile of outputs pass through the cache.
    held = data + points * (tiles + size.inputs) * plan.width * _FLOAT
    moved = _moved(size, plan, tiles, points) * _FLOAT
    again = outputs * data  # each tile of outputs reads the data of the strip
    # The cache fills up gradually.
    far = min(1.0, max(0.0, held / machine.l2_bytes - 0.5)) if machine.l2_bytes else 1.0
    near, behind = machine.l2_bandwidth, machine.l3_bandwidth or machine.memory_bandwidth
    moving = (1 - far) * (moved + _NEAR * again) / near + far * (moved + _AGAIN * again) / behind
    weights = points * size.inputs * outputs * plan.width * _FLOAT
    work = multiply + added / machine.fma_per_cycle + moving
    is_ahead = tiles > best_rows(tiles, vectors, machine)
    total = strips * work + _weights_time(weights, strips, strips * multiply, is_ahead, machine)
    total *= size.groups
    strips *= size.groups
    shares = strips if strips >= machine.cores else outputs
    total *= math.ceil(shares / machine.cores) / shares
    if strips >= machine.cores:
        return total
    # Each thread transforms some of the tiles, multiplies all, and writes some of the channels.
    shared = data + size.height * size.width * size.outputs * _FLOAT // machine.cores
    waiting = strips * shared * (1 - 1 / machine.cores) / machine.remote_bandwidth
    return total + waiting * _FAR


def _moved(size: ConvolutionSize, plan: WinogradPlan, tiles: int, points: int) -> int:
    """Return how many numbers the transforms of a strip write and read."""
    columns = -(-size.width // plan.tile)
    padded = size.width_of(plan.tile * plan.rows) * size.width_of(plan.tile * columns)
    results = 2 * points * tiles + tiles * plan.tile**2
    return (2 * padded + points * tiles) * size.inputs + results * size.outputs
