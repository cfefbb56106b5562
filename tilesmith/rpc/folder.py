"""Defines `Folder`: the files of a session. Their names cannot lead out of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tilesmith.rpc.protocol import PIECE
from tilesmith.support.errors import RPCError

LARGEST_FILE = 16 << 30
"""Bytes of the largest file that can be uploaded."""


class Folder:
    """Files by name, below one folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self.root.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of a file's name. Raises RPCError for one that leads elsewhere."""
        root = self.root.resolve()
        is_name = bool(name) and "\0" not in name and not os.path.isabs(name)
        path = Path(root, name).resolve() if is_name else root
        if root not in path.parents:
            raise RPCError(
                f"'{name}' is not the name of a file in the folder of the session",
                notes=("name files without a path, such as 'lib.tar'",),
            )
        return path

    def existing(self, name: str) -> Path:
        path = self.path(name)
        if not path.is_file():
            known = ", ".join(self.list_files("")) or "none"
            raise RPCError(
                f"the session has no file '{name}'", notes=(f"upload it first; it has: {known}",)
            )
        return path

    def upload(self, name: str, offset: int, content: bytes) -> None:
        """Write a piece of a file; the first one begins a new file."""
        path = self.path(name)
        if offset == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # code that is loaded from the old file keeps it
        have = path.stat().st_size if path.exists() else 0
        if have != offset or have + len(content) > LARGEST_FILE:
            raise RPCError(f"'{name}' has {have} bytes: a piece at {offset} does not fit")
        with path.open("ab") as file:
            file.write(content)

    def download(self, name: str, offset: int, size: int) -> bytes:
        """Return a piece of a file; empty after its end."""
        if offset < 0 or not 0 < size <= PIECE:
            raise RPCError(f"a piece of {size} bytes at {offset} cannot be read")
        with self.existing(name).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""
        path = self.path(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def list_files(self, name: str) -> list[str]:
        """Return the names of the files, or of those in a folder of the session."""
        folder = self.path(name) if name not in ("", ".", "/") else self.root
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
