"""LoopPartition: a loop is divided so that its middle needs no condition.

    for i in range(n):                          for i in range((n * 8 - 7) // 8):
        for j in range(8):                          for j in range(8):
            if T.likely(i * 8 + j < m):                 B[i * 8 + j] = A[i * 8 + j]
                B[i * 8 + j] = A[i * 8 + j]         for i in range(the rest of n): ... as before ...

Looked at are conditions inside ``T.likely``; in a loop with ``pragma_loop_partition_hint`` all
conditions. Loops of constant extent are divided only if they have the hint, or the option
``partition_const_loop`` of ``tir.LoopPartition`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    GE,
    GT,
    LE,
    LT,
    And,
    Call,
    IntImm,
    PrimExpr,
    Range,
    Rewriter,
    Select,
    Var,
    Visitor,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.transform import Pass, PassContext
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.stmt import Evaluate, For, ForKind, IfThenElse, Stmt, stmt_seq
from tilesmith.tir.transform.registration import function_pass, register_pass
from tilesmith.tir.transform.scoped import ScopedAnalyzer
from tilesmith.tir.transform.uses import (
    free_variables,
    reads_memory,
    uses_variable,
)

__all__ = ["Conditions", "LoopPartition", "Partitioner", "Replacer", "limit_of", "loop_partition"]

HINT = "pragma_loop_partition_hint"
_KINDS = (ForKind.SERIAL, ForKind.UNROLLED)


class Conditions(Visitor):
    """The single comparisons below a loop that decide something, with the loops in between."""

    def __init__(self, var: Var, only_likely: bool) -> None:
        self.var = var
        self.only_likely = only_likely
        self.inner: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
        self.hidden: set[Var] = set()  # bound to values inside of the loop
        self.found: list[PrimExpr] = []

    def visit_For(self, loop: For) -> None:
        self.inner[loop.loop_var] = (loop.min, loop.min + loop.extent - 1)
        self.visit(loop.body)

    def visit_LetStmt(self, let: Any) -> None:
        self.hidden.add(let.var)
        self.visit_children(let)

    visit_Let = visit_LetStmt

    def visit_IfThenElse(self, branch: IfThenElse) -> None:
        self.add(branch.condition, not self.only_likely)
        self.visit_children(branch)

    def visit_Select(self, expr: Select) -> None:
        self.add(expr.condition, not self.only_likely)
        self.visit_children(expr)

    def visit_Call(self, call: Call) -> None:
        if getattr(call.op, "name", "") == "tir.if_then_else":
            self.add(call.args[0], not self.only_likely)
        self.visit_children(call)

    def add(self, condition: PrimExpr, wanted: bool) -> None:
        if isinstance(condition, Call) and getattr(condition.op, "name", "") == "tir.likely":
            self.add(condition.args[0], True)
        elif isinstance(condition, And):
            self.add(condition.a, wanted)
            self.add(condition.b, wanted)
        elif wanted and isinstance(condition, (LT, LE, GT, GE)):
            if condition.a.dtype.is_int and self.is_wanted(condition):
                self.found.append(condition)

    def is_wanted(self, condition: PrimExpr) -> bool:
        """Whether a comparison changes in the course of the loop, and only because of loops."""
        return (
            uses_variable(condition, {self.var})
            and not uses_variable(condition, self.hidden)
            and not reads_memory(condition)
        )


class Replacer(Rewriter):
    """Conditions that always hold go, and with them the choices that they decided."""

    def __init__(self, conditions: list[PrimExpr]) -> None:
        self.conditions = {id(condition) for condition in conditions}

    def visit_CompareOp(self, expr: Any) -> PrimExpr:
        return const(True, "bool") if id(expr) in self.conditions else self.children(expr)

    def visit_And(self, expr: And) -> PrimExpr:
        new = self.children(expr)
        return expr if new is expr else ops.logical_and(new.a, new.b)

    def visit_Call(self, call: Call) -> PrimExpr:
        new = self.children(call)
        name = getattr(call.op, "name", "")
        if new is not call and ops.is_const(new.args[0], 1):
            if name == "tir.likely":
                return new.args[0]
            if name == "tir.if_then_else":
                return new.args[1]
        return new

    def visit_Select(self, expr: Select) -> PrimExpr:
        new = self.children(expr)
        return new.true_value if ops.is_const(new.condition, 1) else new

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        new = self.children(branch)
        return new.then_case if ops.is_const(new.condition, 1) else new


class Partitioner(ScopedAnalyzer, Rewriter):
    """Outer loops first: what is left of a condition in the middle is divided further inside."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.divide_constant = bool(config.get("partition_const_loop", False))
        self.unroll_undivided = bool(
            config.get("unroll_loop_with_partition_hint_no_interval", False)
        )
        self.keep_single = bool(config.get("no_unroll_loop_with_extent_one", False))

    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_For(self, loop: For) -> Stmt:
        hinted = bool(loop.annotations.get(HINT, False))
        if HINT in loop.annotations:
            kept = {key: value for key, value in loop.annotations.items() if key != HINT}
            loop = loop.with_fields(annotations=kept)
        is_constant = isinstance(loop.extent, IntImm)
        if hinted or (loop.kind in _KINDS and (self.divide_constant or not is_constant)):
            divided = self.divided(loop, not hinted)
            if divided is not None:
                return divided
            if hinted and self.unroll_undivided and is_constant and loop.kind is ForKind.SERIAL:
                loop = loop.with_fields(kind=ForKind.UNROLLED)
        return super().visit_For(loop)

    def divided(self, loop: For, only_likely: bool) -> Stmt | None:
        """The loop in up to three parts; None where no condition can be removed."""
        conditions = Conditions(loop.loop_var, only_likely)
        conditions.visit(loop.body)
        found = self.free_stretch(loop, conditions)
        if found is None:
            return None
        begin, end, proven = found
        middle = self.visit(self.part(loop, begin, end, Replacer(proven).visit(loop.body)))
        stop = loop.min + loop.extent
        before = self.part(loop, loop.min, begin, renew_defs(loop.body))  # type: ignore[arg-type]
        after = self.part(loop, end, stop, renew_defs(loop.body))  # type: ignore[arg-type]
        return stmt_seq(before, middle, after)

    def free_stretch(
        self, loop: For, conditions: Conditions
    ) -> tuple[PrimExpr, PrimExpr, list[PrimExpr]] | None:
        """First and last iteration (exclusively) in which conditions hold for sure, and these."""
        if not conditions.found:
            return None
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        simplify = self.analyzer.simplify
        stop = simplify(loop.min + loop.extent)
        begin, end, proven = loop.min, stop, []
        for condition in conditions.found:
            limit = limit_of(condition, loop.loop_var, conditions.inner, self.analyzer)
            if limit is None:
                continue
            proven.append(condition)
            low, high = limit
            if low is not None:
                begin = ops.maximum(begin, low)
            if high is not None:
                end = ops.minimum(end, high)
        if begin is not loop.min:
            begin = simplify(ops.minimum(begin, stop))
        if end is not stop:
            end = simplify(ops.maximum(end, begin))
        if not proven or self.analyzer.can_prove(end <= begin):
            return None
        return begin, end, proven

    def part(self, loop: For, low: PrimExpr, high: PrimExpr, body: Stmt) -> Stmt:
        """The iterations from ``low`` up to ``high``."""
        extent = self.analyzer.simplify(high - low)
        if isinstance(extent, IntImm):
            if extent.value <= 0:
                return Evaluate(const(0, "int32"))
            if extent.value == 1 and not self.keep_single:
                return substitute(body, {loop.loop_var: low})
        var = Var(loop.loop_var.name, loop.loop_var.dtype)
        body = substitute(body, {loop.loop_var: var})
        return loop.with_fields(loop_var=var, min=low, extent=extent, body=body)


