"""Launches kernels on OpenCL devices through pyopencl: their source is compiled by the driver."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from tilesmith.runtime.device_code import (
    KERNEL_LOADERS,
    KernelLoader,
    LoadedKernels,
    launch_text,
)
from tilesmith.runtime.device_container import DYNAMIC_SHARED, CodeContainer
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.launch_layout import SIZES
from tilesmith.runtime.opencl import buffers, platforms
from tilesmith.support.errors import CodegenError, DeviceError, UnsupportedError

__all__ = ["OpenCLLoader"]

_programs: weakref.WeakValueDictionary[tuple[int, bytes, str], Any] = weakref.WeakValueDictionary()
_OPTIONS = "PYOPENCL_BUILD_OPTIONS"
"""The variable of the environment with which pyopencl builds."""
_lock = threading.Lock()


class OpenCLLoader(KernelLoader):
    """Loads kernels on devices of the type "opencl"."""

    def load(self, code: CodeContainer, device_id: int) -> LoadedKernels:
        """Compile the source for one device."""
        source = code.parts.get("cl")
        if source is None:
            raise UnsupportedError("the library has no OpenCL source")
        context = platforms.context(device_id)
        with _lock:  # one program per context, source and options
            key = (context.int_ptr, source, os.environ.get(_OPTIONS, ""))
            program = _programs.get(key)
            if program is None:
                program = _programs[key] = _built(context, source.decode(), device_id)
        return _Loaded(code, program, device_id)


def _built(context: Any, source: str, device_id: int) -> Any:
    cl = platforms.package()
    try:
        return cl.Program(context, source).build()
    except cl.Error as error:
        raise CodegenError(
            f"the compiler of opencl({device_id}) refuses the kernels", notes=(str(error),)
        ) from error


class _Loaded(LoadedKernels):
    """The kernels of one program on one device."""

    def __init__(self, code: CodeContainer, program: Any, device_id: int) -> None:
        cl = platforms.package()
        self.code, self.program, self.device_id = code, program, device_id
        self.lock = threading.Lock()  # a kernel object holds the arguments of its next launch
        with platforms.checked("clCreateKernel", device_id):
            self.kernels = [cl.Kernel(program, kernel.name) for kernel in code.kernels]
            counts = [kernel.num_args for kernel in self.kernels]
        self.takes_local = [
            count > len(record.parameters) for count, record in zip(counts, code.kernels)
        ]
        self.parameters = [
            [_bytes_of(DataType(dtype)) for dtype in record.parameters] for record in code.kernels
        ]

    def launch(self, index: int, params: int, sizes: Sequence[int]) -> None:
        """Enqueue a kernel in the queue of this thread."""
        cl, kernel, local = platforms.package(), self.kernels[index], tuple(sizes[3:6])
        queue = platforms.queue(self.device_id)
        self._check(index, sizes)
        grid = tuple([blocks * threads for blocks, threads in zip(sizes, local)])
        places = (ctypes.c_uint64 * len(self.parameters[index])).from_address(params)
        name = self.code.kernels[index].name
        what = f"launching kernel '{name}': {launch_text(sizes)}"
        with platforms.checked(what, self.device_id), self.lock:
            for number, size in enumerate(self.parameters[index]):
                kernel.set_arg(number, _argument(places[number], size))
            if self.takes_local[index]:
                dynamic = sizes[SIZES.index(DYNAMIC_SHARED)]
                kernel.set_arg(len(places), cl.LocalMemory(max(1, dynamic)))
            event = cl.enqueue_nd_range_kernel(queue, kernel, grid, local)
            platforms.note_command(event)

    def _check(self, index: int, sizes: Sequence[int]) -> None:
        """Raise DeviceError for a launch that passes the device's limits."""
        device, found = platforms.device(self.device_id), []
        threads = sizes[3] * sizes[4] * sizes[5]
        if threads > device.max_work_group_size:
            found.append(
                f"a block has {threads} threads, this device allows {device.max_work_group_size}"
            )
        for axis, size, most in zip("xyz", sizes[3:6], device.max_work_item_sizes):
            if size > most:
                found.append(f"a block has {size} threads along {axis}, this device allows {most}")
        dynamic = sizes[SIZES.index(DYNAMIC_SHARED)]
        if dynamic > device.local_mem_size:
            found.append(
                f"a block needs {dynamic} bytes of dynamic shared memory, this device has "
                f"{device.local_mem_size}: use smaller tiles"
            )
        if found:
            raise DeviceError(
                f"kernel '{self.code.kernels[index].name}' cannot be launched on "
                f"opencl({self.device_id}): {launch_text(sizes)}",
                notes=found,
            )


def _bytes_of(dtype: DataType) -> int:
    """Return the bytes of a parameter; 0 for a pointer."""
    return 0 if dtype.is_handle else 1 if dtype.is_bool else dtype.nbytes


def _argument(place: int, size: int) -> Any:
    if size:
        return ctypes.string_at(place, size)
    return buffers.argument_of(ctypes.c_uint64.from_address(place).value)


KERNEL_LOADERS.register("opencl", OpenCLLoader())
