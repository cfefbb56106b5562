"""Describes this machine: its CPU's features, the cores that the process may use, and its caches.

Decisions are made by features: on virtual machines LLVM's name for the CPU can be wrong while the
features are right. Everything is queried once per process.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilesmith.support.errors import MissingDependencyError

_CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class HostCPU:
    """This machine as LLVM describes it: triple, CPU name and the features that are on.

    `changes` switches every feature explicitly on or off, whatever the name implies.
    """

    triple: str
    name: str
    features: frozenset[str]
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CacheSizes:
    """Bytes of the data caches that one core sees; a level that is unknown or missing is 0."""

    l1: int
    l2: int
    l3: int
    line: int = 64


@cache
def host_cpu() -> HostCPU:
    """Return this machine's CPU, as LLVM sees it (imports llvmlite's binding: 0.04 s).

    Raises MissingDependencyError where llvmlite is not installed.
    """
    try:
        from llvmlite import binding
    except ImportError as error:
        raise MissingDependencyError("llvmlite", purpose="reading this CPU's features") from error
    try:
        states = dict(binding.get_host_cpu_features())
    except RuntimeError:  # LLVM cannot list features on this platform: only the name is used
        states = {}
    changes = tuple(("+" if is_on else "-") + name for name, is_on in sorted(states.items()))
    features = frozenset(name for name, is_on in states.items() if is_on)
    return HostCPU(binding.get_default_triple(), binding.get_host_cpu_name(), features, changes)


def host_architecture() -> str:
    """Return the architecture of this process as triples begin with it, without asking LLVM or the
    CPU.
    """
    name = platform.machine().lower()
    if sys.maxsize < 2**32:  # a process of 32 bits on a larger machine
        return {"x86_64": "i686", "amd64": "i686", "aarch64": "arm", "arm64": "arm"}.get(name, name)
    return name


def host_cores() -> int:
    """Return the number of CPUs that this process may run on (its affinity mask where there is
    one).
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def host_caches(folder: Path = _CACHE_FOLDER) -> CacheSizes | None:
    """Return the caches of this machine's first core, or None where the system does not report
    them.
    """
    sizes: dict[int, int] = {}
    line = 64
    for index in sorted(folder.glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            level = int((index / "level").read_text())
            sizes[level] = _bytes((index / "size").read_text())
            line = int((index / "coherency_line_size").read_text())
        except (OSError, ValueError):
            continue
    if 1 not in sizes:
        return None
    return CacheSizes(sizes[1], sizes.get(2, 0), sizes.get(3, 0), line)


def _bytes(text: str) -> int:
    """Convert a size such as `512K` to bytes (524288)."""
    text = text.strip()
    factor = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:].upper(), 1)
    return int(text.rstrip("KMGkmg")) * factor
