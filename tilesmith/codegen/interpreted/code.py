"""Implements the part that the interpreting back end names: packed functions that interpret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.runtime.library import FUNCTION_PREFIX
from tilesmith.runtime.ndarray import NDArray
from tilesmith.runtime.packed_func import PackedFunc, convert_to_packed
from tilesmith.target import Target
from tilesmith.target.back_end import Code
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter import run

__all__ = ["generate"]


def generate(module: IRModule, target: Target, opt_level: int | None = None) -> Code:
    """Return packed functions that interpret a lowered module (format "tir": its script)."""
    symbols = [
        str(function.attrs.get("global_symbol", variable.name_hint))
        for variable, function in module.functions.items()
        if isinstance(function, PrimFunc)
    ]
    wrappers = [symbol for symbol in symbols if symbol.startswith(FUNCTION_PREFIX)]

    def functions() -> dict[str, PackedFunc]:
        return {
            symbol.removeprefix(FUNCTION_PREFIX): convert_to_packed(_interpreted(module, symbol))
            for symbol in wrappers
        }

    return Code({"tir": lambda: module.script()}, functions=functions)


def _interpreted(module: IRModule, symbol: str) -> Callable[..., Any]:
    """Return a function that interprets a wrapper on tensors, whose memory it changes in place."""

    def call(*arguments: Any) -> Any:
        given = [numpy.from_dlpack(one) if isinstance(one, NDArray) else one for one in arguments]
        return run(module, *given, entry=symbol)

    return call
