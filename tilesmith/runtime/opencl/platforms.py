"""Finds OpenCL devices, and has a context and the queues of each.

Devices are numbered in the order of the platforms, GPUs before CPUs before others. The knob
`TILESMITH_OPENCL_DEVICE` leaves those whose name, or whose platform's name, has a text in it. Each
device has a context of its own and one queue, in order and with profiling; more queues are the
device's streams. Work of different queues has no order: wait with `sync` in between, or order them
by events.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilesmith.runtime.devices import DEVICE_TYPES
from tilesmith.runtime.ffi import current_stream, set_current_stream
from tilesmith.runtime.opencl.old_pocl import mend
from tilesmith.support.errors import (
    DeviceError,
    MissingDependencyError,
    NoDeviceError,
    OutOfMemoryError,
)
from tilesmith.support.knobs import knobs

__all__ = [
    "OPENCL", "checked", "context", "create_queue", "device", "device_count", "finish",
    "free_queue", "is_of_context", "known_queue", "note_command", "package", "problem", "queue",
    "queue_of", "select_queue", "watch_commands",
]  # fmt: skip

OPENCL = DEVICE_TYPES["opencl"]
_lock = threading.RLock()
_threads = threading.local()


class _State:
    """What is known of OpenCL in this process."""

    def __init__(self) -> None:
        self.devices: list[Any] | None = None
        self.problem = ""
        self.chosen_by = ""
        self.contexts: dict[int, Any] = {}
        self.queues: dict[int, Any] = {}
        self.streams: dict[int, tuple[int, Any]] = {}


_state = _State()


def package() -> Any:
    """Return the module pyopencl; MissingDependencyError if it is not installed."""
    try:
        import pyopencl
    except ImportError as error:
        raise MissingDependencyError("pyopencl", "opencl", "OpenCL") from error
    return pyopencl


def _devices() -> list[Any]:
    if _state.devices is None or _state.chosen_by != knobs.opencl_device:
        with _lock:
            _state.chosen_by = knobs.opencl_device
            _state.contexts, _state.queues = {}, {}
            _state.devices, _state.problem = _find()
    return _state.devices


def _find() -> tuple[list[Any], str]:
    try:
        cl = package()
    except MissingDependencyError as error:
        return [], f"{error.message}: {error.command}"
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        return [], f"there is no OpenCL platform here: install a driver, or PoCL ({_text(error)})"
    found, broken = [], ""
    for platform in platforms:
        try:
            found += platform.get_devices()
        except cl.Error as error:  # a broken driver; the others still work
            broken += f"; '{platform.name}' answers {_text(error)}"
    kinds = [cl.device_type.GPU, cl.device_type.CPU]
    ranks = [next((n for n, kind in enumerate(kinds) if one.type & kind), 9) for one in found]
    found = [one for _, _, one in sorted(zip(ranks, range(len(found)), found, strict=True))]
    if not found:
        return [], f"the OpenCL platforms here have no device{broken}"
    wanted = knobs.opencl_device.lower()
    chosen = [one for one in found if wanted in f"{one.platform.name} {one.name}".lower()]
    if not chosen:
        names = ", ".join([f"'{one.name}' of '{one.platform.name}'" for one in found])
        return [], f"TILESMITH_OPENCL_DEVICE='{knobs.opencl_device}' is the name of none of {names}"
    for one in chosen:
        mend(one)
    return chosen, ""


def problem() -> str:
    """Return why there is no OpenCL device here; "" if there is one."""
    _devices()
    return _state.problem


def device_count() -> int:
    """Return the number of devices."""
    return len(_devices())


def device(device_id: int) -> Any:
    """Return the `pyopencl.Device` of a number; NoDeviceError if there is none."""
    found = _devices()
    if 0 <= device_id < len(found):
        return found[device_id]
    if not found:
        package()  # its error says what to install
        raise NoDeviceError(
            f"no device of type 'opencl' can be used: {_state.problem}",
            notes=("`tilesmith doctor` shows what is installed and what is missing",),
        )
    raise NoDeviceError(
        f"there is no opencl({device_id}): this machine has {len(found)} OpenCL "
        f"device{'' if len(found) == 1 else 's'}"
    )


def context(device_id: int) -> Any:
    """Return the `pyopencl.Context` of a device."""
    chosen = device(device_id)
    made = _state.contexts.get(device_id)
    if made is None:
        with _lock:
            if device_id not in _state.contexts:
                with checked("clCreateContext", device_id):
                    _state.contexts[device_id] = package().Context([chosen])
            made = _state.contexts[device_id]
    return made


def queue(device_id: int) -> Any:
    """Return the `pyopencl.CommandQueue` of this thread for a device: the one that
    `set_raw_stream` chose, or the device's own.
    """
    return queue_of(device_id, current_stream(OPENCL, device_id))


def _own_queue(device_id: int) -> Any:
    owner = context(device_id)
    made = _state.queues.get(device_id)
    if made is None:
        with _lock:
            if device_id not in _state.queues:
                _state.queues[device_id] = _new_queue(owner, device_id)
            made = _state.queues[device_id]
    return made


def known_queue(device_id: int) -> Any:
    """Return the queue of this thread for a device if it is there, else None; raises nothing."""
    stream = current_stream(OPENCL, device_id)
    return _state.streams.get(stream, (0, None))[1] if stream else _state.queues.get(device_id)


def _new_queue(owner: Any, device_id: int) -> Any:
    cl = package()
    with checked("clCreateCommandQueue", device_id):
        return cl.CommandQueue(owner, properties=cl.command_queue_properties.PROFILING_ENABLE)


def create_queue(device_id: int) -> int:
    """Return a new queue as a number."""
    made = _new_queue(context(device_id), device_id)
    _state.streams[made.int_ptr] = (device_id, made)
    return int(made.int_ptr)


def _number(stream: Any) -> int:
    return int(getattr(stream, "value", stream) or 0)


def queue_of(device_id: int, stream: Any) -> Any:
    """Return the queue of a number that `create_queue` gave; of 0, the device's own."""
    number = _number(stream)
    if not number:
        return _own_queue(device_id)
    owner, found = _state.streams.get(number, (-1, None))
    if owner != device_id:
        raise DeviceError(
            f"this is no stream of opencl({device_id}) that create_raw_stream made, or it is "
            "freed already"
        )
    return found


