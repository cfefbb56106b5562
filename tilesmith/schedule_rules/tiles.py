"""Chooses the register tile of a contraction by a cost model of its innermost loop.

A tile is ``rows`` × ``vectors``: ``rows`` elements of one operand are broadcast, ``vectors``
vectors of the other are loaded, and each pair is multiplied and added to its own accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilesmith.target.machine import MachineModel

__all__ = ["Tile", "best_rows", "best_tile", "tile_cost"]


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
    """Return the best number of rows for a given number of vectors; it divides the extent."""
    limit = min(extent, machine.vector_registers)
    candidates = [rows for rows in range(1, limit + 1) if extent % rows == 0]
    return min(candidates, key=lambda rows: tile_cost(Tile(rows, vectors), machine))


def best_tile(extent: int, columns: int, machine: MachineModel) -> Tile:
    """Return the best tile for a number of rows and of columns (elements of vectors)."""
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
