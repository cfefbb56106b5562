"""Writes files atomically: to a temporary file beside the target, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PathLike = str | os.PathLike[str]


@contextmanager
def replace_file(path: PathLike) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces `path` when the `with` block succeeds and is removed when
    it fails.
    """
    target = Path(path)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def write_atomically(path: PathLike, contents: bytes | str) -> None:
    """Write a whole file; readers see the old contents or the new ones."""
    with replace_file(path) as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)


def make_atomically(path: PathLike, make: Callable[[str], None]) -> None:
    """Let `make(temporary_path)` write a file and move it to `path` if it did not raise."""
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        temporary = os.path.join(folder, target.name)
        make(temporary)
        os.replace(temporary, target)


def _umask() -> int:
    # mkstemp makes files for the owner only; give the new file what `open` would have given it.
    # The umask can be read only by setting it.
    current = os.umask(0)
    os.umask(current)
    return current
