"""Which register tile a contraction gets: a model of one step of its innermost loop.

A tile is ``rows`` × ``vectors``: so many elements of one operand are broadcast, so many vectors of
the other are loaded, and each pair is multiplied and added to an accumulator of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilesmith.target.machine import MachineModel

__all__ = ["Tile", "best_rows", "best_tile", "tile_cost"]


@dataclass(frozen=True)
class Tile:
    """A register tile."""

    rows: int
    vectors: int


def tile_cost(tile: Tile, machine: MachineModel) -> float:
    """Cycles for each multiply-add of a vector; infinite for a tile that does not fit the
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
    """The number of rows for a given number of vectors; it divides the extent."""
    limit = min(extent, machine.vector_registers)
    candidates = [rows for rows in range(1, limit + 1) if extent % rows == 0]
    return min(candidates, key=lambda rows: tile_cost(Tile(rows, vectors), machine))


def best_tile(extent: int, columns: int, machine: MachineModel) -> Tile:
    """The tile for so many rows and so many columns (elements of vectors)."""
    lanes = machine.vector_bytes // 4
    best, least = Tile(1, 1), float("inf")
    for vectors in (1, 2, 3, 4):
        if columns % (vectors * lanes):
            continue
        tile = Tile(best_rows(extent, vectors, machine), vectors)
        cost = tile_cost(tile, machine)
        if cost < least * 0.999:
            best, least = tile, cost
    return best
