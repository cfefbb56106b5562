"""The C back end: PrimFuncs → one readable C99 file, compiled where there is a C compiler."""

from tilesmith.support.lazy import lazy_attributes

_LAZY = {
    "compile_source": "tilesmith.codegen.c_compiler:compile_source",
    "emit_source": "tilesmith.codegen.c.module:emit_source",
    "find_compiler": "tilesmith.codegen.c_compiler:find_compiler",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = ["compile_source", "emit_source", "find_compiler"]
