"""Evaluates containers, formatted text, lambdas and comprehensions."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from tilesmith.script.evaluator.evaluator import Evaluator, handles_node

_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


@handles_node(ast.Tuple)
def _tuple(evaluator: Evaluator, node: ast.Tuple) -> tuple[Any, ...]:
    return tuple(evaluator.items(node.elts))


@handles_node(ast.List)
def _list(evaluator: Evaluator, node: ast.List) -> list[Any]:
    return evaluator.items(node.elts)


@handles_node(ast.Set)
def _set(evaluator: Evaluator, node: ast.Set) -> set[Any]:
    return set(evaluator.items(node.elts))


@handles_node(ast.Dict)
def _dict(evaluator: Evaluator, node: ast.Dict) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values):
        if key is None:
            result.update(evaluator.evaluate(value))
        else:
            result[evaluator.evaluate(key)] = evaluator.evaluate(value)
    return result


@handles_node(ast.JoinedStr)
def _joined_text(evaluator: Evaluator, node: ast.JoinedStr) -> str:
    pieces = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = evaluator.evaluate(part.value)
            if part.conversion != -1:
                value = _CONVERSIONS[part.conversion](value)
            spec = evaluator.evaluate(part.format_spec) if part.format_spec is not None else ""
            pieces.append(format(value, spec))
        else:
            pieces.append(evaluator.evaluate(part))
    return "".join(pieces)


# The names of lambdas and comprehensions live in a scope of their own.


@handles_node(ast.Lambda)
def _lambda(evaluator: Evaluator, node: ast.Lambda) -> Callable[..., Any]:
    parameters = node.args
    plain = not (parameters.kwonlyargs or parameters.kwarg or parameters.defaults)
    if not plain:
        raise evaluator.parser.error(node, "a lambda in a script takes plain parameters only")
    names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    captured = evaluator.parser.snapshot()

    def function(*values: Any) -> Any:
        known = dict(zip(names, values))
        if parameters.vararg is not None:
            known[parameters.vararg.arg] = values[len(names) :]
        elif len(values) != len(names):
            raise TypeError(f"the lambda takes {len(names)} arguments, got {len(values)}")
        with evaluator.parser.in_scopes(captured), evaluator.parser.scope(known):
            return evaluator.evaluate(node.body)

    # Callers ask how many parameters there are.
    if parameters.vararg is None:
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
        )
    return function


def _each(evaluator: Evaluator, generators: list[ast.comprehension]) -> Iterator[None]:
    first, later = generators[0], generators[1:]
    for item in evaluator.evaluate(first.iter):
        evaluator.parser.bind_target(first.target, item)
        if all(bool(evaluator.evaluate(condition)) for condition in first.ifs):
            if later:
                yield from _each(evaluator, later)
            else:
                yield


@handles_node(ast.ListComp, ast.GeneratorExp)
def _list_comprehension(
    evaluator: Evaluator, node: ast.ListComp | ast.GeneratorExp | ast.SetComp
) -> list[Any]:
    with evaluator.parser.scope({}):
        return [evaluator.evaluate(node.elt) for _ in _each(evaluator, node.generators)]


@handles_node(ast.SetComp)
def _set_comprehension(evaluator: Evaluator, node: ast.SetComp) -> set[Any]:
    return set(_list_comprehension(evaluator, node))


@handles_node(ast.DictComp)
def _dict_comprehension(evaluator: Evaluator, node: ast.DictComp) -> dict[Any, Any]:
    with evaluator.parser.scope({}):
        return {
            evaluator.evaluate(node.key): evaluator.evaluate(node.value)
            for _ in _each(evaluator, node.generators)
        }
