"""What a device says about its special memory.

A scope with a tag ("local.L1", "shared.bank") may be described by a registered function
``tvm.info.mem.SCOPE``, which returns a ``MemoryInfo`` or a mapping with the same names:

    register_func("tvm.info.mem.local.L1", lambda: make_node(
        "MemoryInfo", unit_bits=8, max_simd_bits=128, max_num_bits=1 << 20, head_address=None))
"""

from __future__ import annotations

from tilesmith.ir import Node, PrimExpr
from tilesmith.ir import data as data_field
from tilesmith.support.errors import TypeMismatchError

__all__ = ["MemoryInfo", "has_special_memory", "memory_info"]

_PLAIN_TAGS = ("dyn", "barrier", "workspace", "vtcm", "texture")
"""Tags of memory that is handled elsewhere, whatever follows them ("texture-weight")."""


class MemoryInfo(Node, key="tir.MemoryInfo"):
    """Describes the memory of a scope.

    ``unit_bits`` is the smallest unit that an address names, ``max_simd_bits`` the widest access
    (allocations begin at multiples of it), ``max_num_bits`` the size; the memory begins at
    ``head_address`` (an integer or an expression; None: it is allocated).
    """

    unit_bits: int | None = data_field(default=None)
    max_simd_bits: int | None = data_field(default=None)
    max_num_bits: int | None = data_field(default=None)
    head_address: PrimExpr | int | None = data_field(default=None)


def has_special_memory(scope: str) -> bool:
    """Return whether a scope has a tag that names memory of its own ("local.L1")."""
    kind, _, tag = scope.partition(".")
    return kind in ("global", "shared", "local") and bool(tag) and not tag.startswith(_PLAIN_TAGS)


def memory_info(scope: str) -> MemoryInfo | None:
    """Return the description of the memory of a scope, if a function for it is registered."""
    if "." not in scope or scope == "shared.dyn":
        return None
    from tilesmith.runtime.registry import get_global_func

    name = "tvm.info.mem." + scope
    function = get_global_func(name, allow_missing=True)
    if function is None:
        return None
    found = function()
    if isinstance(found, MemoryInfo):
        return found
    if not hasattr(found, "keys"):
        raise TypeMismatchError(
            f"the function '{name}' returned {type(found).__name__}, not a description of memory",
            notes=("let it return a MemoryInfo, or a mapping with the same names",),
        )
    given = {key: value for key, value in dict(found).items() if key in _NAMES}
    return MemoryInfo(**given)


_NAMES = ("unit_bits", "max_simd_bits", "max_num_bits", "head_address")
