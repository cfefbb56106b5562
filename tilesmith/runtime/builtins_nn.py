"""Registers global functions that models of `relax.frontend.nn` call: growing caches, output in
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import tilesmith.runtime.paged_cache  # noqa: F401 - it registers functions, too
from tilesmith.runtime.ndarray import NDArray, from_dlpack
from tilesmith.runtime.registry import get_global_func, register_func
from tilesmith.support.errors import ExecutionError, ShapeError, TypeMismatchError

__all__ = ["AttentionCache"]


class AttentionCache:
    """A tensor that grows along its first axis; there is room for more than it has elements."""

    def __init__(self, first: numpy.ndarray, count: int) -> None:
        self.data = first
        self.count = count

    def append(self, elements: numpy.ndarray) -> None:
        """Append elements; the memory doubles when it is full."""
        if elements.shape[1:] != self.data.shape[1:] or elements.dtype != self.data.dtype:
            raise ShapeError(
                f"a cache of {self.data.shape[1:]} {self.data.dtype} cannot take elements of "
                f"{elements.shape[1:]} {elements.dtype}"
            )
        needed = self.count + len(elements)
        if needed > len(self.data):
            room = max(needed, 2 * len(self.data))
            grown = numpy.empty((room, *self.data.shape[1:]), self.data.dtype)
            grown[: self.count] = self.data[: self.count]
            self.data = grown
        self.data[self.count : needed] = elements
        self.count = needed


def _cache(value: Any) -> AttentionCache:
    if not isinstance(value, AttentionCache):
        raise TypeMismatchError(f"a cache is needed, got {type(value).__name__}")
    return value


@register_func("vm.builtin.attention_kv_cache_create", override=True)
def create(first: NDArray, shape: Sequence[int], count: int) -> AttentionCache:
    """Return a new cache with room for ``shape``; the first ``count`` elements are given."""
    data = numpy.array(first.numpy()).reshape(tuple(shape))
    return AttentionCache(data, int(count))


@register_func("vm.builtin.attention_kv_cache_append", override=True)
def append(cache: Any, elements: NDArray) -> AttentionCache:
    """Append elements, and return the cache."""
    found = _cache(cache)
    found.append(elements.numpy())
    return found


@register_func("vm.builtin.attention_kv_cache_view", override=True)
def view(cache: Any, shape: Sequence[int]) -> NDArray:
    """Return the first elements of a cache, as many as ``shape`` says."""
    found = _cache(cache)
    wanted = tuple([int(size) for size in shape])
    if wanted[1:] != found.data.shape[1:] or wanted[0] > found.count:
        raise ShapeError(
            f"a cache of {found.count} elements of {found.data.shape[1:]} has no view of {wanted}"
        )
    return from_dlpack(found.data[: wanted[0]])


@register_func("vm.builtin.attention_kv_cache_array_clear", override=True)
def clear(caches: Sequence[Any]) -> None:
    """Forget the elements of caches."""
    for cache in caches:
        _cache(cache).count = 0


@register_func("vm.builtin.attention_kv_cache_array_popn", override=True)
def pop(caches: Sequence[Any], count: int) -> None:
    """Forget the last ``count`` elements of caches."""
    for cache in caches:
        found = _cache(cache)
        if not 0 <= count <= found.count:
            raise ExecutionError(f"a cache of {found.count} elements cannot give up {count}")
        found.count -= int(count)


@register_func("vm.builtin.invoke_debug_func", override=True)
def invoke_debug_func(io: Any, name: str, place: str, *args: Any) -> Any:
    """Call a registered function with the place in the source; return the state that orders
    output.
    """
    get_global_func(name)(place, *args)
    return io


@register_func("vm.builtin.debug_print", override=True)
def debug_print(place: str, value: Any) -> None:
    """Print a value with the place in the source."""
    shown = value.numpy() if isinstance(value, NDArray) else value
    print(f"[{place}] {shown}")
