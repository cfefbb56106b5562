"""Evaluates calls and subscripts."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from typing import Any

from tilesmith.script.evaluator.evaluator import Evaluator, handles_node

_OF_VALUES = (
    "tilesmith.ir.", "tilesmith.script.tir", "tilesmith.tir.buffer", "tilesmith.tir.expr",
    "tilesmith.tir.op",
)  # fmt: skip
_OF_REGIONS = {
    "BufferRegion",
    "match_buffer",
    "realize",
    "prefetch",
    "attr",
    "reads",
    "writes",
    "address_of",
}


@handles_node(ast.Call)
def _call(evaluator: Evaluator, node: ast.Call) -> Any:
    function = evaluator.evaluate(node.func)
    arguments = evaluator.items(node.args)
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        value = evaluator.evaluate(keyword.value)
        if keyword.arg is None:
            named.update(value)
        else:
            named[keyword.arg] = value
    special = evaluator.calls.get(function.__class__)
    if special is not None:
        return special(function, arguments, named)
    if evaluator.operands and _takes_no_regions(function):
        arguments = _as_operands(evaluator, arguments)
        named = {name: _as_operands(evaluator, [value])[0] for name, value in named.items()}
    if "dtype" in named:
        arguments = _with_dtype(function, arguments, named)
    return function(*arguments, **named)


def _as_operands(evaluator: Evaluator, values: Iterable[Any]) -> list[Any]:
    """Convert the arguments of functions of values: a region becomes the vector of its
    elements.
    """
    found = []
    for value in values:
        convert = evaluator.operands.get(value.__class__)
        if convert is not None:
            value = convert(value)
        elif value.__class__ is list:
            value = _as_operands(evaluator, value)
        elif value.__class__ is dict:
            value = dict(zip(value, _as_operands(evaluator, value.values())))
        found.append(value)
    return found


def _takes_no_regions(function: Any) -> bool:
    """True if a function works on values, and cannot use a region of a buffer."""
    module = getattr(function, "__module__", None)
    if not isinstance(module, str) or not module.startswith(_OF_VALUES):
        return False
    return getattr(function, "__name__", "") not in _OF_REGIONS


def _with_dtype(function: Any, arguments: list[Any], named: dict[str, Any]) -> list[Any]:
    """Return the positional arguments of a call with ``dtype=…``, as scripts of older versions
    write it.

    An operator that takes the dtype first gets it there; for one that has the dtype of its operands
    it is dropped (from ``named``).
    """
    if not str(getattr(function, "__module__", "")).startswith("tilesmith."):
        return arguments
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return arguments
    if arguments and next(iter(parameters), None) == "dtype":
        return [named.pop("dtype"), *arguments]
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    if "dtype" not in parameters and not takes_any:
        del named["dtype"]
    return arguments


@handles_node(ast.Subscript)
def _subscript(evaluator: Evaluator, node: ast.Subscript) -> Any:
    value = evaluator.evaluate(node.value)
    index = evaluator.evaluate(node.slice)
    special = evaluator.subscripts.get(value.__class__)
    return value[index] if special is None else special(value, index)


@handles_node(ast.Slice)
def _slice(evaluator: Evaluator, node: ast.Slice) -> slice:
    parts = [
        None if part is None else evaluator.evaluate(part)
        for part in (node.lower, node.upper, node.step)
    ]
    return slice(*parts)
