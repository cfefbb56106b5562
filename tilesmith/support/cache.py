"""Caches values on disk under the blake2 digest of their inputs; safe under concurrent use, bounded
in size.

    KERNELS = DiskCache("kernels")
    key = digest(canonical_text, target, version_digest())
    code = KERNELS.get(key)
    if code is None:
        code = compile(...)
        KERNELS.put(key, code)

Each entry is a file that is written under a temporary name and renamed, so that readers never see
half of one; a damaged entry is removed, and is a miss. Where the folder cannot be used (it cannot
be written, its disk is full, there is no home folder) nothing is stored, which is a recorded
fallback and a `CacheWarning`, once: a cache only saves time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tilesmith.support.errors import CacheWarning
from tilesmith.support.fallbacks import record_fallback
from tilesmith.support.files import make_atomically, replace_file
from tilesmith.support.knobs import knobs

_DIGEST_SIZE = 32
_PUTS_BETWEEN_SWEEPS = 64
_KEEP_AFTER_SWEEP = 0.8
_KEY = re.compile("[0-9a-f]{64}")
_SECONDS_BETWEEN_MARKS = 3600
_SECONDS_UNTIL_LEFT_OVER = 3600  # a file that is still being written is younger


def digest(*parts: str | bytes | memoryview) -> str:
    """Return a key: the blake2b digest of the parts. Moving a byte from one part to the next
    changes it.
    """
    state = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.hexdigest()


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return the digest of a file's contents, which are read piece by piece."""
    state = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            state.update(piece)
    return state.hexdigest()


def cache_folder() -> Path:
    """Return the folder of all disk caches: TILESMITH_CACHE_DIR, else the system's place for
    caches. Raises OSError where there is none, because the user has no home folder.
    """
    named = knobs.cache_dir
    if named is not None:
        return Path(named)
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "tilesmith"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or _home()) / "tilesmith" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "tilesmith"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise FileNotFoundError(
            "there is no home folder for it; name a folder in TILESMITH_CACHE_DIR"
        ) from error


def cache_problem() -> str:
    """Return why the caches cannot be written, or "" if they can: a small file is written."""
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def disk_caches() -> list[DiskCache]:
    """Return the caches that have a folder."""
    try:
        folders = [path for path in cache_folder().iterdir() if path.is_dir()]
    except OSError:
        return []
    return [DiskCache(path.name) for path in sorted(folders)]


@dataclass(frozen=True)
class CacheEntry:
    """One file of a cache."""

    path: Path
    size: int
    """In bytes."""
    used: float
    """When it was last used, in seconds as `time.time` counts them."""


