"""Sorts the iterators of a product of matrices by the operands that they index.

    C[b, m, n] += A[b, m, k] * B[b, k, n]        b: a batch, m: rows, n: columns, k: summed over

Several of a kind count as one: a convolution's rows are the places of its result, and its sum is
over the places of a window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.tir import Block, BufferLoad, IterVar
from tilesmith.tir.queries import uses_variable

__all__ = ["BATCH", "COLUMNS", "ROWS", "SUM", "ProductIterators", "product_iterators"]

BATCH, ROWS, COLUMNS, SUM = "batch", "rows", "columns", "sum"


@dataclass(frozen=True)
class ProductIterators:
    """The iterators of a product's block: kinds and extents, which are numbers where known."""

    kinds: tuple[str, ...]
    extents: tuple[int | PrimExpr, ...]

    def places(self, kind: str) -> list[int]:
        """Return the iterators of a kind."""
        return [place for place, one in enumerate(self.kinds) if one == kind]

    def size(self, kind: str) -> int | None:
        """Return the product of the extents of a kind; None if one is not known."""
        extents = [self.extents[place] for place in self.places(kind)]
        known = [extent for extent in extents if isinstance(extent, int)]
        return math.prod(known) if len(known) == len(extents) else None

    def fused(self, kinds: Sequence[str]) -> Callable[..., list[Any]]:
        """Return the map from the iterators of these kinds, in the order of the block, to one index
        for each of the kinds: 0 for one without iterators.
        """
        places = [place for place, kind in enumerate(self.kinds) if kind in kinds]

        def index_map(*indices: Any) -> list[Any]:
            found: dict[str, Any] = {}
            for place, index in zip(places, indices):
                kind, extent = self.kinds[place], self.extents[place]
                found[kind] = found[kind] * extent + index if kind in found else index
            none = const(0, indices[0].dtype if indices else "int64")
            return [found.get(kind, none) for kind in kinds]

        return index_map


def product_iterators(block: Block, left: BufferLoad, right: BufferLoad) -> ProductIterators | None:
    """Return the iterators of a block that multiplies two operands; None where an iterator has no
    kind: no operand depends on it, or a sum's on one alone.
    """
    kinds, extents = [], []
    for one in block.iter_vars:
        uses = [
            any(uses_variable(index, {one.var}) for index in operand.indices)
            for operand in (left, right)
        ]
        is_summed = one.iter_type == IterVar.CommReduce
        if not any(uses) or is_summed and not all(uses):
            return None
        if all(uses):
            kinds.append(SUM if is_summed else BATCH)
        else:
            kinds.append(ROWS if uses[0] else COLUMNS)
        extent = one.domain.extent
        extents.append(extent.value if isinstance(extent, IntImm) else extent)
    return ProductIterators((*kinds,), (*extents,))
