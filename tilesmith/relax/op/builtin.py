"""``relax.op.builtin``: allocation before the memory plan, and markers."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.op import memory  # noqa: F401 - they declare the operators
from tilesmith.relax.op.declaration import find_function, functions

globals().update(functions("builtin."))


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("builtin." + name)
