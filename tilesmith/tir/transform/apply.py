"""Apply: a function of one's own as a pass over PrimFuncs."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.ir.transform import Pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.registration import function_pass

__all__ = ["Apply"]


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> Pass:  # noqa: N802
    """A pass that replaces each PrimFunc by what ``ftransform`` gives for it."""
    return function_pass(ftransform, "tir.Apply")
