"""Marks ranges of a program for NVIDIA's profilers (Nsight Systems and Compute), by NVTX.

The package `nvtx` is used if it is installed, else the library `libnvToolsExt` of CUDA up to 12.
Without either a range does nothing: it is a note for a profiler, and changes no result.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["find_functions", "has_nvtx", "profiler_range"]

LIBRARIES: tuple[str, ...] = (
    ("nvToolsExt64_1.dll",) if sys.platform == "win32" else ("libnvToolsExt.so.1",)
)


@contextmanager
def profiler_range(name: str) -> Iterator[None]:
    """Give what runs in a `with` block a name on the profiler's time line."""
    found = find_functions()
    if found is None:
        yield
        return
    push, pop = found
    push(name)
    try:
        yield
    finally:
        pop()


def has_nvtx() -> bool:
    """True if ranges are seen by profilers here."""
    return find_functions() is not None


@cache
def find_functions() -> tuple[Callable[[str], Any], Callable[[], Any]] | None:
    """Return what begins and ends a range; None if there is nothing here that does."""
    try:
        import nvtx
    except ImportError:
        pass
    else:
        return nvtx.push_range, nvtx.pop_range
    for name in LIBRARIES:
        try:
            return _of_library(ctypes.CDLL(name))
        except OSError:
            continue
    return None


def _of_library(library: ctypes.CDLL) -> tuple[Callable[[str], Any], Callable[[], Any]]:
    push = library.nvtxRangePushA
    push.argtypes = [ctypes.c_char_p]
    return lambda text: push(text.encode()), library.nvtxRangePop
