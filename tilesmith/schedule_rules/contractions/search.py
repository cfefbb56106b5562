"""Chooses the schedule of a contraction among candidates by their predicted time.

Nothing is run, and nothing is left to chance: the same product and machine give the same choice.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from tilesmith.schedule_rules.choices import (
    Choice,
    Considered,
    choices_are_wanted,
    record_choice,
)
from tilesmith.schedule_rules.contractions.tiles import (
    MOST_OPEN_ROWS,
    MOST_VECTORS,
    UNEVEN,
    Tile,
    ranked_tiles,
)
from tilesmith.schedule_rules.contractions.time_model import (
    Candidate,
    Product,
    Time,
    levels_of,
    may_prefetch,
    predict,
)
from tilesmith.target.machine import MachineModel

__all__ = ["Decision", "candidates", "choose"]

_MOST_TILES = 12
_WORTH_CONSIDERING = 1.2
"""Tiles whose steps take so much longer than the best one's are not considered."""
_SMALLER_BLOCK = 0.7
"""How much smaller a block may become, so that blocks divide the row tiles."""


@dataclass(frozen=True)
class Decision:
    """The chosen candidate with its predicted cycles."""

    candidate: Candidate
    time: Time
    is_parallel: bool
    """Whether there is work enough for several threads."""


def _tiles(product: Product, machine: MachineModel) -> list[Tile]:
    """Return the register tiles worth considering."""
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    options = range(1, min(MOST_VECTORS, -(-product.columns // lanes)) + 1)
    if product.packed_width is not None:
        breadth = max(1, product.packed_width // lanes)
        options = range(breadth, breadth + 1)
    most = None if product.rows_are_known else MOST_OPEN_ROWS
    ranked = ranked_tiles(product.rows, product.columns, lanes, options, machine, most_rows=most)
    if not ranked:  # panels too wide for the registers
        return [Tile(1, options[0])]
    limit = _WORTH_CONSIDERING * ranked[0][0]
    return [tile for cost, tile in ranked[:_MOST_TILES] if cost <= limit]


def candidates(product: Product, machine: MachineModel, threads: int) -> list[Candidate]:
    """Return the candidates for a product, in a fixed order."""
    found = []
    for tile in _tiles(product, machine):
        rows, vectors = tile.rows, tile.vectors
        tiles = -(-product.rows // rows)
        blocks: list[int | None] = [None]
        # An open number of rows may be one: then only columns make tasks for threads.
        if product.rows_are_known and (tiles > 1 or product.shared > 1):
            in_cache = int(machine.l2_bytes * 0.4 * tiles * product.shared / product.left_bytes)
            for block in (1, in_cache, -(-tiles // (4 * threads)), -(-tiles // threads)):
                size = _dividing(block, tiles)
                if (1 <= size < tiles or size == 1) and size not in blocks:
                    blocks.append(size)
        for size in blocks:
            plain = Candidate(rows, vectors, size, False)
            found.append(plain)
            if may_prefetch(product, plain, machine):
                found.append(replace(plain, prefetches=True))
            if product.may_pack and product.packed_width is None:
                found.append(Candidate(rows, vectors, size, True))
    return found


def _dividing(block: int, tiles: int) -> int:
    """Return the size of a block that divides the row tiles, if there is one a little smaller."""
    for size in range(min(block, tiles), max(1, int(_SMALLER_BLOCK * block)) - 1, -1):
        if tiles % size == 0:
            return size
    return block


def _unevenness(product: Product, candidate: Candidate, machine: MachineModel) -> float:
    """Return the factor by which smaller last iterations of loops lengthen a candidate's time."""
    uneven = sum([level.is_uneven for level in levels_of(product, candidate, machine)])
    return UNEVEN**uneven


def choose(
    product: Product, machine: MachineModel, threads: int, function: str = "", block: str = ""
) -> Decision:
    """Return the candidate of the shortest predicted time."""
    ranked: list[tuple[float, int, Candidate, Time]] = []
    for number, candidate in enumerate(candidates(product, machine, threads)):
        time = predict(product, candidate, machine, threads)
        total = time.total * _unevenness(product, candidate, machine)
        ranked.append((total, number, candidate, time))
    ranked.sort(key=lambda one: one[:2])
    _, _, winner, time = ranked[0]
    if choices_are_wanted():
        considered = [Considered(c.describe(), t.total, asdict(t)) for _, _, c, t in ranked]
        reason = _reason(ranked)
        record_choice(Choice(function, block, (*considered,), reason))
    serial = time if threads < 2 else predict(product, winner, machine)
    is_worth_it = serial.total >= machine.fewest_parallel_cycles and time.total <= serial.total
    return Decision(winner, time, threads > 1 and is_worth_it)


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
