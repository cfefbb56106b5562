"""Reads shapes of inputs from text."""

from __future__ import annotations

import argparse
import re
from typing import Any

from tilesmith import relay

_ONE = re.compile(r"\s*(?P<name>\"[^\"]+\"|'[^']+'|[^\s\[\]]+?)\s*:\s*\[(?P<sizes>[^\[\]]*)\]\s*,?")


def parse_shape_string(inputs_string: str) -> dict[str, list[Any]]:
    """Return the shapes in a text such as ``"x:[1,3,224,224] y:[-1,2]"`` by name; a size of -1 is
    `relay.Any`. Names may contain colons and slashes.

    Raises ArgumentTypeError, which parsers of arguments report, for another text.
    """
    shapes: dict[str, list[Any]] = {}
    place = 0
    while place < len(inputs_string.rstrip()):
        found = _ONE.match(inputs_string, place)
        if found is None:
            raise _wrong(inputs_string)
        name = found["name"].strip("\"'")
        if name in shapes:
            raise argparse.ArgumentTypeError(f"the shape of '{name}' is given twice")
        shapes[name] = _sizes(found["sizes"], inputs_string)
        place = found.end()
    if not shapes:
        raise _wrong(inputs_string)
    return shapes


def _sizes(text: str, whole: str) -> list[Any]:
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(re.fullmatch(r"-?\d+", word) for word in words):
        raise _wrong(whole)
    return [relay.Any() if int(word) < 0 else int(word) for word in words]


def _wrong(text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(
        f'shapes of inputs are written "name:[1,3,224,224] other:[1,2]", got "{text}"'
    )
