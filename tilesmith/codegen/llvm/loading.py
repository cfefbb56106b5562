"""Loads modules from LLVM text (.ll) and bitcode (.bc), which `Module.save` writes."""

from __future__ import annotations

import re
from pathlib import Path

from tilesmith.codegen.llvm import is_runnable, machine_code
from tilesmith.codegen.llvm.compile import compile_formats
from tilesmith.runtime.module import MODULE_LOADERS, Module
from tilesmith.support.errors import ArtifactError
from tilesmith.target import Target
from tilesmith.target.host import host_cpu

_TRIPLE = re.compile(r'^target triple = "([^"]*)"', re.MULTILINE)
_PUBLIC = re.compile(r"^define (?!internal|private)[^@\n]*@__tvm_ffi_(\w+)\(", re.MULTILINE)


@MODULE_LOADERS.register("ll")
def load_text(path: str) -> Module:
    """Load the module of a file of LLVM text. CodegenError with the lines that LLVM refuses."""
    return module_of_text(Path(path).read_text(encoding="utf-8"))


@MODULE_LOADERS.register("bc")
def load_bitcode(path: str) -> Module:
    """Load the module of a file of LLVM bitcode. ArtifactError for anything else."""
    from llvmlite import binding

    machine_code.initialise()
    try:
        return module_of_text(str(binding.parse_bitcode(Path(path).read_bytes())))
    except RuntimeError as error:
        raise ArtifactError(f"'{path}' is not LLVM bitcode", notes=(str(error),)) from error


def module_of_text(text: str) -> Module:
    """Return the module of an LLVM text; code for another machine can be shown, but not run."""
    triple = _TRIPLE.search(text)
    named = "" if triple is None else triple.group(1)
    is_foreign = named not in ("", host_cpu().triple)
    target = Target({"kind": "llvm", "mtriple": named} if is_foreign else "llvm")

    def made(form: str) -> bytes:
        return compile_formats(text, target, (form,))[form]

    return Module(
        "llvm",
        objects=[made("o")],
        function_names=_PUBLIC.findall(text),
        formats={
            "ll": text,
            "ll.opt": lambda: made("ll").decode(),
            "asm": lambda: made("asm").decode(),
            "bc": lambda: made("bc"),
        },
        runnable=is_runnable(target),
    )
