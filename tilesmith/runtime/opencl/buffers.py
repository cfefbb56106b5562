"""Allocates memory of OpenCL devices, and says what a tensor's pointer is for OpenCL.

Where a device shares virtual memory (SVM, of OpenCL 2), a tensor lies in that: its pointer is an
address, views at any offset work, and so do views of views. Other devices only have buffers,
handles without addresses. There a tensor's pointer is a number of ours: each buffer has a window of
64 GiB far above all real addresses, so that pointer and offset can be told apart again, and a view
at an offset becomes a sub-buffer. Sub-buffers begin where the device allows it (often each 128
bytes); other offsets are refused. `argument_of` turns a pointer into what a kernel is given.
"""

from __future__ import annotations

import ctypes
import itertools
from collections import deque
from typing import Any

from tilesmith.runtime.opencl.platforms import (
    checked,
    context,
    device,
    known_queue,
    note_command,
    package,
    queue,
)
from tilesmith.support.errors import DeviceError, OutOfMemoryError, UnsupportedError

__all__ = [
    "BufferAllocation", "SharedAllocation", "allocate", "argument_of", "copy_from_host",
    "copy_to_host", "copy_within", "fill", "has_shared_memory",
]  # fmt: skip

_WINDOW_BITS = 36
_FIRST_WINDOW = 1 << 20  # addresses of processes end far below
_ALIGNMENT = 128

_windows: dict[int, BufferAllocation] = {}
_numbers = itertools.count(_FIRST_WINDOW)
_free_numbers: deque[int] = deque()


def has_shared_memory(device_id: int) -> bool:
    """True if tensors of a device lie in shared virtual memory."""
    capabilities = package().device_svm_capabilities
    try:
        found = device(device_id).svm_capabilities
    except package().Error:  # OpenCL 1 has no such question
        return False
    return bool(found & (capabilities.COARSE_GRAIN_BUFFER | capabilities.FINE_GRAIN_BUFFER))


_dying: deque[tuple[list[Any], Any]] = deque()
"""Shared memory that is let go, with the events after which it may be freed. (OpenCL can free it in
the order of a queue itself, but PoCL damages the heap when it does.)"""


def _free_what_is_done(must_wait: bool = False) -> None:
    """Free the shared memory that no work uses any more; with ``must_wait`` all that is let go."""
    complete = package().command_execution_status.COMPLETE
    for _ in range(len(_dying)):
        try:
            events, memory = _dying.popleft()
        except IndexError:  # another thread was here
            return
        if must_wait:
            package().wait_for_events(events)
        elif any(one.command_execution_status != complete for one in events):
            _dying.append((events, memory))
            continue
        memory.release()


class SharedAllocation:
    """Shared virtual memory."""

    __slots__ = ("_memory", "_queue", "address", "device_id")

    def __init__(self, size: int, device_id: int) -> None:
        self._queue = queue(device_id)
        self.device_id = device_id
        if _dying:
            _free_what_is_done()
        try:
            self._memory = self._allocate(size)
        except OutOfMemoryError:
            if not _dying:
                raise
            _free_what_is_done(must_wait=True)
            self._memory = self._allocate(size)
        self.address = int(self._memory.svm_ptr)

    def _allocate(self, size: int) -> Any:
        cl = package()
        with checked(f"clSVMAlloc, {size} bytes", self.device_id, allocates=True):
            return cl.SVMAllocation(
                context(self.device_id), size, _ALIGNMENT, cl.svm_mem_flags.READ_WRITE
            )

    def release(self) -> None:
        """Free the memory when the work is done that this thread has given."""
        now = known_queue(self.device_id)
        lines = [self._queue] if now is None or now == self._queue else [self._queue, now]
        _dying.append(([package().enqueue_marker(one) for one in lines], self._memory))
        _free_what_is_done()


