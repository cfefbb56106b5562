"""Remembers on disk what was found out about large files, until they change.

    digest = remembered(path, "contents", file_digest)      # reads the file only if it is new

What tells that a file changed is what the system says of it: its place, size, and the times at
which its contents and its properties changed. A file that changed a moment ago is looked at each
time: it may change once more within the resolution of these times.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tilesmith.support.cache import DiskCache, digest

__all__ = ["remembered"]

FOUND = DiskCache("files")
_SECONDS_UNTIL_SETTLED = 2.0


def remembered(path: str | os.PathLike[str], question: str, answer: Callable[[Path], str]) -> str:
    """Return ``answer(path)``, a text that depends on the contents and the place of the file alone;
    from disk if the same ``question`` was answered for the file as it is now. Links are followed
    first: an answer that names files must not name one that leads elsewhere later. Raises OSError
    if there is no such file.
    """
    place = Path(path)
    started = time.time()
    before = _state(place)
    key = digest(question, repr(before))
    known = FOUND.get(key)
    if known is not None:
        return known.decode()
    found = answer(Path(before.place))
    is_settled = started - max(before.changes) / 1e9 > _SECONDS_UNTIL_SETTLED
    if is_settled and _state(place) == before:
        FOUND.put(key, found.encode())
    return found


class _State(NamedTuple):
    """What the system says of a file."""

    place: str
    device: int
    number: int
    size: int
    changes: tuple[int, int]
    """When its contents and its properties changed, in nanoseconds."""


def _state(path: Path) -> _State:
    status = path.stat()
    changes = status.st_mtime_ns, status.st_ctime_ns
    return _State(str(path.resolve()), status.st_dev, status.st_ino, status.st_size, changes)
