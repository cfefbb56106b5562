"""Reaches CUDA's driver, in this one place: libcuda, contexts, and code on devices.

The library is called through ctypes and not through `cuda-bindings`: a generated launcher needs
the addresses of its functions anyway, nothing has to be installed besides NVIDIA's driver, and
importing the bindings takes 45 ms where this table takes one.

Each call is checked (`check`): a status becomes a `DeviceError` with CUDA's name and text for it.
After a fault of a kernel the driver refuses everything for the device in this process; all later
uses say so (`DeviceLostError`). A device's *primary* context is used, which torch and others share.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tilesmith.runtime.cuda.entry_points import FUNCTIONS, SYMBOLS
from tilesmith.runtime.cuda.statuses import (
    ADVICE,
    LOSES_THE_CONTEXT,
    NO_DEVICE,
    NOT_INITIALIZED,
    OUT_OF_MEMORY,
)
from tilesmith.runtime.device_code import recent_launches
from tilesmith.support.errors import (
    DeviceError,
    DeviceLostError,
    NoDeviceError,
    OutOfMemoryError,
)
from tilesmith.support.knobs import knobs

__all__ = [
    "Active", "Driver", "LoadedModule", "address_of", "attribute", "check", "context_of",
    "device_count", "driver", "driver_version", "ensure_context", "find_driver",
    "function_attribute", "function_of", "is_lost", "launch_address", "load_module", "problem",
    "set_function_attribute", "still_serves", "unload", "unload_module",
]  # fmt: skip

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_INSTALL = "install NVIDIA's driver for this GPU (https://www.nvidia.com/drivers)"
FUNCTION_ATTRIBUTES = {
    "max_threads_per_block": 0,
    "shared_size_bytes": 1,
    "const_size_bytes": 2,
    "local_size_bytes": 3,
    "num_regs": 4,
    "ptx_version": 5,
    "binary_version": 6,
    "max_dynamic_shared_size_bytes": 8,
    "preferred_shared_memory_carveout": 9,
    "non_portable_cluster_size_allowed": 14,
}
"""Names of a kernel's attributes → their numbers in CUDA."""
_JIT_ERROR_LOG, _JIT_ERROR_LOG_SIZE = 5, 6
_LOG_BYTES = 8192


