"""Lets Python's collector of cycles run rarely while much is made that stays.

A compilation makes hundreds of thousands of objects. The collector looks at all of them again and
again, which takes up to a tenth of the time, and finds little.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["rare_collections"]

_YOUNG = 100_000
"""Objects that are made between two collections; Python's own number is 700."""

_lock = threading.Lock()
_inside = 0
_outside = (0, 0, 0)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect less often in the ``with`` block, unless the program collects as rarely already.

    It holds for the whole process, until the last thread has left its block.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _outside
    with _lock:
        if _inside == 0:
            _outside = gc.get_threshold()
            if 0 < _outside[0] < _YOUNG:
                gc.set_threshold(_YOUNG, *_outside[1:])
        _inside += 1


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        young, *rest = gc.get_threshold()
        if _inside == 0 and young == _YOUNG:  # nobody else has changed it
            gc.set_threshold(_outside[0], *rest)
