"""Lends memory of devices to running functions: tensors that live between two of their kernels.

A function takes its workspaces one after the other and gives them back in the reverse order.
Memory that is given back is lent again to functions of the same thread in the same stream, where
the work of the next function waits for that of the one before; so nothing waits for the device.
"""

from __future__ import annotations

import ctypes
import threading

from tilesmith.runtime.devices import Device
from tilesmith.runtime.ffi import symbol_addresses
from tilesmith.runtime.ndarray import NDArray, empty
from tilesmith.support.errors import OutOfMemoryError

__all__ = ["free_workspace", "note_failure", "take_kept", "workspace"]

_MOST_KEPT = 256 << 20
"""Bytes that a thread keeps in one stream for its next calls."""
_MOST_LEFT = 16
_Key = tuple[int, int, int]


class _Lent(threading.local):
    def __init__(self) -> None:
        self.taken: dict[int, tuple[_Key, NDArray]] = {}
        self.free: dict[_Key, list[NDArray]] = {}
        self.left: dict[int, None] = {}  # addresses of those whose functions may have failed


_lent = _Lent()


def workspace(device_type: int, device_id: int, size: int) -> int:
    """Return the address of at least `size` bytes on a device, for the calling thread."""
    key = (device_type, device_id, _stream(device_type, device_id))
    size = max(1, size)
    kept = _lent.free.get(key, [])
    fitting = [one for one in kept if size <= one.nbytes <= 2 * size + 4096]
    if fitting:
        memory = min(fitting, key=lambda one: one.nbytes)
        kept.remove(memory)
    else:
        memory = _allocated(size, Device(device_type, device_id))
    address = memory.data_ptr()
    _lent.taken[address] = key, memory
    return address


def _allocated(size: int, device: Device) -> NDArray:
    """Allocate memory; where there is none left, what is kept for later is given up first."""
    try:
        return empty((size,), "uint8", device)
    except OutOfMemoryError:
        if not _lent.free:
            raise
        _lent.free.clear()
        return empty((size,), "uint8", device)


def free_workspace(address: int) -> None:
    """Take a workspace back."""
    _lent.left.pop(address, None)
    found = _lent.taken.pop(address, None)
    if found is None:
        return
    key, memory = found
    kept = _lent.free.setdefault(key, [])
    kept.append(memory)
    while len(kept) > 1 and sum([one.nbytes for one in kept]) > _MOST_KEPT:
        kept.pop(0)


def take_kept(device_type: int, device_id: int, stream: int) -> list[NDArray]:
    """Return what this thread keeps for its next calls in a stream, and keep it no longer."""
    return _lent.free.pop((device_type, device_id, stream), [])


def note_failure() -> None:
    """Note that a launch of the calling thread failed: its function will not give back what it has
    taken. A function further out may still run, if it catches the error; so only the oldest are
    taken back, once there are many.
    """
    _lent.left.update(dict.fromkeys(_lent.taken))
    while len(_lent.left) > _MOST_LEFT:
        free_workspace(next(iter(_lent.left)))


_get_stream = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)(
    symbol_addresses()["TVMFFIEnvGetStream"]
)


def _stream(device_type: int, device_id: int) -> int:
    return int(_get_stream(device_type, device_id) or 0)
