"""HoistExpression: hoists loop-invariant conditions and lets out of loops.

    for i in range(16):                         if n > 0:
        if n > 0:                                   for i in range(16):
            A[i] = 1.0                                  A[i] = 1.0
        else:                                   else:
            A[i] = 2.0                              for i in range(16):
                                                        A[i] = 2.0

Conditions of statements, of ``if_then_else`` and boolean parts of conditions are hoisted as
``HoistedConditionals`` says, lets as ``HoistedLetBindings`` says. Where a condition does not decide
the whole body, the loop is written twice, once for each outcome. Conditions that read memory stay,
and those of one statement among several.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from typing import Any

from tilesmith.ir import (
    And,
    Call,
    IntImm,
    Let,
    Not,
    Or,
    PrimExpr,
    Rewriter,
    Select,
    Var,
    Visitor,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import likely
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call, walk
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.queries import free_variables, is_speculable
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    is_no_op,
    stmt_seq,
)
from tilesmith.tir.transform.simplification.convert_ssa import convert_ssa
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = [
    "HoistedConditionals",
    "HoistedLetBindings",
    "Hoister",
    "hoist_as_configured",
    "hoist_expression",
]

_PASSED = ("storage_alignment", "storage_scope", "thread_extent", "virtual_thread")
"""Attributes whose body a condition may leave."""

MAX_COPIES = 8
"""How often the body of one loop is written at most: each condition doubles it."""


class HoistedConditionals(IntFlag):
    """The kinds of conditions that are hoisted."""

    Never = 0
    IfElseStmt = 1
    IfElseExpr = 2
    BooleanExpression = 4
    UsingBlockVar = 8
    All = 15


class HoistedLetBindings(IntFlag):
    """The kinds of lets that are hoisted."""

    Never = 0
    RequiredByCondition = 1
    LetStmt = 2
    LetExpr = 4
    All = 7


class _Candidates(Visitor):
    """Collects the loop-invariant conditions in the body of a loop, in order."""

    def __init__(self, kinds: HoistedConditionals, threads: set[Var], risen: set[int]) -> None:
        self.kinds = kinds
        self.risen = risen  # `id` of those that have left a loop already
        self.threads = threads
        self.bound: set[Var] = set()
        self.found: list[PrimExpr] = []
        self.likely: set[int] = set()  # `id` of those that stood in `T.likely`

    def bind(self, var: Var, node: Any) -> None:
        self.bound.add(var)
        self.visit_children(node)

    def visit_For(self, loop: For) -> None:
        self.bind(loop.loop_var, loop)

    def visit_Let(self, let: Any) -> None:
        self.bind(let.var, let)

    visit_LetStmt = visit_Let

    def visit_AttrStmt(self, attribute: AttrStmt) -> None:
        self.visit(attribute.body)

    def visit_Block(self, block: Block) -> None:
        """Skip conditions on a block's iterators: these are not defined outside of it."""

    def visit_IfThenElse(self, branch: IfThenElse) -> None:
        self.condition(branch.condition, HoistedConditionals.IfElseStmt)
        self.visit_children(branch)

    def visit_SeqStmt(self, sequence: SeqStmt) -> None:
        """Skip sequences: a condition in one statement does not guard the others."""

    def visit_Call(self, call: Call) -> None:
        if is_call(call, "tir.if_then_else"):
            self.condition(call.args[0], HoistedConditionals.IfElseExpr)
        self.visit_children(call)

    def condition(self, condition: PrimExpr, kind: HoistedConditionals) -> None:
        """Record a condition, or its parts if they may be hoisted separately."""
        if is_call(condition, "tir.likely"):
            condition = condition.args[0]
            self.likely.add(id(condition))
        if (self.kinds & kind or id(condition) in self.risen) and self.is_free(condition):
            self.note(condition)
        elif self.kinds & HoistedConditionals.BooleanExpression:
            self.parts(condition)

    def parts(self, condition: PrimExpr) -> None:
        if isinstance(condition, (And, Or)):
            for part in (condition.a, condition.b):
                if self.is_free(part):
                    self.note(part)
                else:
                    self.parts(part)
        elif isinstance(condition, Not):
            self.parts(condition.a)

    def note(self, condition: PrimExpr) -> None:
        if not any(structural_equal(condition, known) for known in self.found):
            self.found.append(condition)

    def is_free(self, condition: PrimExpr) -> bool:
        """Return whether a condition has the same value before the loop."""
        if ops.is_const(condition) or condition.dtype.lanes > 1 or not is_speculable(condition):
            return False
        used = set(free_variables(condition, sizes=False))
        if used & self.bound:
            return False
        return bool(self.kinds & HoistedConditionals.UsingBlockVar) or not used & self.threads


