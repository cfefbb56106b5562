"""Sampling primitives: random choices that a search may change."""

from __future__ import annotations

import random
from math import prod
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.schedule.blocks import consumers_of, is_output_block, scope_of
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.parameters import Decision, Decisions, Generator
from tilesmith.tir.schedule.primitive import (
    Sampled,
    SampledLoop,
    SampledNumber,
    SampledNumbers,
    primitive,
)
from tilesmith.tir.schedule.primitives.compute_at import compute_at
from tilesmith.tir.schedule.primitives.compute_inline import compute_inline
from tilesmith.tir.schedule.state import StmtSRef

__all__ = [
    "perfect_tiles",
    "sample_categorical",
    "sample_compute_location",
    "sample_partitioned_tile",
    "sample_perfect_tile",
]


@primitive(is_pure=True)
def sample_categorical(
    candidates: list[int], probs: list[float], decision: Decision = None, *, generator: Generator
) -> SampledNumber:
    """Draw one of several numbers with given probabilities; ``decision`` is its position."""
    if not candidates or len(candidates) != len(probs):
        raise refuse(f"{len(candidates)} candidates, but {len(probs)} probabilities")
    if decision is None:
        decision = generator.choices(range(len(candidates)), weights=probs)[0]
    if not 0 <= decision < len(candidates):
        raise refuse(f"decision {decision} is not among {len(candidates)} candidates")
    return Sampled(candidates[decision], decision)


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def perfect_tiles(extent: int, parts: int, max_innermost_factor: int) -> list[tuple[int, ...]]:
    """Return all ways to write ``extent`` as a product of ``parts`` factors with a limit on the
    last one.
    """
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
    """Return the number of ways to write a number as an ordered product of factors."""
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


@primitive(is_pure=True)
def sample_perfect_tile(
    loop: LoopCursor,
    n: int,
    max_innermost_factor: int = 16,
    decision: Decisions = None,
    *,
    generator: Generator,
) -> SampledNumbers:
    """Draw ``n`` factors whose product is the extent of a loop.

    The last is at most ``max_innermost_factor``. A ``decision`` for another extent is fitted.
    """
    stmt = loop.stmt
    if not isinstance(stmt.extent, IntImm):
        if decision is None or list(decision) == [1] * n:  # as it was drawn, when replayed
            return Sampled([1] * n, [1] * n)
        raise refuse("the extent is not constant", loop)
    extent = _positive(loop, stmt.extent.value)
    if decision is not None:
        factors = _repair(loop, extent, n, decision)
    elif n < 1:
        raise refuse(f"{n} factors cannot be drawn", loop)
    elif _count_tiles(extent, n) > 20_000:
        factors = _draw_factor_by_factor(generator, extent, n, max_innermost_factor)
    else:
        factors = list(generator.choice(perfect_tiles(extent, n, max_innermost_factor)))
    return Sampled(factors, factors)


def _positive(cursor: LoopCursor, extent: int) -> int:
    if extent < 1:
        raise refuse(f"a loop of extent {extent} has no factors", cursor)
    return extent


def _draw_factor_by_factor(
    generator: random.Random, extent: int, parts: int, max_innermost_factor: int
) -> list[int]:
    """Draw the factors one by one, innermost first, for extents with very many divisors."""
    factors, rest = [], extent
    for number in range(parts - 1):
        divisors = [d for d in _divisors(rest) if number or d <= max_innermost_factor]
        factor = generator.choice(divisors)
        factors.append(factor)
        rest //= factor
    return [rest, *factors[::-1]]


def _repair(
    cursor: LoopCursor,
    extent: int,
    parts: int,
    decision: list[int],
) -> list[int]:
    """Return the factors of a decision, adapted if it was made for another extent.

    From the innermost outward, a factor stays if it divides what is left, and takes all of that
    otherwise; the first factor is what remains.
    """
    if len(decision) != parts:
        raise refuse(f"the decision has {len(decision)} factors, {parts} are asked for", cursor)
    factors, rest = [], extent
    for factor in reversed(decision[1:]):
        factor = int(factor)
        if factor <= 0 or rest % factor:
            factor = rest
        factors.append(factor)
        rest //= factor
    return [rest, *factors[::-1]]


