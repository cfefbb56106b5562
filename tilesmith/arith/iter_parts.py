"""Builds the parts that detect maps of iterators; each is built from those before it."""

from __future__ import annotations

from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.iter_checks import DigitChecker
from tilesmith.arith.iter_division import IterDivider
from tilesmith.arith.iter_fusing import Fuser
from tilesmith.arith.iter_predicates import Predicates
from tilesmith.arith.iter_rewriter import IterRewriter
from tilesmith.arith.iter_sizes import Sizes
from tilesmith.arith.iter_sums import IterSums
from tilesmith.arith.iterators import Iterators

__all__ = ["IterParts"]


class IterParts:
    """Holds the parts."""

    __slots__ = (
        "checker", "divider", "fuser", "iterators", "predicates", "rewriter", "sizes", "sums",
    )  # fmt: skip

    def __init__(
        self,
        allow_padding: bool,
        paddings: dict[Any, list[tuple[int, int]]] | None,
        overlaps: bool = False,
    ) -> None:
        sizes = self.sizes = Sizes(Analyzer())
        iterators = self.iterators = Iterators(sizes)
        sums = self.sums = IterSums(sizes, iterators)
        fuser = self.fuser = Fuser(sizes, iterators, sums, overlaps)
        divider = self.divider = IterDivider(sizes, iterators, sums, fuser, allow_padding, paddings)
        rewriter = self.rewriter = IterRewriter(sizes, iterators, sums, divider)
        self.predicates = Predicates(sizes, iterators, sums, fuser, rewriter)
        self.checker = DigitChecker(sizes, iterators, divider.padded)
