"""Builds the parts of an analyzer and connects them.

See the package's text for what the parts are and how a question goes through them.
"""

from __future__ import annotations

from weakref import proxy

from tilesmith.arith.assumptions import Assumptions
from tilesmith.arith.bounds import Bounds
from tilesmith.arith.cases import Cases
from tilesmith.arith.comparisons import Comparisons
from tilesmith.arith.connectives import Connectives
from tilesmith.arith.division import Divider
from tilesmith.arith.extremes import Extremes
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_table import FormTable
from tilesmith.arith.form_writer import FormWriter
from tilesmith.arith.forms import INT64, TOO_LARGE, Sum, is_index, magnitude, shifted, times
from tilesmith.arith.like_terms import LikeTerms
from tilesmith.arith.normalizer import Normalizer
from tilesmith.arith.numbering import Numbering
from tilesmith.arith.prover import Prover
from tilesmith.arith.residues import Residues
from tilesmith.arith.rewriter import Rewriter
from tilesmith.arith.vectors import VectorRewriter
from tilesmith.ir import PrimExpr

__all__ = ["Engine"]

_CACHE_LIMIT = 50_000


class Engine:
    """Holds the parts; each is built from those before it."""

    __slots__ = (
        "assumptions", "bounds", "cases", "comparisons", "connectives", "divider", "extremes",
        "facts", "normalizer", "numbering", "prover", "residues", "rewriter", "table", "terms",
        "vectors", "writer",
    )  # fmt: skip

    def __init__(self) -> None:
        facts = self.facts = Facts()
        numbering = self.numbering = Numbering()
        table = self.table = FormTable(numbering)
        writer = self.writer = FormWriter(table)
        bounds = self.bounds = Bounds(facts)
        residues = self.residues = Residues(facts, bounds)
        terms = self.terms = LikeTerms(facts, table, writer, bounds, residues)
        prover = self.prover = Prover(facts, table, bounds, terms)
        divider = self.divider = Divider(facts, table, writer, bounds, residues, terms, prover)
        extremes = self.extremes = Extremes(facts, table, writer, bounds, terms, prover, divider)
        normalizer = self.normalizer = Normalizer(
            facts, numbering, table, writer, bounds, terms, prover, divider, extremes
        )
        assumptions = self.assumptions = Assumptions(
            facts, numbering, table, bounds, terms, normalizer
        )
        cases = self.cases = Cases(facts, bounds, terms, normalizer, assumptions)
        comparisons = self.comparisons = Comparisons(
            facts, numbering, table, writer, bounds, residues, terms, prover, divider, normalizer,
            cases,
        )  # fmt: skip
        connectives = self.connectives = Connectives(
            facts, numbering, terms, normalizer, comparisons
        )
        vectors = self.vectors = VectorRewriter(
            numbering, writer, bounds, residues, terms, prover, divider, normalizer
        )
        rewriter = self.rewriter = Rewriter(
            facts, numbering, writer, bounds, residues, normalizer, assumptions, comparisons,
            connectives, vectors,
        )  # fmt: skip
        # What a part asks of those after it. Weak references: a circle of strong ones would keep
        # the caches of an analyzer that is dropped until the garbage collector comes by
        bounds.normalizer = residues.normalizer = proxy(normalizer)
        terms.digits, terms.minima = proxy(divider), proxy(extremes)
        terms.normalizer, divider.minima = proxy(normalizer), proxy(extremes)
        normalizer.rewriter = comparisons.rewriter = proxy(rewriter)
        connectives.rewriter = vectors.rewriter = normalizer.rewriter

    def trim(self) -> None:
        """Keeps the memory of a long-lived analyzer bounded."""
        caches = self.facts.caches
        if len(caches.forms) + len(caches.rewritten) > _CACHE_LIMIT:
            caches.forms, caches.rewritten, caches.rays = {}, {}, {}
            self.numbering.trim()

    def difference(self, a: PrimExpr, b: PrimExpr) -> Sum | None:
        """Returns ``a - b`` of scalar integers as a sum of int32 or int64 that is computed without
        overflow; None where a side may wrap around, or where the numbers are too large.
        """
        if not a.dtype.is_integer or a.dtype.lanes != 1:
            return None
        forms = self.normalizer.normal(a), self.normalizer.normal(b)
        if a.dtype.is_uint and a.dtype.bits >= INT64.bits:
            if any(self.bounds.of(form)[1] > INT64.max_value for form in forms):
                return None
        found = self.comparisons.difference(*forms)
        return None if found is None or magnitude(found) == TOO_LARGE else found

    def is_at_least(self, expr: PrimExpr, bound: int) -> bool:
        """Returns True if ``expr >= bound`` is proven."""
        form = self.normalizer.normal(expr)
        if not is_index(form.dtype):
            return self.bounds.of(form)[0] >= bound
        return self.prover.prove(shifted(form, -bound))

    def is_at_most(self, expr: PrimExpr, bound: int) -> bool:
        """Returns True if ``expr <= bound`` is proven."""
        form = self.normalizer.normal(expr)
        if not is_index(form.dtype):
            return self.bounds.of(form)[1] <= bound
        return self.prover.prove(shifted(times(form, -1), bound))
