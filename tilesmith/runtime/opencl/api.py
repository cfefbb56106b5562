"""OpenCL devices as the runtime sees them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

from tilesmith.runtime.device_memory import Allocation, MemoryAPI
from tilesmith.runtime.devices import DEVICE_APIS, DEVICE_TYPES, StreamEvent, Timer
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.opencl import buffers, platforms


class OpenCLAPI(MemoryAPI):
    """Devices of pyopencl."""

    device_type = DEVICE_TYPES["opencl"]

    def exist(self, device_id: int) -> bool:
        """True if there is such a device, and pyopencl."""
        return 0 <= device_id < platforms.device_count()

    def count(self) -> int:
        """Return the number of devices."""
        return platforms.device_count()

    def problem(self) -> str:
        """Return why there is no device."""
        return platforms.problem()

    def require(self, device_id: int) -> None:
        """Raise an error that says what is missing if there is no such device."""
        platforms.device(device_id)

    def sync(self, device_id: int, stream: Any = None) -> None:
        """Wait for all queues of the device, or for one."""
        platforms.finish(
            device_id, None if stream is None else platforms.queue_of(device_id, stream)
        )

    def allocate(self, size: int, device_id: int) -> Allocation:
        """Return new memory."""
        return buffers.allocate(size, device_id)

    def read(self, device_id: int, source: int, host: int, size: int) -> None:
        """Copy bytes of the device to the host, and wait."""
        buffers.copy_to_host(device_id, source, host, size)

    def write(self, device_id: int, host: int, target: int, size: int) -> None:
        """Copy bytes of the host to the device, and wait."""
        buffers.copy_from_host(device_id, host, target, size)

    def move(self, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """Copy bytes on a device, or from one to another through the host."""
        if source[0] == target[0]:
            buffers.copy_within(source[0], source[1], target[1], size)
            return
        between = ctypes.create_string_buffer(size)
        buffers.copy_to_host(*source, ctypes.addressof(between), size)
        buffers.copy_from_host(target[0], ctypes.addressof(between), target[1], size)

    def attribute(self, device_id: int, name: str) -> Any:
        """Return a property of the device; None if there is no such device or property."""
        made = _PROPERTIES.get(name)
        return made(platforms.device(device_id)) if made and self.exist(device_id) else None

    def timer(self, device_id: int) -> Timer:
        """Return a clock that measures between markers."""
        return MarkerTimer(device_id)

    def kernel_timer(self, device_id: int) -> Timer:
        """Return a clock that adds up the commands of this thread, as the device reports them."""
        return CommandTimer(device_id)

    def overwriter(self, device_id: int, size: int) -> Callable[[], None]:
        """Return a function that writes so many bytes of the device."""
        memory = self.empty((size,), DataType("uint8"), device_id, None)
        return lambda: buffers.fill(device_id, memory.data_ptr(), size, 1)

    def create_raw_stream(self, device_id: int) -> int:
        """Return a new queue."""
        return platforms.create_queue(device_id)

    def free_raw_stream(self, device_id: int, stream: Any) -> None:
        """Finish and release a queue."""
        platforms.free_queue(device_id, stream)

    def set_raw_stream(self, device_id: int, stream: Any) -> None:
        """Let kernels and copies of this thread go to a queue."""
        platforms.select_queue(device_id, stream)

    def serves(self, device_id: int, stream: Any) -> bool:
        """True for a queue of the context that the device has now."""
        return platforms.is_of_context(device_id, stream)

    def event(self, device_id: int) -> StreamEvent:
        """Return an event that orders queues."""
        return QueueEvent(device_id)


class QueueEvent(StreamEvent):
    """A marker in a queue, which a barrier in another queue waits for."""

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._marker: Any = None

    def record(self, stream: Any = None) -> None:
        """Put a marker behind what a queue, or that of this thread, has been given."""
        device_id = self._device_id
        line = platforms.queue(device_id) if stream is None else platforms.queue_of(
            device_id, stream
        )  # fmt: skip
        with platforms.checked("clEnqueueMarkerWithWaitList", device_id):
            self._marker = platforms.package().enqueue_marker(line)
            line.flush()  # or other queues might wait for what the device was never given

    def wait(self, stream: Any) -> None:
        """Put a barrier in a queue that waits for the marker."""
        line = platforms.queue_of(self._device_id, stream)
        with platforms.checked("clEnqueueBarrierWithWaitList", self._device_id):
            platforms.package().enqueue_barrier(line, wait_for=[self._marker])


class MarkerTimer(Timer):
    """Measures on the device, between two markers in the queue of this thread."""

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._begin: Any = None
        self._end: Any = None

    def start(self) -> None:
        """Note the begin in the queue."""
        with platforms.checked("clEnqueueMarker", self._device_id):
            self._begin = platforms.package().enqueue_marker(platforms.queue(self._device_id))

    def end(self) -> None:
        """Note the end in the queue."""
        with platforms.checked("clEnqueueMarker", self._device_id):
            self._end = platforms.package().enqueue_marker(platforms.queue(self._device_id))

    def seconds(self) -> float:
        """Wait for the end; return the seconds between begin and end."""
        with platforms.checked("waiting for a marker", self._device_id):
            self._end.wait()
            return float(self._end.profile.end - self._begin.profile.end) * 1e-9

    def since(self, first: MarkerTimer) -> float:
        """Return the seconds from the begin of another clock to that of this one."""
        return float(self._begin.profile.end - first._begin.profile.end) * 1e-9


class CommandTimer(MarkerTimer):
    """Adds up the times of the kernels and copies that this thread enqueues, without what lies
    between them; measures between markers where it enqueues none (code from outside may).
    """

    def __init__(self, device_id: int) -> None:
        super().__init__(device_id)
        self._commands: list[Any] = []

    def start(self) -> None:
        """Note the begin, and watch the commands."""
        super().start()
        platforms.watch_commands(self._commands)

    def end(self) -> None:
        """Note the end."""
        platforms.watch_commands(None)
        super().end()

    def seconds(self) -> float:
        """Wait for the end; return the seconds of the commands."""
        between = super().seconds()
        with platforms.checked("waiting for a kernel", self._device_id):
            spans = [(one.profile.start, one.profile.end) for one in self._commands]
        return sum([end - start for start, end in spans]) * 1e-9 if spans else between


def _version(text: str) -> str:
    found = re.search(r"\d+\.\d+", text)
    return found.group() if found else text


def _kind(device: Any) -> str:
    kinds = platforms.package().device_type
    named = {"gpu": kinds.GPU, "cpu": kinds.CPU, "accelerator": kinds.ACCELERATOR}
    return next((name for name, bit in named.items() if device.type & bit), "custom")


def _warp_size(device: Any) -> int:
    """Return how many work items run in step, where the vendor says so; else 1."""
    error = platforms.package().Error
    for name in ("warp_size_nv", "wavefront_width_amd"):
        try:
            return int(getattr(device, name))
        except (AttributeError, error):
            continue
    return 1


_PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "api_version": lambda one: _version(one.platform.version),
    "compute_version": lambda one: _version(one.version),
    "device_kind": _kind,
    "device_name": lambda one: one.name,
    "driver_version": lambda one: one.driver_version,
    "l2_cache_size_bytes": lambda one: one.global_mem_cache_size,
    "max_clock_rate": lambda one: one.max_clock_frequency * 1000,
    "max_shared_memory_per_block": lambda one: one.local_mem_size,
    "max_shared_memory_per_block_optin": lambda one: one.local_mem_size,
    "max_thread_dimensions": lambda one: list(one.max_work_item_sizes),
    "max_threads_per_block": lambda one: one.max_work_group_size,
    "multi_processor_count": lambda one: one.max_compute_units,
    "total_global_memory": lambda one: one.global_mem_size,
    "warp_size": _warp_size,
}
"""Properties of devices; clocks are in kHz."""

DEVICE_APIS.register("opencl", OpenCLAPI())
