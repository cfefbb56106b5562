"""The C back end: PrimFuncs → one readable C99 file, compiled where there is a C compiler."""

from __future__ import annotations

from importlib.util import find_spec

from tilesmith.codegen.c.helpers import identifier
from tilesmith.codegen.c.module import PACKED_PREFIX, emit_source
from tilesmith.codegen.c_compiler import compile_source, find_compiler
from tilesmith.codegen.registry import BACK_ENDS
from tilesmith.ir import IRModule
from tilesmith.runtime.module import Module
from tilesmith.target import Target

__all__ = ["build", "compile_source", "emit_source", "find_compiler"]


@BACK_ENDS.register("c")
def build(module: IRModule, target: Target, opt_level: int | None = None) -> Module:
    """The C source of a lowered module (format "c"), with object code where a compiler is found."""
    source = emit_source(module)
    symbols = {
        str(function.attrs["global_symbol"]).removeprefix(PACKED_PREFIX): function
        for function in module.functions.values()
        if str(function.attrs.get("global_symbol", "")).startswith(PACKED_PREFIX)
    }
    names = list(symbols)
    entries = [name for name, each in symbols.items() if each.attrs.get("tir.is_entry_func")]
    objects = [compile_source(source, target, opt_level)] if find_compiler() else []
    if objects and "__tilesmith_parallel_launch" in source:
        objects += _thread_runtime()
    return Module(
        "c",
        objects=objects,
        function_names=names,
        entry_name=entries[0] if entries else None,
        symbols={
            name: identifier(PACKED_PREFIX + name).removeprefix(PACKED_PREFIX)
            for name in names
            if identifier(PACKED_PREFIX + name) != PACKED_PREFIX + name
        },
        formats={"c": source},
        runnable=bool(objects),
    )


def _thread_runtime() -> list[bytes]:
    """The object file with the threads that run parallel loops; none where LLVM is missing: then
    the loops are run by one thread."""
    if find_spec("llvmlite") is None:
        return []
    from tilesmith.codegen.llvm import thread_runtime_object

    return [thread_runtime_object(Target("llvm"))]
