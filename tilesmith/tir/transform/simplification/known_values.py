"""Forwards stored constants to later loads.

    A[0] = 5                                    A[0] = 5
    if A[0] > 3:                                B[0] = 5
        B[0] = A[0]

It tracks stores of constants and facts that ``T.assume`` states about single elements. A loop
invalidates the memory that it writes, a branch that of either case, a call all memory.
"""

from __future__ import annotations

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    EQ,
    CallEffectKind,
    FloatImm,
    IntImm,
    PrimExpr,
    Rewriter,
    Var,
)
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import calls, is_call
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import reads_memory, stores, uses_variable
from tilesmith.tir.stmt import (
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)

__all__ = ["with_known_values"]

_CONSTANTS = (IntImm, FloatImm)


def _writes(stmt: Stmt) -> set[Var | None]:
    """Return the pointers through which a statement writes; None stands for any pointer."""
    found: set[Var | None] = {store.buffer.data for store in stores(stmt)}
    for call in calls(stmt):
        if is_call(call, "tir.address_of") or effect_of(call) is CallEffectKind.UpdateState:
            found.add(None)
    return found


class _Entry:
    __slots__ = ("buffer", "indices", "value")

    def __init__(self, buffer: Buffer, indices: tuple[PrimExpr, ...], value: PrimExpr) -> None:
        self.buffer = buffer
        self.indices = indices
        self.value = value

    def at(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> bool:
        """Return whether an access is to this element."""
        return buffer is self.buffer and all(
            structural_equal(a, b) for a, b in zip(indices, self.indices)
        )

    def differs(self, store: BufferStore, analyzer: Analyzer) -> bool:
        """Return whether a store is proven to write another element."""
        if store.buffer.data is not self.buffer.data:
            return True  # memory behind different pointers is different memory (tir.noalias)
        if store.buffer is not self.buffer:
            return False
        return any(
            a.dtype.lanes == b.dtype.lanes == 1 and analyzer.can_prove(a - b != 0)
            for a, b in zip(store.indices, self.indices)
            if a.dtype is b.dtype
        )


class _Follower(Rewriter):
    """Tracks known elements. ``everywhere``: loads of them become constants in all expressions;
    else only in conditions that this decides."""

    def __init__(self, everywhere: bool, conditions: bool) -> None:
        self.everywhere = everywhere
        self.conditions = conditions
        self.analyzer = Analyzer()
        self.known: list[_Entry] = []

    # -- expressions

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        if load.predicate is None:
            for entry in self.known:
                if entry.at(load.buffer, load.indices):
                    return entry.value
        return self.children(load)

    def value(self, expr: PrimExpr) -> PrimExpr:
        return self.visit(expr) if self.everywhere else expr

    def condition(self, expr: PrimExpr) -> PrimExpr:
        if not self.everywhere and not self.conditions:
            return expr
        new = self.visit(expr)
        if self.everywhere or new is expr:
            return new
        simple = self.analyzer.simplify(new)
        return simple if isinstance(simple, IntImm) else expr

    # -- statements

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        parts = [self.visit(stmt) for stmt in sequence.seq]
        if all(a is b for a, b in zip(parts, sequence.seq)):
            return sequence
        return stmt_seq(*parts, span=sequence.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        indices = tuple([self.value(index) for index in store.indices])
        value = self.value(store.value)
        new = store
        if value is not store.value or any(a is not b for a, b in zip(indices, store.indices)):
            new = BufferStore(store.buffer, value, indices, store.predicate, store.span)
        self.known = [entry for entry in self.known if entry.differs(new, self.analyzer)]
        plain = new.predicate is None and not any(
            index.dtype.lanes > 1 or reads_memory(index) for index in indices
        )
        if plain and isinstance(value, _CONSTANTS):
            self.known.append(_Entry(new.buffer, indices, value))
        return new

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        call = evaluation.value
        if is_call(call, "tir.assume"):
            self.assume(call.args[0])
            return evaluation
        if None in _writes(evaluation):
            self.known = []
            return evaluation
        value = self.value(call)
        return evaluation if value is call else evaluation.with_fields(value=value)

    def assume(self, condition: PrimExpr) -> None:
        if not isinstance(condition, EQ):
            return
        for load, value in ((condition.a, condition.b), (condition.b, condition.a)):
            if isinstance(load, BufferLoad) and isinstance(value, _CONSTANTS):
                self.known.append(_Entry(load.buffer, load.indices, value))

    def forget(self, written: set[Var | None], var: Var | None = None) -> None:
        """Drop entries whose memory may have been written, or whose indices use a variable."""
        if None in written:
            self.known = []
        self.known = [
            entry
            for entry in self.known
            if entry.buffer.data not in written
            and not (var is not None and any(uses_variable(i, {var}) for i in entry.indices))
        ]

    def visit_For(self, loop: For) -> Stmt:
        low, extent = self.value(loop.min), self.value(loop.extent)
        written = _writes(loop.body)
        self.forget(written)
        before = list(self.known)
        body = self.visit(loop.body)
        self.known = before
        if body is loop.body and low is loop.min and extent is loop.extent:
            return loop
        return loop.with_fields(min=low, extent=extent, body=body)

    def visit_While(self, loop: While) -> Stmt:
        self.forget(_writes(loop))
        before = list(self.known)
        body = self.visit(loop.body)
        self.known = before
        return loop if body is loop.body else loop.with_fields(body=body)

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        condition = self.condition(branch.condition)
        written = _writes(branch)
        before = list(self.known)
        then_case = self.visit(branch.then_case)
        self.known = list(before)
        else_case = None if branch.else_case is None else self.visit(branch.else_case)
        self.known = before
        self.forget(written)
        if (
            condition is branch.condition
            and then_case is branch.then_case
            and else_case is branch.else_case
        ):
            return branch
        return IfThenElse(condition, then_case, else_case, branch.span)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        value, body = self.value(let.value), self.visit(let.body)
        self.forget(set(), let.var)
        if value is let.value and body is let.body:
            return let
        return LetStmt(let.var, value, body, let.span)


def with_known_values(func: PrimFunc, everywhere: bool, conditions: bool) -> PrimFunc:
    """Return ``func`` with constants in place of loads of elements that are known to hold them.

    ``everywhere``: in all expressions. ``conditions``: in conditions that become constant.
    """
    return func.with_body(_Follower(everywhere, conditions).visit(func.body))
