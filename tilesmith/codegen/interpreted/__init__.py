"""Runs lowered functions in the interpreter instead of generating code: no compiler, and every
access checked. For looking closely at a program, and for machines without LLVM and C compiler.

    module = tilesmith.build(schedule, [A, B], target="stackvm")
    module.get_source()     # the lowered program, as it is run
"""

from tilesmith.support.lazy import lazy_attributes

_LAZY = {"generate": "tilesmith.codegen.interpreted.code:generate"}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = ["generate"]
