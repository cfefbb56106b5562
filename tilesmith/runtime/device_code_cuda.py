"""Loads kernels on NVIDIA GPUs, for launchers that call the driver themselves.

What a library carries is tried in order: a cubin fits GPUs of its own architecture only; where it
does not, the CUDA source beside it is compiled for the GPU that is there.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from tilesmith.runtime.cuda import driver
from tilesmith.runtime.device_code import (
    KERNEL_LOADERS,
    KernelLoader,
    LoadedKernels,
    launch_text,
)
from tilesmith.runtime.device_container import (
    CLUSTER,
    COOPERATIVE,
    DYNAMIC_SHARED,
    CodeContainer,
    KernelRecord,
)
from tilesmith.runtime.launch_layout import SIZES, TENSOR_MAP
from tilesmith.support.errors import DeviceError, UnsupportedError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.support.lazy import resolve

__all__ = ["CudaLoader"]

_DRIVER = ("cuLaunchKernel", "cuLaunchKernelEx", "cuCtxGetCurrent", "cuCtxSetCurrent")
_ENCODER = "cuTensorMapEncodeTiled"
_OTHER_CODE = (200, 209, 218, 221, 222)
"""Statuses of code that is not for this GPU or driver."""
_STATIC_SHARED = 48 << 10
"""Bytes of shared memory per block that a launch may have without asking before."""
_PORTABLE_CLUSTER = 8
"""Blocks in a cluster that every GPU with clusters allows."""
_LIMITS = {
    "max_threads_per_block": 1, "block x": 2, "block y": 3, "block z": 4, "grid x": 5, "grid y": 6,
    "grid z": 7, "max_shared_memory_per_block": 8, "major": 75, "minor": 76,
    "cooperative launches": 95, "max_shared_memory_optin": 97, "clusters": 120,
}  # fmt: skip
"""Numbers of the device's attributes that bound launches."""
_CLUSTER_DIMENSION, _COOPERATIVE = 4, 2  # numbers of launch attributes


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: its number, and a value in 64 bytes."""

    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class CudaLoader(KernelLoader):
    """Loads kernels on devices of the type "cuda"."""

    def driver(self) -> Sequence[int]:
        """Return the addresses of the driver's functions for launchers."""
        found = driver.driver()
        return [found.addresses.get(name, 0) for name in _DRIVER]

    def encoder(self) -> int:
        """Return the address of the function that describes tensors of bulk copies."""
        return driver.driver().addresses.get(_ENCODER, 0)

    def load(self, code: CodeContainer, device_id: int) -> LoadedKernels:
        """Load the kernels on one GPU."""
        driver.context_of(device_id)
        return _Loaded(code, _load(code, device_id), device_id)


def _load(code: CodeContainer, device_id: int) -> driver.LoadedModule:
    """Load the first part that fits the GPU."""
    refused: DeviceError | None = None
    for name, content in code.parts.items():
        if name == "cu":
            if refused is not None:
                record_fallback("device code", "a cubin that does not fit", str(refused.message))
            content = _compiled(content.decode(), _architecture(code, device_id), code.options)
        try:
            return driver.load_module(content, device_id)
        except DeviceError as error:
            if not any(f"({status})" in str(error) for status in _OTHER_CODE):
                raise
            refused = error
    if refused is not None:
        raise refused
    raise UnsupportedError("the library has no code that CUDA can load")


def architecture_of(device_id: int) -> str:
    """Return the architecture of a GPU: "sm_90"."""
    major, minor = (driver.attribute(device_id, _LIMITS[name]) for name in ("major", "minor"))
    return f"sm_{major}{minor}"


def _architecture(code: CodeContainer, device_id: int) -> str:
    """Return what to compile source for: the GPU's architecture, with the letter of the one that
    the code was made for, if that is the same ("sm_90a" has instructions that "sm_90" has not).
    """
    found = architecture_of(device_id)
    return code.architecture if code.architecture.rstrip("af") == found else found


def _compiled(source: str, architecture: str, options: Sequence[str]) -> bytes:
    """Compile CUDA source for an architecture. The compiler belongs to the code generator, which a
    machine with the runtime alone may lack.
    """
    compile_source = resolve("tilesmith.codegen.gpu.nvrtc:compile_source")
    return bytes(compile_source(source, architecture, "cubin", options))


