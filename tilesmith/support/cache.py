"""Caches values on disk under the blake2 digest of their inputs; safe under concurrent use, bounded
in size.

    KERNELS = DiskCache("kernels")
    key = digest(canonical_text, target, version_digest())
    code = KERNELS.get(key)
    if code is None:
        code = compile(...)
        KERNELS.put(key, code)

Each entry is a file that is written under a temporary name and renamed, so that readers never see
half of one; a damaged entry is a miss. Where the folder cannot be written nothing is stored (a
recorded fallback): a cache only saves time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tilesmith.support.fallbacks import record_fallback
from tilesmith.support.files import make_atomically, replace_file
from tilesmith.support.knobs import knobs

_DIGEST_SIZE = 32
_PUTS_BETWEEN_SWEEPS = 64
_KEEP_AFTER_SWEEP = 0.8


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


def version_digest() -> str:
    """Return a digest of everything besides the input that generated code depends on: the versions
    of Tilesmith (in a checkout: its sources), llvmlite and Python, and the knobs that change code.
    """
    return digest(_versions(), repr(knobs.cache_key()))


@cache
def _versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    import tilesmith

    try:
        llvmlite = version("llvmlite")
    except PackageNotFoundError:
        llvmlite = "none"
    root = Path(tilesmith.__file__).parent
    sources = _sources(root) if (root.parent / ".git").exists() else ""
    python = platform.python_version()
    return digest(tilesmith.__version__, sources, llvmlite, python)


def _sources(root: Path) -> str:
    parts: list[str | bytes] = []
    for path in sorted(root.rglob("*.py")):
        parts += [str(path.relative_to(root)), path.read_bytes()]
    return digest(*parts)


def cache_folder() -> Path:
    """Return the folder of all disk caches: TILESMITH_CACHE_DIR, else the system's place for
    caches.
    """
    named = knobs.cache_dir
    if named is not None:
        return Path(named)
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "tilesmith"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home)) / "tilesmith" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "tilesmith"


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
        if not key or not all(char in "0123456789abcdef" for char in key):
            raise ValueError(f"'{key}' is no digest")
        return self.folder / key[:2] / key

    def get(self, key: str) -> bytes | None:
        """Return the bytes stored under a key, or None if there are none (or they are damaged)."""
        path = self.get_file(key)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError:
            return None
        body = content[_DIGEST_SIZE:]
        if hashlib.blake2b(body, digest_size=_DIGEST_SIZE).digest() != content[:_DIGEST_SIZE]:
            record_fallback("cache", self.name, "a damaged entry was removed")
            with contextlib.suppress(OSError):
                path.unlink()
            self.hits -= 1
            self.misses += 1
            return None
        return body

    def put(self, key: str, value: bytes) -> None:
        """Store bytes under a key."""
        if not self.enabled:
            return
        try:
            path = self._make_folder(key)
            with replace_file(path) as file:
                file.write(hashlib.blake2b(value, digest_size=_DIGEST_SIZE).digest())
                file.write(value)
            self._after_put()
        except OSError as error:
            self._record_unwritable(error)

    def get_file(self, key: str) -> Path | None:
        """Return the file stored under a key, or None. Its contents are not checked here."""
        if not self.enabled:
            return None
        path = self._path(key)
        try:
            os.utime(
                path
            )  # marks the entry as just used: the sweep removes the least recently used
        except OSError:
            self.misses += 1
            return None
        self.hits += 1
        return path

    def put_file(self, key: str, make: Callable[[str], None]) -> Path | None:
        """Let `make(path)` write the file of a key; return its path, or None if it could not be
        stored.
        """
        if not self.enabled:
            return None
        try:
            path = self._make_folder(key)
        except OSError as error:
            self._record_unwritable(error)
            return None
        make_atomically(path, make)
        self._after_put()
        return path

    def remove(self, key: str) -> None:
        """Remove the entry of a key."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def clear(self) -> None:
        """Remove all entries."""
        for entry, _, _ in self._entries():
            with contextlib.suppress(OSError):
                entry.unlink()

    def size(self) -> int:
        """Return the bytes of all entries."""
        return sum([size for _, size, _ in self._entries()])

    def _record_unwritable(self, error: OSError) -> None:
        reason = f"{self.folder} cannot be written: {error.strerror or error}"
        record_fallback("cache", self.name, reason)

    def _make_folder(self, key: str) -> Path:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _after_put(self) -> None:
        self._puts += 1
        if self._puts % _PUTS_BETWEEN_SWEEPS == 1:
            self.sweep()

    def sweep(self) -> None:
        """Remove the least recently used entries until the cache is within its bound."""
        limit_mib = self._limit_mib if self._limit_mib is not None else knobs.cache_size
        limit = limit_mib << 20
        entries = self._entries()
        total = sum([size for _, size, _ in entries])
        if total <= limit:
            return
        for path, size, _ in sorted(entries, key=lambda entry: entry[2]):
            if total <= limit * _KEEP_AFTER_SWEEP:
                break
            with contextlib.suppress(OSError):  # another process may have removed it
                path.unlink()
            total -= size

    def _entries(self) -> list[tuple[Path, int, float]]:
        found = []
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                if path.is_file():
                    found.append((path, status.st_size, status.st_mtime))
        return found
