"""Finds the functions of a module that a call of a tensor program means."""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.ir import Call, GlobalVar, IRModule, PrimExpr, StringImm
from tilesmith.ir.queries import is_call
from tilesmith.tir.function import PrimFunc

__all__ = ["Functions"]

_BY_NAME = (
    "tir.call_extern",
    "tir.call_pure_extern",
    "tir.tvm_call_packed",
    "tir.tvm_call_cpacked",
)


class Functions:
    """The PrimFuncs of a module, by the names that calls use."""

    def __init__(self, module: IRModule) -> None:
        self._by_name: dict[str, PrimFunc] = {}
        for variable, function in module.functions.items():
            if isinstance(function, PrimFunc):
                self._by_name[variable.name_hint] = function
                symbol = function.attrs.get("global_symbol")
                if symbol is not None:
                    self._by_name.setdefault(str(symbol), function)

    def callee(self, call: Call) -> PrimFunc | None:
        """Return the function of the module that is called; None for all else."""
        if isinstance(call.op, GlobalVar):
            return self._by_name.get(call.op.name_hint)
        if is_call(call, *_BY_NAME) and isinstance(call.args[0], StringImm):
            return self._by_name.get(call.args[0].value)
        return None

    @staticmethod
    def arguments(call: Call) -> Sequence[PrimExpr]:
        """Return what a call hands to the function."""
        return call.args if isinstance(call.op, GlobalVar) else call.args[1:]
