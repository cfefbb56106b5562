"""Decides whether a system of linear constraints has an integer solution: the Omega test.

Equalities go out through the Smith normal form, inequalities by elimination of one unknown after
the other. Eliminating an unknown from ``b * x >= low`` and ``a * x <= high`` is exact if a or b is
1; else the *real* shadow ``a * low <= b * high`` may be too large, and the *dark* shadow, where the
gap has room for an integer, too small. Between the two lie finitely many *splinters*
``b * x == low + i`` (W. Pugh, The Omega Test, 1991).
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from tilesmith.arith.smith import smith_normal_form
from tilesmith.support.errors import UnsupportedError

Row = tuple[int, ...]
"""Coefficients of the unknowns, then the constant: ``row . (x, 1) >= 0``, or ``== 0``."""


class System(NamedTuple):
    """Rows that must be zero, and rows that must be non-negative, over ``unknowns`` integers."""

    unknowns: int
    equalities: tuple[Row, ...]
    inequalities: tuple[Row, ...]


_MOST_ROWS = 400_000  # rows made before a question is given up
_FEW_VALUES = 32  # an unknown with no more values is tried value by value rather than eliminated


def has_solution(system: System) -> bool:
    """Returns True if integers exist that satisfy all constraints; exact.

    The test can take exponential time: it raises `UnsupportedError` after 400 000 rows.
    """
    return _Test().solvable(system)


class _Test:
    """One query, with a limit on its work."""

    def __init__(self) -> None:
        self.rows_left = _MOST_ROWS

    def solvable(self, system: System) -> bool:
        reduced = _without_equalities(system)
        return reduced is not None and self.feasible(reduced)

    def feasible(self, rows: list[Row]) -> bool:
        self.rows_left -= len(rows)
        if self.rows_left < 0:
            raise UnsupportedError(
                f"a system of {len(rows[0]) - 1} unknowns takes too long to decide",
                notes=("give the variables narrower bounds, or divide by fewer constants",),
            )
        tightened = _tightened(rows)
        if tightened is None:
            return False
        if not tightened:
            return True
        position = _easiest(tightened)
        low = [row for row in tightened if row[position] > 0]
        high = [row for row in tightened if row[position] < 0]
        rest = [row for row in tightened if row[position] == 0]
        exact = max([row[position] for row in low], default=1) == 1
        if exact or min([row[position] for row in high], default=-1) == -1:
            return self.feasible(rest + _shadow(low, high, position, False))
        narrow = _narrowest(tightened)
        if narrow is not None:
            return self.some_value(tightened, *narrow)
        if not self.feasible(rest + _shadow(low, high, position, False)):
            return False
        if self.feasible(rest + _shadow(low, high, position, True)):
            return True
        for splinter in _splinters(low, high, position):
            if self.solvable(System(len(splinter) - 1, (splinter,), tuple(tightened))):
                return True
        return False

    def some_value(self, rows: list[Row], column: int, first: int, last: int) -> bool:
        for value in range(first, last + 1):
            fixed = [
                (*row[:column], *row[column + 1 : -1], row[-1] + row[column] * value)
                for row in rows
            ]
            if self.feasible(fixed):
                return True
        return False


def _without_equalities(system: System) -> list[Row] | None:
    """Returns the inequalities in terms of the free unknowns of the equalities; None if the
    equalities contradict each other.
    """
    count = system.unknowns
    if not system.equalities:
        return list(system.inequalities)
    matrix = [list(row[:count]) for row in system.equalities]
    left, columns, _ = smith_normal_form(matrix, count)
    right = [-row[count] for row in system.equalities]
    right = [sum([factor * value for factor, value in zip(line, right)]) for line in left]
    fixed: list[int | None] = []
    for position in range(count):
        factor = matrix[position][position] if position < len(matrix) else 0
        if factor == 0:
            fixed.append(None)
            continue
        if right[position] % factor:
            return None
        fixed.append(right[position] // factor)
    for position, value in enumerate(right):
        if value and (position >= count or matrix[position][position] == 0):
            return None
    return [_substituted(row, columns, fixed) for row in system.inequalities]


def _substituted(row: Row, columns: list[list[int]], fixed: list[int | None]) -> Row:
    """Returns a row over x, where ``x == columns * y`` and some of the y are fixed."""
    count = len(fixed)
    constant = row[count]
    result = []
    for position, value in enumerate(fixed):
        factor = sum([row[line] * columns[line][position] for line in range(count)])
        if value is None:
            result.append(factor)
        else:
            constant += factor * value
    return (*result, constant)


def _splinters(low: list[Row], high: list[Row], position: int) -> list[Row]:
    """Returns equalities such that each point outside the dark shadow satisfies one of them."""
    largest = max([-row[position] for row in high])
    found = []
    for row in low:
        factor = row[position]
        for step in range((largest * factor - largest - factor) // largest + 1):
            found.append((*row[:-1], row[-1] - step))
    return found


def _narrowest(rows: list[Row]) -> tuple[int, int, int] | None:
    """Returns the unknown with the fewest possible values by constant bounds: (column, smallest,
    largest); None if there is none.
    """
    ends: dict[int, list[int | None]] = {}
    for row in rows:
        used = [column for column, factor in enumerate(row[:-1]) if factor]
        if len(used) == 1:  # tightened: the factor is 1 or -1
            known = ends.setdefault(used[0], [None, None])
            if row[used[0]] > 0:
                known[0] = -row[-1]
            else:
                known[1] = row[-1]
    best: tuple[int, int, int, int] | None = None
    for column, (first, last) in ends.items():
        if first is not None and last is not None and last - first < _FEW_VALUES:
            if best is None or last - first < best[0]:
                best = (last - first, column, first, last)
    return None if best is None else best[1:]


def _tightened(rows: list[Row]) -> list[Row] | None:
    """Keeps the strictest inequality per direction, with the constant rounded down; None at a
    contradiction.
    """
    best: dict[Row, int] = {}
    for row in rows:
        common = gcd(*row[:-1]) if len(row) > 1 else 0
        if common == 0:
            if row[-1] < 0:
                return None
            continue
        key = tuple([factor // common for factor in row[:-1]])
        constant = row[-1] // common
        if key not in best or constant < best[key]:
            best[key] = constant
    for key, constant in best.items():
        opposite = best.get(tuple([-factor for factor in key]))
        if opposite is not None and constant + opposite < 0:
            return None
    return [(*key, constant) for key, constant in best.items()]


def _easiest(rows: list[Row]) -> int:
    """Returns the unknown whose elimination is exact, or else creates the fewest rows."""
    best: tuple[bool, int, int] | None = None
    for position in range(len(rows[0]) - 1):
        low = [row[position] for row in rows if row[position] > 0]
        high = [-row[position] for row in rows if row[position] < 0]
        if not low and not high:
            continue
        inexact = max(low, default=1) > 1 and max(high, default=1) > 1
        cost = (inexact, len(low) * len(high), position)
        if best is None or cost < best:
            best = cost
    assert best is not None  # rows without unknowns are gone
    return best[2]


def _shadow(low: list[Row], high: list[Row], position: int, dark: bool) -> list[Row]:
    found = []
    for below in low:
        for above in high:
            b, a = below[position], -above[position]
            row = [a * x + b * y for x, y in zip(below, above)]
            if dark:
                row[-1] -= (a - 1) * (b - 1)
            found.append(tuple(row))
    return found