class Driver:
    """The loaded library. Its functions are attributes with the names of CUDA's manual."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.library = ctypes.CDLL(path)
        self.process = os.getpid()
        self.addresses: dict[str, int] = {}
        self.pools: dict[int, int] = {}
        """Device → its pool of memory, which `memory` makes; 0 on a device without pools."""
        self.pairs: dict[int, float] = {}
        """Device → the seconds between two events with nothing between them, once measured."""
        for name, types in FUNCTIONS.items():
            function = getattr(self.library, SYMBOLS.get(name, name), None)
            if function is None:
                setattr(self, name, _missing(name, path))
                continue
            function.argtypes = types
            function.restype = ctypes.c_int
            setattr(self, name, function)
            self.addresses[name] = ctypes.cast(function, ctypes.c_void_p).value or 0

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'{name}' is not in the table of the driver's functions")


def _missing(name: str, path: str) -> Any:
    def refuse(*_arguments: Any) -> int:
        raise DeviceError(
            f"the CUDA driver ({path}) has no function {name}", notes=("update the driver",)
        )

    return refuse


class _State:
    """What is known of the driver in this process."""

    def __init__(self) -> None:
        self.driver: Driver | None = None
        self.problem = ""
        self.is_known = False
        self.count = 0
        self.contexts: dict[int, int] = {}
        self.lost: dict[int, str] = {}


_state = _State()
_lock = threading.RLock()


def find_driver() -> Driver | None:
    """Return the driver, initialized; None if there is none here (`problem` says why)."""
    if not _state.is_known:
        with _lock:
            if not _state.is_known:
                _load()
    return _state.driver


def _load() -> None:
    path = str(knobs.cuda_driver or _LIBRARY)
    try:
        found = Driver(path)
    except OSError as error:
        _state.problem = f"there is no CUDA driver here ({error})"
        _state.is_known = True
        return
    status = found.cuInit(0)
    count = ctypes.c_int()
    if status == 0:
        status = found.cuDeviceGetCount(ctypes.byref(count))
    if status:
        name, text = _names(found, status)
        _state.problem = f"the CUDA driver ({path}) does not start: {name} ({status}), {text}"
    else:
        _state.driver = found
        _state.count = count.value
        if not count.value:
            _state.problem = f"the CUDA driver ({path}) sees no GPU"
    _state.is_known = True


def unload() -> None:
    """Forget the library and what is known of its devices, so that the next use looks again."""
    global _state
    with _lock:
        _state = _State()


def problem() -> str:
    """Return why there is no CUDA device here, and what to do; "" if there is one."""
    find_driver()
    return f"{_state.problem}; {_advice()}" if _state.problem else ""


def _advice() -> str:
    """Return what to do about the problem."""
    is_without_driver = _state.driver is None and "NO_DEVICE" not in _state.problem
    return _INSTALL if is_without_driver else ADVICE[NO_DEVICE]


def device_count() -> int:
    """Return the number of CUDA devices."""
    return _state.count if find_driver() is not None else 0


def driver() -> Driver:
    """Return the driver; NoDeviceError if there is none here."""
    found = _state.driver or find_driver()
    if found is None:
        raise NoDeviceError(
            f"no device of type 'cuda' can be used: {_state.problem}", notes=(_advice(),)
        )
    if found.process != os.getpid():
        raise DeviceError(
            "CUDA was started before this process was forked, and cannot be used in it",
            notes=(ADVICE[NOT_INITIALIZED],),
        )
    return found


# -- statuses -----------------------------------------------------------------------------------


def _names(found: Driver, status: int) -> tuple[str, str]:
    texts = []
    for ask in (found.cuGetErrorName, found.cuGetErrorString):
        text = ctypes.c_char_p()
        known = ask(status, ctypes.byref(text)) == 0 and text.value
        texts.append(text.value.decode() if known and text.value else "")
    return texts[0] or "an unknown status", texts[1] or "without a text"


def check(status: int, what: str, device_id: int | None = None) -> None:
    """Raise the error that a status of the driver stands for; `what` says what was called, and for
    what ("cuMemcpyAsync, copying 64 bytes").
    """
    if status:
        raise error_of(status, what, device_id)


def error_of(
    status: int, what: str, device_id: int | None = None, log: str = ""
) -> DeviceError | OutOfMemoryError:
    """Return the error for a status other than 0, and note the device as lost if it is."""
    found = driver()
    name, text = _names(found, status)
    message = f"{what}: {name} ({status}), {text}"
    if log:
        message += f"\n{log}"
    if status in LOSES_THE_CONTEXT:
        number = _current_device(found) if device_id is None else device_id
        _state.lost.setdefault(number, f"{LOSES_THE_CONTEXT[status]} ({name})")
        return lost_error(number, message)
    if status == OUT_OF_MEMORY:
        return OutOfMemoryError(
            message, notes=("free tensors of the device, or use smaller inputs",)
        )
    advice = ADVICE.get(status)
    return DeviceError(message, notes=(advice,) if advice else ())


def lost_error(device_id: int, message: str = "") -> DeviceLostError:
    """Return the error for a use of a device whose context is lost."""
    reason = _state.lost.get(device_id, "a fault")
    launched = ", ".join(recent_launches("cuda", device_id))
    return DeviceLostError(
        message or f"cuda({device_id}) is lost for this process: {reason}",
        notes=(
            f"cuda({device_id}) and its tensors cannot be used any more in this process: "
            f"{reason}. Tensors on the host and other devices still work; start the program again",
            "what kernels do wrong is found by TILESMITH_CHECK_GPU=1 when they are built, by "
            "tilesmith.inspect.gpu_report, or under compute-sanitizer",
            *([f"kernels launched before, the last one first: {launched}"] if launched else []),
        ),
    )


def is_lost(device_id: int) -> bool:
    """True if a fault has made a device unusable in this process."""
    return device_id in _state.lost


def still_serves(found: Driver, device_id: int) -> bool:
    """True if a driver can still be asked to release what it gave of a device: not after a fault,
    and not in a fork of the process.
    """
    return found is _state.driver and device_id not in _state.lost and found.process == os.getpid()


def _current_device(found: Driver) -> int:
    number = ctypes.c_int()
    return number.value if found.cuCtxGetDevice(ctypes.byref(number)) == 0 else 0


# -- contexts -----------------------------------------------------------------------------------


def context_of(device_id: int) -> int:
    """Return the primary context of a device; it is retained at the first use."""
    found = driver()
    if device_id in _state.lost:
        raise lost_error(device_id)
    context = _state.contexts.get(device_id)
    return _retain(found, device_id) if context is None else context


def _retain(found: Driver, device_id: int) -> int:
    if not 0 <= device_id < _state.count:
        raise NoDeviceError(
            f"there is no cuda({device_id}): this machine has {_state.count} CUDA "
            f"device{'' if _state.count == 1 else 's'}",
            notes=(ADVICE[101],),
        )
    with _lock:
        if device_id not in _state.contexts:
            made = ctypes.c_void_p()
            status = found.cuDevicePrimaryCtxRetain(ctypes.byref(made), device_id)
            check(status, f"cuDevicePrimaryCtxRetain, starting cuda({device_id})", device_id)
            _state.contexts[device_id] = made.value or 0
        return _state.contexts[device_id]


def ensure_context(device_id: int) -> None:
    """Make a device's context the current one of this thread, and leave it so."""
    wanted = context_of(device_id)
    found = driver()
    current = ctypes.c_void_p()
    found.cuCtxGetCurrent(ctypes.byref(current))
    if current.value != wanted:
        check(found.cuCtxSetCurrent(wanted), f"cuCtxSetCurrent, for cuda({device_id})", device_id)


