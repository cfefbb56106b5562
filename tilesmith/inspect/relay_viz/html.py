"""Writes graphs as one page for browsers: it can be moved, zoomed and searched, and shows what is
to be said of a node beside it. The page needs nothing from elsewhere.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tilesmith.inspect.relay_viz.interface import Plotter, VizEdge, VizGraph, VizNode
from tilesmith.support.files import write_atomically

__all__ = ["HtmlGraph", "HtmlPlotter"]

_WIDTH, _HEIGHT = 170, 70
_TEMPLATE = Path(__file__).parent / "page.html"
_PLACE = "/*GRAPHS*/"


class HtmlGraph(VizGraph):
    """The graph of a function: each node one row below the lowest that it uses."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: dict[str, VizNode] = {}
        self._edges: list[VizEdge] = []
        self._row: dict[str, int] = {}

    def node(self, viz_node: VizNode) -> None:
        """Add a node."""
        self._nodes[viz_node.identity] = viz_node
        self._row.setdefault(viz_node.identity, 0)

    def edge(self, viz_edge: VizEdge) -> None:
        """Add an edge; those of a node follow it before others use the node."""
        self._edges.append(viz_edge)
        below = self._row[viz_edge.start] + 1
        self._row[viz_edge.end] = max(self._row.get(viz_edge.end, 0), below)

    def places(self) -> dict[str, tuple[int, int]]:
        """Return where the nodes are, by identity. In a row they are sorted by the mean place of
        what they use; variables and constants stand just above their first user.
        """
        rows = dict(self._row)
        used_by: dict[str, list[str]] = {}
        uses: dict[str, list[str]] = {}
        for edge in self._edges:
            used_by.setdefault(edge.start, []).append(edge.end)
            uses.setdefault(edge.end, []).append(edge.start)
        for name in rows:
            if name not in uses and name in used_by:
                rows[name] = min([rows[user] for user in used_by[name]]) - 1
        columns: dict[str, float] = {}
        by_row: dict[int, list[str]] = {}
        for name in self._nodes:
            by_row.setdefault(rows[name], []).append(name)
        for row in sorted(by_row):
            wanted = {
                name: _mean([columns.get(part, 0.0) for part in uses.get(name, ())])
                for name in by_row[row]
            }
            ordered = sorted(by_row[row], key=lambda name: wanted[name])
            start = -(len(ordered) - 1) / 2
            columns.update({name: start + place for place, name in enumerate(ordered)})
        return {name: (round(columns[name] * _WIDTH), rows[name] * _HEIGHT) for name in self._nodes}

    def as_json(self) -> dict[str, object]:
        """Return name, nodes with their places, and edges."""
        places = self.places()
        return {
            "name": self._name,
            "nodes": [
                {"id": name, "type": one.type_name, "detail": one.detail, "at": places[name]}
                for name, one in self._nodes.items()
            ],
            "edges": [[edge.start, edge.end] for edge in self._edges],
        }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


class HtmlPlotter(Plotter):
    """Writes the graphs of all functions as one page."""

    def __init__(self) -> None:
        self._graphs: dict[str, HtmlGraph] = {}

    def create_graph(self, name: str) -> HtmlGraph:
        """Return the empty graph of a function."""
        self._graphs[name] = HtmlGraph(name)
        return self._graphs[name]

    def page(self) -> str:
        """Return the page as text."""
        # "<" does not appear in the data, so nothing in it ends the script
        data = json.dumps([graph.as_json() for graph in self._graphs.values()])
        template = _TEMPLATE.read_text(encoding="utf-8")
        return template.replace(_PLACE, data.replace("<", "\\u003c"))

    def render(self, filename: str | None = None) -> None:
        """Write the page to a file (``.html`` may be left out), or to the standard output."""
        if filename is None:
            sys.stdout.write(self.page())
            return
        path = filename if filename.endswith(".html") else filename + ".html"
        write_atomically(path, self.page())
