"""Checks of code that memory planning (USMP) has prepared."""

from __future__ import annotations

import re

from tilesmith.runtime import Module
from tilesmith.support.errors import UnsupportedError

__all__ = ["is_tvm_backendallocworkspace_calls"]

_WORKSPACE_CALLS = (
    re.compile(r"\bTVMBackendAllocWorkspace\b"),
    re.compile(r"\b_?aligned_(alloc|malloc)\b"),
    re.compile(r"\bmalloc\((?!sizeof\(TsManaged\))"),  # C's results own a tensor's header
)
"""How the code asks for memory: by the function that callers provide, or by the C library's."""


def is_tvm_backendallocworkspace_calls(mod: Module) -> bool:
    """Return whether the code of a module or of what it imports asks for memory while it runs.

    After memory planning all memory is in pools that the caller passes, and no code should. Raises
    UnsupportedError for a module whose code cannot be shown (one that was loaded from a file).
    """
    modules = [mod]
    for one in modules:
        modules += [inner for inner in one.imported_modules if inner not in modules]
    return any(_asks_for_memory(one) for one in modules)


def _asks_for_memory(module: Module) -> bool:
    readable = [fmt for fmt in ("ll", "c") if fmt in module.formats]
    if not readable:
        raise UnsupportedError(
            f"whether a module of type '{module.type_key}' asks for memory cannot be told from its "
            "code",
            notes=("known: the modules of the targets 'llvm' and 'c' as they are built",),
        )
    source = module.get_source(readable[0])
    return any(pattern.search(source) for pattern in _WORKSPACE_CALLS)
