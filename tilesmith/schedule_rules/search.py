"""Chooses the schedule of a contraction among candidates by their predicted time.

Nothing is run, and nothing is left to chance: the same product and machine give the same choice.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from tilesmith.schedule_rules.choices import (
    Choice,
    Considered,
    choices_are_wanted,
    record_choice,
)
from tilesmith.schedule_rules.time_model import (
    Candidate,
    Product,
    Time,
    levels_of,
    predict,
    tile_steps,
)
from tilesmith.target.machine import MachineModel

__all__ = ["Decision", "candidates", "choose"]

_MOST_VECTORS = 4
_MOST_TILES = 12
_WORTH_CONSIDERING = 1.2
"""Tiles whose steps take so much longer than the best one's are not considered."""
_UNEVEN = 1.015
"""What a loop with a smaller last iteration costs beside its time: code of its own."""


@dataclass(frozen=True)
class Decision:
    """The chosen candidate with its predicted cycles."""

    candidate: Candidate
    time: Time
    is_parallel: bool
    """Whether there is work enough for several threads."""


def _tiles(product: Product, machine: MachineModel) -> list[tuple[int, int]]:
    """Return the register tiles worth considering as rows and vectors."""
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    most = min(_MOST_VECTORS, -(-product.columns // lanes))
    options: list[int] = [*range(1, most + 1)]
    if product.packed_width is not None:
        options = [max(1, product.packed_width // lanes)]
    found: list[tuple[float, tuple[int, int]]] = []
    for vectors in options:
        for rows in range(1, min(product.rows, machine.vector_registers) + 1):
            if tile_steps(rows, vectors, machine) < math.inf:
                found.append((_cost(product, rows, vectors, machine), (rows, vectors)))
    if not found:  # panels too wide for the registers
        return [(1, options[0])]
    found.sort()
    return [tile for cost, tile in found[:_MOST_TILES] if cost <= _WORTH_CONSIDERING * found[0][0]]


def _cost(product: Product, rows: int, vectors: int, machine: MachineModel) -> float:
    """Return the cycles of one step of the reduction for all rows and columns."""
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    whole_rows, more_rows = divmod(product.rows, rows)
    whole_columns, more_columns = divmod(-(-product.columns // lanes), vectors)
    total = 0.0
    for height, tiles in ((rows, whole_rows), (more_rows, 1)):
        for breadth, panels in ((vectors, whole_columns), (more_columns, 1)):
            if height and breadth and tiles and panels:
                total += tiles * panels * tile_steps(height, breadth, machine)
    return total


def candidates(product: Product, machine: MachineModel, threads: int) -> list[Candidate]:
    """Return the candidates for a product, in a fixed order."""
    found = []
    for rows, vectors in _tiles(product, machine):
        tiles = -(-product.rows // rows)
        blocks: list[int | None] = [None]
        if tiles > 1 or product.shared > 1:
            in_cache = int(machine.l2_bytes * 0.4 * tiles * product.shared / product.left_bytes)
            for block in (1, in_cache, -(-tiles // (4 * threads))):
                if (1 <= block < tiles or block == 1) and block not in blocks:
                    blocks.append(block)
        for block in blocks:
            found.append(Candidate(rows, vectors, block, False))
            if product.may_pack and product.packed_width is None:
                found.append(Candidate(rows, vectors, block, True))
    return found


def choose(
    product: Product, machine: MachineModel, threads: int, function: str = "", block: str = ""
) -> Decision:
    """Return the candidate of the shortest predicted time."""
    ranked: list[tuple[float, int, Candidate, Time]] = []
    for number, candidate in enumerate(candidates(product, machine, threads)):
        time = predict(product, candidate, machine, threads)
        uneven = sum([level.is_uneven for level in levels_of(product, candidate, machine)])
        ranked.append((time.total * _UNEVEN**uneven, number, candidate, time))
    ranked.sort(key=lambda one: one[:2])
    _, _, winner, time = ranked[0]
    if choices_are_wanted():
        considered = [Considered(c.describe(), t.total, asdict(t)) for _, _, c, t in ranked]
        reason = _reason(ranked)
        record_choice(Choice(function, block, (*considered,), reason))
    serial = time if threads < 2 else predict(product, winner, machine)
    return Decision(winner, time, threads > 1 and serial.total >= machine.fewest_parallel_cycles)


def _reason(ranked: list[tuple[float, int, Candidate, Time]]) -> str:
    """Return in words why the first candidate won: where the nearest other one loses most."""
    if len(ranked) == 1:
        return "it is the only candidate"
    first, second = ranked[0], ranked[1]
    mine, other = asdict(first[3]), asdict(second[3])
    lost = max(mine, key=lambda name: other[name] - mine[name])
    if other[lost] <= mine[lost]:
        return f"as quick as {second[2].describe()}, with fewer uneven loops"
    more = (second[3].total / first[3].total - 1) * 100
    return f"{second[2].describe()} takes {more:.1f} % longer, most of it for {lost}"
