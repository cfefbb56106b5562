"""Draws numbers as choices that are kept, so that they can be given, and lowered, later."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

__all__ = ["Choices", "Nothing"]


class Nothing(Exception):
    """Raised when there is no candidate that could be chosen."""


class Choices:
    """Draws numbers, and values by their numbers.

    Every choice is a number, 0 for the simplest; ``choices`` keeps them in order. ``given`` are
    choices to make instead of drawing: the shrinker lowers them one by one.
    """

    def __init__(self, rng: random.Random, given: Sequence[int] = ()) -> None:
        self.rng = rng
        self.given = given
        self.choices: list[int] = []

    def _choice(self, count: int, drawn: int) -> int:
        """Return the next choice out of ``count``: the one that is given, else the one drawn."""
        place = len(self.choices)
        chosen = min(self.given[place], count - 1) if place < len(self.given) else drawn
        self.choices.append(chosen)
        return chosen

    def number(self, low: int, high: int) -> int:
        """Return an integer within bounds."""
        return low + self._choice(high - low + 1, self.rng.randint(low, high) - low)

    def chance(self, probability: float = 0.5) -> bool:
        """Return True with a probability."""
        return bool(self._choice(2, int(self.rng.random() < probability)))

    def among(self, values: Any) -> Any:
        """Return one of some values; raise Nothing if there is no value."""
        values = list(values)
        if not values:
            raise Nothing
        return values[self._choice(len(values), self.rng.randrange(len(values)))]

    def shuffled(self, values: Any) -> list[Any]:
        """Return the values in any order."""
        left, made = list(values), []
        order = list(range(len(left)))
        self.rng.shuffle(order)
        for number, drawn in enumerate(order):
            earlier = sum(1 for other in order[:number] if other < drawn)
            made.append(left.pop(self._choice(len(left), drawn - earlier)))
        return made
