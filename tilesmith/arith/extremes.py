"""Builds minima and maxima of sums: drops dominated operands and extracts common terms.

min(x + 4, x)          ->  x
min(x * 4 + 8, 16)     ->  min(x, 2) * 4 + 8
"""

from __future__ import annotations

from math import gcd
from typing import Any

from tilesmith.arith.bounds import Bounds
from tilesmith.arith.division import Divider
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_table import FormTable
from tilesmith.arith.form_writer import FormWriter
from tilesmith.arith.forms import (
    Extreme,
    Split,
    Sum,
    Truncated,
    coefficient_gcd,
    exact_quotient,
    is_index,
    of_atom,
    plus,
    retyped,
    shifted,
    times,
)  # fmt: skip
from tilesmith.arith.like_terms import LikeTerms
from tilesmith.arith.prover import Prover
from tilesmith.ir import Div, IntImm, Max, Min

__all__ = ["Extremes"]


def _all_negative(forms: list[Sum]) -> bool:
    for form in forms:
        if form.const > 0:
            return False
        for coefficient in form.terms.values():
            if coefficient > 0:
                return False
    return True


def _unit(forms: tuple[Sum, ...]) -> int:
    """Returns the coefficient that all terms have, or 1 if they differ."""
    found = {coefficient for form in forms for coefficient in form.terms.values()}
    return found.pop() if len(found) == 1 else 1


def _quotients(form: Sum) -> bool:
    """Returns True if a sum consists of two quotients, or a quotient and a minimum, whose sum has
    tighter bounds than its terms alone.
    """
    if len(form.terms) != 2:
        return False
    kinds = [atom.__class__ for atom in form.terms]
    return Split in kinds and (kinds[0] is kinds[1] or Extreme in kinds)


_OTHER: dict[type, type] = {Min: Max, Max: Min}


