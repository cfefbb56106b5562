"""Loads the kernels inside of libraries, and launches those that native code cannot launch itself.

A library with kernels carries their code (`device_container`) and, per kernel, a launcher
(`codegen/gpu/launchers.py`). Nothing is loaded with the library: the first launch on a device asks
`launch_kernel`, which lets the loader of the kind of device load the code there. Where a loader has
handles of kernels, they are written into the launchers' tables (`launch_layout`), and launches need
no Python from then on; where it has none, each launch comes here. Refused launches come here, too,
to be explained.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from tilesmith.runtime.device_container import DYNAMIC_SHARED, CodeContainer, KernelRecord
from tilesmith.runtime.launch_layout import (
    ATTRIBUTES,
    CONTEXTS,
    DESCRIPTOR_PREFIX,
    DESCRIPTOR_WORDS,
    DEVICES,
    DRIVER,
    ENCODER,
    FUNCTIONS,
    LAUNCH_FUNCTION,
    LAYOUT_VERSION,
    LOAD,
    MISALIGNED,
    RECORD_WORDS,
    RING,
    RING_NAMES,
    SIZES,
)
from tilesmith.support.errors import ArtifactError, ExecutionError, ShapeError, UnsupportedError
from tilesmith.support.registry import Registry

__all__ = [
    "KERNEL_LOADERS", "LAUNCH_FUNCTION", "KernelLoader", "LoadedKernels", "attach", "containers_of",
    "has_loader", "launch_count", "launch_kernel", "launch_text", "recent_launches",
]  # fmt: skip

RETRY, DONE = 1, 0
"""Answers to a launcher: the tables are filled, try again; or: the kernel is launched."""


class LoadedKernels:
    """The kernels of a container, loaded on one device."""

    handles: Sequence[int] = ()
    """What native code launches, per kernel; empty where `launch` does it."""
    context: int = 0
    """What must be current in a thread that launches."""

    def attributes(self, index: int) -> tuple[int, int]:
        """Return the address of a kernel's launch attributes for the driver, and their number."""
        return 0, 0

    def launch(self, index: int, params: int, sizes: Sequence[int]) -> None:
        """Launch a kernel; `params` is the address of an array of addresses of its arguments."""
        raise NotImplementedError

    def explain(self, index: int, sizes: Sequence[int], status: int) -> Exception:
        """Return the error for a launch that the driver refused with a status."""
        return ExecutionError(f"the launch failed with status {status}")

    def unload(self) -> None:
        """Release what the device holds; nothing where the device can no longer be asked."""


class KernelLoader:
    """Loads kernels on devices of one kind; registered in KERNEL_LOADERS by the kind's name."""

    def driver(self) -> Sequence[int]:
        """Return the addresses of the driver's functions that native launches call, in the order
        of `launch_layout`; empty where there are none.
        """
        return ()

    def encoder(self) -> int:
        """Return the address of the driver's function that describes tensors; 0 without one."""
        return 0

    def load(self, code: CodeContainer, device_id: int) -> LoadedKernels:
        """Load kernels on a device. Raises a typed error where there is no such device."""
        raise NotImplementedError


KERNEL_LOADERS: Registry[KernelLoader] = Registry(
    "kind of device that runs kernels",
    {
        "cuda": "tilesmith.runtime.device_code_cuda",
        "opencl": "tilesmith.runtime.device_code_opencl",
    },
)
"""Name of a device type → what loads its kernels."""


def has_loader(kind: str) -> bool:
    """True if there is a runtime for kernels of a kind of device, whether or not this machine has
    such a device.
    """
    return KERNEL_LOADERS.get(kind, None) is not None


_lock = threading.RLock()
_codes: dict[int, _Code] = {}
_of_libraries: weakref.WeakKeyDictionary[Any, list[CodeContainer]] = weakref.WeakKeyDictionary()
_record_names: dict[int, str] = {}
_rings: dict[str, Any] = {}


