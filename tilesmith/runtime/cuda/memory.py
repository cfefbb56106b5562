"""Allocates memory of CUDA devices, and copies.

Memory comes from a pool of ours on each device (the driver's stream-ordered allocator): it keeps
what is freed for the next tensor, and gives it back when the device runs out, or with `trim`. A
tensor is freed in the order of the stream that it was allocated on, which waits for the stream of
the thread that lets go. A stream of another library that `set_raw_stream` was given has to outlive
the tensors made under it.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable

from tilesmith.runtime.cuda import streams
from tilesmith.runtime.cuda.driver import (
    Active,
    Driver,
    attribute,
    check,
    context_of,
    error_of,
    still_serves,
)
from tilesmith.runtime.cuda.entry_points import PoolLocation, PoolProperties
from tilesmith.runtime.cuda.statuses import OUT_OF_MEMORY
from tilesmith.support.errors import DeviceError, OutOfMemoryError
from tilesmith.support.fallbacks import record_fallback

__all__ = [
    "DeviceAllocation", "allocate", "allocate_managed", "allocate_pinned", "fill", "free_and_total",
    "move", "pool_use", "read", "trim", "write",
]  # fmt: skip

_HAS_POOLS = 115  # CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
_RELEASE_THRESHOLD = 4
_RESERVED_NOW, _USED_NOW = 5, 7
_PINNED, _ON_DEVICE = 1, 1
_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: pinned for all contexts
_ATTACH_GLOBAL = 1
_KEEP_ALL = ctypes.c_uint64(2**64 - 1)

_lock = threading.Lock()
_postponed: deque[Callable[[], None]] = deque()
"""Releases of memory that died while this thread recorded a graph, which they would spoil."""


def _pool_of(found: Driver, device_id: int) -> int:
    pool = found.pools.get(device_id)
    if pool is not None:
        return pool
    with _lock:
        if device_id not in found.pools:
            found.pools[device_id] = _make_pool(found, device_id)
        return found.pools[device_id]


def _make_pool(found: Driver, device_id: int) -> int:
    if not attribute(device_id, _HAS_POOLS):
        record_fallback(
            "memory", f"cuda({device_id})", "the device has no pools: each allocation waits"
        )
        return 0
    made = ctypes.c_void_p()
    properties = PoolProperties(
        allocation_type=_PINNED, location=PoolLocation(_ON_DEVICE, device_id)
    )
    status = found.cuMemPoolCreate(ctypes.byref(made), ctypes.byref(properties))
    check(status, "cuMemPoolCreate", device_id)
    status = found.cuMemPoolSetAttribute(made, _RELEASE_THRESHOLD, ctypes.byref(_KEEP_ALL))
    check(status, "cuMemPoolSetAttribute", device_id)
    return made.value or 0


class DeviceAllocation:
    """Memory of a device, from its pool or without one."""

    __slots__ = ("_found", "_pool", "_stream", "address", "device_id")

    def __init__(self, found: Driver, device_id: int, address: int, pool: int, stream: int) -> None:
        self._found = found
        self.device_id = device_id
        self.address = address
        self._pool = pool
        self._stream = stream

    def release(self) -> None:
        """Free the memory behind the work that uses it. A status is not looked at: an error of
        earlier work is raised where a program calls, not where a tensor dies.
        """
        found, device_id = self._found, self.device_id
        if not still_serves(found, device_id):
            return
        with Active(device_id):
            now = streams.stream_of(device_id)
            if streams.is_recorded(found, now):
                _postponed.append(self.release)
            elif not self._pool:
                found.cuMemFree(self.address)
            else:
                stream = 0 if streams.is_freed(self._stream) else self._stream
                if now != stream:
                    streams.join(found, stream, now)
                found.cuMemFreeAsync(self.address, stream)


class HostAllocation:
    """Memory that a driver's function gives back: pinned, or managed."""

    __slots__ = ("_device_id", "_found", "_free", "address")

    def __init__(
        self, found: Driver, device_id: int, address: int, free: Callable[[int], int]
    ) -> None:
        self._found = found
        self._device_id = device_id
        self.address = address
        self._free = free

    def release(self) -> None:
        """Free the memory; work on the device that uses it is waited for."""
        if still_serves(self._found, self._device_id):
            with Active(self._device_id) as found:
                if streams.is_recorded(found, streams.stream_of(self._device_id)):
                    _postponed.append(self.release)
                    return
                found.cuCtxSynchronize()
                self._free(self.address)


def _release_postponed() -> None:
    for _ in range(len(_postponed)):
        try:
            release = _postponed.popleft()
        except IndexError:  # another thread was here
            return
        release()


def allocate(size: int, device_id: int) -> DeviceAllocation:
    """Allocate memory of a device, for the work of this thread's stream."""
    if _postponed:
        _release_postponed()
    with Active(device_id) as found:
        stream = streams.stream_of(device_id)
        if streams.is_recorded(found, stream):
            raise DeviceError(
                f"a tensor of cuda({device_id}) cannot be allocated while a graph is recorded",
                notes=("allocate results before, and pass them as arguments",),
            )
        pool = _pool_of(found, device_id)
        address = ctypes.c_void_p()
        status = _try_to_allocate(found, address, size, pool, stream)
        if status == OUT_OF_MEMORY and pool:
            # what was freed may still be held for other sizes, or by work that has not ended
            check(found.cuCtxSynchronize(), "cuCtxSynchronize", device_id)
            found.cuMemPoolTrimTo(pool, 0)
            status = _try_to_allocate(found, address, size, pool, stream)
    if status == OUT_OF_MEMORY:
        raise _out_of_memory(size, device_id)
    if status:
        raise error_of(status, f"allocating {size} bytes on cuda({device_id})", device_id)
    return DeviceAllocation(found, device_id, address.value or 0, pool, stream)


