"""InstrumentBoundCheckers: inserts run-time checks that each access is in bounds.

    B[i] = A[C[i]]     B[i] = A[T.checked(C[i], C[i] >= 0 and C[i] < 8, "OutOfBoundsError: ...")]

Indices that are proven to be inside are left alone; the others are recorded as fallbacks. Runs
while buffers still have their dimensions, when the option ``tir.instrument_bound_checkers`` is set.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, Not, PrimExpr, Rewriter
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import checked
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call
from tilesmith.support.errors import format_span
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import BufferStore, Stmt
from tilesmith.tir.transform.scoped import ScopedAnalyzer

__all__ = ["instrument_bound_checkers"]


class _Instrumenter(ScopedAnalyzer, Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.place = ""  # where the present statement stands in the user's program
        self.unproven: list[str] = []

    def visit(self, node: Any) -> Any:
        span = getattr(node, "span", None) if isinstance(node, Stmt) else None
        if span is None:
            return super().visit(node)
        outer, self.place = self.place, format_span(span).splitlines()[0]
        new = super().visit(node)
        self.place = outer
        return new

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        load = self.children(load)
        if load.predicate is not None:
            return load  # its lanes may be switched off
        return load.with_fields(indices=self.inside(load.buffer, load.indices, "read"))

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        store = self.children(store)
        if store.predicate is not None:
            return store
        return store.with_fields(indices=self.inside(store.buffer, store.indices, "written"))

    def visit_Call(self, call: Call) -> Call:
        if is_call(call, "tir.prefetch"):
            return call  # it may read beyond the end
        if is_call(call, "tir.address_of") and isinstance(call.args[0], BufferLoad):
            return call.with_fields(args=(self.children(call.args[0]),))  # nothing is read
        if is_call(call, "tir.if_then_else"):
            condition = self.visit(call.args[0])
            true = self.visit_under(condition, call.args[1])
            return call.with_fields(
                args=(condition, true, self.visit_under(Not(condition), call.args[2]))
            )
        return self.children(call)

    def inside(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...], what: str
    ) -> tuple[PrimExpr, ...]:
        """Return the indices of an access with the checks that they need."""
        found = []
        for axis, (index, size) in enumerate(zip(indices, buffer.shape)):
            within = ops.logical_and(index >= 0, index < ops.cast(index.dtype, size))
            # vectors of the user may be predicated
            if index.dtype.lanes == 1 and not self.is_proven(index, size):
                index = checked(index, within, *self.message(buffer, axis, index, size, what))
                shown = ", ".join([str(one) for one in indices])
                self.unproven.append(f"{buffer.name}[{shown}]")
            found.append(index)
        return tuple(found)

    def is_proven(self, index: PrimExpr, size: PrimExpr) -> bool:
        """Return whether an index is within an axis wherever the statement runs."""
        analyzer = self.analyzer
        size = ops.cast(index.dtype, size)
        return bool(analyzer.can_prove(index >= 0) and analyzer.can_prove(index < size))

    def message(
        self, buffer: Buffer, axis: int, index: PrimExpr, size: PrimExpr, what: str
    ) -> list[Any]:
        shape: list[Any] = []
        for number, extent in enumerate(buffer.shape):
            shape += [", " if number else "", ops.cast("int64", extent)]
        return [
            f"OutOfBoundsError: buffer '{buffer.name}' of shape (", *shape,
            f") is {what} outside of axis {axis}: index ", ops.cast("int64", index), " of ",
            ops.cast("int64", size), f"\n  {self.place}" if self.place else "",
        ]  # fmt: skip


@compiler_pass("tir.InstrumentBoundCheckers")
def instrument_bound_checkers(func: PrimFunc) -> PrimFunc:
    """Inserts run-time checks that each access is in bounds.

    Returns ``func`` with checks of the indices that are not proven to be inside of their buffers.
    """
    instrumenter = _Instrumenter()
    body = instrumenter.visit(func.body)
    name = str(func.attrs.get("global_symbol", ""))
    for access in dict.fromkeys(instrumenter.unproven):
        record_fallback("bounds", f"{name}: {access}", "not proven to be in bounds: checked")
    return func.with_body(body)
