"""What devices with memory of their own share: tensors over it, and copies to and from the host.

A tensor on a device is a DLPack tensor that a table here keeps: it holds the allocation, and its
deleter, which tvm-ffi calls from any thread when the last user lets go, releases that. When the
interpreter ends, tensors that still live lose their deleter: native code may hold some longer than
Python exists, and the driver takes back all memory when the process ends.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from tilesmith.runtime.devices import DEVICE_TYPES, DeviceAPI, type_name
from tilesmith.runtime.ffi import DLDataType, DLDevice, DLTensor, tensor_of
from tilesmith.runtime.packed_elements import is_packed, packed_bytes
from tilesmith.support.errors import TypeMismatchError, UnsupportedError

if TYPE_CHECKING:
    from tilesmith.runtime.dtype import DataType
    from tilesmith.runtime.ndarray import NDArray

__all__ = ["Allocation", "MemoryAPI", "bytes_of", "tensor_over"]

CPU = 1
_IN_HOST_MEMORY = (CPU, DEVICE_TYPES["cuda_host"])


class Allocation(Protocol):
    """Memory of a device. `release` may be called by any thread, and raises nothing."""

    @property
    def address(self) -> int:
        """Where it begins."""

    def release(self) -> None:
        """Give the memory back."""


class _ManagedTensor(ctypes.Structure):
    """The owning tensor of DLPack."""

    _fields_ = [
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_living: dict[int, tuple[_ManagedTensor, Any, Allocation | None]] = {}
"""Address of a managed tensor → itself, its sizes and steps, what it holds. Written without a lock:
the deleter may run inside of anything, as garbage is collected anywhere."""
_deleting: set[int] = set()
"""Managed tensors whose deleter is running."""
_has_ended = False


def _delete(address: int) -> None:
    _deleting.add(address)
    try:
        entry = _living.pop(address, None)
        if entry is not None and entry[2] is not None:
            entry[2].release()
    finally:
        _deleting.discard(address)


_native_delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_delete)
_deleter = ctypes.cast(_native_delete, ctypes.c_void_p).value


@atexit.register
def _let_go() -> None:
    """Leave all tensors to the end of the process: no Python code may run for them any more.

    Deleters that run in other threads are waited for (a second at most). A daemon thread inside of
    one would be ended in the middle of native code that cannot be left so.
    """
    global _has_ended
    _has_ended = True
    for managed, *_ in list(_living.values()):
        managed.deleter = None
    for _ in range(1000):
        if threading.active_count() > 1:
            time.sleep(0.001)  # also for one that is about to begin
        if not _deleting:
            break


def bytes_of(shape: tuple[int, ...], dtype: DataType) -> int:
    """Return the bytes of a compact tensor."""
    count = 1
    for extent in shape:
        count *= extent
    return packed_bytes(count, dtype) if is_packed(dtype) else count * dtype.nbytes


@lru_cache(maxsize=4096)
def _prototype(
    device: tuple[int, int], shape: tuple[int, ...], dtype: DataType
) -> tuple[_ManagedTensor, Any]:
    """Return a managed tensor without memory, and what it points to: the sizes and steps, which all
    tensors of this shape share.
    """
    rank = len(shape)
    dims = (ctypes.c_int64 * max(rank, 1))(*shape)
    steps = (ctypes.c_int64 * max(rank, 1))()
    step = 1
    for axis in range(rank - 1, -1, -1):
        steps[axis] = step
        step *= shape[axis]
    bits = 8 if dtype.is_bool else dtype.bits
    pointer = ctypes.POINTER(ctypes.c_int64)
    tensor = DLTensor(
        None,
        DLDevice(*device),
        rank,
        DLDataType(dtype.type_code, bits, dtype.lanes),
        ctypes.cast(dims, pointer),
        ctypes.cast(steps, pointer),
        0,
    )
    return _ManagedTensor(tensor, None, None), (dims, steps)


def tensor_over(
    allocation: Allocation | None,
    device: tuple[int, int],
    shape: tuple[int, ...],
    dtype: DataType,
) -> NDArray:
    """Return a compact tensor over an allocation, which it releases when it dies; None is the
    memory of a tensor without elements.
    """
    prototype, pointed_to = _prototype(device, shape, dtype)
    managed = _ManagedTensor.from_buffer_copy(prototype)
    if allocation is not None:
        managed.dl_tensor.data = allocation.address
    if not _has_ended:
        managed.deleter = _deleter
    address = ctypes.addressof(managed)
    _living[address] = (managed, pointed_to, allocation)
    return cast("NDArray", tensor_of(address))


class MemoryAPI(DeviceAPI, ABC):
    """A kind of device with memory of its own. Subclasses allocate, and move bytes."""

    device_type: int
    """DLPack's number of the kind."""

    @abstractmethod
    def allocate(self, size: int, device_id: int) -> Allocation:
        """Return new memory of a device, of at least one byte."""

    @abstractmethod
    def read(self, device_id: int, source: int, host: int, size: int) -> None:
        """Copy bytes of a device to an address of the host, and wait for it."""

    @abstractmethod
    def write(self, device_id: int, host: int, target: int, size: int) -> None:
        """Copy bytes of the host to a device; the host's may change when it returns."""

    @abstractmethod
    def move(self, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """Copy bytes between two places (device, address) of this kind, in the order of its
        work.
        """

    @abstractmethod
    def require(self, device_id: int) -> None:
        """Raise NoDeviceError if there is no such device."""

    def empty(
        self, shape: tuple[int, ...], dtype: DataType, device_id: int, scope: str | None
    ) -> NDArray:
        """Return a new tensor with undefined contents."""
        if scope not in (None, "", "global"):
            raise UnsupportedError(
                f"a tensor of {self.name}({device_id}) cannot lie in the scope '{scope}'",
                notes=("tensors lie in 'global'; other scopes are for buffers of kernels",),
            )
        if dtype.is_float and dtype.bits > 64:
            raise TypeMismatchError(f"there are no tensors of the dtype {dtype}")
        self.require(device_id)
        size = bytes_of(shape, dtype)
        allocation = self.allocate(size, device_id) if size else None
        return tensor_over(allocation, (self.device_type, device_id), shape, dtype)

    @property
    def name(self) -> str:
        """The name of the kind."""
        return type_name(self.device_type)

    def copy(self, source: NDArray, target: NDArray) -> None:
        """Copy between two tensors of equal shape and dtype, of which one is on this kind of
        device.
        """
        if not target.is_contiguous():
            raise UnsupportedError(
                "a tensor with strides cannot be written to on a device",
                notes=("copy to a compact tensor, and use that",),
            )
        size = source.nbytes
        if size == 0:
            return
        ours, theirs = source.__dlpack_device__(), target.__dlpack_device__()
        if ours[0] == theirs[0] == self.device_type and source.is_contiguous():
            self.move((ours[1], source.data_ptr()), (theirs[1], target.data_ptr()), size)
        elif ours[0] in _IN_HOST_MEMORY and theirs[0] == self.device_type:
            content = compact(source)
            self.write(theirs[1], content.data_ptr(), target.data_ptr(), size)
        elif theirs[0] in _IN_HOST_MEMORY and ours[0] == self.device_type:
            self._read(source, target)
        else:
            from tilesmith.runtime.ndarray import empty_cpu

            source.copyto(empty_cpu(source.shape, source.dtype)).copyto(target)

    def _read(self, source: NDArray, target: NDArray) -> None:
        """Copy a tensor of the device, which may have strides, to a compact one of the host."""
        device_id = source.__dlpack_device__()[1]
        if source.is_contiguous():
            self.read(device_id, source.data_ptr(), target.data_ptr(), source.nbytes)
            return
        if is_packed(source.dtype) or min(source.strides) < 0:
            raise UnsupportedError(
                f"a tensor of '{source.dtype}' with strides {source.strides} cannot be copied from "
                "a device"
            )
        import numpy

        width = source.dtype.nbytes
        last = sum([(n - 1) * step for n, step in zip(source.shape, source.strides)])
        content = numpy.empty((last + 1) * width, "uint8")
        self.read(device_id, source.data_ptr(), content.ctypes.data, content.nbytes)
        steps = tuple([step * width for step in source.strides])
        spread = numpy.lib.stride_tricks.as_strided(
            content, (*source.shape, width), (*steps, 1), writeable=False
        )
        ctypes.memmove(
            target.data_ptr(), numpy.ascontiguousarray(spread).ctypes.data, source.nbytes
        )


def compact(tensor: NDArray) -> NDArray:
    """Return a tensor of the host itself if it is compact, else a compact copy."""
    if tensor.is_contiguous():
        return tensor
    from tilesmith.runtime.ndarray import empty_cpu

    return tensor.copyto(empty_cpu(tensor.shape, tensor.dtype))
