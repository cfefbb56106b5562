"""Makes numbers parameters: constants of a program that are given when it is called.

A recipe keeps them in ``scalars``, each with a dtype and a value; the expression ``["scalar", k]``
stands for one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

__all__ = ["lift_constants"]

_DTYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16")
"""What a call can hand over as a number."""


def lift_constants(recipe: dict[str, Any], rng: random.Random) -> None:
    """Make one or two constants of a recipe parameters of its program."""
    found = [
        expr
        for stage in recipe["stages"] if "handed" not in str(stage.get("form"))
        for expr in _constants(stage)
    ]  # fmt: skip
    rng.shuffle(found)
    for expr in found[: rng.choice([1, 1, 2])]:
        _, dtype, value = expr
        scalars = recipe.setdefault("scalars", [])
        expr[:] = ["scalar", len(scalars)]
        scalars.append({"dtype": dtype, "value": value})


def _constants(part: Any) -> Iterator[list[Any]]:
    """Yield the constants of a stage that may become parameters."""
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list):
        if len(part) == 3 and part[0] == "const":
            if part[1] in _DTYPES and isinstance(part[2], (int, float)):
                yield part
            return
        for child in part:
            yield from _constants(child)