class _Code:
    """The device code of one library, by the address of its descriptor."""

    def __init__(self, address: int) -> None:
        self.address = address
        version, place, size, count, records = _words(address, 5)
        if version != LAYOUT_VERSION:
            raise ArtifactError(
                f"the library's launchers have version {version}, this runtime knows "
                f"{LAYOUT_VERSION}",
                notes=("build it again with this version of Tilesmith",),
            )
        content = memoryview((ctypes.c_char * size).from_address(place)).cast("B")
        self.container = CodeContainer.unpack(content)
        if count != len(self.container.kernels):
            raise ArtifactError("the library has other launchers than kernels")
        self.records = list(_words(records, count))
        self.loaded: dict[int, LoadedKernels] = {}

    @property
    def kind(self) -> str:
        """The name of the device type."""
        return self.container.kind

    def kernel(self, index: int) -> KernelRecord:
        """Return a kernel by its number."""
        return self.container.kernels[index]

    def on(self, device_id: int) -> LoadedKernels:
        """Return the kernels on a device; load them at the first call."""
        with _lock:
            found = self.loaded.get(device_id)
            if found is None:
                found = self.loaded[device_id] = self._load(device_id)
            return found

    def _load(self, device_id: int) -> LoadedKernels:
        loader = KERNEL_LOADERS.get(self.kind, None)
        if loader is None:
            raise UnsupportedError(f"kernels for '{self.kind}' cannot be launched by this runtime")
        found = loader.load(self.container, device_id)
        if found.handles:
            self._fill(loader, device_id, found)
        return found

    def _fill(self, loader: KernelLoader, device_id: int, found: LoadedKernels) -> None:
        """Write into the launchers' tables what they need; the handles last."""
        if not 0 <= device_id < DEVICES:
            raise UnsupportedError(f"kernels run on the devices 0 to {DEVICES - 1} only")
        table = (ctypes.c_uint64 * DESCRIPTOR_WORDS).from_address(self.address)
        for place, function in enumerate(loader.driver()):
            table[DRIVER + place] = function
        table[ENCODER] = loader.encoder()
        table[RING] = ctypes.addressof(_ring(self.kind))
        table[CONTEXTS + device_id] = found.context
        for index, address in enumerate(self.records):
            _record_names[address] = self.kernel(index).name
            record = (ctypes.c_uint64 * RECORD_WORDS).from_address(address)
            record[ATTRIBUTES], record[ATTRIBUTES + 1] = found.attributes(index)
            record[FUNCTIONS + device_id] = found.handles[index]

    def release(self) -> None:
        """Forget the code, and what devices hold of it."""
        for address in self.records:
            _record_names.pop(address, None)
        loaded, self.loaded = self.loaded, {}
        for kernels in loaded.values():
            kernels.unload()


def _words(address: int, count: int) -> Sequence[int]:
    return (ctypes.c_uint64 * count).from_address(address)[:]


def attach(library: Any, names: Iterable[str]) -> None:
    """Check the device code of a loaded library, and release it when the library goes.

    `names` are symbols of the library, which has `symbol(name)`. Raises ArtifactError for code that
    is damaged.
    """
    for name in names:
        if not name.startswith(DESCRIPTOR_PREFIX):
            continue
        address = library.symbol(name)
        if address is not None:
            with _lock:
                _codes[address] = code = _Code(address)
                _of_libraries.setdefault(library, []).append(code.container)
            weakref.finalize(library, _release, address, code).atexit = False


def containers_of(library: Any) -> Sequence[CodeContainer]:
    """Return the device code that a loaded library carries."""
    return _of_libraries.get(library, ()) if library is not None else ()


def _release(address: int, code: _Code) -> None:
    with _lock:
        if _codes.get(address) is code:  # another library may have taken its place
            del _codes[address]
    if not sys.is_finalizing():
        code.release()


def _code_at(address: int) -> _Code:
    with _lock:
        code = _codes.get(address)
        if code is None:  # linked into the program: no library was loaded
            code = _codes[address] = _Code(address)
        return code


def _ring(kind: str) -> Any:
    """Return the memory in which launchers note what they launch, per device."""
    with _lock:
        if kind not in _rings:
            _rings[kind] = (ctypes.c_uint64 * ((RING_NAMES + 1) * DEVICES))()
        return _rings[kind]


