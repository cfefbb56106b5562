"""Simplify: simplifies indices, conditions and bounds with the ranges of the loops and the
conditions around them.

    for i in range(16):                         for i in range(16):
        if i < 16:                                  B[i] = A[i]
            B[i] = A[i * 4 // 4]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from tilesmith.arith import Extension
from tilesmith.ir import (
    Call,
    FloatImm,
    IntImm,
    Let,
    Or,
    PrimExpr,
    Rewriter,
    Select,
    StringImm,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import called_name, conjuncts, is_call, mentions
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import reads_memory, statements
from tilesmith.tir.stmt import (
    AssertStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
)
from tilesmith.tir.transform.scoped import ScopedAnalyzer
from tilesmith.tir.transform.simplification.known_values import with_known_values

__all__ = ["simplify", "simplify_as_configured"]

_LEAVES = (Var, IntImm, FloatImm, StringImm)


AnyBody = TypeVar("AnyBody", PrimExpr, Stmt)


class _Simplifier(ScopedAnalyzer, Rewriter):
    """Simplifies integer expressions as a whole. In floating-point ones only the integer parts
    (indices of loads, conditions) are simplified: their arithmetic is not rearranged."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Var, PrimExpr] = {}  # of lets that are substituted
        self.only: dict[Var, PrimExpr] = {}  # of loops with one iteration
        self.alternatives: list[PrimExpr] = []  # disjunctions that hold

    def visit_Var(self, var: Var) -> PrimExpr:
        value = self.values.get(var)
        return self.only.get(var, var) if value is None else value

    def visit_PrimExpr(self, expr: PrimExpr) -> PrimExpr:
        new = expr.map_children(self.visit) if self.values else expr
        dtype = new.dtype
        if dtype.is_int or dtype.is_uint or dtype.is_bool:
            return self.analyzer.simplify(new)
        return new if self.values else new.map_children(self.visit)

    def visit_IntImm(self, expr: IntImm) -> PrimExpr:
        return expr

    visit_FloatImm = visit_IntImm
    visit_StringImm = visit_IntImm

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        return load.map_children(self.visit)

    def visit_Call(self, call: Call) -> PrimExpr:
        if is_call(call, "tir.if_then_else"):
            return self.visit_choice(call)
        return self.visit_PrimExpr(call) if _is_whole(call) else call.map_children(self.visit)

    def visit_choice(self, call: Call) -> PrimExpr:
        """Visit a lazy choice, with the condition known in each branch."""
        condition = self.visit(call.args[0])
        if isinstance(condition, IntImm):
            return self.visit(call.args[1] if condition.value else call.args[2])
        true = self.visit_under(condition, call.args[1])
        false = self.visit(call.args[2])
        if condition is call.args[0] and true is call.args[1] and false is call.args[2]:
            return call
        return Call(call.dtype, call.op, (condition, true, false))

    def visit_Select(self, expr: Select) -> PrimExpr:
        if not expr.dtype.is_float:
            return self.visit_PrimExpr(expr)
        new = expr.map_children(self.visit)
        if is_const(new.condition):
            return new.true_value if is_const(new.condition, 1) else new.false_value
        return new

    def visit_Let(self, let: Let) -> PrimExpr:
        value = self.visit(let.value)
        if isinstance(value, _LEAVES):
            return self.with_value(let.var, value, let.body)
        body = self.visit(let.body)
        return let if value is let.value and body is let.body else Let(let.var, value, body)

    def with_value(self, var: Var, value: PrimExpr, body: AnyBody) -> AnyBody:
        """Substitute a value for a variable in ``body``; another let may bind the variable
        again."""
        self.values[var] = value
        new: AnyBody = self.visit(body)
        del self.values[var]
        return new

    # -- statements

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        value = self.visit(let.value)
        # a pointer stays: buffers name it as their memory
        is_number = not let.var.dtype.is_handle and not isinstance(value, StringImm)
        if is_number and isinstance(value, _LEAVES):
            body = let.body
            if _is_of_a_declaration(let.var, body):
                body = substitute(body, {let.var: value})
            return self.with_value(let.var, value, body)
        return super().visit_LetStmt(let)

    def visit_For(self, loop: For) -> Stmt:
        self.note_only_value(loop.loop_var, loop.min, loop.extent)
        new = super().visit_For(loop)
        if isinstance(new, For) and isinstance(new.extent, IntImm) and new.extent.value <= 0:
            return Evaluate(const(0, "int32"))
        return new

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        for iterator in realize.block.iter_vars:
            domain = iterator.domain
            self.note_only_value(iterator.var, domain.min, domain.extent)
        return super().visit_BlockRealize(realize)

    def note_only_value(self, var: Var, low: PrimExpr, extent: PrimExpr) -> None:
        """Record the only value of the variable of a loop of extent 1; the loop stays."""
        if is_const(extent, 1) and is_const(low):
            self.only[var] = low
        else:
            self.only.pop(var, None)  # another loop of the same variable

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        """Remove a store of a value to the element that it was loaded from."""
        store = store.map_children(self.visit)
        value = store.value
        if not isinstance(value, BufferLoad) or value.buffer is not store.buffer:
            return store
        if store.predicate is not None or value.predicate is not None:
            return store
        if all(structural_equal(a, b) for a, b in zip(value.indices, store.indices)):
            return Evaluate(const(0, "int32"))
        return store

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        condition = self.visit(branch.condition)
        inner = condition
        if is_call(inner, "tir.likely"):
            inner = inner.args[0]
        known = isinstance(inner, Or) and any(structural_equal(inner, a) for a in self.alternatives)
        if known or is_const(inner):
            if known or is_const(inner, 1):
                return self.visit(branch.then_case)
            if branch.else_case is None:
                return Evaluate(const(0, "int32"))
            return self.visit(branch.else_case)
        return super().visit_IfThenElse(branch)

    def visit_under(self, condition: PrimExpr, node: Any) -> Any:
        """Visit code under a condition, and record its disjunctions, which the analyzer does not
        use.
        """
        found = [
            p
            for p in conjuncts(condition, through_likely=True)
            if isinstance(p, Or) and not reads_memory(p)
        ]
        outer, self.alternatives = self.alternatives, [*self.alternatives, *found]
        new = super().visit_under(condition, node)
        self.alternatives = outer
        return new

    def visit_AssertStmt(self, check: AssertStmt) -> Stmt:
        condition, message = self.visit(check.condition), self.visit(check.message)
        if is_const(condition, 1):
            return self.visit(check.body)
        body = self.visit_under(condition, check.body)
        if condition is check.condition and message is check.message and body is check.body:
            return check
        return AssertStmt(condition, message, body, check.span)


