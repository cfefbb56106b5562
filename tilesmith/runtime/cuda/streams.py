"""Queues of work on CUDA devices (streams), and events, which wait and measure.

The stream of a thread for a device is tvm-ffi's (`TVMFFIEnvSetStream`), so that launches, copies,
allocations and other users of tvm-ffi agree; 0 is CUDA's default stream. Streams that are made here
are ordered with the default stream, as CUDA's are unless one asks for the opposite (which the side
streams of models do).
"""

from __future__ import annotations

import ctypes
from typing import Any

from tilesmith.runtime.cuda.driver import Active, Driver, check, still_serves
from tilesmith.runtime.devices import DEVICE_TYPES, StreamEvent, Timer
from tilesmith.runtime.ffi import current_stream, set_current_stream
from tilesmith.support.errors import DeviceError

__all__ = [
    "CUDA", "Event", "EventTimer", "KernelTimer", "OrderEvent", "create", "free", "hand_over",
    "is_freed", "is_recorded", "join", "select", "stream_of",
]  # fmt: skip

CUDA = DEVICE_TYPES["cuda"]
_WITHOUT_TIME = 2  # CU_EVENT_DISABLE_TIMING
_NOT_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: no order with the default stream
_LEGACY, _PER_THREAD = 1, 2  # numbers of default streams in DLPack, and handles in CUDA
_made: dict[int, int] = {}
"""Streams that were made here and live → their device."""
_freed: set[int] = set()


def stream_of(device_id: int) -> int:
    """Return the stream of this thread for a device."""
    return current_stream(CUDA, device_id)


