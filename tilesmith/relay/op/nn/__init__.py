"""``relay.op.nn``, known as ``relay.nn``: operators of neural networks."""

from __future__ import annotations

from typing import Any

from tilesmith.relay.op.nn import nn, utils
from tilesmith.relay.op.view import find_function, functions

globals().update(functions("nn."))

__all__ = sorted([*functions("nn."), "nn", "utils"])


def __getattr__(name: str) -> Any:
    """Find operators that were declared later."""
    return find_function("nn." + name)