class Active:
    """Makes a device's context current within a `with` block, which gives the driver: what was
    current before (torch may have chosen another device) is so again after it.
    """

    __slots__ = ("_before", "_device_id", "_found")
    _before: int | None
    _found: Driver

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id

    def __enter__(self) -> Driver:
        wanted = context_of(self._device_id)
        found = self._found = driver()
        current = ctypes.c_void_p()
        found.cuCtxGetCurrent(ctypes.byref(current))
        self._before = current.value
        if current.value != wanted:
            check(found.cuCtxSetCurrent(wanted), "cuCtxSetCurrent", self._device_id)
        else:
            self._before = None
        return found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A thread without a context keeps ours: nobody else has chosen one in it.
        if self._before is not None:
            self._found.cuCtxSetCurrent(self._before)


def attribute(device_id: int, number: int) -> int:
    """Return a `CUdevice_attribute` by its number."""
    value = ctypes.c_int()
    status = driver().cuDeviceGetAttribute(ctypes.byref(value), number, device_id)
    check(status, f"cuDeviceGetAttribute, attribute {number} of cuda({device_id})", device_id)
    return value.value


def driver_version() -> int:
    """Return the version of CUDA that the driver supports, such as 13000."""
    value = ctypes.c_int()
    check(driver().cuDriverGetVersion(ctypes.byref(value)), "cuDriverGetVersion")
    return value.value


# -- code ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadedModule:
    """Code that is loaded on a device."""

    handle: int
    device_id: int


def load_module(code: bytes, device_id: int) -> LoadedModule:
    """Load a cubin, a fat binary or PTX on a device; an error shows the log of PTX's compiler."""
    log = ctypes.create_string_buffer(_LOG_BYTES)
    names = (ctypes.c_int * 2)(_JIT_ERROR_LOG, _JIT_ERROR_LOG_SIZE)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
    made = ctypes.c_void_p()
    # PTX is a text that ends with a zero byte; one more byte does no harm to a cubin
    text = ctypes.create_string_buffer(code, len(code) + 1)
    with Active(device_id) as found:
        status = found.cuModuleLoadDataEx(ctypes.byref(made), text, 2, names, values)
    if status:
        what = f"cuModuleLoadDataEx, loading {len(code)} bytes of code on cuda({device_id})"
        raise error_of(status, what, device_id, log.value.decode(errors="replace").strip())
    return LoadedModule(made.value or 0, device_id)


def unload_module(module: LoadedModule) -> None:
    """Release the code of a module, whose kernels must have ended."""
    if still_serves(driver(), module.device_id):
        with Active(module.device_id) as found:
            check(found.cuModuleUnload(module.handle), "cuModuleUnload", module.device_id)


def function_of(module: LoadedModule, name: str) -> int:
    """Return the handle of a kernel (CUfunction), which lives as long as its module."""
    made = ctypes.c_void_p()
    with Active(module.device_id) as found:
        status = found.cuModuleGetFunction(ctypes.byref(made), module.handle, name.encode())
    check(status, f"cuModuleGetFunction, looking for the kernel '{name}'", module.device_id)
    return made.value or 0


def function_attribute(function: int, name: str) -> int:
    """Return an attribute of a kernel, by its name in FUNCTION_ATTRIBUTES."""
    value = ctypes.c_int()
    number = FUNCTION_ATTRIBUTES[name]
    status = driver().cuFuncGetAttribute(ctypes.byref(value), number, function)
    check(status, f"cuFuncGetAttribute, {name}")
    return value.value


def set_function_attribute(function: int, name: str, value: int) -> None:
    """Set an attribute of a kernel, such as "max_dynamic_shared_size_bytes"."""
    status = driver().cuFuncSetAttribute(function, FUNCTION_ATTRIBUTES[name], value)
    check(status, f"cuFuncSetAttribute, {name} = {value}")


def address_of(name: str) -> int:
    """Return the address of a function of the driver, for generated code."""
    found = driver()
    if name not in found.addresses:
        raise DeviceError(
            f"the CUDA driver ({found.path}) has no function {name}", notes=("update the driver",)
        )
    return found.addresses[name]


def launch_address() -> int:
    """Return the address of cuLaunchKernel, for generated launchers."""
    return address_of("cuLaunchKernel")
