"""Converts values in the instructions of a trace to Python text and to JSON.

Random variables have names in both, and so have the sizes of the scheduled function. Everything
else is a plain value, a list, a dictionary, or a node: an expression over random variables, an
index map, an annotation.
"""

from __future__ import annotations

import ast
import json
import keyword
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import (
    Add,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Node,
    PrimExpr,
    StringImm,
    Sub,
    Var,
    const,
)  # fmt: skip
from tilesmith.ir.operators import maximum, minimum
from tilesmith.ir.queries import variables
from tilesmith.ir.serialization import load_json, save_json
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.functor import substitute
from tilesmith.tir.index_map import IndexMap

__all__ = [
    "Text", "from_json", "python_text", "random_variables", "substituted", "to_json",
]  # fmt: skip


def random_variables(value: Any) -> list[Any]:
    """Return the possible random variables in a value: the leaves of its lists, and the variables
    of expressions.
    """
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in random_variables(item)]
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in random_variables(item)]
    if isinstance(value, PrimExpr):
        return [value, *variables(value)]
    if isinstance(value, IndexMap):
        return value.symbols()
    return [value]


def substituted(value: Any, table: dict[int, Any]) -> Any:
    """Return a value with its random variables replaced according to ``table``, by their ids."""
    if isinstance(value, (list, tuple)):
        return [substituted(item, table) for item in value]
    if isinstance(value, Mapping):
        return {key: substituted(item, table) for key, item in value.items()}
    if id(value) in table:
        return table[id(value)]
    if isinstance(value, PrimExpr) and not isinstance(value, (IntImm, StringImm)):
        mapping = {v: table[id(v)] for v in variables(value) if id(v) in table}
        return substitute(value, mapping) if mapping else value
    if isinstance(value, IndexMap):
        return value.with_symbols(
            {v: _as_expression(table[id(v)], v) for v in value.symbols() if id(v) in table}
        )
    return value


def _as_expression(value: Any, variable: Var) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else const(value, variable.dtype)


# --- Python ---------------------------------------------------------------------------------------


class Text(str):
    """Python source that stands for a value."""


def python_text(value: Any, names: dict[int, str], as_function: bool = False) -> str:
    """Return Python source for a value with the given names of random variables.

    It may use ``T`` (``tilesmith.script.tir``), public names of ``tir``, and ``ir`` for nodes that
    have no text. ``as_function``: an index map
    may be given as a function.
    """
    if isinstance(value, Text):
        return str(value)
    if id(value) in names:
        return names[id(value)]
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join([python_text(item, names) for item in value]) + "]"
    if isinstance(value, Mapping):
        items = [
            f"{python_text(key, names)}: {python_text(item, names)}" for key, item in value.items()
        ]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, StringImm):
        return json.dumps(value.value, ensure_ascii=False)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, IntImm):
        return repr(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, IndexMap):
        return _map_text(value.with_symbols(_named(value.symbols(), names)), as_function)
    if isinstance(value, PrimExpr):
        named = _named(variables(value), names)
        return str(substitute(value, named) if named else value).splitlines()[-1]
    if isinstance(value, Node):
        return f"ir.load_json({save_json(value)!r})"
    return repr(value)


def _named(found: list[Var], names: dict[int, str]) -> dict[Var, PrimExpr]:
    """Return variables with the names of a trace, for those that have one there."""
    return {v: Var(names[id(v)], v.dtype) for v in found if id(v) in names}


_IMPORTED = ("T", "IndexMap", "ir", "sch")


def _is_free(name: str, taken: set[str]) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name not in taken


def _map_text(mapping: IndexMap, as_function: bool = False) -> str:
    names = [variable.name for variable in mapping.initial_indices]
    taken = {*_IMPORTED, *[v.name for index in mapping.final_indices for v in variables(index)]}
    taken.difference_update(names)
    if len(set(names)) < len(names) or not all(_is_free(name, taken) for name in names):
        names = [f"i{number}" for number in range(len(names))]
    fresh = [Var(name, v.dtype) for name, v in zip(names, mapping.initial_indices)]
    final = substitute(mapping.final_indices, dict(zip(mapping.initial_indices, fresh)))
    text = IndexMap(fresh, final, None, mapping.axis_separators).describe()
    if mapping.axis_separators:
        return text
    dtypes = {str(variable.dtype) for variable in fresh}
    if as_function and mapping.inverse_index_map is None and dtypes <= {"int32"}:
        return text
    options = f", index_dtype={dtypes.pop() if dtypes else 'int32'!r}"
    if mapping.inverse_index_map is not None:
        options = f", inverse_index_map={_map_text(mapping.inverse_index_map)}" + options
    return f"IndexMap.from_func({text}{options})"


