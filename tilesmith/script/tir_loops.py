"""The words that open loops: ``T.serial``, ``T.grid``, ``T.thread_binding``, …"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, const, convert, operators
from tilesmith.script.diagnostics import nearest
from tilesmith.script.tir_blocks import domain_of
from tilesmith.script.tir_frames import ForFrame
from tilesmith.support.errors import ScriptError, TypeMismatchError
from tilesmith.tir.ranges import extent_between
from tilesmith.tir.stmt import ForKind

__all__ = [
    "check_thread", "check_threads", "grid", "parallel", "serial", "thread_binding", "unroll",
    "vectorized",
]  # fmt: skip


def _loop(kind: ForKind, start: Any, stop: Any, annotations: Any, thread: Any = None) -> ForFrame:
    if stop is None:
        start, stop = const(0, convert(start).dtype), convert(start)
    low, stop = operators.match_types(start, stop)
    if not low.dtype.is_integer:
        raise TypeMismatchError(f"a loop counts integers, got {low.dtype}")
    return ForFrame([(low, extent_between(low, stop))], kind, thread, annotations)


def serial(start: Any, stop: Any = None, *, annotations: Any = None) -> ForFrame:
    """Open a serial loop; ``range`` in a ``for`` means the same."""
    return _loop(ForKind.SERIAL, start, stop, annotations)


def parallel(start: Any, stop: Any = None, *, annotations: Any = None) -> ForFrame:
    """Open a loop whose iterations run in any order on several threads."""
    return _loop(ForKind.PARALLEL, start, stop, annotations)


def vectorized(start: Any, stop: Any = None, *, annotations: Any = None) -> ForFrame:
    """Open a loop that becomes vector instructions."""
    return _loop(ForKind.VECTORIZED, start, stop, annotations)


def unroll(start: Any, stop: Any = None, *, annotations: Any = None) -> ForFrame:
    """Open a loop that is unrolled."""
    return _loop(ForKind.UNROLLED, start, stop, annotations)


def thread_binding(
    start: Any, stop: Any = None, thread: Any = None, *, annotations: Any = None
) -> ForFrame:
    """Open a loop over the threads of a GPU: ``T.thread_binding(32, thread="threadIdx.x")``."""
    if thread is None and isinstance(stop, str):
        stop, thread = None, stop
    if thread is None:
        raise ScriptError('T.thread_binding needs thread="threadIdx.x" or the like')
    check_thread(thread)
    frame = _loop(ForKind.THREAD_BINDING, start, stop, annotations, thread)
    check_threads(thread, frame.domains[0][1])
    return frame


_THREADS = [
    *[f"{kind}.{letter}" for kind in ("blockIdx", "threadIdx", "vthread") for letter in "xyz"],
    "vthread", "cthread",
]  # fmt: skip


def check_thread(tag: Any) -> None:
    """Refuse an unknown thread axis whose name is almost that of a known one."""
    if not isinstance(tag, str) or tag in _THREADS:
        return
    advice = nearest(tag, _THREADS)
    if advice:
        raise ScriptError(f"unknown thread axis '{tag}'", notes=advice)


def check_threads(tag: Any, extent: Any) -> None:
    """Refuse a constant number of threads below 0; 0 is that of a tensor without elements."""
    if isinstance(extent, IntImm) and extent.value < 0:
        raise ScriptError(
            f"{tag} cannot have {extent.value} threads",
            notes=("the extent of a thread axis is how many threads or blocks there are",),
        )


def grid(*extents: Any) -> ForFrame:
    """Open a nest of serial loops: ``for i, j in T.grid(16, 16):``. A pair is begin and end."""
    domains = []
    for extent in extents:
        domain = domain_of(extent)
        domains.append((domain.min, domain.extent))
    if not domains:
        raise ScriptError("T.grid needs at least one extent")
    return ForFrame(domains, many=True)
