"""HoistIfThenElse: a condition that a loop does not change is asked once, outside of the loop.

    for i in range(16):                         if n > 0:
        if n > 0:                                   for i in range(16):
            B[i] = A[i]                                 B[i] = A[i]

Only a condition that decides the whole body of a loop moves, so nothing is written twice but the
head of the loop. Conditions on threads stay inside of the loops in a thread's body unless the
option ``support_block_scope_hosting`` of ``tir.HoistIfThenElse`` says otherwise; the variant
"basic" takes them along as well. HoistExpression moves more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import Var
from tilesmith.ir.transform import Pass, PassContext
from tilesmith.support.errors import ConfigError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.stmt import AttrStmt, For, IfThenElse, Stmt
from tilesmith.tir.transform.configs import HoistIfThenElseConfig
from tilesmith.tir.transform.registration import function_pass, register_pass
from tilesmith.tir.transform.statement_rewriter import StatementRewriter
from tilesmith.tir.transform.uses import reads_memory, uses_variable

__all__ = ["HoistIfThenElse", "HoistIfThenElseBasic", "hoist_if_then_else"]


class _Hoister(StatementRewriter):
    """Bottom-up, so that a condition rises through all the loops that it can rise through."""

    def __init__(self, over_threads: bool) -> None:
        self.over_threads = over_threads
        self.threads: set[Var] = set()

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key in ("thread_extent", "virtual_thread"):
            self.threads.add(attribute.node.var)
        return self.children(attribute)

    def visit_For(self, loop: For) -> Stmt:
        if loop.thread_binding is not None:
            self.threads.add(loop.loop_var)
        return self.hoisted(self.children(loop))

    def hoisted(self, loop: For) -> Stmt:
        """The loop under the conditions around its body that it does not change."""
        branch = loop.body
        if not isinstance(branch, IfThenElse):
            return loop
        condition = branch.condition
        if reads_memory(condition) or uses_variable(condition, {loop.loop_var}):
            return loop
        if not self.over_threads and uses_variable(condition, self.threads):
            return loop
        inner = self.hoisted(loop.with_fields(body=branch.then_case))
        other: Stmt | None = None
        if branch.else_case is not None:
            other = renew_defs(loop.with_fields(body=branch.else_case))  # type: ignore[arg-type]
            other = self.hoisted(other)
        return IfThenElse(condition, inner, other, branch.span)


def hoist_if_then_else(
    func: PrimFunc, variant: str | None = None, config: Mapping[str, Any] | None = None
) -> PrimFunc:
    """``func`` with conditions outside of the loops that do not change them.

    ``variant`` is None or "basic"; ``config`` holds the values of the option.
    """
    settings = HoistIfThenElseConfig(**(config or {}))
    over_threads = variant == "basic" or settings.support_block_scope_hosting
    return func.with_body(_Hoister(over_threads).visit(func.body))


@register_pass("tir.HoistIfThenElse")
def HoistIfThenElse(variant: str | None = None) -> Pass:  # noqa: N802
    """The pass that moves conditions out of loops; ``variant`` is None or "basic"."""
    if variant not in (None, "basic"):
        raise ConfigError(
            f"HoistIfThenElse has no variant {variant!r}", notes=("there is 'basic'",)
        )

    def transform(func: PrimFunc) -> PrimFunc:
        config = PassContext.current().get_config("tir.HoistIfThenElse")
        return hoist_if_then_else(func, variant, config)

    name = "tir.HoistIfThenElseBasic" if variant == "basic" else "tir.HoistIfThenElse"
    return function_pass(transform, name)


@register_pass("tir.HoistIfThenElseBasic")
def HoistIfThenElseBasic() -> Pass:  # noqa: N802
    """``HoistIfThenElse`` in the variant "basic"."""
    return HoistIfThenElse("basic")
