"""The C back end: PrimFuncs → one readable C99 file, compiled where there is a C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache

from tilesmith.codegen.c.module import PACKED_PREFIX, emit_source
from tilesmith.codegen.registry import BACK_ENDS
from tilesmith.ir import IRModule
from tilesmith.runtime.module import Module
from tilesmith.support.errors import CodegenError
from tilesmith.target import Target

__all__ = ["build", "compile_source", "emit_source", "find_compiler"]


@cache
def find_compiler() -> str | None:
    """The C compiler of this machine: `CC`, else cc, gcc or clang."""
    named = os.environ.get("CC", "").split()
    for candidate in [*named[:1], "cc", "gcc", "clang"]:
        found = shutil.which(candidate)
        if found:
            return found
    return None


def compile_source(source: str, target: Target, opt_level: int | None = None) -> bytes:
    """The object file of a C source. Raises CodegenError where no compiler is or it refuses."""
    compiler = find_compiler()
    if compiler is None:
        raise CodegenError(
            "there is no C compiler on this machine",
            notes=("set CC, or save the source and compile it elsewhere",),
        )
    level = 2 if opt_level is None else max(0, min(3, opt_level))
    options = [f"-O{level}", "-std=c99", "-fPIC", "-fwrapv", "-fno-math-errno", "-w"]
    for name in ("mcpu", "march"):
        if target.attrs.get(name):
            options.append(f"-{name}={target.attrs[name]}")
    with tempfile.TemporaryDirectory(prefix="tilesmith-c-") as folder:
        path, output = os.path.join(folder, "code.c"), os.path.join(folder, "code.o")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        command = [compiler, *options, "-c", path, "-o", output]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise CodegenError("the C compiler refused the source", notes=("\n".join(lines[:12]),))
        with open(output, "rb") as file:
            return file.read()


@BACK_ENDS.register("c")
def build(module: IRModule, target: Target, opt_level: int | None = None) -> Module:
    """The C source of a lowered module (format "c"), with object code where a compiler is found."""
    source = emit_source(module)
    names = [
        str(function.attrs["global_symbol"]).removeprefix(PACKED_PREFIX)
        for function in module.functions.values()
        if str(function.attrs.get("global_symbol", "")).startswith(PACKED_PREFIX)
    ]
    objects = [compile_source(source, target, opt_level)] if find_compiler() else []
    return Module(
        "c",
        objects=objects,
        function_names=names,
        formats={"c": source},
        runnable=bool(objects),
    )
