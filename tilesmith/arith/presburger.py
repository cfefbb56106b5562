"""Defines sets of integer points described by linear conditions: Presburger sets.

    even = PresburgerSet(x % 2 == 0, [x])
    small = PresburgerSet(And(0 <= x, x < 10), [x])
    list(even.intersect(small).points())       # (0,), (2,), (4,), (6,), (8,)
    even.intersect(PresburgerSet(EQ(x, y * 2 + 1), [x, y])).is_nothing()      # True

All questions are answered exactly, by the Omega test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.forms import Leaf, Split, Sum, is_index, plus, shifted, times
from tilesmith.arith.int_set import IntervalSet, IntSet, neg_inf, pos_inf
from tilesmith.arith.omega import Row, System, has_solution
from tilesmith.ir import (
    EQ,
    LE,
    LT,
    NE,
    And,
    CompareOp,
    Not,
    Or,
    PrimExpr,
    Var,
    const,
    convert,
    queries,
)  # fmt: skip
from tilesmith.ir import operators as op
from tilesmith.ir.queries import is_call
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.support.recursion import deep_recursion

__all__ = ["PresburgerSet"]

_MOST_DISJUNCTS = 512
_FARTHEST = 1 << 70  # bounds beyond that are none


class PresburgerSet(IntSet):
    """Holds the points of ``variables`` (int32 or int64) at which ``condition`` holds.

    The condition is made of ``and``, ``or``, ``not`` and comparisons of sums of the variables with
    constant coefficients, floor divisions and remainders by constants among them. Products of
    variables, symbolic divisors, minima, variables that are not listed and loads are outside of
    linear arithmetic and raise `UnsupportedError`, as does a condition that is a disjunction of
    more than 512 cases.
    """

    __slots__ = ("_systems", "condition", "variables")

    def __init__(self, condition: Any = True, variables: Sequence[Var] | None = None) -> None:
        self.condition: PrimExpr = convert(condition)
        if not self.condition.dtype.is_bool:
            raise TypeMismatchError(f"a set needs a condition, got {self.condition.dtype}")
        if variables is None:
            variables = queries.variables(self.condition)
        for var in variables:
            if not is_index(var.dtype):
                raise TypeMismatchError(f"'{var.name}' is not int32 or int64, but {var.dtype}")
        self.variables: tuple[Var, ...] = tuple(variables)
        self._systems: list[System] | None = None

    # Algebra

    def union(self, other: PresburgerSet) -> PresburgerSet:
        """Returns the union of two sets; variables of only one set are free in the other."""
        return PresburgerSet(op.logical_or(self.condition, other.condition), self._with(other))

    def intersect(self, other: PresburgerSet) -> PresburgerSet:
        """Returns the intersection of two sets."""
        return PresburgerSet(op.logical_and(self.condition, other.condition), self._with(other))

    def complement(self) -> PresburgerSet:
        """Returns the complement of the set."""
        return PresburgerSet(op.logical_not(self.condition), self.variables)

    def subtract(self, other: PresburgerSet) -> PresburgerSet:
        """Returns the points of this set that are not in the other."""
        return self.intersect(other.complement())

    def _with(self, other: PresburgerSet) -> list[Var]:
        return list(dict.fromkeys((*self.variables, *other.variables)))

    # Questions

    @deep_recursion
    def is_nothing(self) -> bool:
        """Returns True if the set contains no integer point."""
        for system in self.systems():
            if has_solution(system):
                return False
        return True

    def is_everything(self) -> bool:
        """Returns True if the set contains all integer points."""
        return self.complement().is_nothing()

    def is_subset(self, other: PresburgerSet) -> bool:
        """Returns True if this set is a subset of the other."""
        return self.subtract(other).is_nothing()

    def is_equal(self, other: PresburgerSet) -> bool:
        """Returns whether both sets have the same points."""
        return self.is_subset(other) and other.is_subset(self)

    def contains(self, point: Mapping[Var, int] | Sequence[int]) -> bool:
        """Returns True if a point, given by variable or in their order, is in the set."""
        if not isinstance(point, Mapping):
            if len(point) != len(self.variables):
                raise TypeMismatchError(f"{len(point)} numbers for {len(self.variables)} variables")
            point = dict(zip(self.variables, point))
        analyzer = Analyzer()
        for var in self.variables:
            if var not in point:
                raise TypeMismatchError(f"the point says nothing of '{var.name}'")
            analyzer.bind(var, const(point[var], var.dtype))
        return analyzer.can_prove(self.condition)

    @deep_recursion
    def interval(self, var: Var) -> IntervalSet:  # type: ignore[override]  # of a set at hand
        """Returns the smallest interval around the values of one variable."""
        if self.is_nothing():
            return IntSet.nothing()
        low, high = self._end(var, -1), self._end(var, 1)
        first = neg_inf() if low is None else const(-low, var.dtype)
        return IntervalSet(first, pos_inf() if high is None else const(high, var.dtype))

    def _end(self, var: Var, sign: int) -> int | None:
        """Returns the largest ``sign * var`` in a non-empty set; None if it is not bounded."""
        column = self._column(var)

        def reaches(value: int) -> bool:
            for system in self.systems():
                if has_solution(_beyond(system, column, sign, value)):
                    return True
            return False

        step = 1
        while reaches(step):
            step *= 2
            if step > _FARTHEST:
                return None
        low = -1
        while not reaches(low):
            low *= 2
        high = step  # reaches(low), not reaches(high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if reaches(middle) else (low, middle)
        return low

    def _column(self, var: Var) -> int:
        for position, known in enumerate(self.variables):
            if known is var:
                return position
        raise TypeMismatchError(f"'{var.name}' is not a variable of the set")

    def points(self) -> Iterator[tuple[int, ...]]:
        """Returns all points of a bounded set, in lexicographic order; `UnsupportedError` if it is
        not bounded.
        """
        if not self.variables:
            if not self.is_nothing():
                yield ()
            return
        var = self.variables[0]
        found = self.interval(var)
        if found.is_nothing():
            return
        if not (found.has_lower_bound() and found.has_upper_bound()):
            raise UnsupportedError(f"'{var.name}' is not bounded: the points cannot be listed")
        for value in range(found.min_value.value, found.max_value.value + 1):  # type: ignore[attr-defined]
            inner = Analyzer()
            inner.bind(var, const(value, var.dtype))
            rest = PresburgerSet(inner.simplify(self.condition), self.variables[1:])
            for point in rest.points():
                yield (value, *point)

    # From conditions to systems

    def systems(self) -> list[System]:
        """Returns the set as a union of systems of linear constraints (see `omega`): a column for
        each variable, and one for each quotient.
        """
        if self._systems is None:
            translator = _Translator(self.variables)
            simple = translator.engine.rewriter.rewrite(self.condition)
            self._systems = [case.system() for case in translator.cases(simple, True)]
        return self._systems

    def __repr__(self) -> str:
        names = ", ".join([var.name for var in self.variables])
        return f"PresburgerSet{{({names}) : {self.condition}}}"


def _beyond(system: System, column: int, sign: int, value: int) -> System:
    """Adds the constraint ``sign * x >= value`` to a system."""
    row = [0] * (system.unknowns + 1)
    row[column], row[-1] = sign, -value
    return system._replace(inequalities=(*system.inequalities, tuple(row)))


class _Case:
    """Holds a conjunction of rows (coefficients by column); columns after those of the variables
    are quotients.
    """

    __slots__ = ("columns", "equalities", "inequalities", "quotients")

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.equalities: list[tuple[dict[int, int], int]] = []
        self.inequalities: list[tuple[dict[int, int], int]] = []
        self.quotients: dict[tuple[int, int], int] = {}

    def joined(self, other: _Case, variables: int) -> _Case:
        """Returns the conjunction of both; quotients of the other case get new columns."""
        result = _Case(self.columns + other.columns - variables)
        shift = self.columns - variables
        for name in ("equalities", "inequalities"):
            moved = [
                ({(c if c < variables else c + shift): f for c, f in row.items()}, constant)
                for row, constant in getattr(other, name)
            ]
            setattr(result, name, [*getattr(self, name), *moved])
        return result

    def system(self) -> System:
        def rows(found: list[tuple[dict[int, int], int]]) -> tuple[Row, ...]:
            return tuple([
                (*[row.get(column, 0) for column in range(self.columns)], constant)
                for row, constant in found
            ])  # fmt: skip

        return System(self.columns, rows(self.equalities), rows(self.inequalities))


class _Translator:
    """Converts a condition to a disjunction of cases."""

    def __init__(self, variables: Sequence[Var]) -> None:
        self.columns = {var: position for position, var in enumerate(variables)}
        self.engine = Analyzer().engine

    def cases(self, expr: Any, truth: bool) -> list[_Case]:
        """Returns the cases in which a condition is true (or false)."""
        if isinstance(expr, Not):
            return self.cases(expr.a, not truth)
        if isinstance(expr, (And, Or)):
            return self.connected(expr, truth)
        if is_call(expr, "tir.likely"):
            return self.cases(expr.args[0], truth)
        if op.is_const(expr):
            return [_Case(len(self.columns))] if op.is_const(expr, 1) == truth else []
        if isinstance(expr, CompareOp) and is_index(expr.a.dtype):
            return self.compared(expr, truth)
        raise UnsupportedError(f"{expr} is not a linear condition")

    def connected(self, expr: Any, truth: bool) -> list[_Case]:
        a, b = self.cases(expr.a, truth), self.cases(expr.b, truth)
        if isinstance(expr, Or) == truth:
            found = a + b
        else:
            if len(a) * len(b) > _MOST_DISJUNCTS:
                raise UnsupportedError(f"a condition of more than {_MOST_DISJUNCTS} cases")
            found = [x.joined(y, len(self.columns)) for x in a for y in b]
        if len(found) > _MOST_DISJUNCTS:
            raise UnsupportedError(f"a condition of more than {_MOST_DISJUNCTS} cases")
        return found

    def compared(self, expr: Any, truth: bool) -> list[_Case]:
        engine = self.engine
        difference = plus(engine.normalizer.normal(expr.b), engine.normalizer.normal(expr.a), -1)
        kind = type(expr)
        if kind in (EQ, NE):
            if (kind is EQ) == truth:
                return [self.case(difference, True)]
            below = shifted(times(difference, -1), -1)
            return [self.case(shifted(difference, -1), False), self.case(below, False)]
        if kind not in (LT, LE):
            difference = times(difference, -1)
        strict = kind.__name__ in ("LT", "GT")
        form = shifted(difference, -1) if strict else difference  # holds where form >= 0
        return [self.case(form if truth else shifted(times(form, -1), -1), False)]

    def case(self, form: Sum, equal: bool) -> _Case:
        case = _Case(len(self.columns))
        row, constant = self.linear(case, form)
        (case.equalities if equal else case.inequalities).append((row, constant))
        return case

    def linear(self, case: _Case, form: Sum) -> tuple[dict[int, int], int]:
        row: dict[int, int] = {}
        for atom, factor in form.terms.items():
            if isinstance(atom, Leaf) and isinstance(atom.expr, Var):
                column = self.columns.get(atom.expr)
                if column is None:
                    raise UnsupportedError(f"'{atom.expr.name}' is not a variable of the set")
                _add(row, column, factor)
            elif isinstance(atom, Split) and is_index(atom.index.dtype):
                _add(row, self.quotient(case, atom.index, atom.lower), factor)
                if atom.upper:
                    width = atom.upper // atom.lower
                    _add(row, self.quotient(case, atom.index, atom.upper), -factor * width)
            else:
                text = self.engine.writer.atom_expr(atom)
                raise UnsupportedError(f"{text} is not linear in the variables of the set")
        return row, form.const

    def quotient(self, case: _Case, index: Sum, divisor: int) -> int:
        """Returns the column of ``q == index // divisor``, with ``0 <= index - divisor * q <
        divisor``.
        """
        key = self.engine.table.number(index), divisor
        found = case.quotients.get(key)
        if found is None:
            row, constant = self.linear(case, index)
            found = case.quotients[key] = case.columns
            case.columns += 1
            below = {**row, found: -divisor}
            case.inequalities.append((below, constant))
            above = {column: -factor for column, factor in below.items()}
            case.inequalities.append((above, divisor - 1 - constant))
        return found


def _add(row: dict[int, int], column: int, factor: int) -> None:
    row[column] = row.get(column, 0) + factor
