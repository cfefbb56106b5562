"""Keeps the side streams of each stream of callers, on which models run their branches.

They are shared by all models that run in that stream: each begins on them behind what the stream
was given before, and ends with the stream waiting for them.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["forget", "known_side_streams", "side_streams"]

_lock = threading.Lock()
_sides: dict[tuple[tuple[int, int], int], list[Any]] = {}


def side_streams(place: tuple[int, int], stream: int, count: int, api: Any) -> list[Any]:
    """Return so many side streams of a stream on a device, which is given by its type and number;
    ``api`` is that of the type (`devices.DeviceAPI`).
    """
    with _lock:
        found = _sides.setdefault((place, stream), [])
        if not all(api.serves(place[1], one) for one in found):
            found.clear()
        while len(found) < count:
            found.append(api.create_side_stream(place[1]))
        return found[:count]


def known_side_streams(place: tuple[int, int], stream: int) -> list[Any]:
    """Return the side streams that a stream has so far."""
    return list(_sides.get((place, stream), ()))


def forget(place: tuple[int, int], stream: int, api: Any) -> None:
    """Release the side streams of a stream that goes away."""
    with _lock:
        found = _sides.pop((place, stream), [])
    for one in [one for one in found if api.serves(place[1], one)]:
        api.free_raw_stream(place[1], one)
