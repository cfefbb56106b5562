"""Lowers the functions of a backend to loops: by its operator strategies, then by its passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule, Op, register_op_attr
from tilesmith.ir.transform import Pass
from tilesmith.relay.backend.contrib.uma.api.partitioner import flattened
from tilesmith.relay.backend.contrib.uma.api.utils import PassPhase
from tilesmith.relay.backend.te_compiler import lower_to_primfunc
from tilesmith.relay.function import Function
from tilesmith.target import Target
from tilesmith.target.generic_func import GenericFunc
from tilesmith.tir import PrimFunc

__all__ = ["UMALower"]


class UMALower:
    """The operator strategies and the passes over loops of a backend."""

    def __init__(self, target_name: str) -> None:
        self.target_name = target_name
        self._passes: list[tuple[PassPhase, Pass]] = []
        self._strategies: list[tuple[str, Callable[..., Any], int]] = []

    def add_tir_pass(self, phase: PassPhase, tir_pass: Pass) -> None:
        """Add a pass over PrimFuncs."""
        self._passes.append((phase, tir_pass))

    def add_operator_strategy(
        self, op: str, strategy: Callable[..., Any], plevel: int | None = 11
    ) -> None:
        """Add the strategy of an operator for the backend: ``(attrs, inputs, out_type, target)``
        → `OpStrategy`.
        """
        self._strategies.append((op, strategy, 11 if plevel is None else plevel))

    def register(self) -> None:
        """Enter the strategies."""
        for name, strategy, level in self._strategies:
            generic = Op.get(name).get_attr("FTVMStrategy")
            if not isinstance(generic, GenericFunc):
                generic = GenericFunc(f"{name}_strategy", generic)
                register_op_attr(name, "FTVMStrategy", generic, level)
            generic.register(strategy, [self.target_name], allow_override=True)

    def lower(self, function: Function) -> PrimFunc:
        """Return the PrimFunc of a function after the passes, in the order of their phases."""
        symbol = str(function.attrs["global_symbol"])
        prim = lower_to_primfunc(flattened(function), Target(self.target_name))
        module = IRModule({symbol: prim.with_attr("global_symbol", symbol)})
        for _, one in sorted(self._passes, key=lambda row: row[0].value):
            module = one(module)
        made: Any = module[symbol]
        return made  # type: ignore[no-any-return]
