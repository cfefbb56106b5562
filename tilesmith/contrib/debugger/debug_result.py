"""`DebugResult`: what was measured of the nodes of a graph: a table, files in a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from tilesmith.runtime.ndarray import NDArray
from tilesmith.runtime.params import save_param_dict
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.files import write_atomically

__all__ = ["DebugResult", "save_tensors"]

GRAPH_FILE = "_tvmdbg_graph_dump.json"
TENSORS_FILE = "output_tensors.params"
TRACE_FILE = "_tvmdbg_execution_trace.json"


def save_tensors(params: Mapping[str, NDArray]) -> bytes:
    """Return tensors by name as bytes; `load_param_dict` reads them."""
    return bytes(save_param_dict(params))


class DebugResult:
    """The nodes of a graph with their outputs and times. Files go to ``dump_path``:
    the graph (when this is made), the outputs, and a trace for Chrome's viewer.
    """

    def __init__(self, graph_json: str, dump_path: str) -> None:
        self._graph = json.loads(graph_json)
        self._dump_path = dump_path
        self._tensors: list[NDArray] = []
        self.seconds: list[list[float]] = []
        """For each node the seconds of each repeat."""
        rows, attrs = self._graph["node_row_ptr"], self._graph["attrs"]
        self._shapes = attrs["shape"][1]
        self._dtypes = attrs["dltype"][1]
        self._first = rows
        for node in self._graph["nodes"]:
            node.setdefault("attrs", {})
        self._write(GRAPH_FILE, json.dumps(self._described(), indent=2).encode())

    def _write(self, name: str, content: bytes) -> None:
        write_atomically(os.path.join(self._dump_path, name), content)

    def _described(self) -> dict[str, Any]:
        """Return the graph with the shape and the type of each node beside it."""
        nodes = []
        for place, node in enumerate(self._graph["nodes"]):
            entry = self._first[place]
            inputs = [self._graph["nodes"][one[0]]["name"] for one in node["inputs"]]
            described = {
                "name": node["name"],
                "op": node.get("attrs", {}).get("func_name", "param"),
                "inputs": inputs,
                "attrs": {
                    **node["attrs"],
                    "T": f"type: {self._dtypes[entry]}",
                    "shape": self._shapes[entry],
                },
            }
            nodes.append(described)
        return {**self._graph, "nodes": nodes}

    # The graph

    def get_graph_nodes(self) -> list[dict[str, Any]]:
        """Return the nodes."""
        return list(self._graph["nodes"])

    def get_graph_node_shapes(self) -> list[list[int]]:
        """Return the shapes of all outputs of nodes, in order."""
        return list(self._shapes)

    def get_graph_node_dtypes(self) -> list[str]:
        """Return the dtypes of all outputs of nodes, in order."""
        return list(self._dtypes)

    def get_graph_node_output_num(self, node: Mapping[str, Any]) -> int:
        """Return how many outputs a node has."""
        return 1 if node["op"] == "null" else int(node["attrs"]["num_outputs"])

    # Outputs

    def update_output_tensors(self, tensors: Sequence[NDArray]) -> None:
        """Note the outputs of all nodes, in order."""
        if len(tensors) != len(self._shapes):
            raise TypeMismatchError(
                f"the graph has {len(self._shapes)} outputs of nodes, {len(tensors)} are given"
            )
        self._tensors = list(tensors)

    def get_output_tensors(self) -> dict[str, NDArray]:
        """Return the outputs by the node's name, the output's number and that of its type."""
        found = {}
        if self._tensors:
            for place, node in enumerate(self._graph["nodes"]):
                for number in range(self.get_graph_node_output_num(node)):
                    name = f"{node['name']}____{number}"
                    found[name] = self._tensors[self._first[place] + number]
        return found

    def dump_output_tensor(self) -> None:
        """Write the outputs of all nodes to the folder."""
        self._write(TENSORS_FILE, save_tensors(self.get_output_tensors()))

    def dump_chrome_trace(self) -> None:
        """Write a trace of the last run to the folder; chrome://tracing shows it."""
        events: list[dict[str, Any]] = []
        begin = 0.0
        for node, seconds in zip(self._graph["nodes"], self.seconds):
            duration = fmean(seconds) * 1e6 if seconds else 0.0
            common = {"pid": 1, "tid": 1, "name": node["name"]}
            events.append({"ph": "B", "ts": begin, **common})
            begin += duration
            events.append({"ph": "E", "ts": begin, **common})
        trace = {"displayTimeUnit": "ns", "traceEvents": events}
        self._write(TRACE_FILE, json.dumps(trace).encode())

    # The table

    def get_debug_result(self, sort_by_time: bool = True) -> tuple[list[str], list[list[Any]]]:
        """Return the heads and the rows of the table: one row for each node that computes."""
        heads = [
            "Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs",
            "Measurements(us)",
        ]  # fmt: skip
        total = sum([fmean(seconds) for seconds in self.seconds if seconds])
        rows: list[list[Any]] = []
        for place, (node, seconds) in enumerate(zip(self._graph["nodes"], self.seconds)):
            if node["op"] == "null":
                continue
            mean = fmean(seconds)
            rows.append([
                node["name"],
                node["attrs"]["func_name"],
                round(mean * 1e6, 3),
                round(100 * mean / total, 3) if total else 0.0,
                tuple(self._shapes[self._first[place]]),
                len(node["inputs"]),
                self.get_graph_node_output_num(node),
                [round(one * 1e6, 3) for one in seconds],
            ])  # fmt: skip
        if sort_by_time:
            rows.sort(key=lambda row: row[2], reverse=True)
        rows.append(["Total_time", "-", round(total * 1e6, 3), "-", "-", "-", "-", "-"])
        return heads, rows

    def display_debug_result(self, sort_by_time: bool = True) -> None:
        """Print the table."""
        heads, rows = self.get_debug_result(sort_by_time)
        cells = [heads, *[[str(cell) for cell in row] for row in rows]]
        widths = [max([len(row[place]) for row in cells]) for place in range(len(heads))]
        lines = ["  ".join([c.ljust(w) for c, w in zip(row, widths)]).rstrip() for row in cells]
        lines.insert(1, "  ".join(["-" * width for width in widths]))
        print("\n".join(lines))
