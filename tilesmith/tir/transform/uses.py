"""Small questions about expressions and statements that several passes ask."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tilesmith.ir import Call, CallEffectKind, PrimExpr, Var, Visitor
from tilesmith.ir.intrinsics import effect_of
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import For, ForKind, IfThenElse, Stmt

__all__ = [
    "free_variables",
    "has_branches",
    "has_loop_of_kind",
    "has_side_effect",
    "loads_from",
    "reads_memory",
    "uses_variable",
]


def uses_variable(node: Any, variables: Container[Var]) -> bool:
    """Whether one of ``variables`` occurs below ``node``; pointers of accessed buffers count."""
    if isinstance(node, Var):
        return node in variables
    if node.is_leaf:
        return node.data in variables
    for child in node.children():
        if uses_variable(child, variables):
            return True
    return False


def loads_from(expr: Any, pointer: Var) -> bool:
    """Whether an expression reads memory behind a pointer (or mentions the pointer at all)."""
    return uses_variable(expr, {pointer})


def reads_memory(expr: Any) -> bool:
    """Whether the value of an expression may change when memory does."""
    if isinstance(expr, BufferLoad):
        return True
    if isinstance(expr, Call):
        if effect_of(expr) not in (CallEffectKind.Pure, CallEffectKind.ExprAnnotation):
            return True
    for child in expr.children():
        if isinstance(child, PrimExpr) and reads_memory(child):
            return True
    return False


def has_side_effect(expr: Any) -> bool:
    """Whether evaluating an expression does anything besides giving a value."""
    if isinstance(expr, Call) and effect_of(expr) > CallEffectKind.ReadState:
        return True
    for child in expr.children():
        if isinstance(child, PrimExpr) and has_side_effect(child):
            return True
    return False


def has_loop_of_kind(stmt: Any, kind: ForKind) -> bool:
    """Whether a statement contains a loop of a kind."""
    if isinstance(stmt, For) and stmt.kind is kind:
        return True
    for child in stmt.children():
        if isinstance(child, Stmt) and has_loop_of_kind(child, kind):
            return True
    return False


def has_branches(stmt: Stmt) -> bool:
    """Whether a statement contains an ``if``."""
    if isinstance(stmt, IfThenElse):
        return True
    for child in stmt.children():
        if isinstance(child, Stmt) and has_branches(child):
            return True
    return False


class _FreeVariables(Visitor):
    def __init__(self) -> None:
        self.found: set[Var] = set()
        self.bound: set[Var] = set()

    def visit_Var(self, var: Var) -> None:
        self.found.add(var)

    def visit_Buffer(self, buffer: Any) -> None:
        self.found.add(buffer.data)

    def visit_DeclBuffer(self, declaration: Any) -> None:
        for part in (*declaration.buffer.shape, *declaration.buffer.strides):
            self.visit(part)
        self.visit_children(declaration)

    def bind(self, var: Var, node: Any) -> None:
        self.bound.add(var)
        self.visit_children(node)

    def visit_For(self, loop: Any) -> None:
        self.bind(loop.loop_var, loop)

    def visit_Let(self, let: Any) -> None:
        self.bind(let.var, let)

    visit_LetStmt = visit_Let

    def visit_Allocate(self, allocation: Any) -> None:
        self.bind(allocation.buffer_var, allocation)

    visit_AllocateConst = visit_Allocate


def free_variables(stmt: Any) -> set[Var]:
    """The variables and pointers that a flat statement uses and does not define itself."""
    visitor = _FreeVariables()
    visitor.visit(stmt)
    return visitor.found - visitor.bound
