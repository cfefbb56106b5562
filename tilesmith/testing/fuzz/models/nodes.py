"""Mutations of nodes: their inputs and outputs, operators, order, and the graph around them."""

from __future__ import annotations

import functools
from typing import Any

from onnx import ModelProto, ValueInfoProto, defs, helper

from tilesmith.testing.fuzz.models.pick import (
    NotApplicable,
    Pick,
    graphs,
    mutation,
    node_lists,
    nodes,
)

__all__ = ["all_names", "operator_names"]

_ODD_NAMES = ("", "nowhere", "a b", "x.y/z:0", "None", "self", "é", "0", "x" * 300, "\n", "main")


def all_names(model: ModelProto) -> list[str]:
    """Return the names of all values of the model."""
    found = [name for node in nodes(model) for name in (*node.input, *node.output) if name]
    for graph in graphs(model):
        found += [item.name for item in (*graph.input, *graph.initializer, *graph.output)]
    return found


@functools.cache
def operator_names() -> list[str]:
    """Return the names of ONNX's operators."""
    return sorted({schema.name for schema in defs.get_all_schemas() if schema.domain == ""})


def _has_inputs(node: Any) -> bool:
    return len(node.input) > 0


def _position(pick: Pick, items: Any) -> int:
    return pick.one(range(len(items)))


@mutation("node")
def drop_input(pick: Pick, model: ModelProto) -> None:
    """Take away an input of a node."""
    node = pick.node(model, _has_inputs)
    del node.input[_position(pick, node.input)]


@mutation("node")
def blank_input(pick: Pick, model: ModelProto) -> None:
    """Leave an input of a node out, as optional inputs are."""
    node = pick.node(model, _has_inputs)
    node.input[_position(pick, node.input)] = ""


@mutation("node")
def repeat_input(pick: Pick, model: ModelProto) -> None:
    """Give an input once more, at the end."""
    node = pick.node(model, _has_inputs)
    node.input.append(pick.one(node.input))


@mutation("node")
def swap_inputs(pick: Pick, model: ModelProto) -> None:
    """Exchange two inputs of a node."""
    node = pick.node(model, lambda node: len(node.input) > 1)
    a, b = pick.sample(range(len(node.input)), 2)
    node.input[a], node.input[b] = node.input[b], node.input[a]


@mutation("node")
def other_input(pick: Pick, model: ModelProto) -> None:
    """Let a node read another value of the model; this can make a circle."""
    node = pick.node(model, _has_inputs)
    node.input[_position(pick, node.input)] = pick.one(all_names(model))


@mutation("node")
def unknown_input(pick: Pick, model: ModelProto) -> None:
    """Let a node read a value that is not there."""
    node = pick.node(model, _has_inputs)
    node.input[_position(pick, node.input)] = pick.one(_ODD_NAMES)


@mutation("node")
def drop_output(pick: Pick, model: ModelProto) -> None:
    """Take away or blank an output of a node."""
    node = pick.node(model, lambda node: len(node.output) > 0)
    place = _position(pick, node.output)
    if pick.random() < 0.5:
        del node.output[place]
    else:
        node.output[place] = ""


@mutation("node")
def more_outputs(pick: Pick, model: ModelProto) -> None:
    """Ask a node for outputs that it does not have, or for one twice."""
    node = pick.node(model)
    names = [f"more_{index}" for index in range(pick.randint(1, 3))]
    node.output.extend(pick.one([names, list(node.output)]))


@mutation("node")
def rename_output(pick: Pick, model: ModelProto) -> None:
    """Rename an output of a node, also to a name that is taken."""
    node = pick.node(model, lambda node: len(node.output) > 0)
    node.output[_position(pick, node.output)] = pick.one([*_ODD_NAMES, *all_names(model)])


@mutation("node")
def drop_node(pick: Pick, model: ModelProto) -> None:
    """Take a node away."""
    listed = pick.one([found for found in node_lists(model) if len(found)])
    del listed[_position(pick, listed)]


@mutation("node")
def repeat_node(pick: Pick, model: ModelProto) -> None:
    """Write a node twice."""
    listed = pick.one([found for found in node_lists(model) if len(found)])
    listed.add().CopyFrom(pick.one(listed))


