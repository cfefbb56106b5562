"""Shows graphs on the terminal, as trees:

    @main
    └─ Function  params: x, w
       └─ nn.relu
          └─ nn.dense  units: None
             ├─ Var(Input)  name_hint: x, shape: (2, 3), dtype: float32
             └─ Var(Param)  name_hint: w, shape: (4, 3), dtype: float32

What several nodes use is written out once, with a number; elsewhere the number stands for it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tilesmith.inspect.relay_viz.interface import (
    DefaultVizParser,
    Plotter,
    VizEdge,
    VizGraph,
    VizNode,
    VizParser,
)
from tilesmith.support.files import write_atomically

__all__ = ["TermGraph", "TermNode", "TermPlotter", "TermVizParser"]


class TermVizParser(VizParser):
    """Makes the nodes of the default parser, but for the functions themselves around a graph."""

    def __init__(self) -> None:
        self._default = DefaultVizParser()

    def get_node_edges(
        self, node: Any, relay_param: Mapping[str, Any], node_to_id: Mapping[Any, str]
    ) -> tuple[VizNode | None, list[VizEdge]]:
        """Return the node of an expression, and the edges from its parts."""
        return self._default.get_node_edges(node, relay_param, node_to_id)


class TermNode:
    """A line of a tree."""

    def __init__(self, viz_node: VizNode) -> None:
        self.type = viz_node.type_name
        self.other_info = viz_node.detail.replace("\n", ", ")

    def __str__(self) -> str:
        return f"{self.type}  {self.other_info}".rstrip()


class TermGraph(VizGraph):
    """The trees of a function."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: dict[str, TermNode] = {}
        self._parts: dict[str, list[str]] = {}
        self._users: dict[str, int] = {}

    def node(self, viz_node: VizNode) -> None:
        """Add a node."""
        self._nodes[viz_node.identity] = TermNode(viz_node)
        self._parts.setdefault(viz_node.identity, [])

    def edge(self, viz_edge: VizEdge) -> None:
        """Add an edge."""
        self._parts.setdefault(viz_edge.end, []).append(viz_edge.start)
        self._users[viz_edge.start] = self._users.get(viz_edge.start, 0) + 1

    def render(self) -> str:
        """Return the text of the trees; it may be as deep as the program."""
        roots = [one for one in self._nodes if one not in self._users]
        lines = [f"@{self._name}"]
        numbers: dict[str, int] = {}
        # (node, what stands before it, whether it is the last of its neighbours)
        stack = [(one, "", place == 0) for place, one in enumerate(reversed(roots))]
        while stack:
            node, indent, is_last = stack.pop()
            corner = "└─ " if is_last else "├─ "
            if node in numbers:
                lines.append(f"{indent}{corner}#{numbers[node]}, see above")
                continue
            mark = ""
            if self._users.get(node, 0) > 1:
                numbers[node] = len(numbers)
                mark = f"#{numbers[node]} "
            lines.append(f"{indent}{corner}{mark}{self._nodes[node]}")
            below = indent + ("   " if is_last else "│  ")
            parts = [part for part in reversed(self._parts[node]) if part in self._nodes]
            stack += [(part, below, place == 0) for place, part in enumerate(parts)]
        return "\n".join(lines)


class TermPlotter(Plotter):
    """Prints graphs, or writes them as text."""

    def __init__(self) -> None:
        self._graphs: dict[str, TermGraph] = {}

    def create_graph(self, name: str) -> TermGraph:
        """Return the empty graph of a function."""
        self._graphs[name] = TermGraph(name)
        return self._graphs[name]

    def render(self, filename: str | None) -> None:
        """Print the graphs, or write them to a file."""
        text = "\n\n".join([graph.render() for graph in self._graphs.values()]) + "\n"
        if filename is None:
            sys.stdout.write(text)
        else:
            write_atomically(filename, text)
