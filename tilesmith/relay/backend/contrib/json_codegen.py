"""Writes partitioned functions as graphs in JSON, which `runtime.json_graph` runs."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Op
from tilesmith.relax.backend.contrib.library_graph import LibraryGraph
from tilesmith.relay.expr import Call, Constant, Tuple, Var
from tilesmith.relay.function import Function
from tilesmith.relay.walks import post_order
from tilesmith.runtime.json_graph import json_module
from tilesmith.runtime.module import Module
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import UnsupportedError

__all__ = ["constants_of", "graph_of", "register_json_codegen"]


class _Writer:
    """Writes the nodes of one function; ``constants`` holds those of all functions."""

    def __init__(self, symbol: str, constants: dict[str, Constant]) -> None:
        self.graph = LibraryGraph(symbol)
        self.constants = constants

    def write(self, function: Function) -> list[Any]:
        """Write a function; return its results."""
        for param in function.params:
            self.graph.input(param, param.name_hint)
        for node in post_order(function.body, lambda one: not isinstance(one, Function)):
            self._node(node)
        body = function.body
        return list(body.fields) if isinstance(body, Tuple) else [body]

    def _node(self, node: Any) -> None:
        if isinstance(node, Constant):
            name = f"{self.graph.symbol}_const_{len(self.constants)}"
            self.constants[name] = node
            self.graph.constant(node, name)
        elif isinstance(node, Call):
            self._call(node)
        elif not isinstance(node, (Op, Var, Tuple, Function)):
            raise UnsupportedError(
                f"'{self.graph.symbol}' holds a {type(node).__name__}, which graphs in JSON do not"
                " have"
            )

    def _call(self, call: Call) -> None:
        op: Any = call.op
        if isinstance(op, Op):
            attrs: Any = call.attrs or {}
            self.graph.kernel(call, op.name, call.args, {key: attrs[key] for key in attrs})
        else:
            inner = _Writer(self.graph.symbol, self.constants)
            results = inner.write(op)
            described = inner.graph.described(results)
            self.graph.kernel(call, str(op.attrs["Composite"]), call.args, {}, described)


def graph_of(function: Function, library: str) -> tuple[str, dict[str, Constant]]:
    """Return a function as JSON, and its constants by name."""
    constants: dict[str, Constant] = {}
    writer = _Writer(str(function.attrs["global_symbol"]), constants)
    return writer.graph.text(library, writer.write(function)), constants


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
