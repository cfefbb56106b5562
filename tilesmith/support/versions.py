"""A digest of what generated code depends on besides its input, for the keys of caches."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tilesmith.support.cache import digest
from tilesmith.support.file_memory import FileState, remembered_of_all
from tilesmith.support.knobs import knobs

__all__ = ["version_digest"]


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
    """Return a digest of the sources below a folder."""

    def contents(states: list[FileState]) -> str:
        parts: list[str | bytes] = []
        for state in states:
            with open(state.place, "rb") as file:
                parts += [state.place[len(str(root)) :], file.read()]
        return digest(*parts)

    return remembered_of_all(lambda: sorted(_states(str(root))), "sources", contents)


def _states(folder: str) -> Iterator[FileState]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _states(entry.path)
            elif entry.name.endswith(".py"):
                yield FileState.with_status(entry.path, entry.stat())
