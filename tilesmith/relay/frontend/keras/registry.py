"""Layers of Keras → the functions that convert them, and what these are given.

Keras describes images with their channels last; the imported model may have them at axis 1
(`Value.moved`). A converter is registered with what it asks of its operands:

* `plain`: expressions as Keras describes them; its results are such, too.
* `pointwise`: an expression whose axes may lie either way; so lie those of the result.
* `image`: an image as the imported model wants images, and whether its channels are at axis 1.
* `raw`: values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy

from tilesmith.relay.expr import Var
from tilesmith.relay.frontend.images import channels_first, channels_last
from tilesmith.relay.op.view import rank_of

__all__ = ["CONVERTERS", "Graph", "Value", "image", "mapped", "plain", "pointwise", "raw"]

Converter = Callable[..., Any]


class Value:
    """An expression, and whether its channels are at axis 1 although Keras has them last."""

    __slots__ = ("expr", "moved")

    def __init__(self, expr: Any, moved: bool = False) -> None:
        self.expr = expr
        self.moved = moved

    def plain(self) -> Any:
        """Return the expression with the axes in Keras' order."""
        return channels_last(self.expr) if self.moved else self.expr

    def first(self) -> Any:
        """Return the expression with the channels at axis 1."""
        return self.expr if self.moved else channels_first(self.expr)

    def axis(self, axis: int) -> int:
        """Return where an axis of Keras' order lies."""
        rank = rank_of(self.expr)
        axis %= rank
        if not self.moved or axis == 0:
            return axis
        return 1 if axis == rank - 1 else axis + 1


class Graph(Protocol):
    """What converters may ask of the model that is imported."""

    def weight(
        self, layer: Any, name: str, arrange: Callable[[numpy.ndarray], numpy.ndarray] | None = None
    ) -> Var:
        """Return the parameter for a weight of a layer (an attribute), arranged by a function."""

    def array(self, layer: Any, name: str) -> numpy.ndarray:
        """Return a weight of a layer."""

    def numpy_of(self, value: Any) -> numpy.ndarray:
        """Return a tensor of Keras, or a number, as an array."""

    def is_moved(self, rank: int) -> bool:
        """Return whether images with so many axes have their channels at axis 1."""

    def call(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the results of a layer for values."""


CONVERTERS: dict[str, Callable[..., Any]] = {}
"""Class of a layer (one of ``keras.ops`` with "ops." before it) → its converter, which takes
(graph, layer, values …)."""


def mapped(found: Any, function: Callable[[Any], Any]) -> Any:
    """Return a structure of lists, tuples and dicts with a function of each leaf in its place."""
    if isinstance(found, (list, tuple)):
        return type(found)([mapped(one, function) for one in found])
    if isinstance(found, Mapping):
        return {name: mapped(one, function) for name, one in found.items()}
    return function(found)


def _register(names: tuple[str, ...], converter: Converter) -> None:
    for name in names:
        CONVERTERS[name] = converter


def raw(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter that takes values and returns them."""

    def register(function: Converter) -> Converter:
        _register(names, function)
        return function

    return register


def _plain(leaf: Any) -> Any:
    return leaf.plain() if isinstance(leaf, Value) else leaf


def plain(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter of expressions in Keras' order."""

    def register(function: Converter) -> Converter:
        def convert(graph: Graph, layer: Any, *args: Any, **kwargs: Any) -> Any:
            found = function(graph, layer, *mapped(args, _plain), **mapped(kwargs, _plain))
            return mapped(found, Value)

        _register(names, convert)
        return function

    return register


def pointwise(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter of one expression whose axes do not matter."""

    def register(function: Converter) -> Converter:
        def convert(graph: Graph, layer: Any, x: Value, **kwargs: Any) -> Any:
            return Value(function(graph, layer, x.expr), x.moved)

        _register(names, convert)
        return function

    return register


def image(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter of one image: it takes the expression and whether its channels are at
    axis 1.
    """

    def register(function: Converter) -> Converter:
        def convert(graph: Graph, layer: Any, x: Value, **kwargs: Any) -> Any:
            if getattr(layer, "data_format", None) == "channels_first":
                return Value(function(graph, layer, x.plain(), True))
            moved = graph.is_moved(rank_of(x.expr))
            found = function(graph, layer, x.first() if moved else x.plain(), moved)
            return Value(found, moved and rank_of(found) == rank_of(x.expr))

        _register(names, convert)
        return function

    return register
