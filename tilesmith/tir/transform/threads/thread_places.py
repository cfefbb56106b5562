"""Proves that equal places in memory mean equal threads.

    (bx * 32 + tx) // 14 * 196 + (bx * 32 + tx) % 14        the digits of bx * 32 + tx: its value,
                                                            so tx, follows from the place
    tx * n + i,  0 <= i < n                                 tx follows from the place

A place is written as a sum of digits of the threads and loops around it. A digit follows from the
value of the sum if its scale is larger than all that the digits of smaller scales add up to; an
iterator follows from its digits when these are complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, inf

from tilesmith.arith import Analyzer, IterMark, IterSplitExpr, IterSumExpr, normalize_to_iter_sum
from tilesmith.ir import Add, IntImm, PrimExpr, Range, Sub, Var, const, structural_equal
from tilesmith.ir import operators as op
from tilesmith.ir.queries import mentions
from tilesmith.ir.structural import structural_hash
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import uses_variable

__all__ = ["PlaceProver"]

Loops = tuple[tuple[Var, Range], ...]


class PlaceProver:
    """Answers whether two threads can touch one element through places of one form."""

    def __init__(self) -> None:
        self.common: dict[Var, Range] = {}  # blocks and loops that are equal for both threads
        self.known: dict[int, tuple[PrimExpr, PrimExpr, int]] = {}  # by id of a place, which stays
        self.equal: dict[int, list[PrimExpr]] = {}  # by structural hash
        self.forms: dict[tuple[int, ...], IterSumExpr | None] = {}
        self.answers: dict[tuple[int, ...], bool] = {}
        self.kept: list[PrimExpr] = []  # places whose ids are keys

    def tells_threads(
        self,
        first: tuple[PrimExpr, Loops],
        second: tuple[PrimExpr, Loops],
        threads: Mapping[Var, int],
        reach: int = 0,
    ) -> bool:
        """Return whether the places of two threads differ by more than ``reach``, whatever
        iterations of the loops beside the places the threads are in.
        """
        place, low = self.without_constant(first[0])
        other, high = self.without_constant(second[0])
        loops, others = _used(place, first[1]), _used(other, second[1])
        names = [id(var) for var in (*threads, *[var for var, _ in (*loops, *others)])]
        key = (id(place), id(other), low - high, reach, len(loops), *names)
        if key not in self.answers:
            renamed = _paired(others, loops)
            same = place
            if renamed is not None and place is not other:
                same, high = self.without_constant(substitute(second[0], renamed))
            if renamed is None or same is not place:
                self.answers[key] = self.parts_tell(
                    (first[0], loops), (second[0], others), threads, reach
                )
            else:
                form = self.form(place, threads, loops)
                self.answers[key] = form is not None and _follows(
                    list(form.args), abs(high - low), reach, set(threads)
                )
        return self.answers[key]

    def parts_tell(
        self,
        first: tuple[PrimExpr, Loops],
        second: tuple[PrimExpr, Loops],
        threads: Mapping[Var, int],
        reach: int,
    ) -> bool:
        """Do the same for places of different forms, by the digits that they have in common: these
        follow if the rest stays below their scales.
        """
        form, other = (
            self.form(first[0], threads, first[1]),
            self.form(second[0], threads, second[1]),
        )
        if form is None or other is None:
            return False
        local = {var for var, _ in (*first[1], *second[1])}
        common = [
            digit
            for digit in form.args
            if not mentions(digit, local)
            and any(structural_equal(digit, one) for one in other.args)
        ]
        rest, rest_other = _bounds_without(form, common), _bounds_without(other, common)
        if rest is None or rest_other is None:
            return False
        (low, high), (low_other, high_other) = rest, rest_other
        apart = op.maximum(high - low_other, high_other - low) + reach
        return _follows(common, 0, apart, set(threads))

    def form(self, place: PrimExpr, threads: Mapping[Var, int], loops: Loops) -> IterSumExpr | None:
        """Return a place as a sum of digits of threads and loops, or of what is common to both
        threads as well where it is none of the others alone.
        """
        key = (id(place), *[id(var) for var in (*threads, *[var for var, _ in loops])])
        if key in self.forms:
            return self.forms[key]
        form = _sum_of_digits(place, threads, loops)
        if form is None:
            own = {*threads, *[var for var, _ in loops]}
            common = [entry for entry in self.common.items() if entry[0] not in own]
            common = [entry for entry in common if uses_variable(place, {entry[0]})]
            if common:
                form = _sum_of_digits(place, threads, (*loops, *common))
        self.forms[key] = form
        self.kept.append(place)
        return form

    def without_constant(self, place: PrimExpr) -> tuple[PrimExpr, int]:
        """Return a place as a sum: the same object for all equal places, and a constant."""
        if id(place) not in self.known:
            rest, constant = place, 0
            while isinstance(rest, (Add, Sub)) and isinstance(rest.b, IntImm):
                constant += rest.b.value if isinstance(rest, Add) else -rest.b.value
                rest = rest.a
            bucket = self.equal.setdefault(structural_hash(rest), [])
            known = [one for one in bucket if one is rest or structural_equal(one, rest)]
            if not known:
                bucket.append(rest)
                known = [rest]
            self.known[id(place)] = place, known[0], constant
        _, rest, constant = self.known[id(place)]
        return rest, constant


def _used(place: PrimExpr, loops: Loops) -> Loops:
    return tuple([entry for entry in loops if uses_variable(place, {entry[0]})])


def _paired(loops: Loops, others: Loops) -> dict[Var, PrimExpr] | None:
    """Return the variables of some loops as those of others that have the same domains."""
    if len(loops) != len(others):
        return None
    renamed: dict[Var, PrimExpr] = {}
    for (var, domain), (other, wanted) in zip(loops, others):
        if not structural_equal(substitute(domain.extent, renamed), wanted.extent):
            return None
        if not structural_equal(substitute(domain.min, renamed), wanted.min):
            return None
        if var is not other:
            renamed[var] = other
    return renamed


def _sum_of_digits(place: PrimExpr, threads: Mapping[Var, int], loops: Loops) -> IterSumExpr | None:
    """Return a place as a sum of digits of threads and loops; None if it is not one."""
    domains: dict[Var, Range] = {
        var: Range.from_min_extent(const(0, var.dtype), const(extent, var.dtype))
        for var, extent in threads.items()
    }
    domains.update(dict(loops))
    if any(uses_variable((one.min, one.extent), set(domains)) for _, one in loops):
        return None
    form = normalize_to_iter_sum(place, domains)
    return None if uses_variable(form.base, set(domains)) else form


def _bounds_without(
    form: IterSumExpr, left_out: list[IterSplitExpr]
) -> tuple[PrimExpr, PrimExpr] | None:
    """Return the smallest and largest values of a sum without some of its digits; None if the sign
    of a scale is not known.
    """
    analyzer = Analyzer()
    low = high = form.base
    for digit in form.args:
        if any(structural_equal(digit, one) for one in left_out):
            continue
        most = digit.scale * (digit.extent - 1)
        if analyzer.can_prove(digit.scale >= 0):
            high = high + most
        elif analyzer.can_prove(digit.scale <= 0):
            low = low + most
        else:
            return None
    return low, high


def _follows(
    digits: list[IterSplitExpr], shift: int, reach: PrimExpr | int, wanted: set[Var]
) -> bool:
    """Return whether all wanted variables follow from the value of a sum of digits that is known
    up to ``reach`` and ``shift``, which may be added once.
    """
    if not digits:
        return False
    analyzer = Analyzer()
    dtype = digits[0].dtype
    if shift:
        mark = IterMark(Var("shift", dtype), const(2, dtype))
        digits = [*digits, IterSplitExpr(mark, scale=const(shift, dtype))]
    known = _known_digits(digits, reach, analyzer)
    found: set[Var] = set()
    done: list[IterMark] = []
    while not found >= wanted:
        marks = [one for one in _complete(known, analyzer) if not _among(one, done)]
        if not marks:
            return False
        done += marks
        found.update([one.source for one in marks if isinstance(one.source, Var)])
        for one in marks:
            if isinstance(one.source, IterSumExpr):
                known += _known_digits(list(one.source.args), 0, analyzer)
    return True


def _known_digits(
    digits: list[IterSplitExpr], reach: PrimExpr | int, analyzer: Analyzer
) -> list[IterSplitExpr]:
    """Return the digits that follow from the value of their sum, known up to ``reach``.

    Begins with the largest scale: if it is larger than what the other digits add up to, the digit
    follows, and so does the sum of the others. Where it is not, the sum of small digits still
    follows if all other scales are multiples of a number larger than that.
    """
    ordered = _by_scale(digits, analyzer)
    totals = [const(reach, "int32") if isinstance(reach, int) else analyzer.simplify(reach)]
    for scale, digit in ordered:
        totals.append(analyzer.simplify(totals[-1] + scale * (digit.extent - 1)))
    known = []
    end = len(ordered)
    while end:
        scale, digit = ordered[end - 1]
        if analyzer.can_prove(scale > totals[end - 1]):
            known.append(digit)
            end -= 1
            continue
        common = 0
        for start in range(end - 1, -1, -1):
            scale = ordered[start][0]
            common = gcd(common, scale.value) if isinstance(scale, IntImm) else 1
            if common == 1 or analyzer.can_prove(totals[start] < common):
                end = 0 if common == 1 else start
                break
        else:
            end = 0
    return known


def _by_scale(
    digits: list[IterSplitExpr], analyzer: Analyzer
) -> list[tuple[PrimExpr, IterSplitExpr]]:
    """Return digits with the absolute values of their scales, small ones first as far as that is
    known."""
    left = [(_size(digit.scale), digit) for digit in digits]
    left.sort(key=lambda one: one[0].value if isinstance(one[0], IntImm) else inf)
    ordered = []
    while left:
        best = left[0]
        for one in left[1:]:
            if not isinstance(best[0], IntImm) and analyzer.can_prove(one[0] < best[0]):
                best = one
        left = [one for one in left if one is not best]
        ordered.append(best)
    return ordered


def _size(scale: PrimExpr) -> PrimExpr:
    if isinstance(scale, IntImm) and scale.value < 0:
        return const(-scale.value, scale.dtype)
    return scale


def _complete(digits: list[IterSplitExpr], analyzer: Analyzer) -> list[IterMark]:
    """Return the iterators all of whose digits are among those given."""
    found: list[IterMark] = []
    for mark in [digit.source for digit in digits]:
        if _among(mark, found):
            continue
        end: PrimExpr = const(1, mark.extent.dtype)
        own = [digit for digit in digits if _same_mark(digit.source, mark)]
        while True:
            following = [one for one in own if analyzer.can_prove_equal(one.lower_factor, end)]
            if not following:
                break
            end = analyzer.simplify(following[0].end())
            own = [one for one in own if all(one is not other for other in following)]
        if analyzer.can_prove(end >= mark.extent):
            found.append(mark)
    return found


def _among(mark: IterMark, marks: list[IterMark]) -> bool:
    return any(_same_mark(mark, one) for one in marks)


def _same_mark(mark: IterMark, other: IterMark) -> bool:
    return mark is other or structural_equal(mark, other)
