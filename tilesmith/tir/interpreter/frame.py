"""The layout of an environment: the slot of each variable and buffer of a function."""

from __future__ import annotations

from tilesmith.ir import Node

__all__ = ["CONTEXT_SLOT", "THREAD_SLOT", "Frame"]

CONTEXT_SLOT = 0
THREAD_SLOT = 1
_FIRST_FREE = 2


class Frame:
    """Assigns each variable and buffer of a function a slot of the environment."""

    def __init__(self) -> None:
        self.slots: dict[Node, int] = {}
        self.size = _FIRST_FREE

    def slot(self, key: Node) -> int:
        """Return the slot of a variable or buffer, a new one where it has none yet."""
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = self.size
            self.size += 1
        return found
