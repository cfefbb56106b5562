"""Operators of TensorFlow → the functions that convert them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy

from tilesmith.relay.frontend.tensorflow.reading import GraphNode

__all__ = ["CONVERTERS", "Operands", "operator"]


class Operands(Protocol):
    """The operands of a node."""

    node: GraphNode
    exprs: list[Any]

    def value(self, number: int, purpose: str) -> numpy.ndarray:
        """Return the values of an operand that has to be known; ``purpose`` says what it is."""

    def ints(self, number: int, purpose: str) -> list[int]:
        """Return the values of an operand that has to be known as a list of integers."""


Converter = Callable[[Operands], Any]

CONVERTERS: dict[str, Converter] = {}
"""Name of an operator → its converter, which gives an expression, or a list for several results."""


def operator(*names: str) -> Callable[[Converter], Converter]:
    """Register a converter."""

    def register(function: Converter) -> Converter:
        for name in names:
            CONVERTERS[name] = function
        return function

    return register