# --- JSON -----------------------------------------------------------------------------------------


def to_json(value: Any, names: dict[int, str], is_input: bool = False) -> Any:
    """Convert a value: plain ones stay; ``{"map": pairs}``, ``{"node": …}``; an expression over
    random variables as ``{"expr": …, "rvs": names}``.

    In the inputs of an instruction a random variable is its bare name, sums and products of some
    are Python, and a text is quoted inside of the string, as tuning logs have it; elsewhere texts
    are bare and variables ``{"rv": name}``.
    """
    if id(value) in names:
        return names[id(value)] if is_input else {"rv": names[id(value)]}
    if isinstance(value, (list, tuple)):
        return [to_json(item, names, is_input) for item in value]
    if isinstance(value, Mapping):
        return {"map": [[key, to_json(item, names, is_input)] for key, item in value.items()]}
    if isinstance(value, (IntImm, StringImm)):
        value = value.value
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if is_input else str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, PrimExpr) and variables(value):
        saved = _expression_to_json(value, names)
        return python_text(value, names) if is_input and _has_text(value) else saved
    if isinstance(value, IndexMap):
        named = _named(value.symbols(), names)
        if named:
            rvs = [names[id(variable)] for variable in named]
            return {"node": save_json(value.with_symbols(named)), "rvs": rvs}
    return {"node": save_json(value)}


def _has_text(value: PrimExpr) -> bool:
    """Return whether ``_from_text`` reads an expression back from its text, with its dtype."""
    if value.dtype != "int32":
        return False
    if isinstance(value, _PRINTED):
        return _has_text(value.a) and _has_text(value.b)
    return isinstance(value, Var) or (isinstance(value, IntImm) and value.value >= 0)


def _expression_to_json(value: PrimExpr, names: dict[int, str]) -> dict[str, Any]:
    named = {v: Var(names[id(v)], v.dtype) for v in variables(value)}
    return {
        "expr": save_json(substitute(value, named)),
        "rvs": [variable.name for variable in named.values()],
    }


def from_json(value: Any, table: dict[str, Any], is_input: bool = False) -> Any:
    """Restore what ``to_json`` saved, with the random variables of ``table`` by their names."""
    if isinstance(value, list):
        return [from_json(item, table, is_input) for item in value]
    if isinstance(value, str) and is_input:
        return json.loads(value) if value.startswith('"') else _from_text(value, table)
    if not isinstance(value, dict):
        return value
    if "rv" in value:
        return _known(value["rv"], table)
    if "map" in value:
        return {key: from_json(item, table, is_input) for key, item in value["map"]}
    if "expr" in value:
        expr = load_json(value["expr"])
        known = {name: _known(name, table) for name in value["rvs"]}
        return substitute(expr, {v: known[v.name] for v in variables(expr) if v.name in known})
    node = load_json(value["node"])
    if "rvs" not in value:
        return node
    given = {name: _known(name, table) for name in value["rvs"]}
    drawn = [v for v in node.symbols() if v.name in given]
    return node.with_symbols({v: _as_expression(given[v.name], v) for v in drawn})


_PRINTED = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)
_FUNCTIONS = {"T.min": minimum, "T.max": maximum}
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _from_text(text: str, table: dict[str, Any]) -> Any:
    """Return the value of an expression over random variables that is kept as text."""

    def evaluate(node: ast.AST) -> Any:
        if isinstance(node, ast.Name):
            return _known(node.id, table)
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](evaluate(node.left), evaluate(node.right))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _FUNCTIONS:
            function = _FUNCTIONS[ast.unparse(node.func)]
            if len(node.args) == 2 and not node.keywords:
                return function(*[evaluate(part) for part in node.args])
        raise ScheduleError(f"'{text}' is neither a random variable nor an expression over some")

    try:
        return evaluate(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise ScheduleError(f"'{text}' is not an expression") from None


def _known(name: Any, table: dict[str, Any]) -> Any:
    if not isinstance(name, str) or name not in table:
        raise ScheduleError(
            f"the trace uses {name} before its definition, "
            "and the function has no size of this name"
        )
    return table[name]
