"""The table of converters: operator and opset version → the function that converts a node.

    @converter("Softmax", since=13)
    def softmax(node: OnnxNode) -> Any:
        return op.nn.softmax(node[0], node.attribute("axis", -1))

A converter holds from the opset version ``since`` on, until another one of the same operator.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["MICROSOFT", "Converter", "converter", "find_converter", "supported_operators"]

MICROSOFT = "com.microsoft"

_FAMILIES = (
    "activation", "classical", "contrib", "control", "convolution", "counting", "creation",
    "decoding", "elementwise", "gradient", "image", "indexing", "linear", "manipulation",
    "normalization", "pooling", "qlinear", "quantization", "recurrent", "reduction", "sampling",
    "search", "sequence", "signal", "training", "trees",
)  # fmt: skip


class Converter(NamedTuple):
    """The conversion of an operator from an opset version on."""

    domain: str
    operator: str
    since: int
    convert: Callable[[Any], Any]


_table: dict[tuple[str, str], list[Converter]] = {}


def converter(*operators: str, since: int = 1, domain: str = "") -> Callable[[Any], Any]:
    """Register the decorated function, which takes an OnnxNode and gives its output or outputs."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        for operator in operators:
            add_converter(operator, function, since, domain)
        return function

    return register


def add_converter(
    operator: str, function: Callable[[Any], Any], since: int = 1, domain: str = ""
) -> None:
    """Register a function; for the tables of operators that differ in one word only."""
    entries = _table.setdefault((domain, operator), [])
    entries.append(Converter(domain, operator, since, function))
    entries.sort(key=lambda entry: -entry.since)


@functools.cache
def _load() -> None:
    for family in _FAMILIES:
        importlib.import_module(f"tilesmith.relax.frontend.onnx.ops.{family}")


def find_converter(domain: str, operator: str, version: int) -> Converter | None:
    """Return the converter of an operator in an opset version, or None."""
    _load()
    for entry in _table.get(("" if domain == "ai.onnx" else domain, operator), ()):
        if entry.since <= version:
            return entry
    return None


def supported_operators() -> dict[str, tuple[str, ...]]:
    """Return domain → names of the operators that have a converter ("" is ONNX's own domain)."""
    _load()
    found: dict[str, list[str]] = {}
    for domain, operator in sorted(_table):
        found.setdefault(domain, []).append(operator)
    return {domain: tuple(names) for domain, names in found.items()}
