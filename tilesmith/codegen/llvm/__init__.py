"""Generates object code with LLVM: PrimFuncs → LLVM text → object code.

`emit_text(module, target)` writes the text, `compile_text(text, target)` compiles it; `generate`
does both for the back end's record (`record.py`).

The parts that write text, each using only those below it:

    module, nvptx    a module for a CPU, or of kernels: functions and the parts that they ask for
    parallel         parallel loops: bodies become functions
    functions        one function: parameters, head, the parts between
    statements       statements; loops, messages (of assertions), constants
       |
    expressions, arithmetic, vectors, memory (with packed_elements), intrinsics, pointers_and_calls,
       |             packed, packed_lowered: rules, entered into the tables of `rules`
    values           operands of expressions; memo, scope, facts, pointers: what is known of them
    exits            the ways out of a function;  heap: the system's allocator
    symbols          functions as calls see them;  operations, conversions, small_floats
    builder          instructions of one function
    module_text      the module's other parts: declarations, constants, helpers, metadata
    machine          what code has to know of the processor
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
