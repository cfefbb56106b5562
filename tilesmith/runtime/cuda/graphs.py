"""Records what a call launches on a GPU as a CUDA graph, which replays it with one launch.

    graph = tilesmith.runtime.cuda.graph_of(module["main"], a, b, c)
    graph.launch()

A graph replays the same kernels on the same memory: to compute with other values, copy them into
the arguments. What the host does in the call (checks, sizes) is not repeated.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from sys import is_finalizing
from typing import Any

from tilesmith.runtime import device_workspace, side_streams
from tilesmith.runtime.cuda import streams
from tilesmith.runtime.cuda.driver import Active, check, driver, still_serves
from tilesmith.runtime.devices import Device
from tilesmith.support.errors import TypeMismatchError

__all__ = ["Graph", "graph_of"]

_OF_THIS_THREAD = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may do as they like


class Graph:
    """A recorded call. It keeps its arguments and the memory between its kernels."""

    def __init__(self, device_id: int, handle: int, executable: int, kept: Any) -> None:
        self._found, self.device_id = driver(), device_id
        self._handle, self._executable, self._kept = handle, executable, kept

    def launch(self, stream: Any = None) -> None:
        """Replay the call in a stream, or in that of this thread, without waiting for it."""
        if stream is None:
            stream = streams.stream_of(self.device_id)
        with Active(self.device_id) as found:
            status = found.cuGraphLaunch(self._executable, streams.handle_of(stream))
        check(status, f"cuGraphLaunch on cuda({self.device_id})", self.device_id)

    __call__ = launch

    def __del__(self) -> None:
        if self._executable and not is_finalizing() and still_serves(self._found, self.device_id):
            with Active(self.device_id) as found:
                found.cuGraphExecDestroy(self._executable)
                found.cuGraphDestroy(self._handle)


def graph_of(function: Callable[..., Any], *arguments: Any, warm_up: bool = True) -> Graph:
    """Return a graph of what a call of `function` launches on the GPU of its first tensor.

    With `warm_up` the function is called once before it is recorded, which computes its results:
    that loads its kernels and takes its memory, neither of which can be recorded. Raises
    DeviceError for a function that waits for the GPU or copies to the host.
    """
    device_id = _device_of(arguments)
    place = (streams.CUDA, device_id)
    stream, before = streams.create(device_id), streams.stream_of(device_id)
    streams.select(device_id, stream)
    try:
        with Active(device_id) as found:
            if warm_up:
                function(*arguments)
                check(found.cuStreamSynchronize(stream), "cuStreamSynchronize", device_id)
            handle = _recorded(found, device_id, stream, lambda: function(*arguments))
            made = ctypes.c_void_p()
            status = found.cuGraphInstantiateWithFlags(ctypes.byref(made), handle, 0)
            if status:
                found.cuGraphDestroy(handle)
            check(status, "cuGraphInstantiateWithFlags", device_id)
        used = [stream, *side_streams.known_side_streams(place, stream)]
        kept = [device_workspace.take_kept(streams.CUDA, device_id, one) for one in used]
    finally:
        streams.select(device_id, before)
        side_streams.forget(place, stream, Device(*place).api)
        streams.free(device_id, stream)
    # a function that is bound to its memory keeps that as long as it lives
    return Graph(device_id, handle, made.value or 0, (function, arguments, kept))


def _device_of(arguments: tuple[Any, ...]) -> int:
    for argument in arguments:
        place = getattr(argument, "__dlpack_device__", None)
        if place is not None and int(place()[0]) == streams.CUDA:
            return int(place()[1])
    raise TypeMismatchError("a graph needs a tensor on a device of type 'cuda' as an argument")


def _recorded(found: Any, device_id: int, stream: int, call: Callable[[], Any]) -> int:
    """Return the graph of what a call does in a stream."""
    status = found.cuStreamBeginCapture(stream, _OF_THIS_THREAD)
    check(status, "cuStreamBeginCapture", device_id)
    made = ctypes.c_void_p()
    try:
        call()
    except BaseException:
        found.cuStreamEndCapture(stream, ctypes.byref(made))
        if made.value:
            found.cuGraphDestroy(made)
        raise
    check(found.cuStreamEndCapture(stream, ctypes.byref(made)), "cuStreamEndCapture", device_id)
    return made.value or 0
