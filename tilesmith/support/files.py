"""Writes files atomically: to a temporary file beside the target, then renamed.

What the system refuses (a folder that is missing, no space left) is a FileError, which names the
target instead of the temporary file.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tilesmith.support.errors import FileError

PathLike = str | os.PathLike[str]


@contextmanager
def replace_file(path: PathLike) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces `path` when the `with` block succeeds and is removed when
    it fails. Devices and pipes are written as they are.
    """
    target = Path(path)
    with _refusals_named(target):
        if target.exists() and not (target.is_file() or target.is_dir()):
            with open(target, "wb") as file:  # a device or a pipe, which must not be replaced
                yield file
            return
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


@contextmanager
def _refusals_named(target: Path) -> Iterator[None]:
    """Raise FileError, which names the target, for what the system refuses."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        folder = target.absolute().parent
        notes = () if folder.is_dir() else (f"there is no folder '{folder}'",)
        reason = error.strerror or str(error)
        raise FileError(f"cannot write '{target}': {reason}", notes=notes, reason=error) from error


def write_atomically(path: PathLike, contents: bytes | str) -> None:
    """Write a whole file; readers see the old contents or the new ones."""
    with replace_file(path) as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)


def make_atomically(path: PathLike, make: Callable[[str], None]) -> None:
    """Let `make(temporary_path)` write a file and move it to `path` if it did not raise."""
    target = Path(path)
    with (
        _refusals_named(target),
        tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder,
    ):
        temporary = os.path.join(folder, target.name)
        make(temporary)
        os.replace(temporary, target)


def _umask() -> int:
    # mkstemp makes files for the owner only; give the new file what `open` would have given it.
    # The umask can be read only by setting it.
    current = os.umask(0)
    os.umask(current)
    return current
