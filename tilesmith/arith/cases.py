"""Decides the sign of sums by cases, where the sum as a whole says too little.

Of ``max(a, b)`` less remains than was written: an operand that is never the largest goes out, what
the operands share is extracted. `Cases.as_written` goes back to the text, so that ``max(a, b) >=
b`` holds whatever became of the parts. `Cases.of_choice` looks at both values of a ``Select``, each
where it is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilesmith.arith.assumptions import Assumptions
from tilesmith.arith.bounds import Bounds
from tilesmith.arith.facts import Facts
from tilesmith.arith.forms import Choice, Sum, is_index, of_atom, plus
from tilesmith.arith.interfaces import NormalForms
from tilesmith.arith.like_terms import LikeTerms
from tilesmith.ir import Add, IntImm, Max, Min, Mul, Not, PrimExpr, Sub

__all__ = ["Cases"]

_EXTREMES = (Min, Max)
_MOST_CHOICES = 2  # one inside of the other


class Cases:
    """Decides the sign of sums by cases."""

    __slots__ = ("_depth", "assumptions", "bounds", "facts", "normalizer", "terms")

    def __init__(
        self,
        facts: Facts,
        bounds: Bounds,
        terms: LikeTerms,
        normalizer: NormalForms,
        assumptions: Assumptions,
    ) -> None:
        self.facts = facts
        self.bounds = bounds
        self.terms = terms
        self.normalizer = normalizer
        self.assumptions = assumptions
        self._depth = 0

    # Minima and maxima

    def as_written(self, form: Sum, less: PrimExpr, more: PrimExpr) -> bool | None:
        """Returns True or False if ``form >= 0`` (or ``form < 0``) follows from one operand of a
        minimum or maximum written in ``less`` or ``more``, else None; ``form`` is ``more - less``
        or, for ``less < more``, one less.
        """
        for side, sign in ((less, -1), (more, 1)):
            for node, factor in _written_extremes(side, sign):
                every = (node.__class__ is Min) == (factor > 0)  # else one operand suffices
                rest = plus(form, self.normalizer.normal(node), -factor)
                for arg in _operands(node):
                    case = self.terms.combine(plus(rest, self.normalizer.normal(arg), factor))
                    low, high = self.bounds.of(case)
                    if not every and low >= 0:
                        return True
                    if every and high < 0:
                        return False
        return None

    # Choices

    def of_choice(self, form: Sum, sign: Callable[[Sum], bool | None]) -> bool | None:
        """Returns True or False if ``form >= 0`` is known for both values of a ``Select`` in it,
        else None; ``sign`` decides a sum.
        """
        if self._depth >= _MOST_CHOICES:
            return None
        for atom, coefficient in form.terms.items():
            if atom.__class__ is Choice and is_index(atom.dtype):
                rest = plus(form, of_atom(atom), -coefficient)
                expr: Any = atom.expr
                first = self._case(rest, expr.condition, expr.true_value, coefficient, sign)
                if first is None:
                    return None
                other = Not(expr.condition)
                second = self._case(rest, other, expr.false_value, coefficient, sign)
                return first if first is second else None
        return None

    def _case(
        self,
        rest: Sum,
        condition: PrimExpr,
        value: PrimExpr,
        factor: int,
        sign: Callable[[Sum], bool | None],
    ) -> bool | None:
        """Decides ``rest + value * factor >= 0`` where the condition holds."""
        saved = self.facts.open_layer()
        self._depth += 1
        try:
            self.assumptions.assume(condition)
            case = self.terms.combine(plus(rest, self.normalizer.normal(value), factor))
            answer = sign(case)
            return self.of_choice(case, sign) if answer is None else answer
        finally:
            self._depth -= 1
            self.facts.close_layer(saved)


def _written_extremes(side: PrimExpr, factor: int) -> Iterator[tuple[Any, int]]:
    """Yields the minima and maxima among the terms of a sum as it is written, and their factors."""
    stack: list[tuple[Any, int]] = [(side, factor)]
    while stack:
        node, factor = stack.pop()
        kind = node.__class__
        if kind in _EXTREMES:
            yield node, factor
        elif kind is Add or kind is Sub:
            stack.append((node.b, factor if kind is Add else -factor))
            stack.append((node.a, factor))
        elif kind is Mul and node.b.__class__ is IntImm and node.b.value:
            stack.append((node.a, factor * node.b.value))
        elif kind is Mul and node.a.__class__ is IntImm and node.a.value:
            stack.append((node.b, factor * node.a.value))


def _operands(node: Any) -> Iterator[PrimExpr]:
    """Yields the operands of a minimum of minima, or a maximum of maxima."""
    stack, kind = [node.b, node.a], node.__class__
    while stack:
        arg = stack.pop()
        if arg.__class__ is kind:
            stack += [arg.b, arg.a]
        else:
            yield arg
