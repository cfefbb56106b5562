"""Finds the place in a text that shows the end of a path."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.node import Node
from tilesmith.ir.object_path import ObjectPath

__all__ = ["place_of"]

Range = tuple[Any, int, int]


def place_of(path: ObjectPath, root: Any, ranges: list[Range]) -> list[tuple[int, int]]:
    """Return start and end of the text that shows the end of a path from ``root``, or of the last
    object on the path that is shown at all; nothing if none is.

    A shared object is shown in several places. The one that is meant lies in the text of what
    holds it (below, if that is the head of a block), after as many others as the path leaves aside.
    ``ranges``: (object, start, end) of all that is shown, as ``render`` collects them.
    """
    shown: dict[int, list[tuple[int, int]]] = {}
    for value, start, end in ranges:
        shown.setdefault(id(value), []).append((start, end))
    found: tuple[int, int] | None = None
    holder: Node | None = None
    steps: list[Any] = []
    for prefix, value in zip(path.prefixes(), path.resolve_all(root)):
        steps.append(prefix.step)
        if not isinstance(value, Node):
            continue
        places = _inside(found, sorted(set(shown.get(id(value), ()))))
        if places:
            aside = _left_aside(holder, value, steps) if holder is not None else 0
            found = places[min(aside, len(places) - 1)]
        holder, steps = value, []
    return [] if found is None else [found]


def _inside(outer: tuple[int, int] | None, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if outer is None:
        return places
    within = [one for one in places if outer[0] <= one[0] and one[1] <= outer[1]]
    return within or [one for one in places if one[0] >= outer[0]]


def _left_aside(holder: Node, value: Any, steps: list[Any]) -> int:
    """Return how often ``value`` is a child of ``holder`` before the child that the steps take."""
    count = 0
    for field, content in holder.field_values():
        if field.name != steps[0]:
            items = content if isinstance(content, tuple) else (content,)
        else:
            items = content[: steps[1]] if isinstance(content, tuple) and len(steps) > 1 else ()
        count += sum([item is value for item in items])
        if field.name == steps[0]:
            break
    return count