@primitive(is_pure=True)
def sample_partitioned_tile(
    loop: LoopCursor,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: Decisions = None,
    *,
    generator: Generator,
) -> SampledNumbers:
    """Draw ``n`` factors whose product is the extent of a loop; the product of those from
    ``partition_pos`` on is a multiple of ``innerpart_factor``."""
    stmt = loop.stmt
    if n < 1:
        raise refuse(f"{n} factors cannot be drawn", loop)
    if not 0 <= partition_pos < n or innerpart_factor < 1:
        reason = (
            f"partition_pos is 0 to {n - 1}, got {partition_pos}; innerpart_factor is at least "
            f"1, got {innerpart_factor}"
        )
        raise refuse(reason, loop)
    if not isinstance(stmt.extent, IntImm):
        raise refuse("the extent is not constant", loop)
    extent = _positive(loop, stmt.extent.value)
    if extent % innerpart_factor:
        reason = f"the extent {extent} is not a multiple of innerpart_factor {innerpart_factor}"
        raise refuse(reason, loop)
    if decision is not None:
        factors = _repair(loop, extent, n, decision)
        if prod(factors[partition_pos:]) % innerpart_factor:
            reason = (
                f"the factors {factors} have an inner part of {prod(factors[partition_pos:])}, "
                f"no multiple of {innerpart_factor}"
            )
            raise refuse(reason, loop)
        return Sampled(factors, factors)
    tiles = [
        tile
        for tile in _some_tiles(generator, extent, n)
        if prod(tile[partition_pos:]) % innerpart_factor == 0
    ]
    factors = list(generator.choice(tiles))
    return Sampled(factors, factors)


def _some_tiles(generator: random.Random, extent: int, parts: int) -> list[tuple[int, ...]]:
    """Return all ways to write an extent as a product, or a random selection if there are too
    many.
    """
    if _count_tiles(extent, parts) <= 20_000:
        return perfect_tiles(extent, parts, extent)
    drawn = [tuple(_draw_factor_by_factor(generator, extent, parts, extent)) for _ in range(2_000)]
    # A tile with everything in the innermost factor is always valid.
    return [*drawn, (*([1] * (parts - 1)), extent)]


ROOT, INLINE = -1, -2  # decisions of sample_compute_location that are not loops


@primitive(is_pure=True)
def sample_compute_location(
    block: BlockCursor, decision: Decision = None, *, generator: Generator
) -> SampledLoop:
    """Draw a loop around all consumers of a block under which it can be computed, or a mark.

    ``decision`` is the number of the loop among those, outermost first; -1 stands for leaving
    the block where it is, -2 for inlining it. ``compute_at`` understands all three.
    """
    scope = scope_of(block)
    loops = _loops_around_consumers(block, scope)
    if decision is None:
        return _draw_location(generator, block, loops)
    if decision == ROOT:
        return Sampled(StmtSRef.root_mark(), ROOT)
    if decision == INLINE:
        return Sampled(StmtSRef.inline_mark(), INLINE)
    if not 0 <= decision < len(loops):
        raise refuse(
            f"decision {decision} is not among {len(loops)} loops",
            block,
            "-1 stands for leaving the block where it is, -2 for inlining it",
        )
    return Sampled(loops[decision], decision)


def _loops_around_consumers(block: BlockCursor, scope: BlockCursor) -> list[LoopCursor]:
    """Return the loops around all consumers, outermost first; empty for a block that writes an
    output.
    """
    consumers = consumers_of(block, scope)
    if not consumers or is_output_block(block, scope):
        return []
    common = consumers[0].loops()
    for consumer in consumers[1:]:
        others = set(consumer.loops())
        common = [loop for loop in common if loop in others]
    own = set(block.loops())
    return [loop for loop in common if loop not in own]


def _draw_location(
    generator: random.Random, block: BlockCursor, loops: list[LoopCursor]
) -> Sampled:
    """Draw one of the possible places of the block, all with the same probability. Each drawn place
    is tried on a copy of the state.
    """
    candidates: list[tuple[int, Any]] = [(ROOT, StmtSRef.root_mark())]
    if consumers_of(block, scope_of(block)):
        candidates.append((INLINE, StmtSRef.inline_mark()))
    candidates += enumerate(loops)
    while True:
        decision, place = candidates.pop(generator.randrange(len(candidates)))
        if decision == ROOT:
            return Sampled(place, decision)
        trial = block.state.copy()
        try:
            if decision == INLINE:
                compute_inline(block.within(trial))
            else:
                compute_at(block.within(trial), place.within(trial))
        except ScheduleError:
            continue
        return Sampled(place, decision)