def handle_of(stream: Any) -> int:
    """Return a stream as a number: of an integer, a ctypes pointer, None, or a stream of torch or
    cupy.
    """
    if stream is None:
        return 0
    for name in ("value", "cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name) or 0)
    return int(stream)


def create(device_id: int, is_ordered: bool = True) -> int:
    """Return a new stream, which is ordered with the default stream or only by events."""
    made, flags = ctypes.c_void_p(), 0 if is_ordered else _NOT_BLOCKING
    with Active(device_id) as found:
        check(found.cuStreamCreate(ctypes.byref(made), flags), "cuStreamCreate", device_id)
    handle = made.value or 0
    _made[handle] = device_id
    _freed.discard(handle)
    return handle


def free(device_id: int, stream: Any) -> None:
    """Release a stream of `create`; its work is still done."""
    handle = handle_of(stream)
    if handle not in _made:
        raise DeviceError(
            f"this is no stream of cuda({device_id}) that create_raw_stream made, or it is freed "
            "already"
        )
    del _made[handle]
    _freed.add(handle)
    if stream_of(device_id) == handle:
        set_current_stream(CUDA, device_id, 0)
    with Active(device_id) as found:
        check(found.cuStreamDestroy(handle), "cuStreamDestroy", device_id)


def is_freed(stream: int) -> bool:
    """True for a stream that was made here and is no more."""
    return stream in _freed


def is_recorded(found: Driver, stream: int) -> bool:
    """True while what a stream is given is recorded as a graph, and not done."""
    state = ctypes.c_int()
    return (
        stream != 0
        and found.cuStreamIsCapturing(stream, ctypes.byref(state)) == 0
        and state.value != 0
    )


def select(device_id: int, stream: Any) -> None:
    """Make a stream that of this thread for a device."""
    handle = handle_of(stream)
    if handle in _freed:
        raise DeviceError(f"the stream {handle:#x} was freed")
    set_current_stream(CUDA, device_id, handle)


def join(found: Driver, waiting: int, before: int) -> int:
    """Let a stream wait for what another has been given so far; return the status. The context is
    that of both.
    """
    event = ctypes.c_void_p()
    status: int = found.cuEventCreate(ctypes.byref(event), _WITHOUT_TIME)
    if status:
        return status
    status = found.cuEventRecord(event, before) or found.cuStreamWaitEvent(waiting, event, 0)
    found.cuEventDestroy(event)  # released when it has happened
    return status


def hand_over(device_id: int, consumer: Any) -> None:
    """Let the stream of a consumer of a tensor wait for ours, by the rules of DLPack: None and 1
    are the legacy default stream, 2 is the one of the thread, -1 needs no order.
    """
    if consumer == -1:
        return
    theirs = handle_of(consumer) or _LEGACY
    ours = stream_of(device_id) or _LEGACY
    if theirs != ours:
        with Active(device_id) as found:
            check(join(found, theirs, ours), "cuStreamWaitEvent, for a consumer", device_id)


class Event(StreamEvent):
    """A point in the work of a stream."""

    def __init__(self, device_id: int = 0, has_time: bool = True) -> None:
        self.device_id = device_id
        made, flags = ctypes.c_void_p(), 0 if has_time else _WITHOUT_TIME
        with Active(device_id) as found:
            check(found.cuEventCreate(ctypes.byref(made), flags), "cuEventCreate", device_id)
        self._found = found
        self.handle = made.value or 0

    def record(self, stream: Any = None) -> None:
        """Let the event happen when a stream has done what it was given; without one the stream of
        this thread.
        """
        handle = stream_of(self.device_id) if stream is None else handle_of(stream)
        with Active(self.device_id) as found:
            check(found.cuEventRecord(self.handle, handle), "cuEventRecord", self.device_id)

    def wait(self, stream: Any) -> None:
        """Let a stream wait for the event as it was recorded last."""
        with Active(self.device_id) as found:
            status = found.cuStreamWaitEvent(handle_of(stream), self.handle, 0)
        check(status, "cuStreamWaitEvent", self.device_id)

    def synchronize(self) -> None:
        """Wait until the event has happened."""
        with Active(self.device_id) as found:
            check(found.cuEventSynchronize(self.handle), "cuEventSynchronize", self.device_id)

    def seconds_since(self, begin: Event) -> float:
        """Return the time between an earlier event and this one, which have both happened."""
        value = ctypes.c_float()
        with Active(self.device_id) as found:
            status = found.cuEventElapsedTime(ctypes.byref(value), begin.handle, self.handle)
        check(status, "cuEventElapsedTime", self.device_id)
        return value.value * 1e-3

    def __del__(self) -> None:
        handle = getattr(self, "handle", 0)
        if handle and still_serves(self._found, self.device_id):
            self._found.cuEventDestroy(handle)


class OrderEvent(Event):
    """An event that measures no time, and is used only where its device's context is current."""

    def __init__(self, device_id: int) -> None:
        super().__init__(device_id, has_time=False)

    def record(self, stream: Any = None) -> None:
        """Let the event happen when a stream has done what it was given."""
        handle = stream_of(self.device_id) if stream is None else stream
        status = self._found.cuEventRecord(self.handle, handle)
        if status:
            check(status, "cuEventRecord", self.device_id)

    def wait(self, stream: Any) -> None:
        """Let a stream wait for the event as it was recorded last."""
        status = self._found.cuStreamWaitEvent(stream, self.handle, 0)
        if status:
            check(status, "cuStreamWaitEvent", self.device_id)


class EventTimer(Timer):
    """Measures on the device, between two events of the stream of this thread."""

    def __init__(self, device_id: int) -> None:
        self._begin, self._end = Event(device_id), Event(device_id)

    def start(self) -> None:
        """Note the begin in the stream."""
        self._begin.record()

    def end(self) -> None:
        """Note the end in the stream."""
        self._end.record()

    def seconds(self) -> float:
        """Wait for the end; return the seconds between begin and end."""
        self._end.synchronize()
        return self._end.seconds_since(self._begin)

    def since(self, first: EventTimer) -> float:
        """Return the seconds from the begin of another clock to that of this one."""
        return self._begin.seconds_since(first._begin)


class KernelTimer(EventTimer):
    """Measures one kernel; what two events behind each other measure is taken off."""

    def __init__(self, device_id: int, nothing: float) -> None:
        super().__init__(device_id)
        self._nothing = nothing

    def seconds(self) -> float:
        """Wait for the end; return the kernel's seconds."""
        return max(super().seconds() - self._nothing, 0.0)
