"""What targets have to say about operators before they become computes: a replacement, or None.

@topi.take_legalize.register("my_target")
def take_legalize_my_target(attrs, inputs, types): ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.target.generic_func import generic_func

__all__ = ["erf_legalize", "take_legalize"]


@generic_func
def erf_legalize(attrs: Any, inputs: Sequence[Any], types: Sequence[Any]) -> Any:
    """Return what takes the place of an error function on the current target; None: nothing."""


@generic_func
def take_legalize(attrs: Any, inputs: Sequence[Any], types: Sequence[Any]) -> Any:
    """Return what takes the place of a ``take`` on the current target; None: nothing."""
