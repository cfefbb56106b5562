"""Optimises SPIR-V with the tools of Khronos."""

from __future__ import annotations

from pathlib import Path

from tilesmith.contrib.programs import find_program, run_program
from tilesmith.contrib.utils import tempdir

__all__ = ["optimize"]


def optimize(spv_bin: bytes | bytearray) -> bytearray:
    """Return a SPIR-V binary as `spirv-opt -O` makes it."""
    program = find_program(("spirv-opt",), "install SPIRV-Tools (Debian: spirv-tools)")
    with tempdir() as folder:
        source, made = folder.relpath("input.spv"), folder.relpath("optimized.spv")
        Path(source).write_bytes(spv_bin)
        run_program([program, "-O", source, "-o", made])
        return bytearray(Path(made).read_bytes())
