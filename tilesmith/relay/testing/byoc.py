"""Marks a region of a small program for the example code generator."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Op
from tilesmith.relay.expr import Call
from tilesmith.relay.expr_functor import ExprMutator
from tilesmith.relay.op.annotation.annotation import compiler_begin, compiler_end

__all__ = ["CcompilerAnnotator"]

_COMPILER = "ccompiler"


class CcompilerAnnotator(ExprMutator):
    """Marks what lies from an addition to a subtraction of its result as one region of the compiler
    "ccompiler".
    """

    def __init__(self) -> None:
        super().__init__()
        self.in_compiler = 0

    def visit_call(self, call: Any) -> Any:
        """Rewrite a call: a subtraction ends a region, the first addition below it begins it."""
        if call.op is Op.get("subtract") and self.in_compiler == 0:
            self.in_compiler = 1
            inside = super().visit_call(call)
            self.in_compiler = 0
            return compiler_end(inside, _COMPILER)
        if call.op is Op.get("add") and self.in_compiler == 1:
            self.in_compiler = 2
            arguments = [compiler_begin(self.visit(one), _COMPILER) for one in call.args]
            self.in_compiler = 1
            return Call(call.op, arguments, call.attrs, span=call.span)
        return super().visit_call(call)
