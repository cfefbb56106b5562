"""Loops as functions that call themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.relay.expr import If, Let, Tuple, Var, var
from tilesmith.relay.function import Function

__all__ = ["while_loop"]


def while_loop(
    cond: Callable[..., Any],
    loop_vars: Sequence[Var],
    loop_bodies: Callable[..., Sequence[Any]],
) -> Any:
    """Return the function that repeats ``loop_bodies(*vars)``, which gives the next values, as long
    as ``cond(*vars)`` is true; it takes the first values and returns the tuple of the last ones.
    """
    loop = var("while_loop")
    values = Tuple(list(loop_vars))
    again = loop(*loop_bodies(*loop_vars))
    function = Function(loop_vars, If(cond(*loop_vars), again, values))
    return Let(loop, function, loop)
