"""Records which schedules were considered for the blocks of a function, and why one was chosen.

with capture_choices() as choices:
    tilesmith.compile("model.onnx")
for choice in choices:
    print(choice.function, choice.block, choice.reason)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Choice", "Considered", "capture_choices", "choices_are_wanted", "record_choice"]


@dataclass(frozen=True)
class Considered:
    """A candidate with its predicted time."""

    text: str
    cycles: float
    components: dict[str, float]
    """The predicted cycles by what they are spent on."""

    def to_json(self) -> dict[str, Any]:
        """Return the candidate as JSON data."""
        return {"text": self.text, "cycles": self.cycles, "components": self.components}


@dataclass(frozen=True)
class Choice:
    """The candidates for the schedule of one block, the winner first."""

    function: str
    block: str
    considered: tuple[Considered, ...]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the choice as JSON data."""
        return {
            "function": self.function, "block": self.block, "reason": self.reason,
            "candidates": [one.to_json() for one in self.considered],
        }  # fmt: skip


class _Captures(threading.local):
    def __init__(self) -> None:
        self.lists: list[list[Choice]] = []


_captures = _Captures()


def choices_are_wanted() -> bool:
    """Return whether something captures choices in this thread."""
    return bool(_captures.lists)


def record_choice(choice: Choice) -> None:
    """Give a choice to all lists that capture in this thread."""
    for one in _captures.lists:
        one.append(choice)


@contextmanager
def capture_choices() -> Iterator[list[Choice]]:
    """Collect the choices that this thread makes within a `with` block; scopes may be nested."""
    found: list[Choice] = []
    _captures.lists.append(found)
    try:
        yield found
    finally:
        _captures.lists.pop()
