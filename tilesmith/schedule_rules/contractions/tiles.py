"""Ranks the register tiles of a contraction by a model of its innermost loop.

A tile is ``rows`` × ``vectors``: ``rows`` elements of one operand are broadcast, ``vectors``
vectors of the other are loaded, and each pair is multiplied and added to its own accumulator. Where
tiles do not divide an axis, the last tile is smaller: 197 rows are 24 tiles of 8 and one of 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilesmith.target.machine import MachineModel

__all__ = [
    "MANY",
    "MOST_OPEN_ROWS",
    "MOST_VECTORS",
    "UNEVEN",
    "WAITING_FOR_L2",
    "Tile",
    "best_rows",
    "best_tile",
    "even_rows",
    "ranked_tiles",
    "tile_cost",
    "tile_steps",
    "two_sums_columns",
]


MANY = 1 << 16
"""What a symbolic extent counts as."""
MOST_VECTORS = 4
MOST_OPEN_ROWS = 6
"""The highest tile of an open number of rows: its last tile has code for each lower height."""
UNEVEN = 1.015
"""What a loop with a smaller last iteration costs beside its time: code of its own."""
_EVEN_COST = 1.25
"""How much more time tiles that divide the extent may take than others."""
_FULL_REGISTERS = 1.02
"""How much longer a tile takes that leaves no register free: some value is spilled."""
_FEWEST_LANES_OF_TWO_SUMS = 8
_TWO_SUMS_COST = 1.05
"""How much longer a tile takes that adds two sums for each result at its end."""
_OPERAND_CYCLES = 0.03
"""Cycles that each load of a step costs though a port is free."""
WAITING_FOR_L2 = 0.2
"""The share of the time for bytes from L2 that computing does not hide."""


@dataclass(frozen=True)
class Tile:
    """A register tile: rows and vectors of results that are held in registers."""

    rows: int
    vectors: int


def tile_steps(tile: Tile, machine: MachineModel) -> float:
    """Return the cycles of one step of the reduction in a tile; infinite if it does not fit the
    registers.
    """
    products = tile.rows * tile.vectors
    registers = products + tile.vectors + 1
    if registers > machine.vector_registers:
        return math.inf
    multiply = products / machine.fma_per_cycle
    load = (tile.rows + tile.vectors) / machine.loads_per_cycle
    bound: float = (multiply**8 + load**8 + machine.fma_latency**8) ** 0.125
    is_full = registers >= machine.vector_registers - 1
    operands = _OPERAND_CYCLES * (tile.rows + tile.vectors)
    return bound * (_FULL_REGISTERS if is_full else 1.0) + operands


def _cost(
    rows: int, columns: int, tile: Tile, lanes: int, machine: MachineModel, from_l2: bool
) -> float:
    """Return the cycles of one step of the reduction for all rows and columns."""
    waiting = WAITING_FOR_L2 * machine.vector_bytes / machine.l2_bandwidth if from_l2 else 0.0
    whole_rows, more_rows = divmod(rows, tile.rows)
    whole_columns, more_columns = divmod(-(-columns // lanes), tile.vectors)
    total = 0.0
    for height, tiles in ((tile.rows, whole_rows), (more_rows, 1)):
        for breadth, panels in ((tile.vectors, whole_columns), (more_columns, 1)):
            if height and breadth and tiles and panels:
                step = tile_steps(Tile(height, breadth), machine) + waiting * breadth
                total += tiles * panels * step
    uneven = (rows % tile.rows != 0) + (columns % (tile.vectors * lanes) != 0)
    return total * UNEVEN**uneven


def ranked_tiles(
    rows: int,
    columns: int,
    lanes: int,
    vectors: Sequence[int],
    machine: MachineModel,
    from_l2: bool = False,
    most_rows: int | None = None,
) -> list[tuple[float, Tile]]:
    """Return the tiles of the given numbers of vectors that fit the registers, the quickest first,
    each with its cycles for one step of the reduction of all rows and columns.

    ``from_l2``: the vectors come from L2, not from L1; ``most_rows``: of the highest tile.
    """
    found = []
    highest = min(max(rows, 1), most_rows or machine.vector_registers)
    for breadth in vectors:
        for height in range(1, highest + 1):
            tile = Tile(height, breadth)
            if tile_steps(tile, machine) < math.inf:
                found.append((_cost(max(rows, 1), columns, tile, lanes, machine, from_l2), tile))
    return sorted(found, key=lambda one: (one[0], one[1].vectors, one[1].rows))


@lru_cache(maxsize=256)  # layers of a network repeat
def best_tile(extent: int | None, columns: int, machine: MachineModel) -> Tile:
    """Return the best tile for a number of rows (None: an open one) and of columns (elements of
    vectors), if panels of columns lie in L2.
    """
    lanes = machine.lanes(32)
    most = min(MOST_VECTORS, max(1, -(-columns // lanes)))
    options = range(1, most + 1)
    limit = MOST_OPEN_ROWS if extent is None else None
    rows = MANY if extent is None else extent
    return ranked_tiles(rows, columns, lanes, options, machine, True, limit)[0][1]


def tile_cost(tile: Tile, machine: MachineModel) -> float:
    """Return the cycles per multiply-add of a vector; infinite if the tile does not fit the
    registers.
    """
    return tile_steps(tile, machine) / (tile.rows * tile.vectors)


def best_rows(extent: int, vectors: int, machine: MachineModel) -> int:
    """Return the best number of rows for a given number of vectors.

    It divides the extent where that costs little more, for rules without a smaller last tile.
    """
    lanes = machine.lanes(32)
    ranked = ranked_tiles(extent, vectors * lanes, lanes, [vectors], machine)
    if not ranked:
        return 1
    limit = _EVEN_COST * ranked[0][0]
    even = [tile for cost, tile in ranked if extent % tile.rows == 0 and cost <= limit]
    return (even or [ranked[0][1]])[0].rows


def even_rows(extent: int, vectors: int, machine: MachineModel) -> int:
    """Return the best number of rows, of those that divide the extent."""
    options = [rows for rows in range(1, machine.vector_registers) if extent % rows == 0]
    return min(options, key=lambda rows: tile_steps(Tile(rows, vectors), machine) / rows)


def two_sums_columns(rows: int | None, columns: int, machine: MachineModel) -> int | None:
    """Return the columns of a panel of weights, if results should have two sums each, of even and
    of odd steps: columns that leave half of their last vector empty fill whole vectors then.

    None if that is no gain, or for an open number of rows.
    """
    lanes = machine.lanes(32)
    if rows is None or lanes < _FEWEST_LANES_OF_TWO_SUMS or columns % lanes != lanes // 2:
        return None
    best = best_tile(rows, columns, machine)
    found = []
    for width in range(lanes // 2, columns + 1, lanes // 2):
        vectors = 2 * width // lanes
        if columns % width == 0 and vectors + 2 <= machine.vector_registers:
            height = even_rows(rows, vectors, machine)
            steps = tile_steps(Tile(height, vectors), machine) / height / 2
            found.append((_TWO_SUMS_COST * steps * columns / width, width))
    cost, width = min(found)
    plain = _cost(rows, columns, best, lanes, machine, False) / rows
    return width if cost < plain else None
