"""Generates C: PrimFuncs → one readable C99 file, compiled where there is a C compiler.

What it shares with the languages of GPUs is `codegen.c_family`. The parts, each using only those
below it:

    module           a module: its functions, and the parts of the file that they ask for
    parallel         parallel loops: bodies become functions of tasks
    functions        one function: parameters, head, the parts between
    statements       statements; messages (of assertions)
       |
    expressions, memory, intrinsics, packed_calls
       |             rules, entered into the tables of `rules`
    values           the text of expressions, and what is known of variables
    exits            the ways out of a function;  symbols: functions as calls see them
    file_text        the file's other parts: helpers, constants, prototypes
    helpers, dialect
"""

from tilesmith.support.lazy import lazy_attributes

_LAZY = {
    "compile_source": "tilesmith.codegen.c_compiler:compile_source",
    "emit_source": "tilesmith.codegen.c.module:emit_source",
    "find_compiler": "tilesmith.codegen.c_compiler:find_compiler",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = ["compile_source", "emit_source", "find_compiler"]
