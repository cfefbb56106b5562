"""InstrumentBoundCheckers: inserts run-time checks that each access is in bounds.

    B[i] = A[i + 1]                             assert i + 1 < 16, "OutOfBoundsError: ..."
                                                assert i < 16, "OutOfBoundsError: ..."
                                                B[i] = A[i + 1]

Accesses under a condition (``if_then_else``) are checked only under it. Runs while
buffers still have their dimensions, when the option ``tir.instrument_bound_checkers`` is set.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, Let, PrimExpr, Rewriter, StringImm, Visitor, const
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    AssertStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    stmt_seq,
)

__all__ = ["instrument_bound_checkers"]


class _AccessFinder(Visitor):
    """Collects the checks for the loads of an expression; checks of inner loads come first."""

    def __init__(self) -> None:
        self.guards: list[PrimExpr] = []
        self.checks: list[tuple[PrimExpr, PrimExpr]] = []

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.visit_children(load)
        self.add(load)

    def add(self, access: BufferLoad | BufferStore) -> None:
        for axis, (index, size) in enumerate(zip(access.indices, access.buffer.shape)):
            if index.dtype.lanes > 1:
                continue  # vectors of the user may be predicated
            inside = ops.logical_and(index >= 0, index < ops.cast(index.dtype, size))
            for guard in reversed(self.guards):
                arguments = (guard, inside, const(True, "bool"))
                inside = Call("bool", "tir.if_then_else", arguments)
            if not ops.is_const(inside, 1):
                self.checks.append((inside, _message(access, axis, index, size)))

    def visit_Call(self, call: Call) -> None:
        if not is_call(call, "tir.if_then_else"):
            self.visit_children(call)
            return
        condition, true, false = call.args
        self.visit(condition)
        for guard, value in ((condition, true), (ops.logical_not(condition), false)):
            self.guards.append(guard)
            self.visit(value)
            self.guards.pop()

    def visit_Let(self, let: Let) -> None:
        # the body mentions a variable that is bound nowhere around the assertion
        self.visit(let.value)


def _message(access: Any, axis: int, index: PrimExpr, size: PrimExpr) -> PrimExpr:
    """Return the text of the error; the index of a load is left out, since it may be valid only
    under a guard."""
    text = f"OutOfBoundsError: buffer '{access.buffer.name}' is accessed outside of axis {axis}"
    if isinstance(access, BufferLoad):
        return StringImm(text)
    parts = [StringImm(text + ": index "), ops.cast("int64", index), StringImm(" of "),
             ops.cast("int64", size)]  # fmt: skip
    return Call("handle", "tir.tvm_tuple", tuple(parts))


class _Instrumenter(Rewriter):
    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def checked(self, stmt: Stmt, *expressions: PrimExpr, store: Any = None) -> Stmt:
        """Return a statement after the checks of the loads in its expressions (and of its own
        store)."""
        finder = _AccessFinder()
        for expr in expressions:
            finder.visit(expr)
        if store is not None:
            finder.add(store)
        for condition, message in reversed(finder.checks):
            stmt = stmt_seq(AssertStmt(condition, message, Evaluate(const(0, "int32"))), stmt)
        return stmt

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        return self.checked(store, *store.indices, store.value, store=store)

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        value = evaluation.value
        if is_call(value, "tir.prefetch"):
            return evaluation  # it may read beyond the end
        return self.checked(evaluation, value)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        return self.checked(self.children(let), let.value)

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        return self.checked(self.children(branch), branch.condition)

    def visit_While(self, loop: While) -> Stmt:
        return self.checked(self.children(loop), loop.condition)

    def visit_For(self, loop: For) -> Stmt:
        return self.checked(self.children(loop), loop.min, loop.extent)


@compiler_pass("tir.InstrumentBoundCheckers")
def instrument_bound_checkers(func: PrimFunc) -> PrimFunc:
    """Inserts run-time checks that each access is in bounds.

    Returns ``func`` with assertions that each access lies inside of its buffer.
    """
    return func.with_body(_Instrumenter().visit(func.body))
