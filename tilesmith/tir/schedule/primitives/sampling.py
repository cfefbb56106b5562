"""Sampling: choices that a search may change."""

from __future__ import annotations

import random
from math import prod
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.schedule.primitives.blocks import consumers_of, is_output_block, scope_of
from tilesmith.tir.schedule.primitives.common import refuse_at
from tilesmith.tir.schedule.primitives.compute_at import compute_at
from tilesmith.tir.schedule.primitives.compute_inline import compute_inline
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef
from tilesmith.tir.stmt import For

__all__ = [
    "perfect_tiles",
    "sample_categorical",
    "sample_compute_location",
    "sample_partitioned_tile",
    "sample_perfect_tile",
]


def sample_categorical(
    generator: random.Random, candidates: list[Any], probs: list[Any], decision: int | None
) -> int:
    """The position of one of the candidates."""
    if not candidates or len(candidates) != len(probs):
        raise ScheduleError(
            f"sample_categorical: {len(candidates)} candidates do not go with "
            f"{len(probs)} probabilities"
        )
    if decision is None:
        weights = [float(probability) for probability in probs]
        return generator.choices(range(len(candidates)), weights=weights)[0]
    if not 0 <= decision < len(candidates):
        raise ScheduleError(
            f"sample_categorical: decision {decision} is not among {len(candidates)} candidates"
        )
    return decision


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def perfect_tiles(extent: int, parts: int, max_innermost_factor: int) -> list[tuple[int, ...]]:
    """All ways to write ``extent`` as a product of ``parts`` factors, the last within a limit."""
    if parts == 1:
        return [(extent,)]
    found: list[tuple[int, ...]] = []

    def extend(prefix: tuple[int, ...], rest: int) -> None:
        if len(prefix) == parts - 1:
            found.append((rest, *prefix[::-1]))
            return
        for divisor in _divisors(rest):
            if prefix or divisor <= max_innermost_factor:
                extend((*prefix, divisor), rest // divisor)

    extend((), extent)
    return found


def _count_tiles(extent: int, parts: int) -> int:
    """The number of ways to write a number as an ordered product of factors."""
    from math import comb

    total, rest, prime = 1, extent, 2
    while rest > 1:
        power = 0
        while rest % prime == 0:
            rest //= prime
            power += 1
        total *= comb(power + parts - 1, parts - 1)
        prime = prime + 1 if prime * prime <= rest else max(rest, prime + 1)
    return total


def sample_perfect_tile(
    state: ScheduleState,
    generator: random.Random,
    sref: StmtSRef,
    parts: int,
    max_innermost_factor: int,
    decision: list[int] | None,
) -> list[int]:
    """Factors whose product is the extent of a loop, drawn uniformly from all ways."""
    loop: For = state.stmt(sref)
    if not isinstance(loop.extent, IntImm):
        if decision is None or list(decision) == [1] * parts:  # as it was drawn, when replayed
            return [1] * parts
        raise refuse_at(state, "sample_perfect_tile", "the extent is not constant", sref)
    extent = loop.extent.value
    if decision is not None:
        return _repair(state, sref, extent, parts, decision)
    if parts < 1:
        raise refuse_at(state, "sample_perfect_tile", f"{parts} factors cannot be drawn", sref)
    if _count_tiles(extent, parts) > 20_000:
        return _draw_factor_by_factor(generator, extent, parts, max_innermost_factor)
    return list(generator.choice(perfect_tiles(extent, parts, max_innermost_factor)))


def _draw_factor_by_factor(
    generator: random.Random, extent: int, parts: int, max_innermost_factor: int
) -> list[int]:
    """For extents with very many divisors: one factor after the other, the innermost first."""
    factors, rest = [], extent
    for number in range(parts - 1):
        divisors = [d for d in _divisors(rest) if number or d <= max_innermost_factor]
        factor = generator.choice(divisors)
        factors.append(factor)
        rest //= factor
    return [rest, *factors[::-1]]


def _repair(
    state: ScheduleState,
    sref: StmtSRef,
    extent: int,
    parts: int,
    decision: list[int],
    primitive: str = "sample_perfect_tile",
) -> list[int]:
    """The factors of a decision, fitted where it was made for another extent.

    From the innermost outward, a factor stays if it divides what is left, and takes all of that
    otherwise; the first factor is what remains.
    """
    if len(decision) != parts:
        raise refuse_at(
            state,
            primitive,
            f"the decision has {len(decision)} factors, {parts} are asked for",
            sref,
        )
    factors, rest = [], extent
    for factor in reversed(decision[1:]):
        factor = int(factor)
        if factor <= 0 or rest % factor:
            factor = rest
        factors.append(factor)
        rest //= factor
    return [rest, *factors[::-1]]


def sample_partitioned_tile(
    state: ScheduleState,
    generator: random.Random,
    sref: StmtSRef,
    parts: int,
    partition_pos: int,
    innerpart_factor: int,
    decision: list[int] | None,
) -> list[int]:
    """Factors of the extent of a loop; the product of those from ``partition_pos`` on is a multiple
    of ``innerpart_factor``. Drawn uniformly from all ways."""
    primitive = "sample_partitioned_tile"
    loop: For = state.stmt(sref)
    if parts < 1:
        raise refuse_at(state, primitive, f"{parts} factors cannot be drawn", sref)
    if not 0 <= partition_pos < parts or innerpart_factor < 1:
        reason = (
            f"partition_pos is 0 to {parts - 1}, got {partition_pos}; innerpart_factor is at least "
            f"1, got {innerpart_factor}"
        )
        raise refuse_at(state, primitive, reason, sref)
    if not isinstance(loop.extent, IntImm):
        raise refuse_at(state, primitive, "the extent is not constant", sref)
    extent = loop.extent.value
    if extent % innerpart_factor:
        reason = f"the extent {extent} is no multiple of innerpart_factor {innerpart_factor}"
        raise refuse_at(state, primitive, reason, sref)
    if decision is not None:
        factors = _repair(state, sref, extent, parts, decision, primitive)
        if prod(factors[partition_pos:]) % innerpart_factor:
            reason = (
                f"the factors {factors} have an inner part of {prod(factors[partition_pos:])}, "
                f"no multiple of {innerpart_factor}"
            )
            raise refuse_at(state, primitive, reason, sref)
        return factors
    tiles = [
        tile
        for tile in _some_tiles(generator, extent, parts)
        if prod(tile[partition_pos:]) % innerpart_factor == 0
    ]
    return list(generator.choice(tiles))


def _some_tiles(generator: random.Random, extent: int, parts: int) -> list[tuple[int, ...]]:
    """All ways to write an extent as a product, or many where there are too many."""
    if _count_tiles(extent, parts) <= 20_000:
        return perfect_tiles(extent, parts, extent)
    drawn = [tuple(_draw_factor_by_factor(generator, extent, parts, extent)) for _ in range(2_000)]
    # One with everything in the innermost factor fits every demand.
    return [*drawn, (*([1] * (parts - 1)), extent)]


ROOT, INLINE = -1, -2  # decisions of sample_compute_location that are no loops


def sample_compute_location(
    state: ScheduleState, generator: random.Random, sref: StmtSRef, decision: int | None
) -> tuple[int, StmtSRef]:
    """Where to compute a block: a loop under which ``compute_at`` can move it, and its number among
    the loops around all consumers together, outermost first; or one of the marks.

    ``-1``: leave it where it is (``StmtSRef.root_mark``). ``-2``: inline it (``inline_mark``).
    """
    scope = scope_of(state, sref, "sample_compute_location")
    loops = _loops_around_consumers(state, sref, scope)
    if decision is None:
        return _draw_location(state, generator, sref, loops)
    if decision == ROOT:
        return ROOT, StmtSRef.root_mark()
    if decision == INLINE:
        return INLINE, StmtSRef.inline_mark()
    if not 0 <= decision < len(loops):
        raise refuse_at(
            state,
            "sample_compute_location",
            f"decision {decision} is not among {len(loops)} loops",
            sref,
            "-1 stands for leaving the block where it is, -2 for inlining it",
        )
    return decision, loops[decision]


def _loops_around_consumers(
    state: ScheduleState, sref: StmtSRef, scope: StmtSRef
) -> list[StmtSRef]:
    """The loops around all consumers, outermost first; none for a block that writes an output."""
    consumers = consumers_of(state, sref, scope)
    if not consumers or is_output_block(state, sref, scope):
        return []
    common = state.loops(consumers[0])
    for consumer in consumers[1:]:
        others = set(state.loops(consumer))
        common = [loop for loop in common if loop in others]
    own = set(state.loops(sref))
    return [loop for loop in common if loop not in own]


def _draw_location(
    state: ScheduleState, generator: random.Random, sref: StmtSRef, loops: list[StmtSRef]
) -> tuple[int, StmtSRef]:
    """One of the places that serve, each with the same probability. What serves is tried on a copy
    of the state, and only for those that are drawn."""
    candidates: list[tuple[int, StmtSRef]] = [(ROOT, StmtSRef.root_mark())]
    if consumers_of(state, sref, scope_of(state, sref, "sample_compute_location")):
        candidates.append((INLINE, StmtSRef.inline_mark()))
    candidates += enumerate(loops)
    while True:
        number = generator.randrange(len(candidates))
        decision, place = candidates.pop(number)
        if decision == ROOT:
            return decision, place
        trial = state.copy()
        try:
            if decision == INLINE:
                compute_inline(trial, sref)
            else:
                compute_at(trial, sref, place, False, -1)
        except ScheduleError:
            continue
        return decision, place
