"""``relax.op.nn``: operators of neural networks."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.op import (  # noqa: F401 - they declare the operators
    activation,
    attention,
    convolution,
    linear_algebra,
    normalization,
    packed_attention,
    padding,
    pooling,
    views,
)
from tilesmith.relax.op.declaration import find_function, functions

globals().update(functions("nn."))


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("nn." + name)
