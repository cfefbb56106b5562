"""Runs the branches of a model on several streams of a device (`driver.graph_streams`).

    running = RunningCall(opencl(0), count=2, events=3)
    with running as number:                    stream 0 is that of the caller
        native code(…, number)

The code chooses streams and marks events by calls of the functions below. Events belong to a call,
side streams to the stream of its caller (`side_streams`).
"""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tilesmith.runtime.devices import Device, StreamEvent
from tilesmith.runtime.ffi import current_stream, set_current_stream
from tilesmith.runtime.registry import register_func
from tilesmith.runtime.side_streams import side_streams
from tilesmith.support.errors import TilesmithError
from tilesmith.support.fallbacks import record_fallback

__all__ = ["RunningCall"]

_numbers = itertools.count(1)
_running: dict[int, RunningCall] = {}


class RunningCall:
    """The streams and events of a call; it may be used again, but not by two calls at once."""

    def __init__(self, device: Device, count: int, events: int) -> None:
        self._device, self._count = device, count
        self._place = (device.device_type, device.device_id)
        self._number_of_events = events
        self._events: list[StreamEvent] = []
        self._streams: list[Any] = []
        self._active: AbstractContextManager[Any] = nullcontext()
        self._number = 0

    def __enter__(self) -> int:
        """Return a number of this call for native code."""
        api, device_id = self._device.api, self._device.device_id
        stream = current_stream(*self._place)
        self._streams = [stream, *side_streams(self._place, stream, self._count - 1, api)]
        while len(self._events) < self._number_of_events:
            self._events.append(api.event(device_id))
        self._active = api.active(device_id)
        self._active.__enter__()
        self._number = next(_numbers)
        _running[self._number] = self
        return self._number

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        """Go back to the caller's stream; after an error that waits for the others, so that the
        memory of the call is free for what it does next.
        """
        del _running[self._number]
        set_current_stream(*self._place, self._streams[0])
        try:
            if kind is not None:
                self._join()
        finally:
            self._active.__exit__(None, None, None)

    def use(self, stream: int, events: tuple[int, ...]) -> None:
        """Let the work that follows go to a stream, behind events."""
        handle = self._streams[stream]
        set_current_stream(*self._place, handle)
        for number in events:
            self._events[number].wait(handle)

    def record(self, event: int) -> None:
        """Mark what this thread's stream has been given so far."""
        self._events[event].record(current_stream(*self._place))

    def _join(self) -> None:
        """Let the caller's stream wait for all others, after an error: what cannot be waited for
        any more does nothing any more.
        """
        try:
            for one in self._streams[1:]:
                event = self._device.api.event(self._device.device_id)
                event.record(one)
                event.wait(self._streams[0])
        except TilesmithError as error:
            record_fallback("streams", str(self._device), error)


@register_func("tilesmith.runtime.use_stream", override=True)
def use_stream(number: int, stream: int, *events: int) -> None:
    """Let the work of a running call that follows go to one of its streams, behind events."""
    _running[number].use(stream, events)


@register_func("tilesmith.runtime.record_event", override=True)
def record_event(number: int, event: int) -> None:
    """Mark in the stream of a running call what it has been given so far."""
    _running[number].record(event)
