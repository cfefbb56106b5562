"""Defines devices: where a tensor lives and where code runs.

`cpu()`, `cuda(1)`, `device("opencl", 0)` give interned `Device` objects. What a kind of device can
do is a `DeviceAPI`, registered under its name in `DEVICE_APIS`; the host's is here.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, ClassVar

from tilesmith.runtime.side_streams import forget
from tilesmith.support.errors import UnknownNameError, UnsupportedError
from tilesmith.support.registry import Registry

DEVICE_TYPES: dict[str, int] = {
    "cpu": 1,
    "cuda": 2,
    "cuda_host": 3,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "rocm_host": 11,
    "ext_dev": 12,
    "cuda_managed": 13,
    "oneapi": 14,
    "webgpu": 15,
    "hexagon": 16,
}
"""Name of a device type → its number in DLPack."""

_ALIASES = {
    "llvm": "cpu",
    "c": "cpu",
    "stackvm": "cpu",
    "host": "cpu",
    "gpu": "cuda",
    "nvptx": "cuda",
    "cl": "opencl",
    "sdaccel": "opencl",
    "aocl": "opencl",
}
_NAMES = {number: name for name, number in DEVICE_TYPES.items()}
RPC_SESS_MASK = 128
"""The type of a device of remote session N is its type there, plus this times N + 1."""
_ALIAS_NUMBERS = {alias: DEVICE_TYPES[name] for alias, name in _ALIASES.items()}


class Timer(ABC):
    """Measures work on a device, by the device's own clock."""

    @abstractmethod
    def start(self) -> None:
        """Begin with the work that is given to the device from now on."""

    @abstractmethod
    def end(self) -> None:
        """End with the work that was given to the device until now, without waiting for it."""

    @abstractmethod
    def seconds(self) -> float:
        """Wait for the work; return the seconds that it took."""

    @abstractmethod
    def since(self, first: Any) -> float:
        """Return the seconds from the begin of another clock of this device to that of this one;
        both have been waited for.
        """

    def stop(self) -> float:
        """Wait for the work that was given until now; return the seconds that it took."""
        self.end()
        return self.seconds()


class StreamEvent(ABC):
    """A point in the work of a stream, for which other streams can wait."""

    @abstractmethod
    def record(self, stream: Any = None) -> None:
        """Let the event happen when a stream (by default that of this thread) has done what it was
        given.
        """

    @abstractmethod
    def wait(self, stream: Any) -> None:
        """Let what a stream is given from now on begin after the event; the host does not wait."""


class DeviceAPI:
    """What the runtime needs from a kind of device. Sources of other kinds subclass it and
    register an object in DEVICE_APIS.
    """

    def exist(self, device_id: int) -> bool:
        """True if there is such a device on this machine."""
        raise NotImplementedError

    def count(self) -> int:
        """Return the number of devices of this kind on this machine."""
        return 0

    def problem(self) -> str:
        """Return why no device of this kind can be used here, and what to install; "" if one
        can.
        """
        return ""

    def sync(self, device_id: int, stream: Any = None) -> None:
        """Wait until all work that was given to the device, or to one of its streams, is done."""
        raise NotImplementedError

    def empty(self, shape: tuple[int, ...], dtype: Any, device_id: int, scope: str | None) -> Any:
        """Return a new NDArray with undefined contents."""
        raise NotImplementedError

    def copy(self, source: Any, target: Any) -> None:
        """Copy between two NDArrays of equal shape and dtype, one of them on the device."""
        raise NotImplementedError

    def attribute(self, device_id: int, name: str) -> Any:
        """Return a property such as "max_threads_per_block", or None if it is unknown."""
        return None

    def timer(self, device_id: int) -> Timer | None:
        """Return a clock of the device; None where the host's clock is the one to use."""
        return None

    def kernel_timer(self, device_id: int) -> Timer | None:
        """Return a clock for one kernel among others, as near to the kernel's own time as the
        device tells; None where the host's clock is the one to use.
        """
        return self.timer(device_id)

    def keep_busy(self, device_id: int, seconds: float) -> None:
        """Give the device about so much work that changes nothing, so that what follows waits in
        its queue; nothing where clocks of kernels do not see the host.
        """

    def overwriter(self, device_id: int, size: int) -> Callable[[], None] | None:
        """Return a function that writes so many bytes of the device's memory, to empty its caches;
        None where the host's memory is the device's.
        """
        return None

    def hand_over(self, device_id: int, stream: Any) -> None:
        """Let a consumer's stream wait for the work that was given to ours, before a tensor is
        shared with it (the argument `stream` of `__dlpack__`).
        """

    def create_raw_stream(self, device_id: int) -> Any:
        """Return a new queue of work."""
        raise self._without_streams()

    def free_raw_stream(self, device_id: int, stream: Any) -> None:
        """Release a queue of work."""
        raise self._without_streams()

    def set_raw_stream(self, device_id: int, stream: Any) -> None:
        """Let the work of this thread go to a queue."""
        raise self._without_streams()

    def create_side_stream(self, device_id: int) -> Any:
        """Return a new queue of work that only events order with others, the default one too."""
        return self.create_raw_stream(device_id)

    def serves(self, device_id: int, stream: Any) -> bool:
        """True unless a queue belongs to what the device was before it was set up anew."""
        return True

    def event(self, device_id: int) -> StreamEvent:
        """Return a new event, which is recorded and waited for where `active` holds."""
        raise self._without_streams()

    def active(self, device_id: int) -> AbstractContextManager[Any]:
        """Return a context in which several things are done on a device at less cost."""
        return nullcontext()

    def _without_streams(self) -> UnsupportedError:
        return UnsupportedError("devices of this type have no queues of work")


