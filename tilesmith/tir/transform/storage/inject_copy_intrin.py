"""InjectCopyIntrin: replaces marked copy loops by statements that a user's function makes.

    with T.attr(0, "pragma_dma_copy", 1):       fintrin(source, target, pad_before, pad_after,
        for i, j in T.grid(4, 8):                       pad_value)
            X[i, j] = A[i + 2, j * 2]

The function gets two buffers (views with the strides and the offset of the copy, one axis for each
loop), and gives a statement. Where the copy chooses a constant outside of a region, ``pad_before``
and ``pad_after`` tell for each axis how many elements of the target are padding, and ``pad_value``
with what; they are empty, and None, for a plain copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.arith import Analyzer, detect_clip_bound, detect_linear_equation
from tilesmith.ir import PrimExpr, Select, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import AttrStmt, BufferStore, DeclBuffer, For, Stmt
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["inject_copy_intrin"]


class _CopyInjector(StatementRewriter):
    def __init__(self, key: str, fintrin: Callable[..., Any]) -> None:
        self.key = key if key.startswith("pragma_") else "pragma_" + key
        self.fintrin = fintrin
        self.analyzer = Analyzer()

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key == self.key:
            return self.injected(attribute.body)
        return self.children(attribute)

    def visit_For(self, loop: For) -> Stmt:
        if self.key in loop.annotations:
            kept = {key: value for key, value in loop.annotations.items() if key != self.key}
            return self.injected(loop.with_fields(annotations=kept))
        return self.children(loop)

    def injected(self, stmt: Stmt) -> Stmt:
        """Return the statement that the user's function makes for a copy."""
        loops: list[For] = []
        inner = stmt
        while isinstance(inner, (For, DeclBuffer)):
            if isinstance(inner, For):
                loops.append(inner)
            inner = inner.body
        if not isinstance(inner, BufferStore):
            raise self.no_copy(stmt, "it does not consist of loops around one store")
        condition, load, other = _choice(inner.value)
        if not isinstance(load, BufferLoad):
            raise self.no_copy(stmt, "it does not store what it loads")
        if condition is not None and not ops.is_const(other):
            raise self.no_copy(stmt, "what it stores in the padding is not a constant")
        return self.call(stmt, loops, inner, load, condition, other)

    def no_copy(self, stmt: Stmt, reason: str) -> UnsupportedError:
        return UnsupportedError(
            f"the statement marked '{self.key}' is not a copy: {reason}",
            span=getattr(stmt, "span", None),
        )

    def call(
        self,
        stmt: Stmt,
        loops: list[For],
        store: BufferStore,
        load: BufferLoad,
        condition: PrimExpr | None,
        other: PrimExpr | None,
    ) -> Stmt:
        variables = [loop.loop_var for loop in loops]
        extents = [loop.extent for loop in loops]
        firsts = {loop.loop_var: loop.min for loop in loops}
        before: list[PrimExpr] = []
        after: list[PrimExpr] = []
        shape = list(extents)
        if condition is not None:
            found = detect_clip_bound(condition, variables)
            if not found:
                raise self.no_copy(stmt, "its condition is not a region")
            for number, loop in enumerate(loops):
                low, high = found[2 * number], found[2 * number + 1]
                first = loop.min if _is_none(low) else ops.maximum(low, loop.min)
                last = ops.moved(loop.min + loop.extent, -1)
                stop = last if _is_none(high) else ops.minimum(high, last)
                before.append(self.analyzer.simplify(first - loop.min))
                after.append(self.analyzer.simplify(last - stop))
                shape[number] = self.analyzer.simplify(stop - first + 1)
        target = self.view(store.buffer, store.indices, variables, extents, firsts, stmt)
        starts = {
            var: self.analyzer.simplify(firsts[var] + (before[number] if before else 0))
            for number, var in enumerate(variables)
        }
        source = self.view(load.buffer, load.indices, variables, shape, starts, stmt)
        result = self.fintrin(source, target, before, after, other)
        if not isinstance(result, Stmt):
            raise TypeMismatchError(
                f"the function for '{self.key}' has to give a statement, not a"
                f" {type(result).__name__}"
            )
        return result

    def view(
        self,
        buffer: Buffer,
        indices: tuple[PrimExpr, ...],
        variables: list[Var],
        shape: list[PrimExpr],
        starts: dict[Var, PrimExpr],
        stmt: Stmt,
    ) -> Buffer:
        """Return a view of a buffer with one axis for each loop of a copy."""
        (offset,) = buffer.offset_of(indices)
        found = detect_linear_equation(offset, variables) if variables else [offset]
        if not found:
            raise self.no_copy(stmt, f"the index of '{buffer.name}' is not linear in its loops")
        strides = [self.analyzer.simplify(part) for part in found[:-1]]
        start = self.analyzer.simplify(substitute(offset, starts))
        return decl_buffer(
            shape or [const(1, "int32")],
            buffer.dtype,
            buffer.name,
            data=buffer.data,
            strides=strides or [const(1, "int32")],
            elem_offset=start,
            data_alignment=buffer.data_alignment,
        )


def _choice(value: PrimExpr) -> tuple[PrimExpr | None, PrimExpr, PrimExpr | None]:
    """Return condition, value and padding of the value that a copy stores."""
    if isinstance(value, Select):
        return value.condition, value.true_value, value.false_value
    if is_call(value, "tir.if_then_else"):
        return value.args[0], value.args[1], value.args[2]
    return None, value, None


def _is_none(bound: Any) -> bool:
    return bound is None


@compiler_pass("tir.InjectCopyIntrin")
def inject_copy_intrin(func: PrimFunc, pragma_key: str, fintrin: Callable[..., Any]) -> PrimFunc:
    """Replaces the copies marked ``pragma_key`` by the result of ``fintrin(src, dst, pad_before,
    pad_after, pad_value)``.

    Returns ``func`` with the statements of ``fintrin`` in place of the copies marked
    ``pragma_key``.
    """
    return func.with_body(_CopyInjector(pragma_key, fintrin).visit(func.body))
