"""Links for Android with the compiler of its native development kit (NDK)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tilesmith.contrib import cc
from tilesmith.contrib.programs import find_program, listed, run_program
from tilesmith.support.errors import ConfigError

__all__ = ["create_shared", "create_staticlib", "get_global_symbol_section_map"]

_ADVICE = (
    "install the Android NDK and set TVM_NDK_CC to its compiler:"
    " …/toolchains/llvm/prebuilt/linux-x86_64/bin/aarch64-linux-android28-clang++"
)


def _compiler() -> str:
    """Return the path of the compiler that the variable TVM_NDK_CC names."""
    named = os.environ.get("TVM_NDK_CC")
    if not named:
        raise ConfigError("the Android NDK was not found: TVM_NDK_CC is not set", notes=(_ADVICE,))
    return find_program((named,), _ADVICE)


def _tool(name: str) -> str:
    """Return a tool that lies beside the compiler."""
    return find_program((str(Path(_compiler()).with_name(name)),), _ADVICE)


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None
) -> None:
    """Make a shared library for Android from object files."""
    flags = options if options is not None else ["-shared", "-fPIC", "-lm"]
    run_program([_compiler(), "-o", output, *listed(objects), *flags])


def create_staticlib(output: str, inputs: str | Sequence[str]) -> None:
    """Make a static library for Android from object files."""
    cc.create_staticlib(output, inputs, ar=_tool("llvm-ar"))


def get_global_symbol_section_map(path: str, *, nm: str | None = None) -> dict[str, str]:
    """Return the defined global symbols of a file with the letters of their sections."""
    return cc.get_global_symbol_section_map(path, nm=nm or _tool("llvm-nm"))


create_shared.output_format = "so"  # type: ignore[attr-defined]
