"""Writes graphs in DOT, the language of Graphviz, and draws them where Graphviz is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.inspect.relay_viz.interface import (
    DefaultVizParser,
    Plotter,
    VizEdge,
    VizGraph,
    VizNode,
)
from tilesmith.support.errors import ConfigError, ExecutionError
from tilesmith.support.files import write_atomically

__all__ = ["DotGraph", "DotPlotter", "DotVizParser"]

Attributes = Mapping[str, str]


class DotVizParser(DefaultVizParser):
    """The default parser under the name that belongs to this plotter."""


def _quoted(text: Any) -> str:
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\l")
    return f'"{escaped}"'


def _attributes(values: Attributes) -> str:
    written = [f"{name}={_quoted(value)}" for name, value in values.items()]
    return f" [{', '.join(written)}]" if written else ""


class DotGraph(VizGraph):
    """The graph of a function in DOT. ``get_node_attr`` gives attributes of single nodes, such as
    ``lambda node: {"color": "red"}``; the others hold for all.
    """

    def __init__(
        self,
        name: str,
        graph_attr: Attributes | None = None,
        node_attr: Attributes | None = None,
        edge_attr: Attributes | None = None,
        get_node_attr: Callable[[VizNode], Attributes] | None = None,
    ) -> None:
        self._name = name
        self._get_node_attr = get_node_attr or (lambda node: {})
        self._lines = [
            f"  {kind}{_attributes(values)};"
            for kind, values in (("graph", graph_attr), ("node", node_attr), ("edge", edge_attr))
            if values
        ]

    def node(self, viz_node: VizNode) -> None:
        """Add a node."""
        detail = f"\n{viz_node.detail}\n" if viz_node.detail else ""
        label = {"label": viz_node.type_name + detail}
        attributes = {"shape": "box", **label, **self._get_node_attr(viz_node)}
        self._lines.append(f"  {_quoted(viz_node.identity)}{_attributes(attributes)};")

    def edge(self, viz_edge: VizEdge) -> None:
        """Add an edge."""
        self._lines.append(f"  {_quoted(viz_edge.start)} -> {_quoted(viz_edge.end)};")

    @property
    def digraph(self) -> str:
        """The graph as text in DOT."""
        return "\n".join([f"digraph {_quoted(self._name)} {{", *self._lines, "}"]) + "\n"


class DotPlotter(Plotter):
    """Writes graphs in DOT, a file for each function, and draws them with Graphviz's ``dot``.

    ``render_kwargs``: "format" of the picture ("pdf"), "engine" instead of ``dot``.
    """

    def __init__(
        self,
        graph_attr: Attributes | None = None,
        node_attr: Attributes | None = None,
        edge_attr: Attributes | None = None,
        get_node_attr: Callable[[VizNode], Attributes] | None = None,
        render_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        options = dict(render_kwargs or {})
        self._format = str(options.pop("format", "pdf"))
        self._engine = str(options.pop("engine", "dot"))
        if options:
            raise ConfigError(
                f"DotPlotter: render_kwargs has no '{next(iter(options))}'",
                notes=("it has: format, engine",),
            )
        self._style = (graph_attr, node_attr, edge_attr, get_node_attr)
        self._graphs: dict[str, DotGraph] = {}

    def create_graph(self, name: str) -> DotGraph:
        """Return the empty graph of a function."""
        self._graphs[name] = DotGraph(name, *self._style)
        return self._graphs[name]

    def render(self, filename: str | None = None) -> None:
        """Write ``FILENAME_FUNCTION.dot`` for each function, and the picture beside it; without
        Graphviz a warning says that there is no picture.
        """
        program = shutil.which(self._engine)
        for name, graph in self._graphs.items():
            path = name if filename is None else f"{filename}_{name}"
            write_atomically(f"{path}.dot", graph.digraph)
            if program is not None:
                self._draw(program, path)
        if program is None:
            warnings.warn(
                f"the program '{self._engine}' of Graphviz is not installed: the graphs are "
                "written in DOT, without pictures",
                stacklevel=2,
            )

    def _draw(self, program: str, path: str) -> None:
        picture = os.path.abspath(f"{path}.{self._format}")
        done = subprocess.run(
            [program, f"-T{self._format}", "-o", picture, os.path.abspath(f"{path}.dot")],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ExecutionError(f"{self._engine} cannot draw {path}.dot", notes=(done.stderr,))
