"""Plans memory: from live ranges and sizes to offsets in one block of memory.

    ranges = LiveRanges()
    ranges.use("a", 0)                          a is alive in steps 0 to 2, through its view v
    ranges.view("v", ["a"])
    ranges.use("v", 2)                       →  plan_offsets([Allocation(64, ranges.of("a")), ...])
                                                gives an offset to each, and the total

The planner does not know nodes or targets: its clients say what a step is, how many bytes something
takes, and in which steps it is alive. Two allocations may share bytes if no step has both.

Algorithm: greedy placement in several orders; the order with the smallest total wins. The orders by
size and by breadth, and the placement in the smallest gap that is free, are those of Y. Pisarchyk
and J. Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020, arXiv 2001.03288).
The most bytes that are alive in one step bound every total from below: an order that reaches this
bound ends the search. A placement looks at all that is placed already, with numpy: an order takes
about two seconds for 10 000 allocations.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy

from tilesmith.support.errors import ConfigError

__all__ = [
    "ALGORITHMS",
    "Allocation",
    "LiveRanges",
    "Plan",
    "check_algorithm",
    "peak_bytes",
    "plan_offsets",
]

Interval = tuple[int, int]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes that are needed in some steps; ``live`` holds the first and last step of each live
    range.
    """

    size: int
    live: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The offset of each allocation, in the order as given, and the bytes that all need."""

    offsets: tuple[int, ...]
    total: int


class LiveRanges(Generic[Name]):
    """Computes the live range of each root: from the first to the last use of it and of its views.

    A name that was not declared a view is a root: it has memory of its own.
    """

    def __init__(self) -> None:
        self._roots: dict[Name, tuple[Name, ...]] = {}
        self._ranges: dict[Name, Interval] = {}

    def view(self, name: Name, sources: Iterable[Name]) -> None:
        """Declare that ``name`` has no memory of its own: it shares that of one of the sources."""
        self._roots[name] = self.roots(sources)

    def roots(self, names: Iterable[Name]) -> tuple[Name, ...]:
        """Return the roots whose memory some names may share, each root once."""
        found: dict[Name, None] = {}
        for name in names:
            found.update(dict.fromkeys(self._roots.get(name, (name,))))
        return tuple(found)

    def use(self, name: Name, first: int, last: int | None = None) -> None:
        """Record that ``name`` is alive in a step, or in all steps from ``first`` to ``last``."""
        last = first if last is None else last
        for root in self._roots.get(name, (name,)):
            before = self._ranges.get(root, (first, last))
            self._ranges[root] = (min(before[0], first), max(before[1], last))

    def of(self, root: Name) -> tuple[Interval, ...]:
        """Return the live ranges of a root, as an Allocation takes them."""
        return (self._ranges[root],) if root in self._ranges else ()


class _Taken:
    """Reserved memory: rows of first and last step, start and end offset, by ascending start."""

    def __init__(self, capacity: int) -> None:
        self.rows = numpy.zeros((4, capacity), dtype=numpy.int64)
        self.count = 0

    def take(self, live: tuple[Interval, ...], start: int, end: int) -> None:
        """Reserve the bytes in [start, end) during some live ranges."""
        for first, last in live:
            rows, count = self.rows, self.count
            place = int(numpy.searchsorted(rows[2, :count], start))
            rows[:, place + 1 : count + 1] = rows[:, place:count].copy()
            rows[:, place] = first, last, start, end
            self.count += 1

    def gaps(self, live: tuple[Interval, ...]) -> tuple[Any, Any, int]:
        """Return starts and ends of the gaps in some live ranges, and the end of the last reserved
        byte.
        """
        firsts, lasts, starts, ends = self.rows[:, : self.count]
        meets = numpy.zeros(self.count, dtype=bool)
        for first, last in live:
            meets |= (firsts <= last) & (lasts >= first)
        starts = starts[meets]
        free = numpy.zeros(len(starts) + 1, dtype=numpy.int64)
        numpy.maximum.accumulate(ends[meets], out=free[1:])
        return free[:-1], starts, int(free[-1])


def _smallest_gap(taken: _Taken, live: tuple[Interval, ...], size: int) -> int:
    begins, ends, behind = taken.gaps(live)
    room = ends - begins
    fits = numpy.flatnonzero(room >= size)
    return int(begins[fits[numpy.argmin(room[fits])]]) if len(fits) else behind


def _lowest_gap(taken: _Taken, live: tuple[Interval, ...], size: int) -> int:
    begins, ends, behind = taken.gaps(live)
    fits = numpy.flatnonzero(ends - begins >= size)
    return int(begins[fits[0]]) if len(fits) else behind


def _disjoint(live: list[Interval]) -> tuple[Interval, ...]:
    """Return the same steps as live ranges in ascending order that have no step in common."""
    found: list[Interval] = []
    for first, last in sorted(live):
        if found and first <= found[-1][1]:
            first, last = found[-1][0], max(last, found.pop()[1])
        found.append((first, last))
    return tuple(found)


_Gap = Callable[[_Taken, tuple[Interval, ...], int], int]


class _Problem:
    """Allocations with rounded sizes, over steps that are renumbered without gaps."""

    def __init__(self, allocations: Sequence[Allocation], alignment: int) -> None:
        self.sizes = [-(-one.size // alignment) * alignment for one in allocations]
        beginnings = sorted({first for one in allocations for first, _ in one.live})
        self.count = len(beginnings)
        self.live = [
            _disjoint(
                [
                    (bisect_left(beginnings, first), bisect_right(beginnings, last) - 1)
                    for first, last in one.live
                ]
            )
            for one in allocations
        ]
        self.loads = self._loads()

    def _loads(self) -> list[int]:
        """Return the bytes that are alive in each step."""
        change = [0] * (self.count + 1)
        for size, live in zip(self.sizes, self.live):
            for first, last in live:
                change[first] += size
                change[last + 1] -= size
        loads, load = [], 0
        for difference in change[:-1]:
            load += difference
            loads.append(load)
        return loads

    def first(self, number: int) -> int:
        """Return the first step of an allocation."""
        return min([first for first, _ in self.live[number]], default=0)

    def breadths(self) -> list[int]:
        """Return for each allocation the most bytes that are alive in one of its steps."""
        tables = [self.loads]  # tables[k][i]: the most from step i on, over 2 ** k steps
        while 2 << len(tables) - 1 <= self.count:
            reach = 1 << len(tables) - 1
            tables.append([max(pair) for pair in zip(tables[-1], tables[-1][reach:])])
        found = []
        for live in self.live:
            most = 0
            for first, last in live:
                table = (last - first + 1).bit_length() - 1
                most = max(most, tables[table][first], tables[table][last + 1 - (1 << table)])
            found.append(most)
        return found

    def conflicts(self) -> list[int]:
        """Return for each allocation how many live ranges of others overlap its own."""
        firsts = sorted([first for live in self.live for first, _ in live])
        lasts = sorted([last for live in self.live for _, last in live])
        return [
            sum([bisect_right(firsts, last) - bisect_left(lasts, first) for first, last in live])
            for live in self.live
        ]

    def place(self, order: Iterable[int], gap: _Gap) -> Plan:
        """Place one allocation after another, each in a gap that is free while it lives."""
        taken = _Taken(sum([len(live) for live in self.live]))
        offsets = [0] * len(self.sizes)
        total = 0
        for number in order:
            size, live = self.sizes[number], self.live[number]
            if not size or not live:
                continue
            offset = offsets[number] = gap(taken, live, size)
            taken.take(live, offset, offset + size)
            total = max(total, offset + size)
        return Plan(tuple(offsets), total)


def _by_size(problem: _Problem) -> Plan:
    """Place by size, the largest first."""
    keys = [(-size, problem.first(n)) for n, size in enumerate(problem.sizes)]
    return problem.place(sorted(range(len(keys)), key=keys.__getitem__), _smallest_gap)


def _by_breadth(problem: _Problem) -> Plan:
    """Place by the most bytes alive in a step of the allocation, the largest first; ties by
    size.
    """
    keys = [(-breadth, -size) for breadth, size in zip(problem.breadths(), problem.sizes)]
    return problem.place(sorted(range(len(keys)), key=keys.__getitem__), _smallest_gap)


def _by_conflicts(problem: _Problem) -> Plan:
    """Place by the number of overlapping live ranges, the most first."""
    keys = [(-count, -size) for count, size in zip(problem.conflicts(), problem.sizes)]
    return problem.place(sorted(range(len(keys)), key=keys.__getitem__), _smallest_gap)


def _by_first_use(problem: _Problem) -> Plan:
    """Place by first use, as an allocator at run time would see them."""
    keys = [(problem.first(n), -size) for n, size in enumerate(problem.sizes)]
    return problem.place(sorted(range(len(keys)), key=keys.__getitem__), _lowest_gap)


ALGORITHMS: dict[str, Callable[[_Problem], Plan]] = {
    "greedy_by_size": _by_size,
    "greedy_by_breadth": _by_breadth,
    "greedy_by_conflicts": _by_conflicts,
    "greedy_by_first_use": _by_first_use,
}
"""The orders in which allocations are placed, by name."""


def peak_bytes(allocations: Sequence[Allocation], alignment: int = 64) -> int:
    """Return the most bytes that are alive in one step, a lower bound for any plan."""
    return max(_Problem(allocations, alignment).loads, default=0)


def check_algorithm(name: str | None) -> None:
    """Raise ConfigError for an algorithm that ALGORITHMS does not have; None means all of them."""
    if name is not None and name not in ALGORITHMS:
        raise ConfigError(
            f"the planner of memory has no algorithm '{name}'",
            notes=("it has " + ", ".join(ALGORITHMS),),
        )


def plan_offsets(
    allocations: Sequence[Allocation], alignment: int = 64, algorithm: str | None = None
) -> Plan:
    """Return offsets, multiples of the alignment, such that allocations with overlapping live
    ranges do not overlap in memory.

    Without an algorithm all are tried, until one reaches the lower bound; the best plan is
    returned. Raises ConfigError for an algorithm that ALGORITHMS does not have.
    """
    check_algorithm(algorithm)
    problem = _Problem(allocations, alignment)
    least = max(problem.loads, default=0)
    best: Plan | None = None
    for run in ALGORITHMS.values() if algorithm is None else (ALGORITHMS[algorithm],):
        plan = run(problem)
        if best is None or plan.total < best.total:
            best = plan
        if best.total == least:
            break
    assert best is not None
    return best