def recent_launches(kind: str, device_id: int, most: int = 8) -> list[str]:
    """Return the names of the kernels that were launched last on a device, newest first."""
    ring = _rings.get(kind)
    if ring is None or not 0 <= device_id < DEVICES:
        return []
    start = device_id * (RING_NAMES + 1)
    count = ring[start]
    places = range(count - 1, max(-1, count - 1 - min(most, RING_NAMES)), -1)
    found = [_record_names.get(ring[start + 1 + place % RING_NAMES]) for place in places]
    return [name for name in found if name is not None]


def launch_count(kind: str, device_id: int) -> int:
    """Return how many kernels have been launched on a device."""
    ring = _rings.get(kind)
    return 0 if ring is None else int(ring[device_id * (RING_NAMES + 1)])


def _note_launch(code: _Code, index: int, device_id: int) -> None:
    if not 0 <= device_id < DEVICES:
        return
    ring, start = _ring(code.kind), device_id * (RING_NAMES + 1)
    with _lock:
        address = code.records[index]
        _record_names[address] = code.kernel(index).name
        ring[start + 1 + ring[start] % RING_NAMES] = address
        ring[start] += 1


def launch_kernel(
    descriptor: Any, index: int, device_id: int, params: Any, sizes: Any, status: int
) -> int:
    """Do what a launcher cannot: load its kernel on a device, launch it there (returns DONE, or
    RETRY if the launcher can now do so itself), or raise an error for a status of the driver.
    """
    from tilesmith.runtime.device_workspace import note_failure

    try:
        code = _code_at(_address(descriptor))
        numbers = list((ctypes.c_int64 * len(SIZES)).from_address(_address(sizes)))
        if max(numbers) >= 1 << 31:
            raise ShapeError(
                f"kernel '{code.kernel(index).name}' cannot be launched: a size has more than 31 "
                f"bits ({launch_text(numbers)})"
            )
        if status == MISALIGNED:
            if min(numbers[:-1]) <= 0:  # nothing would read the memory
                return DONE
            raise _misaligned(code.kernel(index), _address(params))
        loaded = code.on(device_id)
        if status == LOAD:
            return DONE
        if status != 0:
            raise loaded.explain(index, numbers, status)
        if loaded.handles:
            return RETRY
        loaded.launch(index, _address(params), numbers)
        _note_launch(code, index, device_id)
    except BaseException:
        note_failure()  # the function that launches will not come to its end
        raise
    return DONE


def _misaligned(kernel: KernelRecord, params: int) -> ShapeError:
    """Return the error for pointers that do not fit a kernel's accesses to several elements."""
    places = _words(params, len(kernel.parameters))
    found = []
    for number, (place, size) in enumerate(zip(places, kernel.alignments)):
        pointer = _words(place, 1)[0] if size else 0
        if size and pointer % size:
            name = kernel.names[number] if kernel.names else ""
            named = f"parameter {number}" + (f" ('{name}')" if name else "")
            found.append(
                f"{named} must be aligned to {size} bytes, got the address {pointer:#x}, "
                f"{pointer % size} bytes behind a multiple of that"
            )
    return ShapeError(
        f"kernel '{kernel.name}' cannot be launched: {'; '.join(found)}",
        notes=(
            "it reads or writes several elements at once: a view that begins in the middle of "
            "other memory does not fit; copy it (tilesmith.nd.array(x, device) or x.clone())",
            "or schedule the kernel without vectors (sch.vectorize) for this argument",
        ),
    )


def _address(pointer: Any) -> int:
    if pointer is None:
        return 0
    return int(getattr(pointer, "value", pointer) or 0)


def launch_text(sizes: Sequence[int]) -> str:
    """Return the sizes of a launch in words: `grid 8 x 1 x 1, blocks of 256 x 1 x 1 threads`."""
    grid, block = (" x ".join([str(size) for size in part]) for part in (sizes[:3], sizes[3:6]))
    shared = sizes[SIZES.index(DYNAMIC_SHARED)]
    text = f"grid {grid}, blocks of {block} threads"
    return text + (f", {shared} bytes of dynamic shared memory" if shared else "")
