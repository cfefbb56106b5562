"""`PipelineModule`: several compiled models at work at the same time, each in a thread of its own.

    factory = pipeline_executor_build.build(config)
    module = PipelineModule(factory)
    for image in images:
        module.set_input("data", image)
        module.run()                       # returns at once
    results = [module.get_output() for _ in images]

A stage waits until all its inputs are there, runs its model, and hands the outputs on. Results come
out in the order of the runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesmith.contrib.graph_executor import GraphModule
from tilesmith.runtime.devices import Device, cpu
from tilesmith.runtime.module import load_module
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import (
    ArtifactError,
    ExecutionError,
    TypeMismatchError,
    UnknownNameError,
)
from tilesmith.support.files import PathLike, write_atomically

__all__ = [
    "PipelineExecutorFactoryModule", "PipelineModule", "Plan", "pipeline_executor_enabled",
]  # fmt: skip

CONFIG_FILE = "pipeline_config.json"


def pipeline_executor_enabled() -> bool:
    """Return True: pipelines need nothing that could be missing."""
    return True


@dataclass
class Plan:
    """How stages are connected; stages are numbered in the order of the data."""

    stages: list[str] = field(default_factory=list)
    """The names of the stages."""
    inputs: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Name of an input of the pipeline → the stages and inputs that it goes to."""
    links: list[tuple[int, int, int, str]] = field(default_factory=list)
    """Stage and output that go to the input of a stage."""
    outputs: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Number of an output of the pipeline → stage and output."""
    params: dict[str, int] = field(default_factory=dict)
    """Name of a group of parameters → the stage that they belong to."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "stages": self.stages,
            "inputs": {name: [list(one) for one in to] for name, to in self.inputs.items()},
            "links": [list(one) for one in self.links],
            "outputs": {str(number): list(one) for number, one in self.outputs.items()},
            "params": self.params,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Plan:
        """Return the plan of JSON data; raises ArtifactError if they are none."""
        try:
            plan = Plan(
                [str(one) for one in data["stages"]],
                {k: [(int(s), str(n)) for s, n in to] for k, to in data["inputs"].items()},
                [(int(a), int(b), int(c), str(d)) for a, b, c, d in data["links"]],
                {int(number): (int(s), int(o)) for number, (s, o) in data["outputs"].items()},
                {str(name): int(stage) for name, stage in data["params"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(f"this is no plan of a pipeline: {error!r}") from error
        numbers = [
            *[stage for to in plan.inputs.values() for stage, _ in to],
            *[one for a, _, b, _ in plan.links for one in (a, b)],
            *[stage for stage, _ in plan.outputs.values()],
            *plan.params.values(),
        ]
        if any(not 0 <= one < len(plan.stages) for one in numbers):
            raise ArtifactError("the plan of the pipeline names a stage that it does not have")
        return plan


class PipelineExecutorFactoryModule:
    """The compiled stages of a pipeline and how they are connected."""

    def __init__(self, pipeline_mods: Mapping[str, Mapping[str, Any]], mods_config: Plan) -> None:
        self.pipeline_mods = dict(pipeline_mods)
        """Name of a stage → its ``lib`` and its ``dev``."""
        self.mods_config = mods_config

    def get_pipeline_executor_module(self) -> PipelineModule:
        """Return a module that runs the pipeline."""
        return PipelineModule(self)

    def graph_executor_create(
        self, pipeline_mods: Mapping[str, Mapping[str, Any]], mod_config: Plan
    ) -> tuple[list[GraphModule], str]:
        """Return the modules that run the stages, and the plan as text."""
        made = [_stage_module(pipeline_mods[name]) for name in mod_config.stages]
        return made, json.dumps(mod_config.to_json())

    def export_library(self, directory_path: PathLike) -> str:
        """Write the stages and the plan to a folder; return the path of the plan, which
        `PipelineModule.load_library` takes.
        """
        folder = os.fspath(directory_path)
        os.makedirs(folder, exist_ok=True)
        files = []
        for number, name in enumerate(self.mods_config.stages):
            stage = self.pipeline_mods[name]
            files.append(f"stage{number}.so")
            stage["lib"].export_library(os.path.join(folder, files[-1]))
        path = os.path.join(folder, CONFIG_FILE)
        text = json.dumps({**self.mods_config.to_json(), "files": files}, indent=2)
        write_atomically(path, text.encode())
        return path


def _stage_module(stage: Mapping[str, Any]) -> GraphModule:
    lib, device = stage["lib"], stage.get("dev") or cpu()
    name = getattr(lib, "libmod_name", None)
    return GraphModule(lib[name](device) if name is not None else lib)


@dataclass
class _Failure:
    """Stands for an output of a stage that failed."""

    error: BaseException


class _Stage:
    """A model in a thread of its own: takes a value for each input, gives its outputs on."""

    def __init__(self, name: str, module: GraphModule, waits_for: Sequence[str]) -> None:
        self.name = name
        self.module = module
        self.queues: dict[str, queue.SimpleQueue[Any]] = {
            name: queue.SimpleQueue() for name in waits_for
        }
        self.targets: list[tuple[int, queue.SimpleQueue[Any]]] = []
        """Numbers of outputs, and where they go."""
        self.params: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.work, name=f"stage {name}", daemon=True)

    def work(self) -> None:
        """Run the model for each row of inputs, until one is None."""
        while True:
            given = {name: one.get() for name, one in self.queues.items()}
            if any(value is None for value in given.values()):
                return
            results = self.outputs(given)
            for number, target in self.targets:
                target.put(results(number))

    def outputs(self, given: Mapping[str, Any]) -> Callable[[int], Any]:
        """Run the model; return its outputs by number. A failure is an output, too."""
        failed = next((one for one in given.values() if isinstance(one, _Failure)), None)
        if failed is not None:
            return lambda number: failed
        try:
            with contextlib.suppress(queue.Empty):
                while True:
                    self.module.set_input(**self.params.get_nowait())
            self.module.run(**given)
        except Exception as error:  # it is raised where the result is asked for
            failure = _Failure(error)
            return lambda number: failure
        module = self.module
        found = [module.get_output(number) for number in range(module.get_num_outputs())]
        return lambda number: found[number]


class PipelineModule:
    """Runs a pipeline: what `pipeline_executor_build.build` gave, or `load_library` loaded."""

    def __init__(self, module: PipelineExecutorFactoryModule | PipelineModule) -> None:
        factory: Any = module.module if isinstance(module, PipelineModule) else module
        if not isinstance(factory, PipelineExecutorFactoryModule):
            raise TypeMismatchError(
                f"a pipeline is what pipeline_executor_build.build gives, got "
                f"{type(module).__name__}"
            )
        self.module: PipelineExecutorFactoryModule = factory
        self.plan = factory.mods_config
        self._inputs: dict[str, NDArray] = {}
        self._count = 0
        self._taken = 0
        self._results: dict[int, queue.SimpleQueue[Any]] = {
            number: queue.SimpleQueue() for number in sorted(self.plan.outputs)
        }
        modules, _ = factory.graph_executor_create(factory.pipeline_mods, self.plan)
        self._stages = self._connected(modules)
        for stage in self._stages:
            stage.thread.start()
        queues = [one for stage in self._stages for one in stage.queues.values()]
        self._end = weakref.finalize(self, _end, queues)

    def _connected(self, modules: Sequence[GraphModule]) -> list[_Stage]:
        plan = self.plan
        sources: list[list[str]] = [[] for _ in modules]
        for place, name in [one for to in plan.inputs.values() for one in to]:
            sources[place].append(name)
        for _, _, place, name in plan.links:
            sources[place].append(name)
        stages = [_Stage(*one) for one in zip(plan.stages, modules, sources)]
        for place, output, to, name in plan.links:
            stages[place].targets.append((output, stages[to].queues[name]))
        for number, (place, output) in plan.outputs.items():
            stages[place].targets.append((output, self._results[number]))
        return stages

    # Inputs

    def _input(self, name: str) -> list[tuple[int, str]]:
        if name not in self.plan.inputs:
            raise UnknownNameError(
                f"the pipeline has no input '{name}'",
                notes=("it has: " + ", ".join(self.plan.inputs),),
            )
        return self.plan.inputs[name]

    def get_input_pipeline_map(self, name: str) -> list[str]:
        """Return the number of the stage that an input goes to, and its name there."""
        stage, inner = self._input(name)[0]
        return [str(stage), inner]

    def get_params_group_pipeline_map(self, name: str) -> str:
        """Return the number of the stage that a group of parameters belongs to."""
        if name not in self.plan.params:
            raise UnknownNameError(
                f"the pipeline has no group of parameters '{name}'",
                notes=("it has: " + (", ".join(self.plan.params) or "none"),),
            )
        return str(self.plan.params[name])

    def set_input(self, key: str, value: Any) -> None:
        """Set an input (copied) for the runs that follow."""
        self._input(key)
        self._inputs[key] = array(value)

    def set_params(self, params_group_name: str, params_data: Mapping[str, Any]) -> None:
        """Set the parameters of a group for the runs that follow."""
        stage = int(self.get_params_group_pipeline_map(params_group_name))
        self._stages[stage].params.put({name: array(one) for name, one in params_data.items()})

    def get_input(self, key: str) -> NDArray:
        """Return the value of an input that is set."""
        self._input(key)
        if key not in self._inputs:
            raise ExecutionError(f"the input '{key}' is not set", notes=("set_input sets it",))
        return self._inputs[key]

    # Running

    def run(self) -> None:
        """Start a run with the inputs that are set; it ends when `get_output` gives its results."""
        values = {name: self.get_input(name) for name in self.plan.inputs}
        self._count += 1
        for name, targets in self.plan.inputs.items():
            for stage, inner in targets:
                self._stages[stage].queues[inner].put(values[name])

    def get_output(self, synchronize: bool = True, sleep_interval: float = 0.001) -> list[NDArray]:
        """Return the outputs of the oldest run whose outputs were not taken yet. Without
        ``synchronize``, an empty list if they are not there yet.

        An error that a stage raised in this run is raised here.
        """
        if not synchronize:
            if any(one.empty() for one in self._results.values()):
                return []
        elif self._taken >= self._count:
            raise ExecutionError("there is no run whose outputs could come", notes=("call run()",))
        while any(one.empty() for one in self._results.values()):
            time.sleep(sleep_interval)
        found = [one.get() for one in self._results.values()]
        self._taken += 1
        for one in found:
            if isinstance(one, _Failure):
                raise one.error
        return found

    @property
    def num_executing_pipeline(self) -> int:
        """The number of runs that were started."""
        return self._count

    @property
    def num_outputs(self) -> int:
        """The number of outputs."""
        return len(self.plan.outputs)

    @property
    def num_inputs(self) -> int:
        """The number of inputs."""
        return len(self.plan.inputs)

    @staticmethod
    def load_library(config_file_name: PathLike, device: Device | None = None) -> PipelineModule:
        """Load a pipeline that `export_library` wrote; its files lie beside the plan."""
        path = os.fspath(config_file_name)
        with open(path, encoding="utf-8") as file:
            try:
                data = json.load(file)
            except ValueError as error:
                raise ArtifactError(f"'{path}' is no plan of a pipeline: {error}") from error
        plan = Plan.from_json(data)
        folder = os.path.dirname(os.path.abspath(path))
        files = data.get("files", ())
        if len(files) != len(plan.stages) or any(os.path.basename(one) != one for one in files):
            raise ArtifactError(f"'{path}' does not name a file beside it for each stage")
        stages = {
            name: {"lib": load_module(os.path.join(folder, one)), "dev": device}
            for name, one in zip(plan.stages, files)
        }
        return PipelineModule(PipelineExecutorFactoryModule(stages, plan))


def _end(queues: Sequence[queue.SimpleQueue[Any]]) -> None:
    """Let the threads of the stages end."""
    for one in queues:
        one.put(None)