class _HostAPI(DeviceAPI):
    def exist(self, device_id: int) -> bool:
        return device_id == 0

    def count(self) -> int:
        return 1

    def sync(self, device_id: int, stream: Any = None) -> None:
        """Do nothing: work on the host is done when its call returns."""

    def attribute(self, device_id: int, name: str) -> Any:
        if name == "multi_processor_count":
            return os.cpu_count()
        if name in ("total_global_memory", "available_global_memory"):
            pages = "SC_PHYS_PAGES" if name.startswith("total") else "SC_AVPHYS_PAGES"
            try:
                return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
            except (AttributeError, ValueError, OSError):
                return None  # not every system has this query
        return None


def type_name(device_type: int) -> str:
    """Return the name of a device type; `remote[0]:cpu` for those of remote sessions."""
    if device_type >= RPC_SESS_MASK:
        session, kind = divmod(device_type, RPC_SESS_MASK)
        return f"remote[{session - 1}]:{type_name(kind)}"
    return _NAMES.get(device_type, f"device_type_{device_type}")


DEVICE_APIS: Registry[DeviceAPI] = Registry(
    "device type",
    {"cuda": "tilesmith.runtime.cuda.api", "opencl": "tilesmith.runtime.opencl.api"},
)
"""Name of a device type → what its devices can do. Drivers are loaded by the first question."""
DEVICE_APIS.register("cpu", _HostAPI())


