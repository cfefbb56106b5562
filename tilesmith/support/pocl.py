"""Lets PoCL's CPU device compile on processors that are newer than its LLVM.

PoCL 3.0 (`pocl-binary-distribution` of PyPI) asks LLVM 14 for the name of the CPU. For one that
LLVM does not know the name is "generic", with which PoCL's Clang then refuses to build anything
("unknown target CPU 'generic'"). No option or variable changes the name, so it is replaced where
the device keeps it.
"""

from __future__ import annotations

import ctypes
import platform
from typing import Any

__all__ = ["name_known_cpu"]

_CPU = b"x86-64-v3"
_UNKNOWN = b"generic\0"
_SEARCHED_BYTES = 1024
"""The device's structure begins with its properties; the name of the CPU is at 640 in PoCL 3.0."""
_names = ctypes.create_string_buffer(_CPU)


def name_known_cpu(device: Any) -> bool:
    """Give a device of pyopencl a CPU that PoCL's compiler knows; return whether that was needed.
    Other devices stay as they are.
    """
    version = str(device.version)
    if "PoCL" not in version or not version.rstrip().endswith("-generic"):
        return False
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    readable = _readable_memory()

    def can_read(address: int, count: int) -> bool:
        return any(low <= address and address + count <= high for low, high in readable)

    start = int(device.int_ptr)
    for place in range(start, start + _SEARCHED_BYTES, 8):
        if not can_read(place, 8):
            return False
        field = ctypes.c_uint64.from_address(place)
        if can_read(field.value, 8) and ctypes.string_at(field.value, 8) == _UNKNOWN:
            field.value = ctypes.addressof(_names)
            return True
    return False


def _readable_memory() -> list[tuple[int, int]]:
    """Return the ranges of addresses that this process can read; none where it cannot be asked."""
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as lines:
            parts = [line.split()[:2] for line in lines]
    except OSError:
        return []
    ranges = [part[0].split("-") for part in parts if part[1].startswith("r")]
    return [(int(low, 16), int(high, 16)) for low, high in ranges]
