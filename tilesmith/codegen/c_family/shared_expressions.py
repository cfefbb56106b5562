"""Finds what a statement computes more than once, for writers of source code."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr

__all__ = ["shared_expressions"]


def shared_expressions(*roots: PrimExpr) -> dict[int, int]:
    """Return how often expressions occur that occur more than once, by their identities."""
    counts: dict[int, int] = {}

    def count(node: Any) -> None:
        if isinstance(node, PrimExpr):
            counts[id(node)] = counts.get(id(node), 0) + 1
            if counts[id(node)] == 1:
                node.for_each_child(count)

    for root in roots:
        count(root)
    return {key: number for key, number in counts.items() if number > 1}