class DiskCache:
    """A table from keys (digests) to bytes or files in one folder.

    `folder` and `limit_mib` default to the knobs; `TILESMITH_CACHE=0` switches all caches off.
    """

    def __init__(self, name: str, folder: Path | None = None, limit_mib: int | None = None) -> None:
        self.name = name
        self._folder = folder
        self._limit_mib = limit_mib
        self._puts = 0
        self.hits = 0
        self.misses = 0

    @property
    def enabled(self) -> bool:
        """True if the cache is in use."""
        return bool(knobs.cache)

    @property
    def folder(self) -> Path:
        """The folder of the entries."""
        return self._folder if self._folder is not None else cache_folder() / self.name

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"'{key}' is not a digest")
        return self.folder / key[:2] / key

    def get(self, key: str) -> bytes | None:
        """Return the bytes stored under a key, or None if there are none (or they are damaged)."""
        path = self.get_file(key)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError as error:
            self.drop_damaged(key, f"it cannot be read: {error.strerror or error}")
            return None
        body = content[_DIGEST_SIZE:]
        if hashlib.blake2b(body, digest_size=_DIGEST_SIZE).digest() != content[:_DIGEST_SIZE]:
            self.drop_damaged(key, "it is not what was written")
            return None
        return body

    def put(self, key: str, value: bytes) -> None:
        """Store bytes under a key."""

        def write(path: Path) -> None:
            with replace_file(path) as file:
                file.write(hashlib.blake2b(value, digest_size=_DIGEST_SIZE).digest())
                file.write(value)

        self._store(key, write)

    def get_file(self, key: str) -> Path | None:
        """Return the file stored under a key, or None. Its contents are not checked here: whoever
        finds them damaged calls `drop_damaged`.
        """
        if not self.enabled:
            return None
        try:
            path = self._path(key)
            found = path.is_file()
            damaged = not found and path.is_dir()
        except OSError as error:
            self._report_unusable(error)
            found = damaged = False
        if not found:
            self.misses += 1
            if damaged:
                self._remove(path, "a folder is in its place")
            return None
        _mark_as_used(path)
        self.hits += 1
        return path

    def put_file(self, key: str, make: Callable[[str], None]) -> Path | None:
        """Let `make(path)` write the file of a key; return its path, or None if it could not be
        stored.
        """
        return self._store(key, lambda path: make_atomically(path, make))

    def _store(self, key: str, write: Callable[[Path], None]) -> Path | None:
        if not self.enabled:
            return None
        try:
            path = self._path(key)
            _make_way(path)
            write(path)
            self._after_put()
        except OSError as error:
            self._report_unusable(error)
            return None
        return path

    def drop_damaged(self, key: str, reason: str) -> None:
        """Remove an entry that `get_file` returned and that cannot be used: it becomes a miss."""
        self.hits -= 1
        self.misses += 1
        self._remove(self._path(key), reason)

    def _remove(self, path: Path, reason: str) -> None:
        record_fallback("cache", self.name, f"a damaged entry was removed: {reason}")
        _delete(path)

    def remove(self, key: str) -> None:
        """Remove the entry of a key."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def clear(self) -> int:
        """Remove all entries; return the bytes that this freed."""
        return self.prune(most_seconds=float("-inf"))

    def size(self) -> int:
        """Return the bytes of all entries."""
        return sum([entry.size for entry in self.entries()])

    def _report_unusable(self, error: OSError) -> None:
        """Record that something is not stored or found; warn once about a folder of caches."""
        try:
            folder = self.folder.parent
        except OSError:
            folder = Path()
        reason = f"the cache {folder} cannot be used: {error.strerror or error}"
        record_fallback("cache", self.name, reason)
        with _lock:
            is_new = folder not in _warned
            _warned.add(folder)
        if is_new:
            advice = "compiling goes on without it; see: tilesmith doctor"
            warnings.warn(f"{reason}; {advice}", CacheWarning, stacklevel=2)

    def _after_put(self) -> None:
        self._puts += 1
        if self._puts % _PUTS_BETWEEN_SWEEPS == 1:
            self.sweep()

    def sweep(self) -> None:
        """Remove the least recently used entries if the cache is beyond its bound."""
        limit_mib = self._limit_mib if self._limit_mib is not None else knobs.cache_size
        limit = limit_mib << 20
        if self.size() > limit:
            self.prune(int(limit * _KEEP_AFTER_SWEEP))

    def prune(self, most_bytes: int | None = None, most_seconds: float | None = None) -> int:
        """Remove entries that were not used for longer than `most_seconds`, then the least recently
        used until `most_bytes` are left; return the bytes that this freed.
        """
        now = time.time()
        entries = sorted(self.entries(), key=lambda entry: entry.used)
        before = left = sum([entry.size for entry in entries])
        for entry in entries:
            is_old = most_seconds is not None and now - entry.used > most_seconds
            if is_old or (most_bytes is not None and left > most_bytes):
                _delete(entry.path)
                left -= entry.size
        self._delete_left_overs(now)
        return before - left

    def _delete_left_overs(self, now: float) -> None:
        """Delete what processes that were killed while writing have left."""
        for path in self.folder.glob("??/.*"):
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime > _SECONDS_UNTIL_LEFT_OVER:
                    _delete(path)

    def entries(self) -> list[CacheEntry]:
        """Return the entries in no particular order; [] where the folder cannot be read."""
        found = []
        with contextlib.suppress(OSError):
            for path in self.folder.glob("??/*"):
                with contextlib.suppress(OSError):  # another process may remove it meanwhile
                    status = path.stat()
                    if path.is_file() and _KEY.fullmatch(path.name):
                        found.append(CacheEntry(path, status.st_size, status.st_mtime))
        return found


_warned: set[Path] = set()
_lock = threading.Lock()


def _mark_as_used(path: Path) -> None:
    """Note that an entry is in use: the sweep removes the least recently used ones. An entry that
    was used shortly before keeps its times, so that what is known about the file stays known.
    """
    with contextlib.suppress(OSError):  # not in a folder that can only be read
        if time.time() - path.stat().st_mtime > _SECONDS_BETWEEN_MARKS:
            os.utime(path)


def _make_way(path: Path) -> None:
    """Make the folder of an entry; remove what is in its place and in that of the entry."""
    if path.is_dir():
        _delete(path)
    if path.parent.is_file():
        path.parent.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)


def _delete(path: Path) -> None:
    """Delete a file or a folder; another process may have done it."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
