"""Filter: only the PrimFuncs that fulfil a condition stay in the module."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.ir.transform import Pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.registration import function_pass

__all__ = ["Filter"]


def Filter(fcond: Callable[[PrimFunc], bool]) -> Pass:  # noqa: N802
    """A pass that removes the PrimFuncs for which ``fcond`` is false."""
    return function_pass(lambda func: func if fcond(func) else None, "tir.Filter")
