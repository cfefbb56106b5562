"""Writes partitioned functions as graphs in JSON, which `runtime.json_graph` runs."""

from __future__ import annotations

import json
from typing import Any

from tilesmith.ir import IntImm, Op
from tilesmith.ir.module import plain_value
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.struct_info import ShapeExpr, TensorStructInfo
from tilesmith.relay.expr import Call, Constant, Tuple, Var
from tilesmith.relay.function import Function
from tilesmith.relay.walks import post_order
from tilesmith.runtime.json_graph import json_module
from tilesmith.runtime.module import Module
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import UnsupportedError

__all__ = ["constants_of", "graph_of", "register_json_codegen"]


def _description(expr: Any, symbol: str) -> dict[str, Any]:
    info = known_struct_info(expr)
    sizes: list[Any] = [None]
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        sizes = [getattr(size, "value", None) for size in info.shape.values]
    if not isinstance(info, TensorStructInfo) or None in sizes:
        raise UnsupportedError(
            f"'{symbol}': a value is {info}",
            notes=("a graph in JSON has tensors of known sizes",),
        )
    return {"shape": [sizes], "dtype": [str(info.dtype)]}


def _plain(value: Any) -> Any:
    value = plain_value(value)
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


class _Writer:
    """Writes the nodes of one function; ``names`` counts the constants of all."""

    def __init__(self, symbol: str, constants: dict[str, Constant]) -> None:
        self.symbol = symbol
        self.constants = constants
        self.nodes: list[dict[str, Any]] = []
        self.places: dict[int, int] = {}

    def graph(self, function: Function) -> dict[str, Any]:
        """Return the graph of a function."""
        for param in function.params:
            self._add(param, {"op": "input", "name": param.name_hint})
        order = post_order(function.body, lambda one: not isinstance(one, Function))
        for node in order:
            self._node(node)
        body = function.body
        results = body.fields if isinstance(body, Tuple) else (body,)
        arguments = [place for place, one in enumerate(self.nodes) if one["op"] != "kernel"]
        return {
            "nodes": self.nodes,
            "arg_nodes": arguments,
            "heads": [[self.places[id(one)], 0, 0] for one in results],
            "node_row_ptr": list(range(len(self.nodes) + 1)),
        }

    def _add(self, node: Any, described: dict[str, Any]) -> None:
        described.setdefault("attrs", {}).update(_description(node, self.symbol))
        self.places[id(node)] = len(self.nodes)
        self.nodes.append(described)

    def _node(self, node: Any) -> None:
        if isinstance(node, Constant):
            name = f"{self.symbol}_const_{len(self.constants)}"
            self.constants[name] = node
            self._add(node, {"op": "const", "name": name})
        elif isinstance(node, Call):
            self._call(node)
        elif not isinstance(node, (Op, Var, Tuple, Function)):
            raise UnsupportedError(
                f"'{self.symbol}' holds a {type(node).__name__}, which graphs in JSON do not have"
            )

    def _call(self, call: Call) -> None:
        described: dict[str, Any] = {
            "op": "kernel",
            "inputs": [[self.places[id(arg)], 0, 0] for arg in call.args],
            "attrs": {"num_inputs": len(call.args), "num_outputs": 1},
        }
        op: Any = call.op
        if isinstance(op, Op):
            described["name"] = op.name
            attrs: Any = call.attrs or {}
            described["attrs"].update({key: _plain(attrs[key]) for key in attrs})
        else:
            described["name"] = str(op.attrs["Composite"])
            described["graph"] = _Writer(self.symbol, self.constants).graph(op)
        self._add(call, described)


def graph_of(function: Function, library: str) -> tuple[str, dict[str, Constant]]:
    """Return a function as JSON, and its constants by name."""
    symbol = str(function.attrs["global_symbol"])
    constants: dict[str, Constant] = {}
    graph = _Writer(symbol, constants).graph(function)
    return json.dumps({"symbol": symbol, "library": library, **graph}, indent=1), constants


def constants_of(function: Function, library: str) -> dict[str, Any]:
    """Return the constants of a function, as tensors, by the names that its graph gives them."""
    return {name: one.data for name, one in graph_of(function, library)[1].items()}


def register_json_codegen(library: str) -> None:
    """Register ``relay.ext.LIBRARY``, and what keeps the constants beside its graphs."""

    def generate(function: Function) -> Module:
        return json_module(graph_of(function, library)[0])

    def update(function: Function, symbol: str) -> dict[str, Any]:
        return constants_of(function, library)

    register_func(f"relay.ext.{library}", generate, override=True)
    register_func(f"relay.ext.{library}.constant_updater", update, override=True)
