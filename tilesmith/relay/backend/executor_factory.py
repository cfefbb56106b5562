"""What ``relay.build`` gives: a compiled program, its graph, its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilesmith.contrib.aot_executor import AotModule
from tilesmith.contrib.graph_executor import GraphModule
from tilesmith.ir import IRModule
from tilesmith.relay.backend.board_module import BoardModule, not_here
from tilesmith.relay.backend.graph_json import memory_table
from tilesmith.runtime.device_models import model_on
from tilesmith.runtime.devices import RPC_SESS_MASK, Device
from tilesmith.runtime.executable import Executable
from tilesmith.support.errors import UnknownNameError, UnsupportedError

__all__ = ["AOTExecutorFactoryModule", "ExecutorFactoryModule", "GraphExecutorFactoryModule"]


class ExecutorFactoryModule:
    """A compiled program; ``factory["default"](device)`` makes one that holds its inputs and
    outputs.
    """

    runner: Callable[[Any], Any]
    lowered: IRModule
    """The program after the passes of the graph: functions that call kernels, and the kernels."""

    def __init__(
        self,
        ir_mod: Any,
        target: Any,
        executor: Any,
        libmod: Executable | BoardModule,
        libmod_name: str,
        params: Mapping[str, Any],
    ) -> None:
        self.ir_mod = ir_mod
        self.target = target
        self.executor = executor
        self.lib = libmod
        self.libmod_name = libmod_name
        self.params = dict(params)

    @property
    def module(self) -> Executable | BoardModule:
        """The compiled program."""
        return self.lib

    def get_executor_config(self) -> Any:
        """Return what the executor has to know; see the kinds of executors."""
        raise NotImplementedError

    def get_params(self) -> dict[str, Any]:
        """Return the constants of the program by name."""
        return self.params

    def get_lib(self) -> Any:
        """Return the compiled program."""
        return self.lib

    def get_devices(self) -> list[str]:
        """Return the kinds of devices that the program runs on."""
        return [str(self.target.kind.name)]

    def export_library(self, file_name: Any, **options: Any) -> None:
        """Write the program and its constants as one file; see `Executable.export_library`."""
        self.lib.export_library(file_name, **options)

    def __getitem__(self, item: str) -> Any:
        if item == self.libmod_name:
            return self._on_device
        return self.lib[item]

    def get_function(self, name: str) -> Any:
        """Return a function of the compiled program."""
        return self.lib.get_function(name)

    def _on_device(self, *devices: Device) -> Any:
        if isinstance(self.lib, BoardModule):
            raise not_here()
        if any(device.device_type >= RPC_SESS_MASK for device in devices):
            raise UnsupportedError(
                f"this program is on this machine, it does not run on {devices[0]}",
                notes=("export the library, upload it to the session, and load it there",),
            )
        return type(self).runner(model_on(self.lib, devices))

    def __iter__(self) -> Iterator[Any]:
        """Give configuration, program and parameters: ``graph, lib, params = relay.build(…)``."""
        return iter((self.get_executor_config(), self.lib, self.params))


class GraphExecutorFactoryModule(ExecutorFactoryModule):
    """A program for the graph executor."""

    runner = GraphModule

    def __init__(
        self,
        ir_mod: Any,
        target: Any,
        executor: Any,
        graph_json_str: Callable[[], str] | str,
        libmod: Executable | BoardModule,
        libmod_name: str,
        params: Mapping[str, Any],
        function_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(ir_mod, target, executor, libmod, libmod_name, params)
        self._graph_json = graph_json_str
        self.function_metadata = dict(function_metadata or {})

    @property
    def graph_json(self) -> str:
        """The graph as JSON."""
        if not isinstance(self._graph_json, str):
            self._graph_json = self._graph_json()
        return self._graph_json

    def __getitem__(self, item: str) -> Any:
        if item == "debug_create":
            return self._with_nodes
        if item == "cuda_graph_create":
            return self._for_cuda_graph
        return super().__getitem__(item)

    def _with_nodes(self, name: str, *devices: Device) -> GraphExecutorFactoryModule:
        """Return what ``debug_executor.GraphModuleDebug`` takes: the program as it was built."""
        self._check_name(name)
        return self

    def _for_cuda_graph(self, name: str, *devices: Device) -> Any:
        """Return what ``GraphModuleCudaGraph`` takes: the program on a device."""
        self._check_name(name)
        return model_on(self.lib, devices)

    def _check_name(self, name: str) -> None:
        if name != self.libmod_name:
            raise UnknownNameError(
                f"the program has no model '{name}'", notes=(f"its name is '{self.libmod_name}'",)
            )

    def get_graph_json(self) -> str:
        """Return the graph as JSON."""
        return self.graph_json

    def get_executor_config(self) -> str:
        """Return the graph as JSON."""
        return self.graph_json

    def memory_table(self) -> str:
        """Return as text which nodes of the graph share memory, and the bytes that this saves."""
        return memory_table(self.graph_json)


class AOTExecutorFactoryModule(ExecutorFactoryModule):
    """A program whose one function runs it all."""

    runner = AotModule

    def get_executor_config(self) -> None:
        """Return None: the compiled function knows everything."""
        return None