@mutation("node")
def swap_nodes(pick: Pick, model: ModelProto) -> None:
    """Exchange two nodes, so that one reads what a later one computes."""
    listed = pick.one([found for found in node_lists(model) if len(found) > 1])
    order = list(range(len(listed)))
    pick.shuffle(order)
    copies = [type(node).FromString(node.SerializeToString()) for node in listed]
    for place, source in enumerate(order):
        listed[place].CopyFrom(copies[source])


@mutation("node")
def other_operator(pick: Pick, model: ModelProto) -> None:
    """Replace the operator of a node by another one of ONNX."""
    pick.node(model).op_type = pick.one([*operator_names(), "", "Nonsense", "relu"])


@mutation("node")
def other_domain(pick: Pick, model: ModelProto) -> None:
    """Replace the domain of a node."""
    node = pick.node(model)
    node.domain = pick.one(["com.microsoft", "ai.onnx", "ai.onnx.ml", "own", "nowhere", ""])


@mutation("node")
def other_opset(pick: Pick, model: ModelProto) -> None:
    """Change the version of an opset, drop it, or give it twice."""
    imports = model.opset_import
    if not imports:
        raise NotApplicable
    what = pick.random()
    if what < 0.15:
        del imports[_position(pick, imports)]
    elif what < 0.3:
        imports.add().CopyFrom(helper.make_opsetid("", pick.randint(1, 26)))
    else:
        chosen = pick.integer() if pick.random() < 0.3 else pick.randint(1, 25)
        pick.one(imports).version = chosen


@mutation("node")
def other_ir_version(pick: Pick, model: ModelProto) -> None:
    """Change the version of the file format."""
    model.ir_version = pick.one([0, 1, 3, 4, 10, 13, 99, 2**62])


@mutation("node")
def rename_node(pick: Pick, model: ModelProto) -> None:
    """Give a node an odd name, or that of another one."""
    pick.node(model).name = pick.one([*_ODD_NAMES, *[node.name for node in nodes(model)]])


@mutation("node")
def other_graph_output(pick: Pick, model: ModelProto) -> None:
    """Drop, repeat, rename or add an output of a graph, or clear its type."""
    graph = pick.one(graphs(model))
    what = pick.randrange(4)
    if what == 0 or not graph.output:
        graph.output.append(ValueInfoProto(name=pick.one(all_names(model))))
    elif what == 1:
        del graph.output[_position(pick, graph.output)]
    elif what == 2:
        graph.output.add().CopyFrom(pick.one(graph.output))
    else:
        pick.one(graph.output).name = pick.one([*_ODD_NAMES, *all_names(model)])


@mutation("node")
def other_graph_input(pick: Pick, model: ModelProto) -> None:
    """Drop, repeat, rename or add an input of a graph."""
    graph = pick.one(graphs(model))
    what = pick.randrange(4)
    if what == 0 or not graph.input:
        graph.input.append(ValueInfoProto(name=pick.one([*_ODD_NAMES, *all_names(model)])))
    elif what == 1:
        del graph.input[_position(pick, graph.input)]
    elif what == 2:
        graph.input.add().CopyFrom(pick.one(graph.input))
    else:
        pick.one(graph.input).name = pick.one([*_ODD_NAMES, *all_names(model)])


@mutation("node")
def swap_graphs(pick: Pick, model: ModelProto) -> None:
    """Exchange two subgraphs, or put one into itself."""
    found = graphs(model)[1:]
    a, b = pick.one(found), pick.one(found)
    kept = type(a).FromString(a.SerializeToString())
    other = type(b).FromString(b.SerializeToString())
    if a is b:
        holder = [attribute for node in a.node for attribute in node.attribute]
        if not holder:
            raise NotApplicable
        pick.one(holder).g.CopyFrom(kept)
        return
    a.CopyFrom(other)


@mutation("node")
def other_function(pick: Pick, model: ModelProto) -> None:
    """Drop, repeat or rename a function, change its inputs, or let it call itself."""
    function = pick.one(model.functions)
    what = pick.randrange(6)
    if what == 0:
        model.functions.remove(function)
    elif what == 1:
        model.functions.add().CopyFrom(function)
    elif what == 2:
        function.name = pick.one(_ODD_NAMES)
    elif what == 3:
        pick.one([function.input, function.output]).append(pick.one(_ODD_NAMES))
    elif what == 4:
        del function.opset_import[:]
    else:
        node = pick.one(function.node)
        node.op_type, node.domain = function.name, function.domain
