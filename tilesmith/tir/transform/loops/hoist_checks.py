"""HoistChecks: makes checks that a loop would repeat once, in front of the loop.

    for i in range(1000):                       for j in range(8):
        for j in range(8):                          T.evaluate(T.checked(0, I[j] < 5, "..."))
            B[i, j] = A[i,                      for i in range(1000):
                T.checked(I[j], I[j] < 5, "...")]   for j in range(8):
                                                        B[i, j] = A[i, I[j]]

What is moved runs as often as in the first iteration, in the same order, and not at all if the loop
has no iterations. So a program that fails gives the same error as before. A loop keeps its checks
unless each of them is the same in all iterations, and nothing else in the loop can fail or be
noticed from outside, apart from what it stores. Functions that cannot report errors (those on
threads of a device, those that return a value) keep all: there, a check replaces its value by 0.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    And,
    Call,
    CallEffectKind,
    IntImm,
    Let,
    Node,
    Or,
    PrimExpr,
    Rewriter,
    Select,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, calls, is_call, mentions
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.queries import can_fail, has_loop_of_kind, loads, statements, stores
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    is_no_op,
    stmt_seq,
)

__all__ = ["hoist_checks"]

FEWEST_PARALLEL = 64
"""The fewest iterations of a parallel loop that loops of checks leave. They run on one thread, in
front of it, so they have to be a small part of what each thread does."""

_PLAIN = (For, SeqStmt, IfThenElse, LetStmt, BufferStore, Evaluate, AttrStmt, Allocate,
          AllocateConst, DeclBuffer)  # fmt: skip


def _nothing() -> Stmt:
    return Evaluate(const(0, "int32"))


class _Stays(Exception):
    """The checks of a loop have to stay in it."""


class _Extraction(Rewriter):
    """Removes the checks from the body of a loop and collects them with the control flow around
    them, in the order in which they run. Raises _Stays where they cannot leave the loop.
    """

    def __init__(self, loop: For, has_aliases: bool) -> None:
        self.varying = {loop.loop_var}  # what may differ in another iteration
        self.written = {store.buffer.data for store in stores(loop.body)}
        self.has_aliases = has_aliases and bool(self.written)
        self.checks: list[Stmt] = []

    def visit(self, node: Any) -> Any:
        if isinstance(node, Stmt):
            if not isinstance(node, _PLAIN):
                raise _Stays
            return super().visit(node)
        return super().visit(node) if can_fail(node) else node

    def apart(self, node: Any) -> tuple[Any, list[Stmt]]:
        """Return a part of the body without checks, and its checks."""
        outer, self.checks = self.checks, []
        new = self.visit(node)
        found, self.checks = self.checks, outer
        return new, found

    def require_invariant(self, *parts: Node) -> None:
        """Raise _Stays unless expressions have the same value in all iterations."""
        if mentions(parts, self.varying):
            raise _Stays
        for load in loads(parts):
            if self.has_aliases or load.buffer.data in self.written or mentions(
                [load.buffer.data], self.varying
            ):  # fmt: skip
                raise _Stays
        for part in parts:
            for call in calls(part):
                if effect_of(call) > CallEffectKind.Pure and not is_call(call, "tir.checked"):
                    raise _Stays

    # -- statements

    def visit_For(self, loop: For) -> Stmt:
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        body, found = self.apart(loop.body)
        if found:
            self.require_invariant(low, extent)
            self.checks.append(For(loop.loop_var, low, extent, ForKind.SERIAL, stmt_seq(*found)))
        if found and is_no_op(body):
            return _nothing()
        return loop.with_fields(min=low, extent=extent, body=body)

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        parts = [self.visit(part) for part in sequence.seq]
        return stmt_seq(*[part for part in parts if not is_no_op(part)], span=sequence.span)

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        return evaluation.with_fields(value=self.visit(evaluation.value))

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        condition = self.visit(branch.condition)
        then_case, found = self.apart(branch.then_case)
        other: Stmt | None = None
        found_else: list[Stmt] = []
        if branch.else_case is not None:
            other, found_else = self.apart(branch.else_case)
        self.choose(condition, found, found_else)
        if is_no_op(then_case) and (other is None or is_no_op(other)):
            return _nothing()
        return IfThenElse(condition, then_case, other, branch.span)

    def choose(self, condition: PrimExpr, found: list[Stmt], found_else: list[Stmt]) -> None:
        """Record the checks of two branches."""
        if not found and not found_else:
            return
        self.require_invariant(condition)
        if found:
            other = stmt_seq(*found_else) if found_else else None
            self.checks.append(IfThenElse(condition, stmt_seq(*found), other))
        else:
            self.checks.append(IfThenElse(ops.logical_not(condition), stmt_seq(*found_else)))

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        value = self.visit(let.value)
        try:
            self.require_invariant(value)
        except _Stays:
            self.varying.add(let.var)
        body, found = self.apart(let.body)
        if found:
            kept = let.var not in self.varying
            self.checks.append(
                LetStmt(let.var, value, stmt_seq(*found)) if kept else stmt_seq(*found)
            )
        return LetStmt(let.var, value, body, let.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if store.predicate is not None and can_fail(store):
            raise _Stays
        return self.children(store)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if not attribute.attr_key.startswith("pragma_"):
            raise _Stays
        return attribute.with_fields(body=self.visit(attribute.body))

    def declared(self, data: Var, declaration: Any) -> Stmt:
        """Visit the body of a statement that defines memory: its checks do not read that memory."""
        self.written.add(data)
        made: Stmt = declaration.with_fields(body=self.visit(declaration.body))
        return made

    def visit_Allocate(self, allocation: Allocate | AllocateConst) -> Stmt:
        return self.declared(allocation.buffer_var, allocation)

    visit_AllocateConst = visit_Allocate

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> Stmt:
        return self.declared(declaration.buffer.data, declaration)

    # -- expressions

    def visit_Call(self, call: Call) -> PrimExpr:
        if is_call(call, "tir.if_then_else"):
            condition = self.visit(call.args[0])
            true, found = self.apart(call.args[1])
            false, found_else = self.apart(call.args[2])
            self.choose(condition, found, found_else)
            return call.with_fields(args=(condition, true, false))
        if not is_call(call, "tir.checked"):
            return self.children(call)
        value, condition, *message = call.args
        if call.dtype.lanes > 1 or condition.dtype.lanes > 1 or can_fail(message):
            raise _Stays
        condition = self.visit(condition)
        self.require_invariant(condition, *message)
        check = Evaluate(Call("int32", call.op, (const(0, "int32"), condition, *message)))
        if not any(structural_equal(check, known) for known in self.checks):
            self.checks.append(check)
        return self.visit(value)

    def visit_Select(self, expr: Select) -> PrimExpr:
        if can_fail([expr.true_value, expr.false_value]):
            raise _Stays
        return self.children(expr)

    def visit_And(self, expr: And | Or) -> PrimExpr:
        if can_fail(expr.b):
            raise _Stays
        return self.children(expr)

    visit_Or = visit_And

    def visit_Let(self, let: Let) -> PrimExpr:
        raise _Stays


class _Hoister(Rewriter):
    """Moves checks out of loops, of the innermost ones first."""

    def __init__(self, has_aliases: bool) -> None:
        self.has_aliases = has_aliases

    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_For(self, loop: For) -> Stmt:
        inside = self.visit(loop.body)
        if inside is not loop.body:
            loop = loop.with_fields(body=inside)
        extent = loop.extent.value if isinstance(loop.extent, IntImm) else None
        if extent is not None and extent <= 1 or not can_fail(loop.body):
            return loop  # nothing is repeated
        if any_node(loop.body, _acts):
            return loop
        extraction = _Extraction(loop, self.has_aliases)
        try:
            body = extraction.visit(loop.body)
        except _Stays:
            return loop
        checks: Stmt = stmt_seq(*extraction.checks)
        if loop.kind is ForKind.PARALLEL and (extent is None or extent < FEWEST_PARALLEL):
            if any(isinstance(one, For) for one in statements(checks)):
                return loop
        checks = renew_defs(checks)
        if extent is None:
            checks = IfThenElse(loop.extent > 0, checks)
        return stmt_seq(checks, loop.with_fields(body=body))


def _acts(node: Node) -> bool:
    """Return whether a node does more than computing, storing and checking."""
    return isinstance(node, Call) and effect_of(node) > CallEffectKind.ReadState


def _reports_errors(func: PrimFunc) -> bool:
    if any(True for _ in calls(func.body, "tir.ret")):
        return False
    if has_loop_of_kind(func.body, ForKind.THREAD_BINDING):
        return False
    attributes = [one for one in statements(func.body) if isinstance(one, AttrStmt)]
    return all(one.attr_key not in ("thread_extent", "virtual_thread") for one in attributes)


@compiler_pass("tir.HoistChecks")
def hoist_checks(func: PrimFunc) -> PrimFunc:
    """Makes checks that a loop would repeat once, in front of the loop.

    Returns ``func`` with the checks of loops whose conditions are the same in all iterations moved
    out of them.
    """
    if not can_fail(func.body) or not _reports_errors(func):
        return func
    has_aliases = not func.attrs.get("tir.noalias", False)
    return func.with_body(_Hoister(has_aliases).visit(func.body))
