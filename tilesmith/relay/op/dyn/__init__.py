"""``relay.op.dyn``, known as ``relay.dyn``: operators whose sizes are computed by the program.

``relay.reshape(x, shape)`` and its like make calls of them where an argument that states sizes is
an expression.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relay.op.dyn import image, nn, shapes, unknown_sizes
from tilesmith.relay.op.view import find_function, functions

globals().update(functions("dyn."))

__all__ = sorted([*functions("dyn."), "image", "nn", "shapes", "unknown_sizes"])


def __getattr__(name: str) -> Any:
    """Find operators that were declared later."""
    return find_function("dyn." + name)
