"""Pattern tables: what `MergeComposite` looks for on behalf of an external compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.support.registry import Registry

__all__ = ["PATTERN_TABLES", "get_pattern_table", "register_pattern_table"]

_CONTRIB = "tilesmith.relay.backend.contrib."

PATTERN_TABLES: Registry[Any] = Registry(
    "pattern table",
    {name: _CONTRIB + name for name in ("cblas", "ccompiler", "dnnl", "examplejson")},
)
"""Compiler → its table, or a function that makes it. Looking a compiler up also loads the module
that says which operators it takes.
"""


def register_pattern_table(compiler: str, table: Any = None) -> Any:
    """Register the rows ``(name, pattern[, check])`` for a compiler, or a function that returns
    them; without ``table`` this is a decorator.
    """

    def register(made: Callable[[], Any] | Any) -> Any:
        PATTERN_TABLES.register(compiler, made, override=True)
        return made

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> list[tuple[Any, ...]] | None:
    """Return the rows for a compiler, None if it has none."""
    found = PATTERN_TABLES.get(compiler, None)
    if found is None:
        return None
    return list(found() if callable(found) else found)
