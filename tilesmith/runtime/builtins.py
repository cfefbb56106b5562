"""Registers global functions that compiled code calls, named `tilesmith.runtime.…`.

They do what native code cannot do by itself: make reference-counted tensor objects for functions
that users have registered. Kernels do not call them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import tilesmith.runtime.frame
import tilesmith.runtime.stretches  # noqa: F401 - its functions are of the same kind
from tilesmith.runtime import device_code, device_workspace, threads
from tilesmith.runtime.devices import enabled
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.external import find_external
from tilesmith.runtime.ffi import tvm_ffi
from tilesmith.runtime.libraries.table import register_all
from tilesmith.runtime.ndarray import NDArray, empty_cpu, view_at
from tilesmith.runtime.registry import get_global_func, register_func
from tilesmith.support.errors import InternalError


def _provide(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under a name that users know, unless another runtime in the process has
    already registered it.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if tvm_ffi.get_global_func(name, allow_missing=True) is None:
            register_func(name, function)
        return function

    return register


register_all()


@_provide("runtime.NumThreads")
def num_threads_of_runtime() -> int:
    """Return the number of threads that parallel loops use."""
    return threads.num_threads()


@_provide("runtime.config_threadpool")
def config_threadpool(mode: int, number: int = 0, *more: Any) -> None:
    """Set the number of threads of parallel loops; 0 uses all cores. The choice between kinds of
    cores (``mode``) is left to the operating system.
    """
    threads.set_num_threads(number or None)


@_provide("runtime.RuntimeEnabled")
def runtime_enabled(target: str) -> bool:
    """True if this machine can run code of a kind of target."""
    return enabled(target)


_SIZE_OF_CACHE = "/sys/devices/system/cpu/cpu0/cache/index3/size"
_flushed: list[bytearray] = []


@_provide("cache_flush_cpu_non_first_arg")
def cache_flush_cpu_non_first_arg(*arguments: Any) -> None:
    """Evict all tensors but the first from the CPU's caches: a `f_preproc` for `time_evaluator`."""
    if not _flushed:
        try:
            with open(_SIZE_OF_CACHE, encoding="ascii") as file:
                size = int(file.read().strip().removesuffix("K")) << 10
        except (OSError, ValueError):
            size = 64 << 20  # not every system has this query
        _flushed.append(bytearray(2 * size))
    memory = _flushed[0]
    ctypes.memset((ctypes.c_char * len(memory)).from_buffer(memory), 1, len(memory))
    if arguments and isinstance(arguments[0], NDArray):
        arguments[0].numpy()


_specifications: dict[str, list[tuple[str, DataType | None, int]]] = {}


@register_func("tilesmith.runtime.alloc_tensor", override=True)
def alloc_tensor(dtype: str, *shape: int) -> NDArray:
    """Return a new tensor on the host with undefined contents."""
    return empty_cpu(tuple(shape), DataType(dtype))


@register_func("tilesmith.runtime.call_dps", override=True)
def call_dps(name: str, specification: str, *values: Any) -> None:
    """Call a registered function, or one of an external module (`runtime.external`), in
    destination-passing style on memory of the caller.

    `specification` lists the arguments separated by commas: `in:DTYPE:RANK` and `out:DTYPE:RANK`
    for tensors, `value` for anything else. For a tensor, `values` holds its address and extents;
    for the rest the value. A function of an external module gets views of the caller's memory,
    which are its own during the call. Any other function gets tensors of its own, as it may keep
    them; what it has written into the outputs is copied back.
    """
    external = find_external(name)
    function = external or get_global_func(name)
    arguments = []
    outputs = []
    position = 0
    for role, dtype, rank in operand_roles(specification):
        if dtype is None:
            arguments.append(values[position])
            position += 1
            continue
        address, *shape = values[position : position + 1 + rank]
        position += 1 + rank
        viewed = None if external is None else view_at(address, tuple(shape), dtype)
        if viewed is not None:
            arguments.append(viewed)
            continue
        tensor = empty_cpu(tuple(shape), dtype)
        if role == "in":
            ctypes.memmove(tensor.data_ptr(), address, tensor.nbytes)
        else:
            outputs.append((address, tensor))
        arguments.append(tensor)
    if position != len(values):
        raise InternalError(f"call_dps '{specification}' got {len(values)} values")
    function(*arguments)
    for address, tensor in outputs:
        ctypes.memmove(address, tensor.data_ptr(), tensor.nbytes)


def operand_roles(specification: str) -> list[tuple[str, DataType | None, int]]:
    """Return the role, dtype and rank of each operand that a specification lists; the dtype is None
    for a number.
    """
    parsed = _specifications.get(specification)
    if parsed is None:
        parsed = []
        for part in specification.split(",") if specification else []:
            role, _, rest = part.partition(":")
            if role == "value":
                parsed.append((role, None, 0))
                continue
            dtype, _, rank = rest.partition(":")
            if role not in ("in", "out") or not rank.isdigit():
                raise InternalError(f"call_dps: '{part}' is not a specification of an argument")
            parsed.append((role, DataType(dtype), int(rank)))
        _specifications[specification] = parsed
    return parsed


register_func(device_code.LAUNCH_FUNCTION, device_code.launch_kernel, override=True)


@register_func("tilesmith.runtime.device_workspace", override=True)
def alloc_device_workspace(device_type: int, device_id: int, size: int) -> ctypes.c_void_p:
    """Return memory of a device, for a function that launches kernels."""
    return ctypes.c_void_p(device_workspace.workspace(device_type, device_id, size))


@register_func("tilesmith.runtime.free_device_workspace", override=True)
def free_device_workspace(pointer: ctypes.c_void_p | None) -> None:
    """Take back memory of a device."""
    if pointer is not None and pointer.value:
        device_workspace.free_workspace(pointer.value)
