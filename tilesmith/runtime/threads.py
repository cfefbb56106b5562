"""Provides the threads of generated code.

The number of threads: `TILESMITH_NUM_THREADS`, else `OMP_NUM_THREADS`, else the CPUs in the
process's affinity mask; `set_num_threads` overrides all; never more than the `-num-cores` of the
target.

Every generated library launches its parallel loops through a pointer of its own. We set it when
the library is loaded; without us it stays at the serial loop that the library carries:

    @__tilesmith_parallel_launch   ptr to void(ptr body, ptr data)
    @__tilesmith_launch_serial     its first value: one task, no threads
    @__tilesmith_launch_gomp       divides the work by libgomp
    @__tilesmith_launch_pool       divides the work by a pool in the library itself
    @__tilesmith_gomp              [3 x ptr]: GOMP_parallel, omp_get_thread_num, omp_get_num_threads
    @__tilesmith_num_threads       i32, at first 1
    @__tilesmith_max_threads       i32, 0: no bound (from `-num-cores`)

`body` is void(i32 task, i32 num_tasks, ptr data).
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from tilesmith.support.errors import ConfigError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.support.knobs import knobs

GOMP_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
SYMBOLS = (
    "__tilesmith_parallel_launch",
    "__tilesmith_launch_serial",
    "__tilesmith_launch_gomp",
    "__tilesmith_launch_pool",
    "__tilesmith_gomp",
    "__tilesmith_num_threads",
    "__tilesmith_max_threads",
)
"""Symbols of a generated library that this module looks up."""

_lock = threading.Lock()
_requested: int | None = None
_libraries: weakref.WeakSet[Any] = weakref.WeakSet()
_gomp: tuple[Any, tuple[int, ...]] | None = None
_gomp_searched = False


def default_num_threads() -> int:
    """Return the number of threads that is used until `set_num_threads` is called."""
    wanted = knobs.num_threads
    if wanted is None:
        # OMP_NUM_THREADS may be a list by nesting level: the first counts
        first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        wanted = int(first) if first.isdigit() and int(first) > 0 else None
    if wanted is not None:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def num_threads() -> int:
    """Return the number of threads that parallel loops use."""
    return _requested if _requested is not None else default_num_threads()


def set_num_threads(count: int | None) -> None:
    """Set the number of threads of all loaded and future libraries; None restores the default."""
    global _requested
    if count is not None and (not isinstance(count, int) or count < 1):
        raise ConfigError(f"the number of threads must be a positive integer, got {count!r}")
    with _lock:
        _requested = count
        for library in list(_libraries):
            _set_count(library.symbol)


def attach(library: Any) -> None:
    """Connect a loaded library (it has `symbol(name) -> address or None`) to its thread runtime."""
    symbol = library.symbol
    if symbol("__tilesmith_parallel_launch") is None:
        return
    with _lock:
        _libraries.add(library)
        _set_count(symbol)
        _set_launcher(symbol)


def _set_count(symbol: Callable[[str], int | None]) -> None:
    address = symbol("__tilesmith_num_threads")
    if address is None:
        return
    bound_address = symbol("__tilesmith_max_threads")
    bound = 0 if bound_address is None else ctypes.c_int32.from_address(bound_address).value
    count = num_threads()
    ctypes.c_int32.from_address(address).value = min(count, bound) if bound > 0 else count


def _set_launcher(symbol: Callable[[str], int | None]) -> None:
    choice = knobs.thread_runtime
    launch = symbol("__tilesmith_launch_serial")
    pool = symbol("__tilesmith_launch_pool")
    gomp = symbol("__tilesmith_launch_gomp")
    table = symbol("__tilesmith_gomp")
    if choice in ("auto", "pool") and pool is not None:
        # The pool before libgomp: its tasks are claimed, so that a thread without a processor does
        # not hold the others up. As fast as libgomp on a quiet machine, 4 to 40 times faster on
        # networks where other processes want the same processors (python -m benchmarks.run models).
        launch = pool
    elif choice in ("auto", "gomp") and gomp is not None and table is not None:
        functions = find_libgomp()
        if functions is not None:
            slots = (ctypes.c_void_p * len(GOMP_FUNCTIONS)).from_address(table)
            for index, address in enumerate(functions):
                slots[index] = address
            launch = gomp
        elif choice == "gomp":
            raise ConfigError(
                "TILESMITH_THREAD_RUNTIME=gomp, but no libgomp was found",
                notes=("name one: TILESMITH_LIBGOMP=/path/of/libgomp.so.1",),
            )
    if launch == symbol("__tilesmith_launch_serial") and choice != "serial":
        reason = (
            f"the code has no thread pool, and no libgomp was found (thread runtime '{choice}')"
        )
        record_fallback("threads", "parallel loops", reason)
    if launch is not None:
        pointer = symbol("__tilesmith_parallel_launch")
        ctypes.c_void_p.from_address(pointer).value = launch  # type: ignore[arg-type]


def find_libgomp() -> tuple[int, ...] | None:
    """Return the addresses of GOMP_FUNCTIONS in a libgomp, or None if there is none.

    Tried in this order: the library that TILESMITH_LIBGOMP names, one that the process has loaded,
    the system's, one inside an installed wheel.
    """
    global _gomp, _gomp_searched
    if not _gomp_searched:
        _gomp = _search_libgomp()
        _gomp_searched = True
    return None if _gomp is None else _gomp[1]


def _search_libgomp() -> tuple[Any, tuple[int, ...]] | None:
    named = knobs.libgomp
    if named is not None:
        found = _open_gomp(str(named))
        if found is None:
            raise ConfigError(f"TILESMITH_LIBGOMP: '{named}' cannot be loaded as a libgomp")
        return found
    if sys.platform == "win32":
        return None
    for path in [*_loaded_gomps(), "libgomp.so.1", *_gomps_in_wheels()]:
        found = _open_gomp(path)
        if found is not None:
            return found
    return None


def _open_gomp(path: str) -> tuple[Any, tuple[int, ...]] | None:
    try:
        library = ctypes.CDLL(path)
        addresses = [
            ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in GOMP_FUNCTIONS
        ]
    except (OSError, AttributeError):
        return None
    return library, tuple(int(address) for address in addresses if address)


def _loaded_gomps() -> list[str]:
    """Return the paths of libgomps in this process: sharing one avoids two teams of spinning
    threads.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = [line.split(maxsplit=5)[-1].strip() for line in maps if "libgomp" in line]
    except OSError:
        return []
    return sorted({path for path in paths if path.startswith("/")})


def _gomps_in_wheels() -> list[str]:
    found = []
    for folder in sys.path:
        for pattern in ("torch/lib/libgomp*.so*", "scikit_learn.libs/libgomp*.so*"):
            found += glob.glob(os.path.join(glob.escape(folder or "."), pattern))
    return found
