"""Chooses the register tile of a contraction by a cost model of its innermost loop.

A tile is ``rows`` × ``vectors``: ``rows`` elements of one operand are broadcast, ``vectors``
vectors of the other are loaded, and each pair is multiplied and added to its own accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilesmith.target.machine import MachineModel

__all__ = ["MANY", "Tile", "best_rows", "best_tile", "tile_cost"]


MANY = 1 << 16
"""What a symbolic extent counts as."""
_UNEVEN_COST = 1.25
"""How much more time tiles that divide the extent may take than others."""


@dataclass(frozen=True)
class Tile:
    """A register tile: rows and vectors of results that are held in registers."""

    rows: int
    vectors: int


def tile_cost(tile: Tile, machine: MachineModel) -> float:
    """Return the cycles per multiply-add of a vector; infinite if the tile does not fit the
    registers.
    """
    products = tile.rows * tile.vectors
    if products + tile.vectors + 1 > machine.vector_registers:
        return float("inf")
    multiply = products / machine.fma_per_cycle
    loads = (tile.rows + tile.vectors) / machine.loads_per_cycle
    step = (multiply**4 + loads**4 + machine.fma_latency**4) ** 0.25
    return step / products


def best_rows(extent: int, vectors: int, machine: MachineModel) -> int:
    """Return the best number of rows for a given number of vectors.

    It divides the extent where that costs little more: what is left over needs a tile of its own.
    """
    rows, _ = _rows(extent, vectors, machine)
    return rows


def _rows(extent: int, vectors: int, machine: MachineModel) -> tuple[int, float]:
    """Return the best number of rows, and the cost per row and vector."""
    extent = max(extent, 1)  # no rows need no tile, but their code has a form as well

    def cost(rows: int) -> float:
        left = Tile(extent % rows, vectors)
        whole = extent // rows * rows * tile_cost(Tile(rows, vectors), machine)
        return (whole + (left.rows * tile_cost(left, machine) if left.rows else 0)) / extent

    candidates = range(1, min(extent, machine.vector_registers) + 1)
    even = min([rows for rows in candidates if extent % rows == 0], key=cost)
    best = min(candidates, key=cost)
    rows = even if cost(even) <= cost(best) * _UNEVEN_COST else best
    return rows, cost(rows)


def best_tile(extent: int, columns: int, machine: MachineModel) -> Tile:
    """Return the best tile for a number of rows and of columns (elements of vectors).

    It has one vector where no tile divides the columns, and divides the rows where it can.
    """
    lanes = machine.vector_bytes // 4
    fitting = [vectors for vectors in (1, 2, 3, 4) if columns % (vectors * lanes) == 0] or [1]
    chosen: dict[bool, tuple[float, Tile]] = {}
    for vectors in fitting:
        rows, cost = _rows(extent, vectors, machine)
        is_even = extent % rows == 0
        if is_even not in chosen or cost < chosen[is_even][0] * 0.999:
            chosen[is_even] = cost, Tile(rows, vectors)
    if True in chosen and False in chosen:
        even, uneven = chosen[True], chosen[False]
        return even[1] if even[0] <= uneven[0] * _UNEVEN_COST else uneven[1]
    return next(iter(chosen.values()))[1]
