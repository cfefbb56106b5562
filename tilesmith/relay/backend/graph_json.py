"""Writes the graph of a compiled program as the graph executor's JSON.

    {"nodes": [{"op": "null", "name": "x", "inputs": []},
               {"op": "tvm_op", "name": "fused_add", "attrs": {…}, "inputs": [[0, 0, 0]]}],
     "arg_nodes": [0], "heads": [[1, 0, 0]], "node_row_ptr": [0, 1, 2],
     "attrs": {"shape": ["list_shape", […]], "dltype": ["list_str", […]],
               "storage_id": ["list_int", […]], "device_index": ["list_int", […]]}}

A node is an input, a constant, or a call of a kernel. Tensors with the same number of storage lie
in the same memory, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilesmith.ir import IntImm, Op
from tilesmith.relax import op as relax
from tilesmith.relax.analysis.memory_plan import plan_memory
from tilesmith.relax.expr import (
    Call,
    Constant,
    Function,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError

__all__ = ["graph_json", "graph_nodes", "memory_table"]

_CPU = 1

Entry = list[int]
"""Number of a node, number of its output, version (always 0)."""


@dataclass
class _Graph:
    """The graph under construction."""

    name_of: Callable[[Constant], str]
    nodes: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[list[Any]] = field(default_factory=list)  # (struct info, key of its storage)
    values: dict[Any, list[Entry]] = field(default_factory=dict)  # variable → its leaves
    names: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[str, Call]] = field(default_factory=list)  # the nodes that compute

    def unique(self, name: str) -> str:
        """Return a name that no other node has."""
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return f"{name}_{count}" if count else name

    def add(self, node: dict[str, Any], infos: list[Any], storages: list[Any]) -> list[Entry]:
        """Append a node with its outputs; return them."""
        number = len(self.nodes)
        self.nodes.append(node)
        self.outputs.append([(info, storage) for info, storage in zip(infos, storages)])
        return [[number, place, 0] for place in range(len(infos))]

    def source(self, name: str, info: Any) -> list[Entry]:
        """Append an input or a constant."""
        node = {"op": "null", "name": name, "inputs": []}
        return self.add(node, [info], [("own", len(self.nodes), 0)])

    def leaves(self, expr: Any) -> list[Entry]:
        """Return the tensors of an expression of a graph in normal form."""
        if isinstance(expr, Tuple):
            return [leaf for part in expr.fields for leaf in self.leaves(part)]
        if isinstance(expr, Constant) and id(expr) not in self.values:
            self.values[id(expr)] = self.source(self.name_of(expr), expr.struct_info)
        found = self.values.get(id(expr))
        if found is None:
            raise UnsupportedError(f"the graph executor's JSON has no word for {expr}")
        return found


def _tensor_infos(info: Any) -> list[TensorStructInfo]:
    if isinstance(info, TupleStructInfo):
        return [leaf for part in info.fields for leaf in _tensor_infos(part)]
    return [info]


def graph_json(function: Function, name_of: Callable[[Constant], str]) -> str:
    """Return the JSON of a function whose operators are calls of kernels; ``name_of`` names its
    constants.

    Raises UnsupportedError where a graph of tensors of known sizes cannot show the function:
    branches, closures, sizes that depend on data.
    """
    graph = _graph_of(function, name_of)
    body: Any = function.body
    return _written(graph, graph.leaves(body.body))


def graph_nodes(function: Function) -> list[tuple[str, Call]]:
    """Return the nodes of a function's graph that compute something: their names, and the calls of
    kernels that they stand for.
    """
    return _graph_of(function, lambda constant: "").calls


def _graph_of(function: Function, name_of: Callable[[Constant], str]) -> _Graph:
    graph = _Graph(name_of)
    for param in function.params:
        infos = _tensor_infos(param.struct_info)
        names = (
            [param.name_hint]
            if len(infos) == 1
            else [f"{param.name_hint}.{place}" for place in range(len(infos))]
        )
        graph.values[id(param)] = [
            entry for name, info in zip(names, infos) for entry in graph.source(name, info)
        ]
    plan = plan_memory(function)
    offsets = {(id(value.var), value.field): value.offset for value in plan.values}
    body: Any = function.body
    for block in body.blocks:
        for binding in block.bindings:
            graph.values[id(binding.var)] = _bound(graph, binding.var, binding.value, offsets)
    return graph


def _bound(graph: _Graph, var: Var, value: Any, offsets: dict[Any, int]) -> list[Entry]:
    """Return the tensors of the value of a binding; a call of a kernel becomes a node."""
    if isinstance(value, (Var, Tuple, Constant)):
        return graph.leaves(value)
    if isinstance(value, TupleGetItem):
        before = known_struct_info(value.tuple_value)
        assert isinstance(before, TupleStructInfo)
        first = sum([len(_tensor_infos(part)) for part in before.fields[: value.index]])
        count = len(_tensor_infos(before.fields[value.index]))
        return graph.leaves(value.tuple_value)[first : first + count]
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        raise UnsupportedError(f"the graph executor's JSON has no word for {type(value).__name__}")
    infos = _tensor_infos(known_struct_info(var))
    operands: Any = value.args[1] if value.op is relax.call_tir.op else Tuple(value.args)
    kernel: Any = value.args[0] if value.op is relax.call_tir.op else None
    name = value.op.spec.short_name if kernel is None else kernel.name_hint
    inputs = graph.leaves(operands)
    number = len(graph.nodes)
    storages = [
        ("shared", offsets[id(var), place])
        if (id(var), place) in offsets
        else ("own", number, place)
        for place in range(len(infos))
    ]
    attrs = {
        "func_name": name,
        "num_inputs": str(len(inputs)),
        "num_outputs": str(len(infos)),
        "flatten_data": "0",
    }
    unique = graph.unique(name)
    graph.calls.append((unique, value))
    node = {"op": "tvm_op", "name": unique, "attrs": attrs, "inputs": inputs}
    return graph.add(node, infos, storages)


def _written(graph: _Graph, heads: list[Entry]) -> str:
    row, rows = 0, [0]
    storage_ids: dict[Any, int] = {}
    shapes, dtypes, ids = [], [], []
    for outputs in graph.outputs:
        row += len(outputs)
        rows.append(row)
        for info, storage in outputs:
            shapes.append(_sizes(info))
            dtypes.append(str(info.dtype))
            ids.append(storage_ids.setdefault(storage, len(storage_ids)))
    text = {
        "nodes": graph.nodes,
        "arg_nodes": [n for n, node in enumerate(graph.nodes) if node["op"] == "null"],
        "heads": heads,
        "attrs": {
            "dltype": ["list_str", dtypes],
            "device_index": ["list_int", [_CPU] * len(ids)],
            "storage_id": ["list_int", ids],
            "shape": ["list_shape", shapes],
        },
        "node_row_ptr": rows,
    }
    return json.dumps(text, indent=2)


def _sizes(info: Any) -> list[int]:
    values = getattr(getattr(info, "shape", None), "values", None)
    if values is None or not all(isinstance(size, IntImm) for size in values):
        raise UnsupportedError(
            "the graph executor's JSON needs tensors of known sizes",
            notes=('programs with other sizes run with executor=relay.backend.Executor("aot")',),
        )
    return [int(size.value) for size in values]


def memory_table(text: str) -> str:
    """Return as text which nodes of a graph share memory, and the bytes that this saves."""
    graph = json.loads(text)
    rows, attrs = graph["node_row_ptr"], graph["attrs"]
    storages: dict[int, tuple[int, list[str]]] = {}
    unshared = 0
    for place, node in enumerate(graph["nodes"]):
        for entry in range(rows[place], rows[place + 1]):
            size = DataType(attrs["dltype"][1][entry]).nbytes
            for extent in attrs["shape"][1][entry]:
                size *= extent
            unshared += size
            most, names = storages.setdefault(attrs["storage_id"][1][entry], (0, []))
            storages[attrs["storage_id"][1][entry]] = (max(most, size), [*names, node["name"]])
    total = sum([size for size, _ in storages.values()])
    lines = [f"{'storage':>7} {'bytes':>12}  nodes"]
    lines += [
        f"{number:>7} {size:>12,}  {', '.join(names)}"
        for number, (size, names) in sorted(storages.items())
    ]
    lines.append(f"{len(storages)} storages, {total:,} bytes; without sharing {unshared:,} bytes")
    return "\n".join(lines)
