"""Defines the class of what ``build`` returns, as users' compiler names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.runtime import Module

__all__ = ["OperatorModule"]


class OperatorModule(Module):
    """Compiled functions together with the lowered modules, by target, that they were made of."""

    def __init__(
        self,
        mod: Module,
        ir_module_by_target: Mapping[Any, Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.__dict__.update(vars(mod))
        self.ir_module_by_target = ir_module_by_target
        self.name = name

    @classmethod
    def from_module(cls, mod: Module, **kwargs: Any) -> OperatorModule:
        """Return a module with what else is known of it."""
        return cls(mod, **kwargs)
