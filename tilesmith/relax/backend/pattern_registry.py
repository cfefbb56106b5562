"""Holds patterns that say which parts of a graph a library can compute.

register_patterns([("library.matmul", *make_matmul_pattern())])
FuseOpsByPattern(get_patterns_with_prefix("library"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from tilesmith.relax.dpl.pattern import DFPattern
from tilesmith.relax.transform.fuse_by_pattern import FusionPattern, PatternCheckContext

__all__ = ["CheckFunc", "Pattern", "get_pattern", "get_patterns_with_prefix", "register_patterns"]

CheckFunc: TypeAlias = Callable[[PatternCheckContext], bool]
"""What may refuse a match."""

Pattern: TypeAlias = (
    FusionPattern
    | tuple[str, DFPattern]
    | tuple[str, DFPattern, Mapping[str, DFPattern]]
    | tuple[str, DFPattern, Mapping[str, DFPattern], CheckFunc]
)
"""A pattern with its name, or a tuple of what it is made of."""

_registered: list[FusionPattern] = []


def register_patterns(patterns: Iterable[Any]) -> None:
    """Add patterns; one that is added later goes first."""
    _registered.extend([FusionPattern.of(one) for one in patterns])


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """Return the patterns whose names begin with a prefix, in the order of their registration."""
    return [one for one in _registered if one.name.startswith(prefix)]


def get_pattern(name: str) -> FusionPattern | None:
    """Return the pattern of a name that was registered last, None if there is none."""
    for one in reversed(_registered):
        if one.name == name:
            return one
    return None