def _is_of_a_declaration(var: Var, body: Stmt) -> bool:
    """Return whether the shape, strides or offset of a buffer that ``body`` declares depend on a
    variable."""
    return any(
        mentions([*buffer.shape, *buffer.strides, buffer.elem_offset], {var})
        for stmt in statements(body)
        for buffer in _declared(stmt)
    )


def _declared(stmt: Stmt) -> list[Buffer]:
    if isinstance(stmt, DeclBuffer):
        return [stmt.buffer]
    if isinstance(stmt, Block):
        return [*stmt.alloc_buffers, *[match.buffer for match in stmt.match_buffers]]
    return []


def _is_whole(call: Call) -> bool:
    """Return whether a call is arithmetic that the analyzer can simplify."""
    return called_name(call) in _ARITHMETIC and call.dtype.is_integer


_ARITHMETIC = {
    "tir.shift_left", "tir.shift_right", "tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor",
    "tir.bitwise_not",
}  # fmt: skip


def simplify(func: PrimFunc, config: Mapping[str, Any] | None = None) -> PrimFunc:
    """Return ``func`` with simplified indices, conditions and bounds.

    ``config`` as in ``SimplifyConfig``. Inequalities are always proven transitively; stored values
    are tracked only where ``propagate_knowns_...`` asks for it, and `arith.Extension` says which
    further rules simplify conditions.
    """
    config = config or {}
    everywhere = bool(config.get("propagate_knowns_to_simplify_expressions"))
    conditions = bool(config.get("propagate_knowns_to_prove_conditional"))
    if everywhere or conditions:
        func = with_known_values(func, everywhere, conditions)
    simplifier = _Simplifier()
    for option, extension in _EXTENSIONS.items():
        if config.get(option):
            simplifier.analyzer.enabled_extensions |= extension
    return func.with_body(simplifier.visit(func.body))


_EXTENSIONS = {
    "transitively_prove_inequalities": Extension.TransitivelyProveInequalities,
    "convert_boolean_to_and_of_ors": Extension.ConvertBooleanToAndOfOrs,
    "apply_constraints_to_boolean_branches": Extension.ApplyConstraintsToBooleanBranches,
}


@compiler_pass(
    "tir.Simplify",
    aliases=("tir.StmtSimplify",),
    options={
        "transitively_prove_inequalities": False,
        "propagate_knowns_to_prove_conditional": False,
        "propagate_knowns_to_simplify_expressions": False,
        "convert_boolean_to_and_of_ors": False,
        "apply_constraints_to_boolean_branches": False,
    },
)
def simplify_as_configured(func: PrimFunc, options: Mapping[str, Any]) -> PrimFunc:
    """Simplifies indices, conditions and bounds."""
    return simplify(func, options)
