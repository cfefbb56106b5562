"""The C back end: PrimFuncs → one readable C99 file, compiled where there is a C compiler."""

from __future__ import annotations

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
