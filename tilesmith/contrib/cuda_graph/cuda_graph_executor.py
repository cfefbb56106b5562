"""`GraphModuleCudaGraph`: runs a model on an NVIDIA GPU by one launch, of a CUDA graph.

    module = cuda_graph_executor.GraphModuleCudaGraph(lib["default"](tilesmith.cuda(0)))
    module.set_input("x", x)
    module.run()                  # the first run records the graph, later ones replay it

A graph computes on the memory with which it was recorded: inputs are copied into it, and outputs
are the same tensors after each run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from tilesmith.contrib.graph_executor import GraphModule, get_device
from tilesmith.runtime.cuda.graphs import Graph, graph_of
from tilesmith.runtime.device_functions import DeviceFunction
from tilesmith.runtime.device_models import model_on
from tilesmith.runtime.devices import Device
from tilesmith.runtime.ndarray import NDArray
from tilesmith.support.errors import ExecutionError, TypeMismatchError, UnsupportedError

__all__ = ["GraphModuleCudaGraph", "create"]


def create(
    graph_json_str: str, libmod: Any, device: Device | Sequence[Device]
) -> GraphModuleCudaGraph:
    """Return an executor for a compiled program and its graph, as ``relay.build`` gives them."""
    if not isinstance(json.loads(graph_json_str), dict):
        raise TypeMismatchError("this is not the JSON of a graph")
    devices, _, _ = get_device(libmod, device)
    return GraphModuleCudaGraph(model_on(getattr(libmod, "module", libmod), devices))


class GraphModuleCudaGraph(GraphModule):
    """Runs `main` of a model for CUDA as a graph; `module` is as for `GraphModule`."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        function = self._main
        if not isinstance(function, DeviceFunction) or function.device.type != "cuda":
            raise UnsupportedError(
                "CUDA graphs are for models that were built for 'cuda', and that need nothing of "
                "the host while they run",
                notes=("contrib.graph_executor.GraphModule runs every model",),
            )
        self._function = function
        self._graph: Graph | None = None

    def _keep(self, name: str, value: Any) -> None:
        """Copy an input: into the memory that a recorded graph reads, if there is one."""
        before = self._values.get(name)
        super()._keep(name, value)
        if self._graph is not None and before is not None:
            self._values[name].copyto(before)
            self._values[name] = before

    def set_input_zero_copy(
        self, key: str | int | None = None, value: Any = None, **params: Any
    ) -> None:
        """Set inputs without copying them, and forget the graph that reads other tensors."""
        super().set_input_zero_copy(key, value, **params)
        self._graph = None

    def capture_cuda_graph(self) -> None:
        """Record a graph on the inputs that are set; the model runs once before."""
        missing = [name for name in self._names if name not in self._values]
        if missing:
            raise TypeMismatchError(
                f"the input '{missing[0]}' is not set", notes=("call set_input first",)
            )
        call = self._function.bound(*[self._values[name] for name in self._names])
        self._graph = graph_of(lambda *given: call(), *call.tensors)
        self._outputs = call.results

    def run_cuda_graph(self) -> None:
        """Replay the graph."""
        if self._graph is None:
            raise ExecutionError("no graph is recorded", notes=("call capture_cuda_graph first",))
        self._graph.launch()

    def run(self, **input_dict: Any) -> None:
        """Run the model on the inputs that are set, after setting those given here: the first time
        it records a graph, later it replays that.
        """
        if input_dict:
            self.set_input(**input_dict)
        if self._graph is None:
            self.capture_cuda_graph()
        self.run_cuda_graph()
        for index, target in self._targets.items():
            target.copyfrom(self._outputs[index])

    def debug_get_output(self, node: str | int, out: NDArray | None = None) -> NoReturn:
        """Raise UnsupportedError: a graph of launches stores nothing in between."""
        raise UnsupportedError(
            f"the value of node {node!r} is not stored: the model runs as one graph of launches",
            notes=("contrib.debugger.debug_executor.create runs the program node by node",),
        )
