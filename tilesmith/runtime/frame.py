"""Memory of running calls for tensors whose sizes depend on data.

Compiled code asks for it by the number of its frame, which it gets as its last argument:

    tilesmith.runtime.reserve(frame, bytes)                    → address
    tilesmith.runtime.release(frame, address)
    tilesmith.runtime.extend(frame, address, used, bytes)      → address of the same contents
    tilesmith.runtime.reserve_output(frame, k, dtype, *shape)  → address of result k
    tilesmith.runtime.give_shape(frame, k, *sizes)             result k, which is a shape
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from typing import Any

import numpy

from tilesmith.runtime.container import ShapeTuple
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import aligned_numpy, empty_cpu
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import ShapeError

__all__ = ["Frame"]

_numbers = itertools.count(1)
_frames: weakref.WeakValueDictionary[int, Frame] = weakref.WeakValueDictionary()
_BYTE = numpy.dtype("uint8")


class Frame:
    """The memory and the results of one running call at a time; used again by later ones."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.results: dict[int, Any] = {}
        """Tensors and shapes that the code has made, by their numbers among the results."""
        self._used: dict[int, tuple[int, Any]] = {}  # address → size and memory
        self._free: dict[int, list[tuple[int, Any]]] = {}
        self._next: dict[int, list[tuple[int, Any]]] = {}  # what was released in this call
        _frames[self.number] = self

    def reserve(self, size: int) -> int:
        """Return the address of at least ``size`` bytes."""
        if size < 0:
            raise ShapeError(
                f"a tensor of {size} bytes was asked for: one of its sizes is negative"
            )
        rounded = _size_class(size)
        for store in (self._next, self._free):
            if store.get(rounded):
                address, memory = store[rounded].pop()
                break
        else:
            memory = aligned_numpy((rounded,), _BYTE)
            address = int(memory.__array_interface__["data"][0])
        self._used[address] = (rounded, memory)
        return address

    def release(self, address: int) -> None:
        """Take memory back, for the next one of its size."""
        size, memory = self._used.pop(address)
        self._next.setdefault(size, []).append((address, memory))

    def extend(self, address: int, used: int, size: int) -> int:
        """Return the address of at least ``size`` bytes that begin with the ``used`` first ones at
        an address, which is given back if it is another one. Room that grows is at least doubled,
        so that a tensor to which rows are appended is copied but a few times.
        """
        room = self._used[address][0]
        if size <= room:
            return address
        grown = self.reserve(max(size, 2 * room))
        ctypes.memmove(grown, address, used)
        self.release(address)
        return grown

    def finish(self) -> dict[int, Any]:
        """End a call and return its results; memory that it has used is kept for the next one."""
        for address in list(self._used):
            self.release(address)
        self._free, self._next = self._next, {}
        results, self.results = self.results, {}
        return results


def _size_class(size: int) -> int:
    """Round a size up, by an eighth at most, so that similar sizes share memory."""
    step = max(64, 1 << max(size.bit_length() - 4, 0))
    return max((size + step - 1) // step * step, 64)


@register_func("tilesmith.runtime.reserve", override=True)
def reserve(frame: int, size: int) -> int:
    """Return the address of memory of ``size`` bytes, which lives as long as the call."""
    return _frames[frame].reserve(size)


@register_func("tilesmith.runtime.release", override=True)
def release(frame: int, address: int) -> None:
    """Give reserved memory back before the call ends."""
    _frames[frame].release(address)


@register_func("tilesmith.runtime.extend", override=True)
def extend(frame: int, address: int, used: int, size: int) -> int:
    """Return the address of a larger piece of memory with the same contents."""
    return _frames[frame].extend(address, used, size)


@register_func("tilesmith.runtime.reserve_output", override=True)
def reserve_output(frame: int, number: int, dtype: str, *shape: int) -> int:
    """Make the result of a number; return the address of its elements."""
    if any(extent < 0 for extent in shape):
        raise ShapeError(f"result {number} would have the shape {tuple(shape)}")
    tensor = empty_cpu(tuple(shape), DataType(dtype))
    _frames[frame].results[number] = tensor
    return int(tensor.data_ptr())


@register_func("tilesmith.runtime.give_shape", override=True)
def give_shape(frame: int, number: int, *sizes: int) -> None:
    """Set the result of a number, which is a shape."""
    _frames[frame].results[number] = ShapeTuple(sizes)
