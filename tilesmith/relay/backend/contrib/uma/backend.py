"""Declares a backend by a class: `UMABackend`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import Pass
from tilesmith.relay.backend.contrib.uma.api.codegen import UMACodegen
from tilesmith.relay.backend.contrib.uma.api.lower import UMALower
from tilesmith.relay.backend.contrib.uma.api.partitioner import UMAPartitioner
from tilesmith.relay.backend.contrib.uma.api.utils import PassPhase
from tilesmith.relay.backend.external_code import EXTERNAL_KINDS
from tilesmith.relay.dataflow_pattern import DFPattern
from tilesmith.relay.function import Function
from tilesmith.runtime.module import Module
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import ConfigError, TypeMismatchError
from tilesmith.target.kind import KINDS, declare_kind

__all__ = ["UMABackend"]

_EXTERNAL_DEVICE = 12
_KINDS_OF_OPTIONS = {bool: "bool", int: "int", str: "str"}


class UMABackend(ABC):
    """Base of backends. A class registers in its ``__init__`` what it has; `register` makes it
    known, then `partition` divides programs, and `relay.build` compiles them.
    """

    def __init__(self, merge_compiler_regions: bool = True) -> None:
        self._target_attrs: dict[str, str | int | bool] = {}
        self._relay_to_relay = UMAPartitioner(self.target_name, merge_compiler_regions)
        self._relay_to_tir = UMALower(self.target_name)
        self._tir_to_runtime = UMACodegen(self.target_name)

    @property
    @abstractmethod
    def target_name(self) -> str:
        """The name of the kind of target, and of the compiler."""

    def _register_target_attr(self, name: str, default: str | int | bool = "") -> None:
        """Declare an option of the target: ``Target("name -option=value")``."""
        if type(default) not in _KINDS_OF_OPTIONS:
            raise TypeMismatchError(
                f"the option '{name}' is a text, a whole number or a truth value, not {default!r}"
            )
        self._target_attrs[name] = default

    def _register_relay_pass(self, phase: PassPhase, relay_pass: Pass) -> None:
        """Add a pass over the program, before or after it is divided."""
        if phase.is_tir:
            raise ConfigError(
                f"a pass over the program cannot run in the phase {phase.name}",
                notes=("PRE_PARTITIONING, POST_PARTITIONING_0 or POST_PARTITIONING_1",),
            )
        self._relay_to_relay.add_relay_pass(phase, relay_pass)

    def _register_pattern(
        self, name: str, pattern: DFPattern, predicate: Callable[..., Any] | None = None
    ) -> None:
        """Add a pattern of what the backend takes; ``predicate(root)`` may refuse a match."""
        self._relay_to_relay.add_pattern(name, pattern, predicate)

    def _register_operator_strategy(
        self, op: str, strat: Callable[..., Any], plevel: int | None = 11
    ) -> None:
        """Add the strategy of an operator for the backend."""
        self._relay_to_tir.add_operator_strategy(op, strat, plevel)

    def _register_tir_pass(self, phase: PassPhase, tir_pass: Pass) -> None:
        """Add a pass over the loops of the parts, which are not scheduled."""
        if not phase.is_tir:
            raise ConfigError(
                f"a pass over loops cannot run in the phase {phase.name}",
                notes=("TIR_PHASE_0, TIR_PHASE_1 or TIR_PHASE_2",),
            )
        self._relay_to_tir.add_tir_pass(phase, tir_pass)

    def _register_codegen(self, fmt: str = "c", **kwargs: Any) -> None:
        """State how code is written (see `UMACodegen`)."""
        self._tir_to_runtime = UMACodegen(self.target_name, fmt, **kwargs)

    def register(self) -> None:
        """Make the backend known: its target, patterns, strategies and code. Raises ConfigError
        for a name that is taken.
        """
        if self.target_name in KINDS:
            raise ConfigError(
                f"there is a kind of target '{self.target_name}' already",
                notes=("a backend is registered once; choose another target_name",),
            )
        words = [
            f"{name}:{_KINDS_OF_OPTIONS[type(default)]}" + (f"={default}" if default != "" else "")
            for name, default in self._target_attrs.items()
        ]
        declare_kind(self.target_name, _EXTERNAL_DEVICE, self.target_name, " ".join(words))
        EXTERNAL_KINDS.add(self.target_name)
        self._relay_to_relay.register()
        self._relay_to_tir.register()
        register_func(f"relay.ext.{self.target_name}", self._generate, override=True)

    def _generate(self, function: Function) -> Module:
        return self._tir_to_runtime.generate(self._relay_to_tir.lower(function))

    def partition(self, mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
        """Return a module whose matches are functions for the backend."""
        return self._relay_to_relay.partition(mod, params)
