"""Defines the memory that launchers in generated code share with the runtime.

A library with kernels has a descriptor (`__tilesmith_device_DIGEST`), all in words of 64 bits:

    0 version   1 container   2 bytes of the container   3 number of kernels   4 → records
    5 cuLaunchKernel   6 cuLaunchKernelEx   7 cuCtxGetCurrent   8 cuCtxSetCurrent
    9 → ring of launches   10… the context of each device   42 cuTensorMapEncodeTiled

and a record per kernel: 0 number, 1 → descriptor, 2 → launch attributes, 3 how many, 4… the handle
of the kernel on each device (null: not loaded). The ring has, per device, the number of launches so
far and the records of the last ones.
"""

from __future__ import annotations

from tilesmith.runtime.device_container import DYNAMIC_SHARED

__all__ = [
    "ATTRIBUTES", "CONTEXTS", "DESCRIPTOR_PREFIX", "DESCRIPTOR_WORDS", "DEVICES", "DRIVER",
    "ENCODER", "FUNCTIONS", "LAUNCH_FUNCTION", "LAYOUT_VERSION", "LOAD", "MISALIGNED",
    "RECORD_WORDS", "RING", "RING_NAMES", "SIZES", "TENSOR_MAP",
]  # fmt: skip

LAYOUT_VERSION = 2
DESCRIPTOR_PREFIX = "__tilesmith_device_"
LAUNCH_FUNCTION = "tilesmith.runtime.launch_kernel"
"""The global function that loads code, launches where native code cannot, and explains errors."""
SIZES = (
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
    DYNAMIC_SHARED,
)  # fmt: skip
"""The sizes of a launch in order, by the tags of the axes."""
MISALIGNED = -2
"""What a launcher says in place of a driver's status: a pointer has too few zeros at its end."""
LOAD = -3
"""What a launcher says that needs the tables before it can launch."""
TENSOR_MAP = -1000
"""What a launcher says, less the driver's status, where a tensor cannot be described."""
DEVICES = 32
"""How many devices of a kind have places in the tables."""
DRIVER, RING, CONTEXTS = 5, 9, 10
ENCODER = CONTEXTS + DEVICES
DESCRIPTOR_WORDS = ENCODER + 1
ATTRIBUTES, FUNCTIONS = 2, 4
RECORD_WORDS = FUNCTIONS + DEVICES
RING_NAMES = 64
"""How many of the last launches are kept; a power of two."""
