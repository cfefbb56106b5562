"""Asks Linux for permission to use AMX: only processes that ask get the tile registers.

A generated library that uses AMX carries the symbol `__tilesmith_uses_amx`; permission is asked for
when it is loaded.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache

SYMBOL = "__tilesmith_uses_amx"
_ARCH_PRCTL = 158
_REQUEST_PERMISSION = 0x1023  # ARCH_REQ_XCOMP_PERM
_TILE_DATA = 18  # XFEATURE_XTILEDATA


@cache
def enable_amx() -> bool:
    """Ask the system, once per process, for permission; True if AMX may be used."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    return bool(syscall(ctypes.c_long(_ARCH_PRCTL), _REQUEST_PERMISSION, _TILE_DATA) == 0)