def is_of_context(device_id: int, stream: Any) -> bool:
    """True for a number of `create_queue` whose queue is in the context that a device has now."""
    owner, found = _state.streams.get(_number(stream), (-1, None))
    return owner == device_id and found.context == _state.contexts.get(device_id)


def free_queue(device_id: int, stream: Any) -> None:
    """Finish a queue of `create_queue`, and release it."""
    found = queue_of(device_id, stream)
    number = _number(stream)
    if not number:
        raise DeviceError(f"the default stream of opencl({device_id}) is not freed")
    finish(device_id, found)
    if current_stream(OPENCL, device_id) == number:
        set_current_stream(OPENCL, device_id, 0)
    del _state.streams[number]


def select_queue(device_id: int, stream: Any) -> None:
    """Make a queue that of this thread for a device."""
    queue_of(device_id, stream)
    set_current_stream(OPENCL, device_id, _number(stream))


def finish(device_id: int, one: Any = None) -> None:
    """Wait for a queue, or for all queues of a device."""
    others = [found for owner, found in list(_state.streams.values()) if owner == device_id]
    with checked("clFinish", device_id):
        for each in [queue_of(device_id, 0), *others] if one is None else [one]:
            each.finish()


def watch_commands(into: list[Any] | None) -> None:
    """Add the events of the kernels and copies that this thread enqueues from now on to a list;
    None: to none any more.
    """
    _threads.commands = into


def note_command(event: Any) -> None:
    """Add the event of a kernel or copy to the list of `watch_commands`."""
    found = getattr(_threads, "commands", None)
    if found is not None:
        found.append(event)


@contextmanager
def checked(what: str, device_id: int, allocates: bool = False) -> Iterator[None]:
    """Turn errors of OpenCL within a `with` block into DeviceError or OutOfMemoryError; `what`
    says what was called, and for what. Where it ``allocates``, missing resources are memory.
    """
    cl = package()
    try:
        yield
    except cl.Error as error:
        code = getattr(error, "code", 0)
        lacks = allocates and code in (
            cl.status_code.OUT_OF_RESOURCES, cl.status_code.INVALID_BUFFER_SIZE,
        )  # fmt: skip
        if lacks or isinstance(error, cl.MemoryError):
            raise OutOfMemoryError(
                f"{what}: opencl({device_id}) has no memory for it, {_text(error)}",
                notes=("free tensors of the device, or use smaller inputs",),
            ) from error
        raise DeviceError(f"{what}, on opencl({device_id}): {_text(error)}") from error


def _text(error: Any) -> str:
    """Return the name of an error's status and the function that gave it."""
    cl = package()
    try:
        return f"CL_{cl.status_code.to_string(error.code)} ({error.code}) of {error.routine}"
    except (AttributeError, ValueError):
        return str(error)
