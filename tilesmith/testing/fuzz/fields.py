"""Fields of the proof machine: what a case is about besides plain programs of blocks.

A field changes the case of a seed: its recipe, its steps, or how it is lowered. Each one is a small
function here, drawn with a weight, and can be asked for by name. To add one, write a function that
takes the case and a source of randomness, and name it in ``FIELDS``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tilesmith.testing.fuzz.forms import draw_form
from tilesmith.testing.fuzz.generator import MORE_STAGES, Generator
from tilesmith.testing.fuzz.layouts import LAID_OUT, draw_layout
from tilesmith.testing.fuzz.recipe import parameters_of

__all__ = ["FIELDS", "apply_field", "draw_field"]

Case = dict[str, Any]


def _blocks(case: Case, rng: random.Random) -> None:
    """Programs of blocks as they are."""


def _scripts(case: Case, rng: random.Random) -> None:
    """Each module between two passes is printed and parsed, saved and loaded."""
    case["scripts"] = True


def _layouts(case: Case, rng: random.Random) -> None:
    """Parameters with strides, offsets and alignments."""
    recipe = case["recipe"]
    dtypes = {tensor["name"]: tensor["dtype"] for tensor in recipe["inputs"]}
    ranks = {tensor["name"]: len(tensor["shape"]) for tensor in recipe["inputs"]}
    for stage in recipe["stages"]:
        for tensor in stage["tensors"]:
            dtypes[tensor["name"]] = tensor["dtype"]
            ranks[tensor["name"]] = len(tensor["shape"])
    recipe["layouts"] = {
        name: draw_layout(rng, ranks[name])
        for name in parameters_of(recipe)
        if rng.random() < 0.6 and dtypes[name] in LAID_OUT
    }


def _statements(case: Case, rng: random.Random) -> None:
    """Opaque and nested blocks, views, branches, places and counts that the data decide."""
    case["recipe"] = recipe = Generator(random.Random(case["seed"]), MORE_STAGES).draw()
    for stage in recipe["stages"]:
        if rng.random() < 0.6:
            stage["form"] = draw_form(rng, stage)


FIELDS: dict[str, tuple[float, Callable[[Case, random.Random], None]]] = {
    "blocks": (10, _blocks),
    "scripts": (1, _scripts),
    "layouts": (1, _layouts),
    "statements": (2, _statements),
}
"""Name → how often it is drawn, and what makes a case of it."""


def draw_field(rng: random.Random) -> str:
    """The name of a field."""
    return rng.choices(list(FIELDS), [weight for weight, _ in FIELDS.values()])[0]


def apply_field(case: Case, field: str) -> None:
    """Make a case one of a field."""
    case["field"] = field
    FIELDS[field][1](case, random.Random(case["seed"] * 104729 + 11))