class _Decider(Rewriter):
    """Substitutes the known value of a condition and folds the result."""

    def __init__(self, condition: PrimExpr, value: bool) -> None:
        self.condition = condition
        self.value = value

    def visit(self, node: Any) -> Any:
        if isinstance(node, PrimExpr) and node.dtype.is_bool:
            if node is self.condition or (
                type(node) is type(self.condition) and structural_equal(node, self.condition)
            ):
                return const(self.value, "bool")
        return super().visit(node)

    def visit_Call(self, call: Call) -> PrimExpr:
        new = self.children(call)
        if new is call or not is_call(new, "tir.likely", "tir.if_then_else"):
            return new
        condition, *choices = new.args
        if is_call(new, "tir.likely") and ops.is_const(condition):
            return condition
        if choices and isinstance(condition, IntImm):
            return choices[0 if condition.value else 1]
        return new

    def visit_Select(self, expr: Select) -> PrimExpr:
        new = self.children(expr)
        if isinstance(new.condition, IntImm):
            return new.true_value if new.condition.value else new.false_value
        return new

    def visit_And(self, expr: And) -> PrimExpr:
        new = self.children(expr)
        return expr if new is expr else ops.logical_and(new.a, new.b)

    def visit_Or(self, expr: Or) -> PrimExpr:
        new = self.children(expr)
        return expr if new is expr else ops.logical_or(new.a, new.b)

    def visit_Not(self, expr: Not) -> PrimExpr:
        new = self.children(expr)
        return expr if new is expr else ops.logical_not(new.a)

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        parts = [self.visit(stmt) for stmt in sequence.seq]
        if all(a is b for a, b in zip(parts, sequence.seq)):
            return sequence
        return stmt_seq(*parts, span=sequence.span)

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        return _taken(self.children(branch))

    def visit_For(self, loop: For) -> Stmt:
        new = self.children(loop)
        return new.body if new is not loop and is_no_op(new.body) else new

    visit_AttrStmt = visit_For


def _taken(branch: IfThenElse) -> Stmt:
    """Reduce a branch with a known condition to the chosen case, and one with empty cases to a
    no-op.
    """
    nothing = Evaluate(const(0, "int32"))
    other = branch.else_case if branch.else_case is not None else nothing
    if ops.is_const(branch.condition):
        return branch.then_case if branch.condition.value else other  # type: ignore[attr-defined]
    if is_no_op(branch.then_case) and is_no_op(other) and is_speculable(branch.condition):
        return nothing
    return branch


class Hoister(StatementRewriter):
    """Hoists bottom-up, so that a condition moves out of as many loops as possible."""

    def __init__(
        self, conditionals: HoistedConditionals, lets: HoistedLetBindings, copies: int
    ) -> None:
        self.copies = copies
        self.kinds = conditionals
        self.lets = lets
        self.threads: set[Var] = set()
        self.risen: set[int] = set()

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key in ("thread_extent", "virtual_thread"):
            self.threads.add(attribute.node.var)
        new = self.children(attribute)
        return self.under_its_condition(new) if attribute.attr_key in _PASSED else new

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        if self.threads & set(free_variables(let.value, sizes=False)):
            self.threads.add(let.var)
        return self.children(let)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        return self.under_its_condition(self.children(allocation))

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> Stmt:
        return self.under_its_condition(self.children(declaration))

    def under_its_condition(self, scope: Any) -> Stmt:
        """Return a scope inside of the condition that decides its whole body, where conditions
        leave such scopes: the condition is that of no thread, so that whole kernels are under it.
        """
        branch: Any = scope.body
        condition: Any = _plain_condition(branch)
        if (
            not self.kinds & HoistedConditionals.UsingBlockVar
            or condition is None
            or branch.else_case is not None
            or not is_speculable(condition)
            or self.threads & set(free_variables(condition, sizes=False))
        ):
            unchanged: Stmt = scope
            return unchanged
        return IfThenElse(branch.condition, scope.with_fields(body=branch.then_case))

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        new = self.children(branch)
        return _taken(new) if ops.is_const(new.condition) else new

    def visit_For(self, loop: For) -> Stmt:
        loop = self.children(loop)
        if self.lets:
            return self.with_lets_outside(loop)
        return self.decided(loop, self.copies)

    def decided(self, loop: For, copies: int) -> Stmt:
        """Return the loop under the conditions that are invariant in it."""
        candidates = _Candidates(self.kinds, self.threads, self.risen)
        candidates.bound.add(loop.loop_var)
        candidates.visit(loop.body)
        for condition in candidates.found:
            asked = likely(condition) if id(condition) in candidates.likely else condition
            yes = _Decider(condition, True).visit(loop.body)
            no = _Decider(condition, False).visit(loop.body)
            then_case: Stmt = loop.with_fields(body=yes)
            if is_no_op(yes):
                then_case = Evaluate(const(0, "int32"))
            self.risen.add(id(condition))
            if is_no_op(no):
                rest = self.decided(then_case, copies) if isinstance(then_case, For) else then_case
                return IfThenElse(asked, rest)
            whole = _plain_condition(loop.body)
            if whole is None or not structural_equal(whole, condition):  # it is written twice
                if copies < 2:
                    continue
                copies //= 2
            if isinstance(then_case, For):
                then_case = self.decided(then_case, copies)
            other = self.decided(renew_defs(loop.with_fields(body=no)), copies)
            if is_no_op(then_case):
                return IfThenElse(ops.logical_not(condition), other)
            return IfThenElse(asked, then_case, other)
        return loop

    # -- lets

    def with_lets_outside(self, loop: For) -> Stmt:
        """Return the loop inside the lets that are invariant in it."""
        taken: list[tuple[Var, PrimExpr]] = []
        body = _LetTaker(self.lets, {loop.loop_var}, taken, self.needed_by_conditions(loop)).visit(
            loop.body
        )
        result = self.decided(
            loop if body is loop.body else loop.with_fields(body=body), self.copies
        )
        for var, value in reversed(taken):
            result = LetStmt(var, value, result)
        return result

    def needed_by_conditions(self, loop: For) -> set[Var]:
        """Return the variables used by the conditions below, if the pass may hoist the lets that
        bind them.
        """
        if not self.lets & HoistedLetBindings.RequiredByCondition:
            return set()
        conditions = [
            node.condition for node in walk(loop.body) if isinstance(node, (IfThenElse, Select))
        ]
        return {var for one in conditions for var in free_variables(one, sizes=False)}


