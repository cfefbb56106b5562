"""Marks parts of programs for the compiler "ccompiler"."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Op
from tilesmith.relay.expr import Call
from tilesmith.relay.expr_functor import ExprMutator
from tilesmith.relay.op.annotation.annotation import compiler_begin, compiler_end

__all__ = ["CcompilerAnnotator"]

_COMPILER = "ccompiler"


def _is(expr: Any, name: str) -> bool:
    return isinstance(expr, Call) and expr.op is Op.get(name)


class CcompilerAnnotator(ExprMutator):
    """Marks chains that begin with ``add``, go on with ``subtract`` and end with ``multiply``."""

    def visit_call(self, call: Call) -> Any:
        """Mark a chain at its end."""
        if not _is(call, "multiply") or not any(self._leads_to_add(arg) for arg in call.args):
            return super().visit_call(call)
        return compiler_end(self._inside(call), _COMPILER)

    def _leads_to_add(self, expr: Any) -> bool:
        if _is(expr, "subtract"):
            return any(self._leads_to_add(arg) for arg in expr.args)
        return _is(expr, "add")

    def _inside(self, expr: Any) -> Any:
        """Return a call of the chain, whose operands outside of it are marked as its beginning."""
        args = []
        for arg in expr.args:
            goes_on = not _is(expr, "add") and self._leads_to_add(arg)
            args.append(self._inside(arg) if goes_on else self._begin(arg))
        return expr.with_fields(args=args)

    def _begin(self, expr: Any) -> Any:
        return compiler_begin(self.visit(expr), _COMPILER)
