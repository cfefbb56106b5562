"""CUDA devices as the runtime sees them; pinned (`cuda_host`) and managed memory besides.

Managed memory is never chosen for a program: it is there for those who ask for the device type
`cuda_managed`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

from tilesmith.runtime.cuda import driver, memory, streams
from tilesmith.runtime.device_memory import Allocation, MemoryAPI
from tilesmith.runtime.devices import DEVICE_APIS, DEVICE_TYPES, Timer
from tilesmith.runtime.dtype import DataType

_NUMBERS = {
    "max_threads_per_block": 1,
    "max_shared_memory_per_block": 8,
    "total_constant_memory": 9,
    "warp_size": 10,
    "max_registers_per_block": 12,
    "max_clock_rate": 13,
    "multi_processor_count": 16,
    "memory_clock_rate": 36,
    "global_memory_bus_width": 37,
    "l2_cache_size_bytes": 38,
    "max_threads_per_multi_processor": 39,
    "max_shared_memory_per_multi_processor": 81,
    "max_registers_per_multi_processor": 82,
    "max_shared_memory_per_block_optin": 97,
    "max_blocks_per_multi_processor": 106,
}
"""Properties of devices that are one attribute in CUDA: its number. Clocks are in kHz."""
_FILLED = 64 << 20
"""Bytes that keep a device busy for some dozens of microseconds."""
_SHORTEST, _MOST_FILLS = 5e-6, 500
_BLOCK_SIZES = (2, 3, 4)
_CAPABILITY = (75, 76)


class CudaAPI(MemoryAPI):
    """GPUs of NVIDIA, with one kind of memory."""

    def __init__(self, kind: str, allocator: Callable[[int, int], Allocation]) -> None:
        self.device_type = DEVICE_TYPES[kind]
        self._allocator = allocator

    def exist(self, device_id: int) -> bool:
        """True if there is such a device, and a driver for it."""
        return 0 <= device_id < driver.device_count()

    def count(self) -> int:
        """Return the number of devices."""
        return driver.device_count()

    def problem(self) -> str:
        """Return why there is no device."""
        return driver.problem()

    def require(self, device_id: int) -> None:
        """Raise NoDeviceError or DeviceLostError if the device cannot be used."""
        driver.context_of(device_id)

    def sync(self, device_id: int, stream: Any = None) -> None:
        """Wait for all work on the device, or on a stream. Errors of kernels are raised here at the
        latest.
        """
        with driver.Active(device_id) as found:
            if stream is None:
                status = found.cuCtxSynchronize()
            else:
                status = found.cuStreamSynchronize(streams.handle_of(stream))
        driver.check(status, f"waiting for cuda({device_id})", device_id)

    def allocate(self, size: int, device_id: int) -> Allocation:
        """Return new memory, for the work of this thread's stream."""
        return self._allocator(size, device_id)

    def read(self, device_id: int, source: int, host: int, size: int) -> None:
        """Copy bytes of the device to the host, and wait."""
        memory.read(device_id, source, host, size)

    def write(self, device_id: int, host: int, target: int, size: int) -> None:
        """Copy bytes of the host to the device, and wait."""
        memory.write(device_id, host, target, size)

    def move(self, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """Copy bytes between devices, in the order of this thread's streams."""
        memory.move(source, target, size)

    def attribute(self, device_id: int, name: str) -> Any:
        """Return a property of the device; None if there is no such device or property."""
        if not self.exist(device_id):
            return None
        if name in _NUMBERS:
            return driver.attribute(device_id, _NUMBERS[name])
        made = _PROPERTIES.get(name)
        return None if made is None else made(device_id)

    def timer(self, device_id: int) -> Timer:
        """Return a clock that measures between events."""
        return streams.EventTimer(device_id)

    def kernel_timer(self, device_id: int) -> Timer:
        """Return a clock that measures one kernel between events."""
        found = driver.driver()
        if device_id not in found.pairs:  # two events with nothing between them
            self.keep_busy(device_id, 1e-3)
            timers = [streams.EventTimer(device_id) for _ in range(20)]
            for one in timers:
                one.start()
                one.end()
            found.pairs[device_id] = min([one.seconds() for one in timers])
        return streams.KernelTimer(device_id, found.pairs[device_id])

    def keep_busy(self, device_id: int, seconds: float) -> None:
        """Write memory for about so long: the kernels that follow are given meanwhile, so that no
        event between them waits for the host.
        """
        buffer = self.empty((_FILLED,), DataType("uint8"), device_id, None)
        timer = streams.EventTimer(device_id)
        for _ in range(2):  # the first one may wait for what ran before
            timer.start()
            memory.fill(device_id, buffer.data_ptr(), _FILLED, 1)
            once = timer.stop()
        for _ in range(min(math.ceil(seconds / max(once, _SHORTEST)), _MOST_FILLS)):
            memory.fill(device_id, buffer.data_ptr(), _FILLED, 1)

    def overwriter(self, device_id: int, size: int) -> Callable[[], None]:
        """Return a function that writes so many bytes of the device."""
        buffer = self.empty((size,), DataType("uint8"), device_id, None)
        return lambda: memory.fill(device_id, buffer.data_ptr(), size, 1)

    def hand_over(self, device_id: int, stream: Any) -> None:
        """Let a consumer's stream wait for this thread's."""
        streams.hand_over(device_id, stream)

    def create_raw_stream(self, device_id: int) -> int:
        """Return a new stream (a CUstream)."""
        return streams.create(device_id)

    def free_raw_stream(self, device_id: int, stream: Any) -> None:
        """Release a stream."""
        streams.free(device_id, stream)

    def set_raw_stream(self, device_id: int, stream: Any) -> None:
        """Let launches, copies and allocations of this thread go to a stream."""
        streams.select(device_id, stream)

    def create_side_stream(self, device_id: int) -> int:
        """Return a new stream that the default stream does not wait for."""
        return streams.create(device_id, is_ordered=False)

    def event(self, device_id: int) -> streams.Event:
        """Return an event that orders streams, and is used where the device is active."""
        return streams.OrderEvent(device_id)

    def active(self, device_id: int) -> driver.Active:
        """Return a `with` block within which the device's context is current."""
        return driver.Active(device_id)


def _name(device_id: int) -> str:
    text = ctypes.create_string_buffer(256)
    status = driver.driver().cuDeviceGetName(text, len(text), device_id)
    driver.check(status, "cuDeviceGetName", device_id)
    return text.value.decode(errors="replace")


def _total(device_id: int) -> int:
    value = ctypes.c_size_t()
    status = driver.driver().cuDeviceTotalMem(ctypes.byref(value), device_id)
    driver.check(status, "cuDeviceTotalMem", device_id)
    return value.value


def _version() -> str:
    major, rest = divmod(driver.driver_version(), 1000)
    return f"{major}.{rest // 10}"


_PROPERTIES: dict[str, Callable[[int], Any]] = {
    "device_kind": lambda n: "gpu",
    "device_name": _name,
    "compute_version": lambda n: ".".join([str(driver.attribute(n, one)) for one in _CAPABILITY]),
    "max_thread_dimensions": lambda n: [driver.attribute(n, one) for one in _BLOCK_SIZES],
    "total_global_memory": _total,
    "available_global_memory": lambda n: memory.free_and_total(n)[0],
    "api_version": lambda n: driver.driver_version(),
    "driver_version": lambda n: _version(),
}


class PinnedAPI(MemoryAPI):
    """Memory of the host that GPUs copy from and to at full speed; one device, number 0."""

    device_type = DEVICE_TYPES["cuda_host"]

    def exist(self, device_id: int) -> bool:
        """True for device 0 where there is a GPU."""
        return device_id == 0 and driver.device_count() > 0

    def count(self) -> int:
        """Return 1 where there is a GPU."""
        return min(driver.device_count(), 1)

    def problem(self) -> str:
        """Return why there is no GPU."""
        return driver.problem()

    def require(self, device_id: int) -> None:
        """Raise NoDeviceError if there is no GPU."""
        driver.context_of(device_id)

    def sync(self, device_id: int, stream: Any = None) -> None:
        """Do nothing: copies within the host's memory are over when their call returns."""

    def allocate(self, size: int, device_id: int) -> Allocation:
        """Return new pinned memory."""
        return memory.allocate_pinned(size, device_id)

    def read(self, device_id: int, source: int, host: int, size: int) -> None:
        """Copy within the host's memory."""
        ctypes.memmove(host, source, size)

    def write(self, device_id: int, host: int, target: int, size: int) -> None:
        """Copy within the host's memory."""
        ctypes.memmove(target, host, size)

    def move(self, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """Copy within the host's memory."""
        ctypes.memmove(target[1], source[1], size)

    def copy(self, source: Any, target: Any) -> None:
        """Copy within the host's memory, or let the other kind of device copy."""
        other = (target if source.device.device_type == self.device_type else source).device
        if other.device_type in (1, self.device_type):
            super().copy(source, target)
        else:
            other.api.copy(source, target)


DEVICE_APIS.register("cuda", CudaAPI("cuda", memory.allocate))
DEVICE_APIS.register("cuda_managed", CudaAPI("cuda_managed", memory.allocate_managed))
DEVICE_APIS.register("cuda_host", PinnedAPI())