class Extremes:
    """Builds minima and maxima of sums."""

    __slots__ = (
        "__weakref__", "bounds", "divider", "facts", "prover", "table", "terms", "writer",
    )  # fmt: skip

    def __init__(
        self,
        facts: Facts,
        table: FormTable,
        writer: FormWriter,
        bounds: Bounds,
        terms: LikeTerms,
        prover: Prover,
        divider: Divider,
    ) -> None:
        self.facts = facts
        self.table = table
        self.writer = writer
        self.bounds = bounds
        self.terms = terms
        self.prover = prover
        self.divider = divider

    def extreme(self, kind: type, args: list[Sum]) -> Sum:
        """Returns the minimum or maximum of sums without dominated operands, with common terms
        extracted.
        """
        if not is_index(args[0].dtype):
            result = args[0]
            for arg in args[1:]:
                result = self._wrapping_extreme(kind, result, arg)
            return result
        return self._joined_extreme(kind, self._undominated(kind, self._flattened(kind, args)))

    def extreme_of_two(self, kind: type, a: Sum, b: Sum) -> Sum:
        """Returns ``min(a, b)`` of index forms, written as similar to the user's text as
        possible.
        """
        flat = self._flattened(kind, [a, b])
        kept = self._undominated(kind, flat)
        form = self._joined_extreme(kind, kept)
        if len(kept) == 1 or form.expr is not None:
            return form
        number = self.table.number(form)
        for side in (a, b):
            if self.table.number(side) == number:
                return side
        pair = [a, b] if len(kept) == len(flat) else kept
        laid_out = self._laid_out(kind, pair[0], pair[1])
        for arg in pair[2:]:
            laid_out = self._plain(kind, laid_out, arg)
        written = form.expr = self.writer.to_expr(laid_out)
        atom = form.single()
        if atom is not None:
            atom.expr = written
        return form

    def _joined_extreme(self, kind: type, args: list[Sum]) -> Sum:
        if len(args) == 1:
            return args[0]
        shared, unit = self._shared(args)
        inner = [exact_quotient(plus(arg, shared, -1), unit) for arg in args]
        distributed = self._distributed(kind, inner) if len(inner) == 2 else None
        if distributed is not None:
            form = plus(times(distributed, unit), shared)
            self.writer.to_expr(form)
            return form
        if not self.bounds.all_flow(inner):
            return of_atom(self.table.extreme(kind, args))
        if _all_negative(inner):  # max(x * -4, y * -4)  ->  min(x, y) * -4
            opposite = [times(arg, -1) for arg in inner]
            if self.bounds.all_flow(opposite):
                inner, unit, kind = opposite, -unit, Max if kind is Min else Min
        form = times(of_atom(self.table.extreme(kind, inner)), unit)
        return plus(form, shared)

    def _wrapping_extreme(self, kind: type, a: Sum, b: Sum) -> Sum:
        """Chooses in a dtype that wraps around, using only the bounds of both sides."""
        (low_a, high_a), (low_b, high_b) = self.bounds.of(a), self.bounds.of(b)
        if high_a <= low_b or self.table.number(a) == self.table.number(b):
            return a if kind is Min else b
        if high_b <= low_a:
            return b if kind is Min else a
        return of_atom(self.table.leaf(kind(self.writer.to_expr(a), self.writer.to_expr(b))))

    def _flattened(self, kind: type, args: list[Sum]) -> list[Sum]:
        flat: list[Sum] = []
        for arg in args:
            atom = next(iter(arg.terms)) if len(arg.terms) == 1 else None
            if atom.__class__ is Extreme and atom.kind is kind and arg.terms[atom] == 1:
                dtype = arg.dtype  # of a cast: wider than that of what is inside
                inner = [shifted(retyped(part, dtype), arg.const) for part in atom.args]
                if arg.const == 0 or self.bounds.all_flow(inner):
                    flat.extend(inner)
                    continue
            flat.append(arg)
        return flat

    def _undominated(self, kind: type, args: list[Sum]) -> list[Sum]:
        kept: list[Sum] = []
        for arg in args:
            rivals, keep = [], True
            for other in kept:
                order = self.compare(arg, other)  # arg <= other, arg >= other
                if order[1] if kind is Min else order[0]:
                    keep = False
                    break
                if not (order[0] if kind is Min else order[1]):
                    rivals.append(other)
            if keep:
                kept = [*rivals, arg]
        return kept

    def compare(self, a: Sum, b: Sum) -> tuple[bool, bool]:
        """Returns whether a <= b is proven, and whether a >= b is."""
        difference = self.terms.combine(plus(a, b, -1))
        low, high = self.bounds.of(difference)
        if low >= 0 or high <= 0:
            return high <= 0, low >= 0
        if not self.facts.inequalities and not _quotients(difference):
            return False, False
        return self.prover.prove(times(difference, -1), 1), self.prover.prove(difference, 1)

    def _shared(self, args: list[Sum]) -> tuple[Sum, int]:
        """Finds what all operands have in common: a sum to extract, and then a factor of the
        remaining terms.
        """
        dtype = args[0].dtype
        terms = dict(args[0].terms)
        for arg in args[1:]:
            terms = {atom: c for atom, c in terms.items() if arg.terms.get(atom) == c}
        varying = [arg for arg in args if len(arg.terms) > len(terms)]
        lead = min(varying, key=self._core_number)
        shared = Sum(dtype, terms, lead.const)
        unit = 0
        for arg in args:
            rest = plus(arg, shared, -1)
            unit = gcd(unit, coefficient_gcd(rest), rest.const)
        return shared, unit

    def _distributed(self, kind: type, args: list[Sum]) -> Sum | None:
        """Rewrites ``min(x // 4, y // 4)`` as ``min(x, y) // 4``, ``max(min(x, y), min(x, z))`` as
        ``min(max(y, z), x)``."""
        first, second = args[0].single(), args[1].single()
        if first is None or second is None or first.__class__ is not second.__class__:
            return None
        if first.dtype is not second.dtype or first.dtype is not args[0].dtype:
            return None
        if first.__class__ is Truncated:
            return self._truncated(kind, first, second)
        if first.__class__ is Split:
            if first.upper or second.upper or first.lower != second.lower:  # type: ignore
                return None
            inner = self.extreme_of_two(kind, first.index, second.index)  # type: ignore
            return self.divider.divide(inner, first.lower)[0]
        if first.__class__ is not Extreme or first.kind is kind or second.kind is kind:  # type: ignore
            return None
        own, others = first.args, second.args  # type: ignore[attr-defined]
        numbers = [self.table.number(arg) for arg in others]
        shared = [arg for arg in own if self.table.number(arg) in numbers]
        if len(own) != 2 or len(others) != 2 or len(shared) != 1:
            return None
        common = self.table.number(shared[0])
        rest = [arg for arg in (*own, *others) if self.table.number(arg) != common]
        inner = self.extreme_of_two(kind, rest[0], rest[1])
        return self.extreme_of_two(first.kind, inner, shared[0])

    def _truncated(self, kind: type, first: Any, second: Any) -> Sum | None:
        """Rewrites ``min(x / 4, y / 4)`` as ``min(x, y) / 4``, rounded toward zero."""
        ends = self.terms.divided(first), self.terms.divided(second)
        if ends[0] is None or ends[1] is None or ends[0][1] != ends[1][1]:
            return None
        inner = self.writer.to_expr(self.extreme_of_two(kind, ends[0][0], ends[1][0]))
        return self.terms.normalizer.normal(Div(inner, first.expr.b))

    # Writing them down

    def _laid_out(self, kind: type, a: Sum, b: Sum) -> Sum:
        """Extracts the terms that both operands visibly share: ``min(x + 1, y + 1)`` becomes
        ``min(x, y) + 1``, but ``max(x - 1, 0)`` stays. Returns a sum with the minimum as a leaf.
        """
        dtype = a.dtype
        if not a.terms:
            return self._plain(kind, a, b)
        if b.terms:
            shared = {atom: c for atom, c in a.terms.items() if b.terms.get(atom) == c}
            rests = [len(side.terms) - len(shared) for side in (a, b)]
            if a.const == b.const and min(rests) > 0 and (shared or a.const):
                return self._beside(kind, a, b, 1, Sum(dtype, shared, a.const))
            if shared and min(rests) == 0 and (b if rests[0] else a).const:
                if (a if rests[0] else b).const == 0:  # min(x + y, x + 1)  ->  min(y, 1) + x
                    return self._beside(kind, a, b, 1, Sum(dtype, shared, 0))
            unit = _unit((a, b))
            if unit != 1 and a.const in (0, unit) and b.const in (0, unit):
                return self._beside(kind, a, b, unit, Sum(dtype, {}, 0))
            return self._plain(kind, a, b)
        unit = _unit((a,))
        if unit < 0 and a.const and b.const and len(a.terms) == 1:  # 3 - max(x, -2)
            scale = -1 if (b.const - a.const) % unit else unit
            return self._beside(kind, a, b, scale, Sum(dtype, {}, a.const))
        if unit != 1 and a.const in (0, unit) and b.const % unit == 0:
            return self._beside(kind, a, b, unit, Sum(dtype, {}, 0))
        return self._plain(kind, a, b)

    def _beside(self, kind: type, a: Sum, b: Sum, scale: int, outside: Sum) -> Sum:
        """Returns ``min(a, b)`` with the sum ``outside``, and then the factor ``scale``, extracted
        from both.
        """
        parts = [exact_quotient(plus(side, outside, -1), scale) for side in (a, b)]
        if not self.bounds.all_flow(parts):
            return self._plain(kind, a, b)
        if scale > 0 and outside.terms and _all_negative(parts):  # x - max(y, z)
            scale, parts = -scale, [times(part, -1) for part in parts]
        inner = self._laid_out(kind if scale > 0 else _OTHER[kind], parts[0], parts[1])
        return plus(times(inner, scale), outside)

    def _plain(self, kind: type[Any], a: Sum, b: Sum) -> Sum:
        first: Any = self.writer.to_expr(a)
        second = self.writer.to_expr(b)
        if b.terms and isinstance(first, kind) and isinstance(first.b, IntImm):
            first, second = kind(first.a, second), first.b
        return self.table.packed(kind(first, second), (a, b))

    def _core_number(self, form: Sum) -> int:
        return self.table.number(Sum(form.dtype, form.terms, 0))
