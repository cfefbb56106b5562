"""Analyses integer expressions: simplification, bounds, residues, sets, and maps of iterators.

An `Analyzer` answers questions with the parts of its `Engine`. A part holds the parts that it is
built from, named to its right; calls upwards, of parts built later, go through `interfaces`.

    Facts          what is known: values, bounds, residues, inequalities; layers and caches
    Numbering      equal structure, equal number
    FormTable      interned atoms of sums                      Numbering
    FormWriter     sums as expressions                         FormTable
    Bounds         smallest and largest values of sums         Facts
    Residues       remainders of sums                          Facts, Bounds
    LikeTerms      terms that fit together are combined        FormTable, Bounds, Residues
    Prover         proofs of ``sum >= 0``                      Facts, Bounds, LikeTerms
    Divider        quotients, remainders and digits of sums    Prover, LikeTerms
    Extremes       minima and maxima of sums                   Prover, LikeTerms, Divider
    Normalizer     expressions as sums                         all of the above
    Assumptions    bindings and conditions as facts            Normalizer, Facts
    Cases          signs of sums with written minima, choices  Normalizer, Assumptions
    Comparisons    signs of differences                        Normalizer, Prover, Divider, Cases
    Connectives    conditions beside each other                Comparisons
    VectorRewriter ramps and broadcasts                        Normalizer, Divider, Prover
    Rewriter       any expression, simplified                  all of the above

``analyzer.simplify((i * 16 + j) // 16)`` goes to the rewriter. An integer expression becomes a sum:
the normalizer sums up ``i * 16 + j`` and asks the divider for the quotient; that takes ``i`` out
and asks the bounds, which ask the facts, whether ``j // 16`` is zero. The writer turns the sum into
an expression. ``analyzer.can_prove(i < n)`` goes to the comparisons, which ask the prover about the
sum ``n - i - 1``. What is opaque to arithmetic, a call or a choice, the normalizer hands back to
the rewriter.

Above the analyzer: sets of integers (`int_set`, `presburger`), solving for variables (`bound`,
`int_solver`, `pattern`), and maps of iterators (`iter_affine_map`, `iter_subspaces`, `region`).

Maps of iterators have parts of their own (`iter_parts`), built in this order:

    Sizes          extents, scales and offsets                 Analyzer
    Iterators      input iterators and sums that are ones      Sizes
    IterSums       sums of digits, added and scaled            Iterators
    Fuser          a sum of digits as one iterator             IterSums
    IterDivider    digits of sums, padded if need be           Fuser
    IterRewriter   expressions as sums of digits               IterDivider
    Predicates     conditions that cap extents                 IterRewriter, Fuser
    DigitChecker   digits independent and complete             Iterators
"""

from tilesmith.arith.analyzer import (
    Analyzer,
    ConstraintScope,
    Extension,
    ProofStrength,
    RewriteStatistics,
)
from tilesmith.arith.bound import deduce_bound
from tilesmith.arith.const_int_bound import ConstIntBound
from tilesmith.arith.int_set import *  # noqa: F403
from tilesmith.arith.int_solver import *  # noqa: F403
from tilesmith.arith.iter_affine_map import *  # noqa: F403
from tilesmith.arith.iter_subspaces import *  # noqa: F403
from tilesmith.arith.modular_set import ModularSet
from tilesmith.arith.pattern import *  # noqa: F403
from tilesmith.arith.presburger import PresburgerSet
from tilesmith.arith.region import *  # noqa: F403
from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
