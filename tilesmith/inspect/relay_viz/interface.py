"""What parsers and plotters of graphs are: nodes, edges, and the classes to derive from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from tilesmith import relay
from tilesmith.ir import Op
from tilesmith.relay.adt import Match
from tilesmith.relay.walks import parts

__all__ = [
    "UNKNOWN_TYPE", "DefaultVizParser", "Plotter", "VizEdge", "VizGraph", "VizNode", "VizParser",
]  # fmt: skip

UNKNOWN_TYPE = "unknown"
"""The type of nodes that a parser does not know."""


class VizNode:
    """A node of a graph: a number as text, a kind, and what else is to be said of it."""

    def __init__(self, node_id: str, node_type: str, node_detail: str) -> None:
        self._id = node_id
        self._type = node_type
        self._detail = node_detail

    @property
    def identity(self) -> str:
        """What tells the node from others of its graph."""
        return self._id

    @property
    def type_name(self) -> str:
        """The kind of the node, such as the operator that it calls."""
        return self._type

    @property
    def detail(self) -> str:
        """What else is to be said: shapes, attributes; a line for each."""
        return self._detail

    def __repr__(self) -> str:
        detail = self._detail.replace("\n", ", ")
        return f"VizNode(identity: {self._id}, type_name: {self._type}, detail: {detail})"


class VizEdge:
    """An edge from a node to one that uses it."""

    def __init__(self, start_node: str, end_node: str) -> None:
        self._start = start_node
        self._end = end_node

    @property
    def start(self) -> str:
        """The identity of the node that is used."""
        return self._start

    @property
    def end(self) -> str:
        """The identity of the node that uses it."""
        return self._end

    def __repr__(self) -> str:
        return f"VizEdge(start: {self._start}, end: {self._end})"


class VizParser(ABC):
    """Says what an expression becomes in a graph."""

    @abstractmethod
    def get_node_edges(
        self, node: Any, relay_param: Mapping[str, Any], node_to_id: Mapping[Any, str]
    ) -> tuple[VizNode | None, list[VizEdge]]:
        """Return the node of an expression, None if it has none, and the edges that end at it.

        ``node_to_id`` has the identities of all expressions of the graph.
        """


class VizGraph(ABC):
    """Takes the nodes and edges of a function."""

    @abstractmethod
    def node(self, viz_node: VizNode) -> None:
        """Add a node."""

    @abstractmethod
    def edge(self, viz_edge: VizEdge) -> None:
        """Add an edge; its start is a node already."""


class Plotter(ABC):
    """Makes graphs and shows them."""

    @abstractmethod
    def create_graph(self, name: str) -> VizGraph:
        """Return the empty graph of a function."""

    @abstractmethod
    def render(self, filename: str | None) -> None:
        """Show the graphs, or write them to a file."""


class DefaultVizParser(VizParser):
    """Makes a node of each expression but operators, and an edge of each use."""

    def get_node_edges(
        self, node: Any, relay_param: Mapping[str, Any], node_to_id: Mapping[Any, str]
    ) -> tuple[VizNode | None, list[VizEdge]]:
        """Return the node of an expression, and the edges from its parts."""
        if isinstance(node, Op):
            return None, []
        own = node_to_id[node]
        if isinstance(node, relay.Var):
            kind = "Var(Param)" if node.name_hint in relay_param else "Var(Input)"
            return VizNode(own, kind, _variable(node)), []
        describe = _KINDS.get(type(node))
        kind, detail = (UNKNOWN_TYPE, str(node)[:200]) if describe is None else describe(node)
        edges = [VizEdge(node_to_id[part], own) for part in parts(node) if part in node_to_id]
        return VizNode(own, kind, detail), edges


def _type_text(kind: Any) -> str:
    shape = getattr(kind, "shape", None)
    if shape is None:
        return str(kind)
    return f"shape: ({', '.join([str(size) for size in shape])})\ndtype: {kind.dtype}"


def _variable(var: Any) -> str:
    annotation = var.type_annotation
    lines = [f"name_hint: {var.name_hint}"]
    return "\n".join([*lines, *([] if annotation is None else [_type_text(annotation)])])


def _call(call: Any) -> tuple[str, str]:
    if isinstance(call.op, Op):
        attrs = dict(call.attrs.items()) if call.attrs else {}
        lines = [f"{name}: {value}" for name, value in attrs.items()]
        return call.op.name, "\n".join(lines)
    if isinstance(call.op, relay.GlobalVar):
        return "Call", f"callee: @{call.op.name_hint}"
    return "Call", f"callee: {type(call.op).__name__}"


def _function(function: Any) -> tuple[str, str]:
    lines = [f"params: {', '.join([param.name_hint for param in function.params])}"]
    attrs = function.attrs.items() if function.attrs else ()
    return "Function", "\n".join([*lines, *[f"{name}: {value}" for name, value in attrs]])


def _constant(constant: Any) -> tuple[str, str]:
    data = constant.data.numpy()
    value = f"\nvalue: {data}" if data.ndim == 0 else ""
    return "Const", f"shape: {tuple(data.shape)}\ndtype: {constant.data.dtype}{value}"


_KINDS: dict[type, Callable[[Any], tuple[str, str]]] = {
    Match: lambda match: ("Match", f"clauses: {len(match.clauses)}"),
    relay.Call: _call,
    relay.Constant: _constant,
    relay.Constructor: lambda one: ("Constructor", f"name_hint: {one.name_hint}"),
    relay.Function: _function,
    relay.GlobalVar: lambda one: ("GlobalVar", f"name_hint: {one.name_hint}"),
    relay.If: lambda one: ("If", ""),
    relay.Let: lambda let: ("Let", f"name_hint: {let.var.name_hint}"),
    relay.RefCreate: lambda one: ("RefCreate", ""),
    relay.RefRead: lambda one: ("RefRead", ""),
    relay.RefWrite: lambda one: ("RefWrite", ""),
    relay.Tuple: lambda one: ("Tuple", f"fields: {len(one.fields)}"),
    relay.TupleGetItem: lambda one: ("TupleGetItem", f"index: {one.index}"),
}