def _try_to_allocate(
    found: Driver, address: ctypes.c_void_p, size: int, pool: int, stream: int
) -> int:
    if pool:
        status: int = found.cuMemAllocFromPoolAsync(ctypes.byref(address), size, pool, stream)
    else:
        status = found.cuMemAlloc(ctypes.byref(address), size)
    return status


def _out_of_memory(size: int, device_id: int) -> OutOfMemoryError:
    free, total = free_and_total(device_id)
    return OutOfMemoryError(
        f"cuda({device_id}) has no memory for {size / 2**30:.3g} GiB: {free / 2**30:.3g} of "
        f"{total / 2**30:.3g} GiB are free",
        notes=("free tensors of the device, use smaller inputs, or end what else uses it",),
    )


def allocate_pinned(size: int, device_id: int) -> HostAllocation:
    """Allocate memory of the host that devices copy from and to at full speed."""
    address = ctypes.c_void_p()
    with Active(device_id) as found:
        status = found.cuMemHostAlloc(ctypes.byref(address), size, _PORTABLE)
    check(status, f"cuMemHostAlloc, pinning {size} bytes", device_id)
    return HostAllocation(found, device_id, address.value or 0, found.cuMemFreeHost)


def allocate_managed(size: int, device_id: int) -> HostAllocation:
    """Allocate memory whose pages the driver moves between host and devices."""
    address = ctypes.c_void_p()
    with Active(device_id) as found:
        status = found.cuMemAllocManaged(ctypes.byref(address), size, _ATTACH_GLOBAL)
    check(status, f"cuMemAllocManaged, {size} bytes", device_id)
    return HostAllocation(found, device_id, address.value or 0, found.cuMemFree)


def free_and_total(device_id: int) -> tuple[int, int]:
    """Return the free and all bytes of a device; what our pool keeps counts as free."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with Active(device_id) as found:
        status = found.cuMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    check(status, "cuMemGetInfo", device_id)
    reserved, used = pool_use(device_id)
    return free.value + reserved - used, total.value


def pool_use(device_id: int) -> tuple[int, int]:
    """Return the bytes that our pool holds of a device, and those of them that tensors use."""
    with Active(device_id) as found:
        pool = found.pools.get(device_id, 0)
        if not pool:
            return 0, 0
        values = []
        for number in (_RESERVED_NOW, _USED_NOW):
            value = ctypes.c_uint64()
            status = found.cuMemPoolGetAttribute(pool, number, ctypes.byref(value))
            check(status, "cuMemPoolGetAttribute", device_id)
            values.append(value.value)
    return values[0], values[1]


def trim(device_id: int) -> None:
    """Give the memory that our pool keeps, and no tensor uses, back to the driver, so that other
    libraries and processes can have it.
    """
    with Active(device_id) as found:
        pool = found.pools.get(device_id, 0)
        if pool:
            check(found.cuCtxSynchronize(), "cuCtxSynchronize", device_id)
            check(found.cuMemPoolTrimTo(pool, 0), "cuMemPoolTrimTo", device_id)


# Both wait, so that the host's memory is free for its owner: where it is not pinned, whether an
# asynchronous copy has read or written it when the call returns depends on the machine.


def read(device_id: int, source: int, host: int, size: int) -> None:
    """Copy bytes of a device to the host, in the order of this thread's stream; wait for it."""
    with Active(device_id) as found:
        stream = streams.stream_of(device_id)
        status = found.cuMemcpyDtoHAsync(host, source, size, stream)
        status = status or found.cuStreamSynchronize(stream)
    if status:
        raise error_of(status, f"copying {size} bytes from cuda({device_id})", device_id)


def write(device_id: int, host: int, target: int, size: int) -> None:
    """Copy bytes of the host to a device, in the order of this thread's stream; wait for it."""
    with Active(device_id) as found:
        stream = streams.stream_of(device_id)
        status = found.cuMemcpyHtoDAsync(target, host, size, stream)
        status = status or found.cuStreamSynchronize(stream)
    if status:
        raise error_of(status, f"copying {size} bytes to cuda({device_id})", device_id)


def move(source: tuple[int, int], target: tuple[int, int], size: int) -> None:
    """Copy bytes between two places (device, address), in the order of the threads' streams."""
    (from_id, from_address), (to_id, to_address) = source, target
    if from_id != to_id:
        _wait_for_other(to_id, from_id)  # work that was given before may use the target's memory
    with Active(from_id) as found:
        stream = streams.stream_of(from_id)
        if from_id == to_id:
            status = found.cuMemcpyAsync(to_address, from_address, size, stream)
        else:
            contexts = context_of(to_id), context_of(from_id)
            status = found.cuMemcpyPeerAsync(
                to_address, contexts[0], from_address, contexts[1], size, stream
            )
    check(status, f"copying {size} bytes from cuda({from_id}) to cuda({to_id})", from_id)
    if from_id != to_id:
        _wait_for_other(from_id, to_id)


def _wait_for_other(from_id: int, to_id: int) -> None:
    """Let this thread's stream of one device wait for that of another."""
    event = streams.Event(from_id)
    event.record()
    with Active(to_id) as found:
        status = found.cuStreamWaitEvent(streams.stream_of(to_id), event.handle, 0)
    check(status, "cuStreamWaitEvent", to_id)


def fill(device_id: int, address: int, size: int, value: int) -> None:
    """Write one value to some bytes of a device, in the order of this thread's stream."""
    with Active(device_id) as found:
        status = found.cuMemsetD8Async(address, value, size, streams.stream_of(device_id))
    check(status, f"cuMemsetD8Async, {size} bytes of cuda({device_id})", device_id)
