"""``relay.backend.utils``: how generated functions are called, and names of modules."""

from __future__ import annotations

from enum import IntEnum

from tilesmith.support.errors import TypeMismatchError

__all__ = ["CallType", "mangle_module_name"]


class CallType(IntEnum):
    """How one generated function calls another."""

    Packed = 0
    CPacked = 1
    Unpacked = 2


def mangle_module_name(mod_name: str | None) -> str:
    """Return the prefix of the generated functions of a module."""
    if mod_name is None or mod_name == "":
        return "tvmgen"
    if not isinstance(mod_name, str):
        raise TypeMismatchError(f"the name of a module is a text, got {mod_name!r}")
    return f"tvmgen_{mod_name}"
