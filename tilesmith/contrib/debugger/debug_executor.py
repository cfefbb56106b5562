"""`GraphModuleDebug`: runs a program node by node, measures each node, and keeps all their outputs.

    lib = relay.build(mod, "llvm")
    module = debug_executor.create(lib.get_graph_json(), lib, tilesmith.cpu(), dump_root="/tmp/out")
    module.run(x=x)                          # prints a table: a row for each node
    module.debug_get_output("fused_add")     # the value between two kernels

A node is a kernel of the program: operators that were fused are one node. The kernels are the same
as in the program itself; each is called by a function of its own here, which is compiled when the
module is made.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

from tilesmith.contrib.debugger.debug_result import DebugResult
from tilesmith.contrib.graph_executor import GraphModule, get_device
from tilesmith.runtime.device_models import model_on
from tilesmith.runtime.devices import Device, cpu
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.runtime.profiling import Count, DeviceWrapper, Duration, Metric, Percent, Report
from tilesmith.runtime.timing import BenchmarkResult, time_call
from tilesmith.support.errors import (
    ExecutionError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

__all__ = ["NODE", "GraphModuleDebug", "create"]

NODE = "__node"
"""What distinguishes the function of a node from the kernel that it calls."""


def create(
    graph_json_str: str,
    libmod: Any,
    device: Device | Sequence[Device],
    dump_root: str | None = None,
) -> GraphModuleDebug:
    """Return a module that runs a graph node by node; ``dump_root`` is the folder below which the
    graph, the nodes' outputs and a trace are written.
    """
    devices, _, _ = get_device(libmod, device)
    return GraphModuleDebug(libmod, devices, graph_json_str, dump_root)


class GraphModuleDebug(GraphModule):
    """Runs a graph node by node.

    ``module`` is what ``relay.build`` gave in this process, or its program: a program that was
    loaded from a file has no functions for single nodes.
    """

    def __init__(
        self, module: Any, device: Sequence[Device], graph_json_str: str, dump_root: str | None
    ) -> None:
        super().__init__(module)
        make = getattr(self.module, "node_program", None)
        if make is None:
            raise UnsupportedError(
                "this program has no functions for single nodes",
                notes=("debug what relay.build gives, before it is saved and loaded",),
            )
        self._program = model_on(make(), device)
        self._graph = json.loads(graph_json_str)
        self._nodes: list[dict[str, Any]] = self._graph["nodes"]
        self._entries: dict[tuple[int, int], NDArray] = {}
        chosen = next(iter(device), None) or cpu()
        self._device = chosen
        self._is_temporary = dump_root is None
        self._dump_root = dump_root or tempfile.mkdtemp(prefix="tvmdbg_")
        self._dump_path = os.path.join(self._dump_root, f"_tvmdbg_device_CPU_{chosen.device_id}")
        os.makedirs(self._dump_path, exist_ok=True)
        self.debug_datum = DebugResult(graph_json_str, self._dump_path)

    # Nodes

    def _number(self, node: str | int) -> int:
        if isinstance(node, str):
            for place, one in enumerate(self._nodes):
                if one["name"] == node:
                    return place
            names = [one["name"] for one in self._nodes if one["op"] != "null"]
            raise UnknownNameError(
                f"the graph has no node '{node}'", notes=("nodes: " + ", ".join(names[:20]),)
            )
        if not 0 <= node < len(self._nodes):
            raise UnknownNameError(f"the graph has {len(self._nodes)} nodes, not node {node}")
        return node

    def _source(self, name: str) -> NDArray:
        """Return the value of an input or a constant."""
        if name in self._values:
            return array(self._values[name], self._device)
        constants = self.module.constants
        if name not in constants:
            raise ExecutionError(
                f"the input '{name}' is not set", notes=("set_input sets it, or run(x=…)",)
            )
        return array(constants[name], self._device)

    def _call(self, number: int) -> Any:
        """Return the function of a node and its arguments."""
        node = self._nodes[number]
        missing = [one for one in node["inputs"] if (one[0], one[1]) not in self._entries]
        if missing:
            raise ExecutionError(
                f"the node '{node['name']}' needs the output of "
                f"'{self._nodes[missing[0][0]]['name']}', which has not been run",
            )
        arguments = [self._entries[one[0], one[1]] for one in node["inputs"]]
        return self._program.get_function(node["name"] + NODE), arguments

    def execute_node(self, node: str | int) -> NDArray:
        """Run one node on the outputs of the nodes before it; return its (first) output."""
        number = self._number(node)
        if self._nodes[number]["op"] == "null":
            self._entries[number, 0] = self._source(self._nodes[number]["name"])
        else:
            function, arguments = self._call(number)
            result = function(*arguments)
            for place, one in enumerate(result if isinstance(result, tuple) else (result,)):
                self._entries[number, place] = one
        return self._entries[number, 0]

    def _execute_all(self) -> None:
        for number in range(len(self._nodes)):
            self.execute_node(number)
        heads = self._graph["heads"]
        self._outputs = tuple([self._entries[one[0], one[1]] for one in heads])

    # Running

    def run(
        self,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 1,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        sort_by_time: bool = True,
        **input_dict: Any,
    ) -> None:
        """Run each node ``number`` times in each of ``repeat`` rounds, print a table with a row for
        each node, and write the dump.
        """
        if input_dict:
            self.set_input(**input_dict)
        result = self.debug_datum
        result.seconds = self.run_individual(
            number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms,
            repeats_to_cooldown,
        )  # fmt: skip
        rows = self._graph["node_row_ptr"]
        result.update_output_tensors(
            [
                self._entries[place, number]
                for place in range(len(self._nodes))
                for number in range(rows[place + 1] - rows[place])
            ]
        )
        result.dump_output_tensor()
        result.dump_chrome_trace()
        result.display_debug_result(sort_by_time)

    def run_individual(
        self,
        number: int,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:
        """Run the graph once, then measure each node: the seconds of each round, by node; inputs
        and constants take none.
        """
        self._execute_all()
        return [
            [0.0] * repeat
            if node["op"] == "null"
            else list(
                self.run_individual_node(
                    place, number, repeat, min_repeat_ms, limit_zero_time_iterations,
                    cooldown_interval_ms, repeats_to_cooldown,
                ).results
            )
            for place, node in enumerate(self._nodes)
        ]  # fmt: skip

    def run_individual_node(
        self,
        index: int,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> BenchmarkResult:
        """Measure one node on the outputs of the nodes before it."""
        place = self._number(index)
        if self._nodes[place]["op"] == "null":
            raise TypeMismatchError(f"'{self._nodes[place]['name']}' computes nothing: an input")
        if not self._entries:
            self._execute_all()
        function, arguments = self._call(place)
        return time_call(
            function,
            arguments,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
            device=self._device,
        )

    def debug_get_output(  # type: ignore[override]
        self, node: str | int, out: NDArray | None = None
    ) -> NDArray:
        """Return the (first) output of a node, by its name or number, copied to ``out`` if that is
        given. What has not been run is run up to this node.
        """
        number = self._number(node)
        if (number, 0) not in self._entries:
            for place in range(number + 1):
                self.execute_node(place)
        value = self._entries[number, 0]
        return value if out is None else out.copyfrom(value)

    def profile(self, collectors: Any = None, **input_dict: Any) -> Report:
        """Run each node once; report its time, and what the collectors measure meanwhile."""
        if input_dict:
            self.set_input(**input_dict)
        self._execute_all()
        device, chosen = self._device, list(collectors or ())
        for collector in chosen:
            collector.init([DeviceWrapper(device)])
        calls: list[dict[str, Metric]] = []
        for place, node in enumerate(self._nodes):
            if node["op"] == "null":
                continue
            function, arguments = self._call(place)
            started = [(one, one.start(device)) for one in chosen]
            seconds = time_call(function, arguments, number=1, device=device).mean
            row: dict[str, Metric] = {
                "Name": node["name"],
                "Duration (us)": Duration(seconds * 1e6),
                "Count": Count(1),
                "Device": str(device),
                "Argument Shapes": ", ".join([f"{a.dtype}{list(a.shape)}" for a in arguments]),
            }
            for one, token in started:
                if token is not None:
                    row.update(one.stop(token))
            calls.append(row)
        times: list[Any] = [row["Duration (us)"] for row in calls]
        total: float = sum([one.microseconds for one in times])
        for row, one in zip(calls, times):
            row["Percent"] = Percent(100 * one.microseconds / total if total else 0.0)
        return Report(calls, {str(device): {"Duration (us)": Duration(total)}})

    def exit(self) -> None:
        """Remove the dump, if no folder was named for it."""
        if self._is_temporary:
            shutil.rmtree(self._dump_root, ignore_errors=True)
