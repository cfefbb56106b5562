"""Builds pipelines: which modules are the stages, and how their inputs and outputs are connected.

    config = PipelineConfig()
    config["input"]["data"].connect(config[first]["input"]["x"])
    config[first]["output"][0].connect(config[second]["input"]["y"])
    config[second]["output"][0].connect(config["output"][0])
    config[first].target = "llvm"
    factory = build(config)

`contrib.pipeline_executor` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.contrib.pipeline_executor import PipelineExecutorFactoryModule, Plan
from tilesmith.driver.relay_build import build as build_program
from tilesmith.ir import IRModule
from tilesmith.runtime.devices import Device, cpu
from tilesmith.support.errors import (
    DiagnosticError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

__all__ = ["PipelineConfig", "build", "export_library", "pipeline_executor_build_enabled"]


def pipeline_executor_build_enabled() -> bool:
    """Return True: pipelines need nothing that could be missing."""
    return True


class Binding:
    """An end of a connection: an input or output of a stage, or of the whole pipeline."""

    def __init__(self, owner: ModuleConfig | PipelineConfig, kind: str, name: str | int) -> None:
        self.owner = owner
        self.kind = kind
        self.name = name
        self.targets: list[Binding] = []
        self.source: Binding | None = None

    @property
    def is_global(self) -> bool:
        """Whether this belongs to the whole pipeline."""
        return isinstance(self.owner, PipelineConfig)

    def __repr__(self) -> str:
        owner = "the pipeline" if self.is_global else repr(self.owner)
        return f"{self.kind} {self.name!r} of {owner}"

    def connect(self, binding: Binding) -> None:
        """Let the data of this end flow to another one: an input of the pipeline to inputs of
        stages, an output of a stage to inputs of other stages or to an output of the pipeline.
        """
        if not isinstance(binding, Binding):
            raise TypeMismatchError(f"an input or output is needed, got {type(binding).__name__}")
        ends = (self.kind, self.is_global, binding.kind, binding.is_global)
        if ends not in _CONNECTIONS:
            raise DiagnosticError(
                f"{self!r} cannot be connected to {binding!r}",
                notes=("data flow from an output to an input, from left to right",),
            )
        if self.owner is binding.owner:
            raise DiagnosticError(f"{self!r} is connected to its own stage")
        if binding.source is not None:
            raise DiagnosticError(f"{binding!r} is connected already, to {binding.source!r}")
        binding.source = self
        self.targets.append(binding)


_CONNECTIONS = {
    ("input", True, "input", False),
    ("output", False, "input", False),
    ("output", False, "output", True),
    ("param", True, "param", False),
}
"""Kinds of both ends, and whether they belong to the whole pipeline."""


class Bindings:
    """The inputs (or outputs) of a stage or of the pipeline: ``[name]`` or ``[number]``."""

    def __init__(self, owner: Any, kind: str, known: Callable[[str | int], bool]) -> None:
        self.owner = owner
        self.kind = kind
        self.known = known
        self.made: dict[str | int, Binding] = {}

    def __getitem__(self, key: str | int) -> Binding:
        if not self.known(key):
            raise UnknownNameError(f"there is no {self.kind} {key!r} of {self.owner!r}")
        if key not in self.made:
            self.made[key] = Binding(self.owner, self.kind, key)
        return self.made[key]


class ModuleConfig:
    """One stage: its module, how it is built (``target``, ``dev``, ``params``, ``build_func``, …),
    and the ends of its connections.
    """

    def __init__(self, mod: IRModule, number: int) -> None:
        self.mod = mod
        self.number = number
        self.target: Any = "llvm"
        self.target_host: Any = None
        self.dev: Device = cpu()
        self.build_func: Callable[..., Any] | None = None
        self.params: Any = None
        self.mod_name = "default"
        self.export_cc: Any = None
        self.fcompile: Any = None
        self.cpu_affinity = ""
        main: Any = mod["main"]
        names = {param.name_hint for param in main.params}
        self.inputs = Bindings(self, "input", lambda key: key in names)
        self.outputs = Bindings(self, "output", lambda key: isinstance(key, int) and key >= 0)
        self.param = Binding(self, "param", "param")

    def __repr__(self) -> str:
        return f"stage {self.number}"

    def __getitem__(self, key: str) -> Any:
        """Return the ends: ``["input"]``, ``["output"]``, ``["param"]``."""
        known = {"input": self.inputs, "output": self.outputs, "param": self.param}
        if key not in known:
            raise UnknownNameError(f"a stage has no '{key}'", notes=("known: " + ", ".join(known),))
        return known[key]


class PipelineConfig:
    """The stages of a pipeline and their connections: ``config[mod]`` is the stage of a module,
    ``config["input"]``, ``config["output"]`` and ``config["param_group"]`` are the pipeline's own.
    """

    def __init__(self) -> None:
        self.stages: list[ModuleConfig] = []
        self.inputs = Bindings(self, "input", lambda key: isinstance(key, str))
        self.outputs = Bindings(self, "output", lambda key: isinstance(key, int) and key >= 0)
        self.params = Bindings(self, "param", lambda key: isinstance(key, str))

    def __repr__(self) -> str:
        return "the pipeline"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, IRModule):
            found = next((stage for stage in self.stages if stage.mod is key), None)
            if found is None:
                found = ModuleConfig(key, len(self.stages))
                self.stages.append(found)
            return found
        known = {"input": self.inputs, "output": self.outputs, "param_group": self.params}
        if key not in known:
            raise UnknownNameError(
                f"a pipeline has no {key!r}",
                notes=("known: a module, " + ", ".join([repr(one) for one in known]),),
            )
        return known[key]

    def pipe_input(self, name: str) -> Binding:
        """Return an input of the pipeline."""
        return self.inputs[name]

    def pipe_output(self, idx: int) -> Binding:
        """Return an output of the pipeline."""
        return self.outputs[idx]

    def get_mod_idx(self, mod: IRModule) -> int:
        """Return the number of a module's stage."""
        for stage in self.stages:
            if stage.mod is mod:
                return stage.number
        raise UnknownNameError(
            "this module is no stage of the pipeline", notes=("config[mod] makes it one",)
        )

    def dag_topology_sort(self) -> None:
        """Number the stages in the order of the data."""
        pending = sorted(self.stages, key=lambda one: one.number)
        done: list[ModuleConfig] = []
        while pending:
            ready = [one for one in pending if not [s for s in _sources(one) if s not in done]]
            if not ready:
                raise DiagnosticError(
                    "the stages of the pipeline are connected in a circle: "
                    + ", ".join([repr(one) for one in pending])
                )
            done.append(ready[0])
            pending.remove(ready[0])
        for number, stage in enumerate(done):
            stage.number = number

    def get_config(self) -> dict[str, Any]:
        """Return the connections and the stages as plain data, after checks."""
        self.dag_topology_sort()
        plan = self.plan()
        stages = {
            stage.number: {
                "mod_idx": stage.number,
                "target": stage.target,
                "dev": stage.dev,
                "mod_name": stage.mod_name,
                "cpu_affinity": stage.cpu_affinity,
            }
            for stage in self.stages
        }
        return {
            "module_config": stages,
            "input_connection": plan.inputs,
            "module_connection": plan.links,
            "output_connection": plan.outputs,
            "param_connection": plan.params,
        }

    def plan(self) -> Plan:
        """Return how the stages are connected."""
        ordered = sorted(self.stages, key=lambda one: one.number)
        plan = Plan([f"stage{stage.number}" for stage in ordered])
        for name, binding in self.inputs.made.items():
            plan.inputs[str(name)] = [(one.owner.number, str(one.name)) for one in binding.targets]  # type: ignore[union-attr]
        for stage in ordered:
            for output, binding in stage.outputs.made.items():
                for one in binding.targets:
                    if one.is_global:
                        plan.outputs[int(one.name)] = stage.number, int(output)
                    else:
                        plan.links.append(
                            (stage.number, int(output), one.owner.number, str(one.name))  # type: ignore[union-attr]
                        )
            if stage.param.source is not None:
                plan.params[str(stage.param.source.name)] = stage.number
        _check(self, plan)
        return plan


