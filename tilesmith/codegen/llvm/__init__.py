"""The LLVM back end: PrimFuncs → LLVM text → object code.

`emit_text(module, target)` writes the text, `compile_text(text, target)` makes object code of it;
`generate` gives both as the back end's record wants them (`record.py`).
"""

from tilesmith.support.lazy import lazy_attributes

_LAZY = {
    "assembly": "tilesmith.codegen.llvm.compile:assembly",
    "compile_formats": "tilesmith.codegen.llvm.compile:compile_formats",
    "compile_text": "tilesmith.codegen.llvm.compile:compile_text",
    "emit_text": "tilesmith.codegen.llvm.module:emit_text",
    "is_runnable": "tilesmith.codegen.llvm.code:is_runnable",
    "kernel_symbol": "tilesmith.codegen.llvm.module:kernel_symbol",
    "thread_runtime_object": "tilesmith.codegen.llvm.code:thread_runtime_object",
    "thread_runtime_text": "tilesmith.codegen.llvm.module:thread_runtime_text",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = [
    "assembly",
    "compile_formats",
    "compile_text",
    "emit_text",
    "is_runnable",
    "kernel_symbol",
    "thread_runtime_object",
    "thread_runtime_text",
]