class _Loaded(LoadedKernels):
    """The kernels of one module on one GPU."""

    def __init__(self, code: CodeContainer, module: driver.LoadedModule, device_id: int) -> None:
        self.code, self.module, self.device_id = code, module, device_id
        self.context = driver.context_of(device_id)
        self.handles = [driver.function_of(module, kernel.name) for kernel in code.kernels]
        self._attributes = [_attributes(kernel.attributes) for kernel in code.kernels]
        for index, kernel in enumerate(code.kernels):
            if kernel.has_dynamic_shared:
                self._allow_dynamic_shared(index)
            if self._attributes[index] is not None:
                driver.address_of("cuLaunchKernelEx")  # its error says that the driver is too old
            if kernel.tensor_maps:
                driver.address_of(_ENCODER)
            if math.prod(kernel.attributes.get(CLUSTER, ())) > _PORTABLE_CLUSTER:
                name = "non_portable_cluster_size_allowed"
                driver.set_function_attribute(self.handles[index], name, 1)

    def _allow_dynamic_shared(self, index: int) -> None:
        """Allow a kernel all the dynamic shared memory that its blocks can have."""
        most = self._limit("max_shared_memory_optin")
        used = driver.function_attribute(self.handles[index], "shared_size_bytes")
        if most - used > _STATIC_SHARED:
            name = "max_dynamic_shared_size_bytes"
            driver.set_function_attribute(self.handles[index], name, most - used)

    def attributes(self, index: int) -> tuple[int, int]:
        """Return the address and the number of a kernel's launch attributes."""
        made = self._attributes[index]
        return (ctypes.addressof(made), len(made)) if made is not None else (0, 0)

    def _limit(self, name: str) -> int:
        return driver.attribute(self.device_id, _LIMITS[name])

    def explain(self, index: int, sizes: Sequence[int], status: int) -> Exception:
        """Return the error for a refused launch, with the limits that it passes."""
        kernel = self.code.kernels[index]
        if status <= TENSOR_MAP:
            return self._refused_map(kernel, TENSOR_MAP - status)
        what = f"launching kernel '{kernel.name}' on cuda({self.device_id}): {launch_text(sizes)}"
        error = driver.error_of(status, what, self.device_id)
        if driver.is_lost(self.device_id):
            return error
        notes = [*error.notes, *self._passed_limits(index, sizes)]
        return type(error)(error.message, notes=notes)

    def _refused_map(self, kernel: KernelRecord, status: int) -> Exception:
        """Return the error for tensors that the driver does not describe."""
        what = f"describing the tensors of kernel '{kernel.name}' on cuda({self.device_id})"
        error = driver.error_of(status, what, self.device_id)
        names = kernel.names or [str(number) for number in range(len(kernel.parameters))]
        maps = [f"parameter '{names[one.parameter]}': {one}" for one in kernel.tensor_maps]
        return type(error)(error.message, notes=[*error.notes, *maps])

    def _passed_limits(self, index: int, sizes: Sequence[int]) -> list[str]:
        """Return which limits of the GPU a launch passes, in words."""
        found = []
        words = ("grid x", "grid y", "grid z", "block x", "block y", "block z")
        for word, size in zip(words, sizes):
            if size > (most := self._limit(word)):
                found.append(f"{word} is {size}, this GPU allows {most}")
        kernel = self.code.kernels[index]
        threads = sizes[3] * sizes[4] * sizes[5]
        if threads > (most := self._limit("max_threads_per_block")):
            found.append(f"a block has {threads} threads, this GPU allows {most}")
        else:
            name = "max_threads_per_block"
            most = driver.function_attribute(self.handles[index], name)
            if 0 < most < threads:
                found.append(
                    f"a block has {threads} threads, this kernel allows {most} with the registers "
                    "that it uses: launch fewer, or use fewer local variables"
                )
        dynamic = sizes[SIZES.index(DYNAMIC_SHARED)]
        static = driver.function_attribute(self.handles[index], "shared_size_bytes")
        most = self._limit("max_shared_memory_optin") or self._limit("max_shared_memory_per_block")
        if dynamic + static > most:
            found.append(
                f"a block needs {dynamic + static} bytes of shared memory ({dynamic} of them "
                f"dynamic), this GPU has {most} per block: use smaller tiles"
            )
        if kernel.attributes.get(COOPERATIVE):
            found.append("a cooperative launch needs all of its blocks on the GPU at once")
        if CLUSTER in kernel.attributes:
            found.append(f"clusters of {kernel.attributes[CLUSTER]} blocks must divide the grid")
        return found

    def unload(self) -> None:
        """Release the code, once the GPU has done its work."""
        if driver.still_serves(driver.driver(), self.device_id):
            with driver.Active(self.device_id) as found:
                found.cuCtxSynchronize()
            driver.unload_module(self.module)


def _attributes(given: Any) -> Any:
    """Return the launch attributes of a kernel as the driver takes them; None without any."""
    made = []
    if given.get(COOPERATIVE):
        one = _Attribute(id=_COOPERATIVE)
        one.value[0] = 1
        made.append(one)
    if CLUSTER in given:
        one = _Attribute(id=_CLUSTER_DIMENSION)
        for axis, size in enumerate(given[CLUSTER]):
            one.value[axis] = size
        made.append(one)
    return (_Attribute * len(made))(*made) if made else None


KERNEL_LOADERS.register("cuda", CudaLoader())
