"""Remembers on disk what was found out about large files, until they change.

    digest = remembered(path, "contents", file_digest)      # reads the file only if it is new

What tells that a file changed is what the system says of it: its place, size, and the times at
which its contents and its properties changed. A file that changed a moment ago is looked at each
time: it may change once more within the resolution of these times.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tilesmith.support.cache import DiskCache, digest

__all__ = ["FileState", "known", "remember", "remembered", "remembered_of_all"]

FOUND = DiskCache("files")
_SECONDS_UNTIL_SETTLED = 2.0
_SECONDS_WITH_FINE_CLOCK = 0.05
_COARSE = 1_000_000  # nanoseconds


def remembered(path: str | os.PathLike[str], question: str, answer: Callable[[Path], str]) -> str:
    """Return ``answer(path)``, a text that depends on the contents and the place of the file alone;
    from disk if the same ``question`` was answered for the file as it is now. Links are followed
    first: an answer that names files must not name one that leads elsewhere later. Raises OSError
    if there is no such file.
    """
    return remembered_of_all(
        lambda: [FileState.of(path)], question, lambda states: answer(Path(states[0].place))
    )


def remembered_of_all(
    look: Callable[[], list[FileState]], question: str, answer: Callable[[list[FileState]], str]
) -> str:
    """Return an answer that depends on the contents and the places of the files alone whose states
    ``look`` returns, as `remembered` does for one file.
    """
    started = time.time()
    before = look()
    key = _key(question, before)
    found = FOUND.get(key)
    if found is not None:
        return found.decode()
    made = answer(before)
    is_settled = all(started - state.changed > state.settling for state in before)
    if is_settled and look() == before:
        FOUND.put(key, made.encode())
    return made


def known(path: str | os.PathLike[str], question: str) -> str | None:
    """Return what `remembered` knows without looking at the contents; None if it does not."""
    try:
        found = FOUND.get(_key(question, [FileState.of(path)]))
    except OSError:
        return None
    return None if found is None else found.decode()


def remember(path: str | os.PathLike[str], question: str, answer: str) -> None:
    """Note an answer about a file that the caller has just made and that nobody else writes."""
    with contextlib.suppress(OSError):  # another process has removed it
        FOUND.put(_key(question, [FileState.of(path)]), answer.encode())


class FileState(NamedTuple):
    """What the system says of a file."""

    place: str
    device: int
    number: int
    size: int
    changes: tuple[int, int]
    """When its contents and its properties changed, in nanoseconds."""

    @staticmethod
    def of(path: str | os.PathLike[str]) -> FileState:
        """Return the state of the file that a path leads to. Raises OSError if there is none."""
        return FileState.with_status(os.path.realpath(path), os.stat(path))

    @staticmethod
    def with_status(place: str, status: os.stat_result) -> FileState:
        """Return the state of the file at a place, from its status."""
        changes = status.st_mtime_ns, status.st_ctime_ns
        return FileState(place, status.st_dev, status.st_ino, status.st_size, changes)

    @property
    def changed(self) -> float:
        """When anything of it changed last, in seconds."""
        return max(self.changes) / 1e9

    @property
    def settling(self) -> float:
        """The seconds within which a second change might leave all this as it is. Where the system
        counts nanoseconds, it looks at its clock a hundred times a second or more.
        """
        if max(self.changes) % _COARSE == 0:
            return _SECONDS_UNTIL_SETTLED
        return min(_SECONDS_UNTIL_SETTLED, _SECONDS_WITH_FINE_CLOCK)


def _key(question: str, states: list[FileState]) -> str:
    return digest(question, repr([tuple(state) for state in states]))
