"""Implements the parts that the record of the C back end names: source, objects, shared threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilesmith.codegen.c.module import emit_source
from tilesmith.codegen.c.thread_runtime import THREAD_RUNTIME
from tilesmith.codegen.c_compiler import compile_source, compiler_identity, missing_compiler
from tilesmith.ir import IRModule
from tilesmith.target import Target
from tilesmith.target.back_end import Code
from tilesmith.target.features import architecture, known_cpus
from tilesmith.target.requirements import requirements_of

__all__ = ["generate", "kernel_object", "machine_options", "shared_objects"]


def generate(module: IRModule, target: Target, opt_level: int | None = None) -> Code:
    """Return the C source of a lowered module (format "c"), compiled where there is a C compiler.

    Raises CodegenError for code that C cannot express.
    """
    source = emit_source(module)
    missing = missing_compiler(target)
    if missing:
        advice = f"{missing}; or take the source to another machine: get_source('c'), save('x.c')"
        return Code({"c": source}, advice=advice)

    def objects() -> list[bytes]:
        marked = source + _requirements(target)
        made = [compile_source(marked, target, opt_level, options=machine_options(target))]
        return [*made, *shared_objects(target)] if LAUNCHER in source else made

    return Code({"c": source}, objects)


LAUNCHER = "__tilesmith_parallel_launch"


def kernel_object(module: IRModule, target: Target) -> bytes:
    """Return the object file of lowered kernels. One thread runs their parallel loops until the
    library is linked with the functions that launch them.
    """
    return compile_source(emit_source(module), target, options=machine_options(target))


def _requirements(target: Target) -> str:
    """Return C that says what code for the CPU named by `-march` needs; "" for every CPU."""
    cpu, family = str(target.attrs.get("march", "")), architecture(target)
    if cpu not in known_cpus(family):
        return ""  # the compiler's default is what all CPUs have; other names only it knows
    same = requirements_of(Target({"kind": "llvm", "mcpu": cpu}))
    needed = replace(same, target=f"c -march={cpu}")
    data = ",".join([str(byte) for byte in needed.data])
    return f"\n__attribute__((weak)) const char {needed.symbol}[] = {{{data}}};\n"


_runtime_objects: dict[str, bytes] = {}


def shared_objects(target: Target) -> Sequence[bytes]:
    """Return the object file with the threads that run parallel loops, made once per target."""
    key = f"{target} {compiler_identity(target)}"
    if key not in _runtime_objects:
        _runtime_objects[key] = compile_source(
            THREAD_RUNTIME, target, standard="gnu11", options=machine_options(target)
        )
    return (_runtime_objects[key],)


def machine_options(target: Target) -> list[str]:
    """Return the options of a target of kind C that its compiler takes: `-mcpu`, `-march`."""
    words = [(name, target.attrs.get(name)) for name in ("mcpu", "march")]
    return [f"-{name}={value}" for name, value in words if value]