def limit_of(
    condition: Any, var: Var, inner: Mapping[Var, Any], analyzer: Analyzer
) -> tuple[PrimExpr | None, PrimExpr | None] | None:
    """From where and up to where (exclusively) a loop variable makes a condition always true."""
    left, right = condition.a, condition.b
    if isinstance(condition, (GT, GE)):
        left, right = right, left
    slack = right - left
    if isinstance(condition, (LE, GE)):
        slack = slack + 1
    # the condition holds where `slack` is positive; its least value over the loops inside counts
    slack = analyzer.simplify(slack)
    for name in reversed(list(inner)):
        if not uses_variable(slack, {name}):
            continue
        factor = _coefficient(slack, name, analyzer)
        if factor is None:
            return None
        first, last = inner[name]
        end = first if factor > 0 else last
        slack = analyzer.simplify(substitute(slack, {name: ops.cast(name.dtype, end)}))
    factor = _coefficient(slack, var, analyzer)
    if factor is None or factor == 0:
        return None
    rest = analyzer.simplify(slack - var * factor)
    if uses_variable(rest, {var}) or free_variables(rest) & set(inner):
        return None
    if factor > 0:
        return analyzer.simplify(ops.floordiv(-rest, factor) + 1), None
    return None, analyzer.simplify(ops.floordiv(rest - 1, -factor) + 1)


def _coefficient(expr: PrimExpr, var: Var, analyzer: Analyzer) -> int | None:
    """The constant by which an expression grows with a variable; None where it is not linear."""
    moved = substitute(expr, {var: var + 1})
    change = analyzer.simplify(moved - expr)
    return change.value if isinstance(change, IntImm) else None


class _LikelyRemover(Rewriter):
    """Nobody asks later on which conditions are likely."""

    def visit_Call(self, call: Call) -> PrimExpr:
        call = self.children(call)
        return call.args[0] if getattr(call.op, "name", "") == "tir.likely" else call


def loop_partition(func: PrimFunc, config: Mapping[str, Any] | None = None) -> PrimFunc:
    """``func`` with loops divided along their conditions, without ``T.likely``.

    ``config`` is the option of the pass.
    """
    return func.with_body(_LikelyRemover().visit(Partitioner(config or {}).visit(func.body)))


@register_pass("tir.LoopPartition")
def LoopPartition() -> Pass:  # noqa: N802
    """The pass that divides loops along their conditions."""

    def transform(func: PrimFunc) -> PrimFunc:
        config = PassContext.current().get_config("tir.LoopPartition") or {}
        return loop_partition(func, config)

    return function_pass(transform, "tir.LoopPartition")