class Device:
    """A device: `device_type` (DLPack's number), `device_id`; compare with `==` or `is`."""

    __slots__ = ("device_id", "device_type")

    device_type: int
    device_id: int
    _interned: ClassVar[dict[tuple[int, int], Device]] = {}

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    DEVICE_TYPE_TO_NAME: ClassVar[dict[int, str]] = _NAMES
    DEVICE_NAME_TO_TYPE: ClassVar[dict[str, int]] = {**DEVICE_TYPES, **_ALIAS_NUMBERS}
    MASK2STR = DEVICE_TYPE_TO_NAME
    STR2MASK = DEVICE_NAME_TO_TYPE

    def __new__(cls, device_type: int | str, device_id: int = 0) -> Device:
        key = (device_type, device_id)
        known = cls._interned.get(key)  # type: ignore[arg-type]
        if known is not None:
            return known
        number = device_type if isinstance(device_type, int) else _number(device_type)
        self = super().__new__(cls)
        self.device_type, self.device_id = int(number), int(device_id)
        known = cls._interned.setdefault((self.device_type, self.device_id), self)
        cls._interned[key] = known  # type: ignore[index]
        return known

    @property
    def type(self) -> str:
        """The name of the device type."""
        return type_name(self.device_type)

    @property
    def index(self) -> int:
        """The number of the device among those of its type."""
        return self.device_id

    @property
    def api(self) -> DeviceAPI:
        """What this kind of device can do; UnsupportedError when no device API is registered for
        it.
        """
        found = DEVICE_APIS.get(self.type, None)
        if found is None:
            raise UnsupportedError(
                f"no runtime for devices of type '{self.type}' is loaded",
                notes=(_stands_in(self.type),),
            )
        return found

    @property
    def exist(self) -> bool:
        """True if there is such a device on this machine."""
        found = DEVICE_APIS.get(self.type, None)
        return found is not None and found.exist(self.device_id)

    def sync(self, stream: Any = None) -> None:
        """Wait until all work that was given to the device is done."""
        if stream is None:
            self.api.sync(self.device_id)
        else:
            self.api.sync(self.device_id, stream)

    def texture_spatial_limit(self) -> int:
        """Return the largest extent of a texture; 0 on devices without textures."""
        limit = DEVICE_APIS.get(self.type, None)
        found = limit.attribute(self.device_id, "texture_spatial_limit") if limit else None
        return int(found or 0)

    def create_raw_stream(self) -> Any:
        """Return a new stream (queue of work) of the device; UnsupportedError for devices without
        streams.
        """
        return self.api.create_raw_stream(self.device_id)

    def free_raw_stream(self, stream: Any) -> None:
        """Release a stream of `create_raw_stream`."""
        forget(self.__dlpack_device__(), getattr(stream, "value", stream), self.api)
        self.api.free_raw_stream(self.device_id, stream)

    def set_raw_stream(self, stream: Any) -> None:
        """Let the work of this thread that follows go to a stream; 0 or None is the default one."""
        self.api.set_raw_stream(self.device_id, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Let a device be an argument of a packed function."""
        return self.device_type, self.device_id

    def __getattr__(self, name: str) -> Any:
        # Properties of real devices: max_threads_per_block, warp_size, compute_version, …
        if name.startswith("_"):
            raise AttributeError(name)
        found = DEVICE_APIS.get(self.type, None)
        value = found.attribute(self.device_id, name) if found is not None else None
        if value is None and name not in _PROPERTIES:
            raise AttributeError(f"Device has no attribute '{name}'")
        return value

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not hasattr(other, "__dlpack_device__"):
            return False
        pair = other.__dlpack_device__()
        return (int(pair[0]), int(pair[1])) == (self.device_type, self.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.device_type, self.device_id)

    def __repr__(self) -> str:
        return f"{self.type}({self.device_id})"


_PROPERTIES = {
    "available_global_memory",
    "l2_cache_size_bytes",
    "total_global_memory",
    "api_version",
    "compute_version",
    "device_kind",
    "device_name",
    "driver_version",
    "max_clock_rate",
    "max_shared_memory_per_block",
    "max_shared_memory_per_block_optin",
    "max_thread_dimensions",
    "max_threads_per_block",
    "multi_processor_count",
    "warp_size",
}


_STANDS_IN = {
    "vulkan": "GPUs are reached through CUDA and OpenCL: use the target 'cuda' or 'opencl'",
    "webgpu": "GPUs are reached through CUDA and OpenCL: use the target 'cuda' or 'opencl'",
    "metal": "an Apple computer's GPU is reached through OpenCL: use the target 'opencl'",
    "rocm": "an AMD GPU is reached through OpenCL: use the target 'opencl'",
    "rocm_host": "an AMD GPU is reached through OpenCL: use the target 'opencl'",
    "oneapi": "an Intel GPU is reached through OpenCL: use the target 'opencl'",
}


def _stands_in(kind: str) -> str:
    return _STANDS_IN.get(kind, "`tilesmith doctor` shows what is installed and what is missing")


def _number(name: str) -> int:
    name = name.split()[0].split("-")[0] if name else name
    name = _ALIASES.get(name, name)
    if name not in DEVICE_TYPES:
        raise UnknownNameError(
            f"unknown device type '{name}'", notes=("known: " + ", ".join(DEVICE_TYPES),)
        )
    return DEVICE_TYPES[name]


def device(dev_type: str | int | Device = "cpu", dev_id: int = 0) -> Device:
    """Return the device of a name or number: `device("cuda", 1)`, `device("cuda:1")`."""
    if isinstance(dev_type, Device):
        return dev_type
    if isinstance(dev_type, str) and ":" in dev_type:
        dev_type, _, index = dev_type.partition(":")
        if not index.isdigit():
            raise UnknownNameError(
                f"'{dev_type}:{index}' is not a device", notes=("such as 'cpu' or 'cuda:1'",)
            )
        dev_id = int(index)
    return Device(dev_type, dev_id)


def cpu(dev_id: int = 0) -> Device:
    """Return the host device."""
    return Device(1, dev_id)


def cuda(dev_id: int = 0) -> Device:
    """Return an NVIDIA GPU."""
    return Device(2, dev_id)


gpu = cuda


def make_callable(package: str, function: Callable[[int], Device]) -> None:
    """Let a package be called as a function of the same name: `runtime.cuda(0)` stays a device
    where `runtime.cuda` is a package.
    """
    module = sys.modules[package]
    module.__class__ = type("DevicePackage", (ModuleType,), {"__call__": staticmethod(function)})


def opencl(dev_id: int = 0) -> Device:
    """Return an OpenCL device."""
    return Device(4, dev_id)


def vulkan(dev_id: int = 0) -> Device:
    """Return a Vulkan device."""
    return Device(7, dev_id)


def metal(dev_id: int = 0) -> Device:
    """Return an Apple GPU."""
    return Device(8, dev_id)


def vpi(dev_id: int = 0) -> Device:
    """Return a simulated device."""
    return Device(9, dev_id)


def rocm(dev_id: int = 0) -> Device:
    """Return an AMD GPU."""
    return Device(10, dev_id)


def ext_dev(dev_id: int = 0) -> Device:
    """Return an external accelerator device."""
    return Device(12, dev_id)


def webgpu(dev_id: int = 0) -> Device:
    """Return a WebGPU device."""
    return Device(15, dev_id)


def hexagon(dev_id: int = 0) -> Device:
    """Return a Hexagon DSP."""
    return Device(16, dev_id)


def enabled(target: str) -> bool:
    """True if this machine can run code of a target kind ("llvm", "cuda", …)."""
    try:
        return device(target.split()[0]).exist
    except UnknownNameError:
        return False
