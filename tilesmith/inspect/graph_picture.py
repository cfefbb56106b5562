"""Draws graphs of operators: in DOT, or as a page for browsers.

graph_picture(module, "dot")     # a digraph for each function of the graph
graph_picture(module, "html")    # one page, with search and details
"""

from __future__ import annotations

from typing import Any

from tilesmith.inspect.relay_viz.dot import DotPlotter
from tilesmith.inspect.relay_viz.html import HtmlPlotter
from tilesmith.inspect.relay_viz.interface import Plotter, VizEdge, VizGraph, VizNode
from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.ir.span import operators_at
from tilesmith.relax import Call, Constant, ExternFunc, Function, If, Tuple, TupleGetItem, Var
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.relations import describe
from tilesmith.support.errors import ConfigError

__all__ = ["FORMATS", "graph_picture"]

FORMATS = ("dot", "html")
_LONGEST = 120


def graph_picture(module: IRModule, form: str) -> str:
    """Return the graph functions of a module as text in one of ``FORMATS``."""
    if form not in FORMATS:
        raise ConfigError(f"there is no format '{form}'", notes=("formats: " + ", ".join(FORMATS),))
    if form == "dot":
        dot = DotPlotter()
        return "\n".join([graph.digraph for graph in _drawn(module, dot)])
    page = HtmlPlotter()
    _drawn(module, page)
    return page.page()


def _drawn(module: IRModule, plotter: Plotter) -> list[Any]:
    """Draw the functions of a module, ``main`` first; return their graphs."""
    functions = [(name.name_hint, one) for name, one in module.items() if isinstance(one, Function)]
    functions.sort(key=lambda one: (one[0] != "main", one[0]))
    if not functions:
        raise ConfigError(
            "the module has no graph of operators", notes=("tensor programs are shown as text",)
        )
    made = []
    for name, function in functions:
        graph = plotter.create_graph(name)
        _Picture(graph).function(function)
        made.append(graph)
    return made


class _Picture:
    """Draws one function: a node for each parameter, constant and bound value."""

    def __init__(self, graph: VizGraph) -> None:
        self.graph = graph
        self.nodes: dict[Any, str] = {}

    def function(self, function: Any) -> None:
        for param in function.params:
            self.add(param, f"input {param.name_hint}", _shape(param))
        self.sequence(function.body)
        self.use(self.add(None, "result", ""), [function.body.body])

    def sequence(self, sequence: Any) -> None:
        for block in sequence.blocks:
            for binding in block.bindings:
                self.binding(binding)

    def binding(self, binding: Any) -> None:
        value = binding.value
        if isinstance(value, If):
            for branch in (value.true_branch, value.false_branch):
                self.sequence(branch)
            ends = [value.true_branch.body, value.false_branch.body]
            used, title = [value.cond, *ends], "if"
        elif isinstance(value, Call):
            used = list(value.args)
            title = _title(value)
        else:
            used, title = [value], type(value).__name__
        detail = [binding.var.name_hint + ": " + _shape(binding.var), operators_at(value.span)]
        if isinstance(value, Call) and value.attrs is not None:
            detail += [_short(f"{name}={one}") for name, one in value.attrs.items()]
        node = self.add(binding.var, title, "\n".join([line for line in detail if line]))
        self.use(node, used)

    def add(self, key: Any, title: str, detail: str) -> str:
        identity = str(len(self.nodes))
        self.nodes[identity if key is None else key] = identity
        self.graph.node(VizNode(identity, title, detail))
        return identity

    def use(self, node: str, values: list[Any]) -> None:
        """Add the edges from what values consist of."""
        for value in values:
            if isinstance(value, Tuple):
                self.use(node, list(value.fields))
            elif isinstance(value, TupleGetItem):
                self.use(node, [value.tuple_value])
            elif isinstance(value, Constant):
                start = self.add(None, "constant", _shape(value))
                self.graph.edge(VizEdge(start, node))
            elif isinstance(value, Var) and value in self.nodes:
                self.graph.edge(VizEdge(self.nodes[value], node))
            elif isinstance(value, Call):
                self.use(node, list(value.args))


def _title(call: Call) -> str:
    """Return what a call calls: the kernel for those that call one by its name."""
    for callee in (call.op, *call.args[:1]):
        if isinstance(callee, GlobalVar):
            return callee.name_hint
        if isinstance(callee, ExternFunc):
            return str(callee.global_symbol)
        if not isinstance(callee, Op) or callee.name not in _CALLERS:
            break
    return call.op.name.removeprefix("relax.") if isinstance(call.op, Op) else "call"


_CALLERS = {"relax.call_tir", "relax.call_tir_inplace", "relax.call_dps_packed"}


def _shape(value: Any) -> str:
    info = known_struct_info(value)
    return describe(info)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
