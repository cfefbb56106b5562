"""Finds and runs the C compiler of this machine: for the C back end, and for C that LLVM code
imports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

from tilesmith.support.errors import CodegenError
from tilesmith.target import Target
from tilesmith.target.features import architecture, llvm_machine
from tilesmith.target.host import host_cpu

__all__ = [
    "compile_source", "compiler_command", "compiler_identity", "describe_compiler", "find_compiler",
    "missing_compiler",
]  # fmt: skip


@cache
def find_compiler() -> str | None:
    """Return the C compiler of this machine: `CC`, else cc, gcc or clang."""
    named = os.environ.get("CC", "").split()
    for candidate in [*named[:1], "cc", "gcc", "clang"]:
        found = shutil.which(candidate)
        if found:
            return found
    return None


def missing_compiler(target: Target) -> str:
    """Return the advice which C compiler to install for `target`; "" if one is found."""
    try:
        compiler_command(target)
    except CodegenError as error:
        return str(error.notes[0])
    return ""


@cache
def _version(command: tuple[str, ...]) -> str:
    """Return the first line that a compiler prints about itself."""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0].strip()


def compiler_identity(target: Target) -> str:
    """Return the compiler's command and version, on which its code depends; "" without one."""
    if missing_compiler(target):
        return ""
    command = compiler_command(target)
    return f"{' '.join(command)}: {_version(tuple(command))}"


def describe_compiler() -> str:
    """Describe the C compiler of this machine, or what installs one, for `tilesmith doctor`."""
    native = Target("c")
    return compiler_identity(native) or f"source only: {missing_compiler(native)}"


def compiler_command(target: Target) -> list[str]:
    """Return the command of a C compiler for `target`: the system's, clang, or zig's.

    Raises CodegenError, which says what to install, if there is none.
    """
    triple = llvm_machine(target).triple if target.mtriple else ""
    is_native = not triple or triple == host_cpu().triple
    if is_native and find_compiler() is not None:
        return [str(find_compiler())]
    if not is_native and shutil.which("clang"):
        return [str(shutil.which("clang")), f"--target={triple}"]
    if find_spec("ziglang") is not None:
        words = [sys.executable, "-m", "ziglang", "cc"]
        return words if is_native else [*words, "-target", _zig_triple(triple)]
    where = "on this machine" if is_native else f"for '{triple}'"
    raise CodegenError(
        f"there is no C compiler {where}",
        notes=("install gcc or clang, or the package ziglang (pip install ziglang), or set CC",
               "the target 'c' needs none to write the source: module.save(path)"),
    )  # fmt: skip


def _zig_triple(triple: str) -> str:
    """Convert LLVM's triple to zig's: without a vendor."""
    parts = triple.split("-")
    if len(parts) == 4:
        parts = [parts[0], *parts[2:]]
    return "-".join(parts)


def compile_source(
    source: str,
    target: Target,
    opt_level: int | None = None,
    standard: str = "c99",
    options: Sequence[str] = (),
) -> bytes:
    """Return the object file of a C source; `options` are further words for the compiler.

    Raises CodegenError where there is no compiler or it refuses the source.
    """
    level = 2 if opt_level is None else max(0, min(3, opt_level))
    options = [
        *[f"-O{level}", f"-std={standard}", "-fPIC", "-fwrapv", "-fno-math-errno", "-w"],
        *options,
    ]
    command = compiler_command(target)
    if architecture(target) != "x86":
        options.append("-ffp-contract=off")  # x86 without -march has no fused instruction
    with tempfile.TemporaryDirectory(prefix="tilesmith-c-") as folder:
        path, output = os.path.join(folder, "code.c"), os.path.join(folder, "code.o")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        words = [*command, *options, "-c", path, "-o", output]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if "internal compiler error" in done.stderr:
            # gcc 12 fails on some comparisons of vectors (gimple_expand_vec_cond_expr)
            words.append("-fno-tree-vectorize")
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise CodegenError("the C compiler refused the source", notes=("\n".join(lines[:12]),))
        with open(output, "rb") as file:
            return file.read()
