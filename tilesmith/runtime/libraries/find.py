"""Finds and opens shared libraries that packages of Python or the system bring."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["libraries_of_packages", "libraries_of_prefix", "open_first", "system_libraries"]


def libraries_of_packages(packages: Iterable[str], pattern: str) -> Iterator[str]:
    """Yield the paths of libraries that lie in the folders where wheels put them: inside of a
    package, in its `lib` or `.dylibs`, and in `PACKAGE.libs` beside it.
    """
    for package in packages:
        found = importlib.util.find_spec(package)
        if found is None or not found.origin:
            continue
        home = Path(found.origin).parent
        for folder in (home.parent / f"{package}.libs", home / "lib", home / ".dylibs", home):
            yield from [str(path) for path in sorted(folder.glob(pattern)) if path.is_file()]


def libraries_of_prefix(names: Iterable[str]) -> Iterator[str]:
    """Yield the paths of libraries that packages install into this Python's `lib` folder."""
    for name in names:
        for folder in ("lib", os.path.join("Library", "bin")):
            yield from [str(path) for path in sorted(Path(sys.prefix, folder).glob(name))]


def system_libraries(names: Iterable[str]) -> Iterator[str]:
    """Yield what the system's loader knows under these names."""
    for name in names:
        path = ctypes.util.find_library(name)
        if path is not None:
            yield path


def open_first(candidates: Iterable[str], symbols: Iterable[str]) -> ctypes.CDLL | None:
    """Return the first library that loads and has one of the symbols; None where there is none."""
    wanted = list(symbols)
    for path in candidates:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue  # of another machine, or it needs a library that is missing
        if any(hasattr(library, symbol) for symbol in wanted):
            return library
    return None
