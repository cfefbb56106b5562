"""What back ends of the functional door share."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["CallType", "mangle_module_name"]


class CallType(IntEnum):
    """How compiled functions are called."""

    Packed = 0
    CPacked = 1
    Unpacked = 2


def mangle_module_name(mod_name: str | None) -> str:
    """Return the prefix of the functions of a module: "tvmgen_default"."""
    return f"tvmgen_{mod_name}" if mod_name else "tvmgen"