class _LetTaker(Rewriter):
    """Removes the loop-invariant lets from a body, and collects them."""

    def __init__(
        self,
        kinds: HoistedLetBindings,
        bound: set[Var],
        taken: list[tuple[Var, PrimExpr]],
        needed: set[Var],
    ) -> None:
        self.kinds = kinds
        self.bound = bound
        self.taken = taken
        self.needed = needed

    def wanted(self, let: Any, kind: HoistedLetBindings) -> bool:
        if not self.kinds & kind and let.var not in self.needed:
            return False
        if let.var.dtype.is_handle or not is_speculable(let.value):
            return False
        return self.bound.isdisjoint(free_variables(let.value, sizes=False))

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        if not self.wanted(let, HoistedLetBindings.LetStmt):
            self.bound.add(let.var)
            return self.children(let)
        self.taken.append((let.var, let.value))
        return self.visit(let.body)

    def visit_Let(self, let: Let) -> PrimExpr:
        if not self.wanted(let, HoistedLetBindings.LetExpr):
            self.bound.add(let.var)
            return self.children(let)
        self.taken.append((let.var, let.value))
        return self.visit(let.body)

    def visit_For(self, loop: For) -> Stmt:
        self.bound.add(loop.loop_var)
        return self.children(loop)

    def visit_Block(self, block: Block) -> Block:
        return block

    def visit_While(self, loop: While) -> Stmt:
        return self.children(loop)


def _plain_condition(stmt: Stmt) -> PrimExpr | None:
    """Return the condition of a branch, without ``T.likely``."""
    if not isinstance(stmt, IfThenElse):
        return None
    condition = stmt.condition
    if is_call(condition, "tir.likely"):
        return condition.args[0]
    return condition


def hoist_expression(
    func: PrimFunc,
    conditionals: HoistedConditionals = HoistedConditionals.All,
    lets: HoistedLetBindings = HoistedLetBindings.All,
    copies: int = MAX_COPIES,
) -> PrimFunc:
    """Hoists loop-invariant conditions and lets out of loops.

    ``copies`` limits how often the body of a loop is duplicated.
    """
    func = convert_ssa(func)  # lets of one variable in several places would meet outside
    return func.with_body(Hoister(conditionals, lets, copies).visit(func.body))


@compiler_pass(
    "tir.HoistExpression", options={"hoisted_conditionals": 7, "hoisted_let_bindings": 7}
)
def hoist_as_configured(func: PrimFunc, options: Mapping[str, Any]) -> PrimFunc:
    """Hoists loop-invariant conditions and lets out of loops, according to the pass option."""
    return hoist_expression(
        func,
        HoistedConditionals(int(options["hoisted_conditionals"])),
        HoistedLetBindings(int(options["hoisted_let_bindings"])),
    )
