"""HoistIfThenElse: a condition that a loop does not change is asked once, outside of the loop.

for i in range(16):                         if n > 0:
    if n > 0:                                   for i in range(16):
        B[i] = A[i]                                 B[i] = A[i]
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Rewriter
from tilesmith.ir.transform import Pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import For, IfThenElse, Stmt
from tilesmith.tir.transform.registration import function_pass, register_pass
from tilesmith.tir.transform.uses import reads_memory, uses_variable

__all__ = ["HoistIfThenElse", "hoist_if_then_else"]


class _Hoister(Rewriter):
    """Bottom-up, so that a condition rises through all the loops that it can rise through."""

    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_For(self, loop: For) -> Stmt:
        loop = self.children(loop)
        branch = loop.body
        if not isinstance(branch, IfThenElse) or branch.else_case is not None:
            return loop
        condition = branch.condition
        if reads_memory(condition) or uses_variable(condition, {loop.loop_var}):
            return loop
        inner = loop.with_fields(body=branch.then_case)
        return IfThenElse(condition, inner, None, branch.span)


def hoist_if_then_else(func: PrimFunc) -> PrimFunc:
    """``func`` with conditions outside of the loops that do not change them."""
    return func.with_body(_Hoister().visit(func.body))


@register_pass("tir.HoistIfThenElse")
def HoistIfThenElse(variant: str | None = None) -> Pass:  # noqa: N802
    """The pass that moves conditions out of loops (``variant`` is accepted for old programs)."""
    return function_pass(hoist_if_then_else, "tir.HoistIfThenElse")
