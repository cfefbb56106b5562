"""Walks through a program and hands its nodes to a plotter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith import relay
from tilesmith.inspect.relay_viz.interface import Plotter, VizParser
from tilesmith.inspect.relay_viz.terminal import TermPlotter, TermVizParser
from tilesmith.ir import IRModule, Op
from tilesmith.relay.walks import functions_of, post_order
from tilesmith.support.errors import TypeMismatchError

__all__ = ["RelayVisualizer"]


class RelayVisualizer:
    """Shows a module, or a function, as one graph for each of its functions.

    ``relay_param`` are the weights: parameters that it names are shown as such, others as inputs.
    """

    def __init__(
        self,
        relay_mod: IRModule | relay.Function,
        relay_param: Mapping[str, Any] | None = None,
        plotter: Plotter | None = None,
        parser: VizParser | None = None,
    ) -> None:
        if isinstance(relay_mod, relay.Function):
            relay_mod = IRModule.from_expr(relay_mod)
        if not isinstance(relay_mod, IRModule) or not functions_of(relay_mod):
            raise TypeMismatchError(
                "RelayVisualizer shows modules with functions of Relay",
                notes=("other modules are shown by print(mod), or mod.show()",),
            )
        self._plotter = plotter if plotter is not None else TermPlotter()
        self._parser = parser if parser is not None else TermVizParser()
        self._param = dict(relay_param or {})
        functions = {name.name_hint: function for name, function in functions_of(relay_mod)}
        for name in sorted(functions, key=lambda one: (one != "main", one)):
            self._add(name, functions[name])

    def _add(self, name: str, function: relay.Function) -> None:
        """Give the nodes of a function to the plotter, parts before what is made of them."""
        graph = self._plotter.create_graph(name)
        nodes = [node for node in post_order(function) if not isinstance(node, Op)]
        used = {id(node) for node in nodes}
        nodes = [param for param in function.params if id(param) not in used] + nodes
        node_to_id = {node: str(number) for number, node in enumerate(nodes)}
        for node in nodes:
            shown, edges = self._parser.get_node_edges(node, self._param, node_to_id)
            if shown is not None:
                graph.node(shown)
            for edge in edges:
                graph.edge(edge)

    def render(self, filename: str | None = None) -> None:
        """Let the plotter show, or write, what it has got."""
        self._plotter.render(filename)
