"""The table of converters: ATen operator → the function that converts a call of it.

    @converter("gelu")
    def gelu(node: AtenNode) -> Any:
        return op.nn.gelu(node.tensor("self"))

A name is that of an operator (``add``, for all its overloads) or of one overload (``sum.default``),
which is looked for first. Graphs of ``torch.export``, ``torch.fx`` and ``torch.compile`` share the
table.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Convert", "add_converter", "converter", "find_converter", "supported_operators"]

Convert = Callable[[Any], Any]

_FAMILIES = (
    "backward", "convolution", "creation", "elementwise", "embedding", "image", "indexing",
    "linear", "normalization", "pooling", "reduction", "scatter", "sorting", "views",
)  # fmt: skip

_table: dict[str, Convert] = {}


def converter(*operators: str) -> Callable[[Convert], Convert]:
    """Register the decorated function, which takes an AtenNode and gives its output or outputs."""

    def register(function: Convert) -> Convert:
        for operator in operators:
            add_converter(operator, function)
        return function

    return register


def add_converter(operator: str, function: Convert) -> None:
    """Register a function; for the tables of operators that differ in one word only."""
    _table[operator] = function


@functools.cache
def _load() -> None:
    for family in _FAMILIES:
        importlib.import_module(f"tilesmith.relax.frontend.torch.ops.{family}")


def names_of(target: Any) -> Iterator[str]:
    """Yield the names under which an operator of torch may stand in a table, the closest first."""
    namespace, _, name = target.name().partition("::")
    prefix = "" if namespace == "aten" else f"{namespace}::"
    packet, _, overload = name.partition(".")
    yield f"{prefix}{packet}.{overload or 'default'}"
    yield f"{prefix}{packet}"


def find_converter(target: Any) -> Convert | None:
    """Return the converter of an operator of torch (an ``OpOverload``), or None."""
    _load()
    for name in names_of(target):
        if name in _table:
            return _table[name]
    return None


def supported_operators() -> tuple[str, ...]:
    """Return the names that have a converter, sorted."""
    _load()
    return tuple(sorted(_table))


__all__ += ["names_of"]