def _sources(stage: ModuleConfig) -> list[ModuleConfig]:
    """Return the stages whose outputs a stage needs."""
    ends = [one.source for one in stage.inputs.made.values()]
    return [one.owner for one in ends if one is not None and isinstance(one.owner, ModuleConfig)]


def _check(config: PipelineConfig, plan: Plan) -> None:
    """Refuse pipelines in which something is missing."""
    if not config.stages:
        raise DiagnosticError("the pipeline has no stage", notes=("config[mod] makes one",))
    if sorted(plan.outputs) != list(range(len(plan.outputs))) or not plan.outputs:
        raise DiagnosticError(
            f"the outputs of the pipeline are numbered {sorted(plan.outputs)}",
            notes=('connect stages to config["output"][0], [1], … without a gap',),
        )
    for stage in config.stages:
        if not [one for one in stage.inputs.made.values() if one.source is not None]:
            raise DiagnosticError(f"no input of {stage!r} is connected: it would never run")
        if not [one for one in stage.outputs.made.values() if one.targets]:
            raise DiagnosticError(f"no output of {stage!r} is used")


def build(pipe_configs: PipelineConfig) -> PipelineExecutorFactoryModule:
    """Compile the stages of a pipeline."""
    if not isinstance(pipe_configs, PipelineConfig):
        raise TypeMismatchError(f"a PipelineConfig is needed, got {type(pipe_configs).__name__}")
    pipe_configs.dag_topology_sort()
    plan = pipe_configs.plan()
    stages = {}
    for stage in pipe_configs.stages:
        if stage.cpu_affinity:
            raise UnsupportedError(
                f"{stage!r}: threads of stages are not bound to cores",
                notes=("leave cpu_affinity empty; set_num_threads limits a model's threads",),
            )
        function = stage.build_func or build_program
        lib = function(
            stage.mod,
            stage.target,
            params=stage.params,
            target_host=stage.target_host,
            mod_name=stage.mod_name,
        )
        stages[f"stage{stage.number}"] = {"lib": lib, "dev": stage.dev}
    return PipelineExecutorFactoryModule(stages, plan)


def export_library(factory: PipelineExecutorFactoryModule, directory_path: Any) -> str:
    """Write a pipeline to a folder; return the path of its plan."""
    return factory.export_library(directory_path)
