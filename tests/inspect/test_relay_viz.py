"""Programs of Relay are shown as graphs: on the terminal, in DOT, as a page."""

import json
import re
import shutil
import warnings

import numpy as np
import pytest

from tilesmith import relay
from tilesmith.compat import tvm as alias
from tilesmith.inspect.relay_viz import (
    DotPlotter,
    DotVizParser,
    HtmlPlotter,
    Plotter,
    RelayVisualizer,
    VizGraph,
)
from tilesmith.inspect.relay_viz.dot import DotGraph
from tilesmith.inspect.relay_viz.interface import UNKNOWN_TYPE, DefaultVizParser, VizEdge, VizNode
from tilesmith.ir import IRModule
from tilesmith.relay.prelude import Prelude
from tilesmith.support.errors import ConfigError, TypeMismatchError


def program():
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    y = relay.nn.relu(relay.nn.dense(x, w))
    pair = relay.Tuple([y, relay.add(y, relay.const(1.0))])
    return relay.Function([x, w], relay.TupleGetItem(pair, 1))


TREE = """\
@main
└─ Function  params: x, w
   └─ TupleGetItem  index: 1
      └─ Tuple  fields: 2
         ├─ #0 nn.relu
         │  └─ nn.dense  units: None, out_dtype: DTYPE
         │     ├─ Var(Input)  name_hint: x, shape: (2, 3), dtype: float32
         │     └─ Var(Param)  name_hint: w, shape: (4, 3), dtype: float32
         └─ add
            ├─ #0, see above
            └─ Const  shape: (), dtype: float32, value: 1.0
"""


def test_trees_on_the_terminal(capsys, tmp_path):
    weights = {"w": np.zeros((4, 3), "float32")}
    RelayVisualizer(program(), weights).render()
    shown = capsys.readouterr().out
    assert re.sub(r"out_dtype: *\n", "out_dtype: DTYPE\n", shown) == TREE
    RelayVisualizer(IRModule.from_expr(program()), weights).render(str(tmp_path / "t.txt"))
    assert (tmp_path / "t.txt").read_text() == shown


def test_deep_programs(capsys):
    value = relay.var("x", shape=(2,))
    start = value
    for _ in range(2000):
        value = relay.nn.relu(value)
    function = relay.Function([start], value)
    RelayVisualizer(function).render()
    assert capsys.readouterr().out.count("nn.relu") == 2000
    page = HtmlPlotter()
    RelayVisualizer(function, plotter=page)
    assert page.page().count('"nn.relu"') == 2000


def test_every_kind_of_expression():
    """No expression of the prelude, with its matches and functions, is unknown."""

    class Kinds(VizGraph):
        found: set[str] = set()

        def node(self, viz_node):
            self.found.add(viz_node.type_name)

        def edge(self, viz_edge):
            assert viz_edge.start != viz_edge.end

    class Collecting(Plotter):
        def create_graph(self, name):
            return Kinds()

        def render(self, filename):
            pass

    module = IRModule()
    Prelude(module)
    x, ref = relay.var("x", shape=()), relay.var("r")
    inner = relay.If(relay.const(True), relay.RefRead(ref), relay.const(0.0))
    body = relay.Let(
        ref, relay.RefCreate(x), relay.Let(relay.var("u"), relay.RefWrite(ref, x), inner)
    )
    module["main"] = relay.Function([x], body)
    RelayVisualizer(module, plotter=Collecting()).render()
    assert UNKNOWN_TYPE not in Kinds.found
    assert Kinds.found >= {
        "Match", "Function", "Call", "GlobalVar", "Constructor", "If", "Let", "RefRead",
        "RefCreate", "RefWrite", "Const", "Var(Input)",
    }  # fmt: skip


def test_dot(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    plotter = DotPlotter(
        graph_attr={"rankdir": "LR"},
        get_node_attr=lambda node: {"color": "red"} if node.type_name == "add" else {},
    )
    viz = RelayVisualizer(program(), plotter=plotter, parser=DotVizParser())
    with pytest.warns(UserWarning, match="Graphviz is not installed"):
        viz.render(str(tmp_path / "g"))
    text = (tmp_path / "g_main.dot").read_text()
    assert text.startswith('digraph "main" {\n  graph [rankdir="LR"];\n')
    nodes = dict(re.findall(r'^  "(\d+)" \[shape="box", label="([^"\\]*)', text, re.MULTILINE))
    edges = set(re.findall(r'^  "(\d+)" -> "(\d+)";$', text, re.MULTILINE))
    named = {(nodes[a], nodes[b]) for a, b in edges}
    assert {("Var(Input)", "nn.dense"), ("nn.dense", "nn.relu"), ("nn.relu", "add")} <= named
    assert re.findall(r'label="([^"\\]*)[^"]*", color="red"', text) == ["add"]


def test_dot_draws_with_graphviz(tmp_path, monkeypatch):
    program_of_test = tmp_path / "dot"
    program_of_test.write_text('#!/bin/sh\ncp "$4" "$3"\n')
    program_of_test.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plotter = DotPlotter(render_kwargs={"format": "svg"})
        RelayVisualizer(program(), plotter=plotter).render(str(tmp_path / "g"))
    assert (tmp_path / "g_main.svg").read_text() == (tmp_path / "g_main.dot").read_text()


def test_texts_are_quoted_in_dot():
    graph = DotGraph('a"b')
    graph.node(VizNode("0", 'x"y', "back\\slash\nline"))
    assert 'digraph "a\\"b"' in graph.digraph
    assert 'label="x\\"y\\lback\\\\slash\\lline\\l"' in graph.digraph


def test_the_page_has_all_nodes(tmp_path):
    plotter = HtmlPlotter()
    RelayVisualizer(program(), plotter=plotter).render(str(tmp_path / "page"))
    text = (tmp_path / "page.html").read_text()
    (graph,) = json.loads(re.search(r"const graphs = (.*);\n", text)[1])
    assert [one["type"] for one in graph["nodes"]].count("nn.dense") == 1
    places = {one["id"]: one["at"] for one in graph["nodes"]}
    assert len({tuple(one) for one in places.values()}) == len(places)  # none covers another
    assert all(places[start][1] < places[end][1] for start, end in graph["edges"])


def test_data_does_not_end_the_script_of_the_page():
    plotter = HtmlPlotter()
    plotter.create_graph("main").node(VizNode("0", "</script><b>", ""))
    assert plotter.page().count("</script>") == 1


def test_wrong_arguments():
    with pytest.raises(TypeMismatchError, match="functions of Relay"):
        RelayVisualizer(IRModule())
    with pytest.raises(ConfigError, match="view"):
        DotPlotter(render_kwargs={"view": True})
    assert repr(VizEdge("0", "1")) == "VizEdge(start: 0, end: 1)"
    node = relay.var("v")
    shown, edges = DefaultVizParser().get_node_edges(node, {}, {node: "7"})
    assert (shown.identity, shown.detail, edges) == ("7", "name_hint: v", [])


def test_users_names():
    alias.install()
    try:
        from tvm.contrib import relay_viz
        from tvm.contrib.relay_viz.terminal import TermPlotter

        assert relay_viz.RelayVisualizer is RelayVisualizer
        assert isinstance(TermPlotter(), relay_viz.Plotter)
    finally:
        alias.uninstall()
