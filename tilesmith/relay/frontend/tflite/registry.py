"""Operators of TensorFlow Lite → the functions that convert them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["CONVERTERS", "METHODS", "moves", "operator", "plain"]

Converter = Callable[..., Any]

CONVERTERS: dict[str, Converter] = {}
"""Name of an operator → function of (converter, operator) that gives an expression, or a list of
them for several results."""

METHODS: dict[str, str] = {}
"""Name of an operator → the method of `OperatorConverter` that converts it."""


def operator(*names: str, method: str | None = None) -> Callable[[Converter], Converter]:
    """Register a converter of operators; it sees integers as they are stored."""

    def register(function: Converter) -> Converter:
        for name in names:
            CONVERTERS[name] = function
            METHODS[name] = method or f"convert_{name.lower()}"
        return function

    return register


def plain(*names: str, method: str | None = None) -> Callable[[Converter], Converter]:
    """Register a function of (converter, options, operands …) on numbers: quantised operands are
    turned into floats before, the result into the integers that its tensor wants.
    """

    def register(function: Converter) -> Converter:
        def convert(converter: Any, op: Any) -> Any:
            operands = [
                None if one is None else converter.number(one)
                for one in converter.get_input_tensors(op)
            ]
            found = function(converter, converter.options(op), *operands)
            return converter.as_outputs(op, found)

        operator(*names, method=method)(convert)
        return function

    return register


def moves(*names: str, method: str | None = None) -> Callable[[Converter], Converter]:
    """Register a function of (converter, operator, expression of the first operand) that only moves
    elements: integers stay integers.
    """

    def register(function: Converter) -> Converter:
        def convert(converter: Any, op: Any) -> Any:
            source = converter.get_input_tensors(op)[0]
            found = function(converter, op, converter.get_tensor_expr(source))
            return converter.requantised(op, source, found)

        operator(*names, method=method)(convert)
        return function

    return register