class BufferAllocation:
    """A buffer, with a window of numbers for its pointers."""

    __slots__ = ("_number", "_parts", "address", "buffer", "device_id", "size")

    def __init__(self, size: int, device_id: int) -> None:
        if size > 1 << _WINDOW_BITS:
            raise UnsupportedError(
                f"a tensor of opencl({device_id}) has at most {1 << _WINDOW_BITS} bytes, got {size}"
            )
        cl = package()
        with checked(f"clCreateBuffer, {size} bytes", device_id, allocates=True):
            self.buffer = cl.Buffer(context(device_id), cl.mem_flags.READ_WRITE, size)
        try:
            self._number = _free_numbers.popleft()
        except IndexError:
            self._number = next(_numbers)
        self.device_id = device_id
        self.size = size
        self.address = self._number << _WINDOW_BITS
        self._parts: dict[int, Any] = {}
        _windows[self._number] = self

    def at(self, offset: int) -> Any:
        """Return the buffer, or the sub-buffer from an offset to its end."""
        if not offset:
            return self.buffer
        found = self._parts.get(offset)
        if found is None:
            step = device(self.device_id).mem_base_addr_align // 8
            if offset % step:
                raise UnsupportedError(
                    f"a kernel of opencl({self.device_id}) cannot be given a view that begins at "
                    f"byte {offset}: on this device buffers begin at multiples of {step} bytes",
                    notes=("copy the view to a tensor of its own",),
                )
            with checked(f"clCreateSubBuffer, from byte {offset}", self.device_id):
                found = self.buffer.get_sub_region(offset, self.size - offset)
            self._parts[offset] = found
        return found

    def release(self) -> None:
        """Give the buffer back: OpenCL frees it behind the work that uses it."""
        _windows.pop(self._number, None)
        self._parts.clear()
        self.buffer.release()
        _free_numbers.append(self._number)


def allocate(size: int, device_id: int) -> SharedAllocation | BufferAllocation:
    """Allocate memory of a device."""
    if has_shared_memory(device_id):
        return SharedAllocation(size, device_id)
    return BufferAllocation(size, device_id)


def _split(pointer: int) -> tuple[BufferAllocation | None, int]:
    """Return the buffer of a pointer and the offset in it; None if it is a real address."""
    number = pointer >> _WINDOW_BITS
    if number < _FIRST_WINDOW:
        return None, 0
    found = _windows.get(number)
    if found is None:
        raise DeviceError(
            f"the pointer {pointer:#x} is of an OpenCL buffer that was freed",
            notes=("a tensor has to live as long as its views and the kernels that use it",),
        )
    return found, pointer - found.address


def argument_of(pointer: int) -> Any:
    """Return what a kernel is given for the pointer of a tensor: an SVM pointer, a buffer or a
    sub-buffer of pyopencl; None for 0, the pointer of a tensor without elements.
    """
    if not pointer:
        return None
    owner, offset = _split(pointer)
    return _shared(pointer, 1) if owner is None else owner.at(offset)


def _shared(address: int, size: int) -> Any:
    """Return an SVM pointer of pyopencl; also to plain memory of the host, for copies."""
    return package().SVM((ctypes.c_char * size).from_address(address))


def copy_to_host(device_id: int, source: int, host: int, size: int) -> None:
    """Copy bytes of a device to the host, and wait for it."""
    cl, line, memory = package(), queue(device_id), (ctypes.c_char * size).from_address(host)
    owner, offset = _split(source)
    with checked(f"copying {size} bytes to the host", device_id):
        if owner is None:
            cl.enqueue_copy(line, memory, _shared(source, size), is_blocking=True)
        else:
            cl.enqueue_copy(line, memory, owner.buffer, src_offset=offset, is_blocking=True)


def copy_from_host(device_id: int, host: int, target: int, size: int) -> None:
    """Copy bytes of the host to a device, and wait for it."""
    cl, line, memory = package(), queue(device_id), (ctypes.c_char * size).from_address(host)
    owner, offset = _split(target)
    with checked(f"copying {size} bytes from the host", device_id):
        if owner is None:
            cl.enqueue_copy(line, _shared(target, size), memory, is_blocking=True)
        else:
            cl.enqueue_copy(line, owner.buffer, memory, dst_offset=offset, is_blocking=True)


def copy_within(device_id: int, source: int, target: int, size: int) -> None:
    """Copy bytes between two places of a device, in the order of its queue."""
    cl, line = package(), queue(device_id)
    (from_owner, from_offset), (to_owner, to_offset) = _split(source), _split(target)
    with checked(f"copying {size} bytes", device_id):
        if from_owner is None or to_owner is None:
            there, here = _shared(target, size), _shared(source, size)
            event = cl.enqueue_copy(line, there, here, is_blocking=False)
        else:
            event = cl.enqueue_copy(
                line, to_owner.buffer, from_owner.buffer, byte_count=size,
                src_offset=from_offset, dst_offset=to_offset,
            )  # fmt: skip
        note_command(event)


def fill(device_id: int, target: int, size: int, value: int) -> None:
    """Write one value to some bytes of a device, in the order of its queue."""
    import numpy

    cl, line, pattern = package(), queue(device_id), numpy.uint8(value)
    owner, offset = _split(target)
    with checked(f"filling {size} bytes", device_id):
        if owner is None:
            cl.enqueue_svm_memfill(line, _shared(target, size), pattern)
        else:
            cl.enqueue_fill_buffer(line, owner.buffer, pattern, offset, size)
