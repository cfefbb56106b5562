"""Makes temporary folders and file locks."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from tilesmith.support.errors import ConfigError, TilesmithError

_LOCK_TIMEOUT_SECONDS = 60.0


class DirectoryCreatedPastAtExit(Exception):
    """Raised where a temporary folder is made when the program is about to end."""


class TempDirectory:
    """A folder that is removed with the object; with `custom_path`, a folder that stays.

    With `keep_for_debug`, or inside of `set_keep_for_debug()`, folders stay as well.
    """

    _keeps = False
    _is_exiting = False
    _made: ClassVar[weakref.WeakSet[TempDirectory]] = weakref.WeakSet()

    def __init__(self, custom_path: str | None = None, keep_for_debug: bool | None = None) -> None:
        if TempDirectory._is_exiting:
            raise DirectoryCreatedPastAtExit("the program ends: no temporary folder can be made")
        self._owner: tempfile.TemporaryDirectory[str] | None = None
        keeps = TempDirectory._keeps if keep_for_debug is None else keep_for_debug
        if custom_path is not None:
            os.makedirs(custom_path, exist_ok=True)
            self.temp_dir = custom_path
        elif keeps:
            self.temp_dir = tempfile.mkdtemp(prefix="tilesmith-")
        else:
            self._owner = tempfile.TemporaryDirectory(prefix="tilesmith-")
            self.temp_dir = self._owner.name
            TempDirectory._made.add(self)

    @classmethod
    def remove_tempdirs(cls) -> None:
        """Remove all temporary folders of this program; afterwards none can be made."""
        TempDirectory._is_exiting = True
        for one in list(TempDirectory._made):
            one.remove()

    @classmethod
    @contextmanager
    def set_keep_for_debug(cls, set_to: bool = True) -> Iterator[None]:
        """Let folders that are made in the `with` block stay (or not)."""
        before, TempDirectory._keeps = TempDirectory._keeps, set_to
        try:
            yield
        finally:
            TempDirectory._keeps = before

    def remove(self) -> None:
        """Remove the folder with its contents, unless it is meant to stay."""
        if self._owner is not None:
            self._owner.cleanup()

    @property
    def path(self) -> str:
        """Path of the folder."""
        return self.temp_dir

    def relpath(self, name: str) -> str:
        """Return path of a file in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """Return names of the files in the folder."""
        return os.listdir(self.temp_dir)

    def __truediv__(self, name: str) -> str:
        return self.relpath(name)

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *details: object) -> None:
        self.remove()


def tempdir(custom_path: str | None = None, keep_for_debug: bool | None = None) -> TempDirectory:
    """Make a temporary folder."""
    return TempDirectory(custom_path, keep_for_debug)


class FileLock:
    """A lock between processes: held while the file exists. Use it in a `with` block."""

    def __init__(self, path: str) -> None:
        self.path = path
        deadline = time.monotonic() + _LOCK_TIMEOUT_SECONDS
        while True:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
                return
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise TilesmithError(
                        f"the lock '{path}' was not released within {_LOCK_TIMEOUT_SECONDS:.0f} s",
                        notes=("remove the file if no program is using it",),
                    ) from None
                time.sleep(0.01)

    def release(self) -> None:
        """Release the lock."""
        if os.path.exists(self.path):
            os.unlink(self.path)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *details: object) -> None:
        self.release()


def filelock(path: str) -> FileLock:
    """Wait for a lock and take it."""
    return FileLock(path)


def is_source_path(path: str) -> bool:
    """True if the text is the path of a source file rather than source code."""
    return os.path.exists(path) or "\n" not in path and path.endswith((".c", ".cc", ".cu", ".ll"))


def which(exec_name: str) -> str | None:
    """Return the path of a program, or None if it is not found."""
    if not exec_name:
        raise ConfigError("which: the name of a program is needed")
    return shutil.which(exec_name)
