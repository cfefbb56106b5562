"""Lets an old PoCL run on a CPU that is newer than it.

PoCL (OpenCL on the CPU) asks its LLVM for the name of the CPU. For one that this LLVM has never
heard of it answers "generic", which its compiler then refuses: no kernel can be built. The PoCL
that pip installs is of 2022, so that is what happens on recent machines. What the CPU can do is
known nevertheless, and PoCL has no setting for the name; so the text in its record of the device is
replaced by the name of an older CPU with the same instructions.
"""

from __future__ import annotations

import ctypes
import platform
from bisect import bisect_right
from pathlib import Path
from typing import Any

__all__ = ["mend"]

_RECORD_BYTES = 1024
_UNKNOWN = b"generic\0"
_KNOWN = (
    ("avx512vl", b"skylake-avx512"),
    ("avx2", b"haswell"),
    ("avx", b"sandybridge"),
    ("", b"x86-64"),
)
"""Instructions → a CPU with them that every LLVM knows."""


def mend(device: Any) -> bool:
    """Give PoCL's record of a device a name of a CPU that its LLVM knows, if it has none; return
    whether it was done. Other devices are left as they are.
    """
    if not (
        device.platform.name == "Portable Computing Language"
        and device.version.rstrip().endswith("-generic")
        and platform.machine() == "x86_64"
        and platform.system() == "Linux"
    ):
        return False
    readable = _readable()
    begin = device.int_ptr
    for place in range(begin, begin + _RECORD_BYTES, 8):
        if not _is_within(readable, place, 8):
            return False
        field = ctypes.c_uint64.from_address(place)
        if not _is_within(readable, field.value, len(_UNKNOWN)):
            continue
        if ctypes.string_at(field.value, len(_UNKNOWN)) == _UNKNOWN:
            field.value = _copy(_older_name())
            return True
    return False


def _copy(name: bytes) -> int:
    """Return the address of a copy of a text in memory of `malloc`: PoCL frees it at the end."""
    duplicate = ctypes.CDLL(None).strdup
    duplicate.restype, duplicate.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    return int(duplicate(name))


def _older_name() -> bytes:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return _KNOWN[-1][1]
    line = next((one for one in text.splitlines() if one.startswith("flags")), "")
    flags = {"", *line.split()}
    return next(name for instructions, name in _KNOWN if instructions in flags)


def _readable() -> list[tuple[int, int]]:
    """Return the ranges of addresses that this process may read, in order."""
    found = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        where, rights, *_ = line.split()
        if rights.startswith("r"):
            begin, end = where.split("-")
            found.append((int(begin, 16), int(end, 16)))
    return sorted(found)


def _is_within(ranges: list[tuple[int, int]], address: int, size: int) -> bool:
    index = bisect_right(ranges, (address, 1 << 64)) - 1
    return index >= 0 and ranges[index][0] <= address and address + size <= ranges[index][1]
