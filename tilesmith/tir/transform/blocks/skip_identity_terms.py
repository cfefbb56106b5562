"""SkipIdentityTerms: does not add the zeros of a padding to a sum, where a block asks for it.

    with T.block("C"):                                  with T.block("C"):
        T.block_attr({"skip_identity_terms": True})         if i + k >= 1 and i + k < 9:
        C[i] = C[i] + T.if_then_else(                           C[i] = C[i] + A[i + k - 1] * W[k]
            i + k >= 1 and i + k < 9, A[i + k - 1], 0) * W[k]

So a condition of a whole window row is decided once for all elements of a tile, instead of with
each load. A zero times an infinite weight counts as zero. The same holds for the least value in a
maximum. Parts of a condition become statements of their own, for HoistIfThenElse to move.
"""

from __future__ import annotations

import math

from tilesmith.ir import Add, And, Cast, FloatImm, IntImm, Max, Mul, PrimExpr, Rewriter
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call
from tilesmith.ir.structural import structural_equal
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, BufferStore, IfThenElse, Stmt

__all__ = ["SKIPS", "skip_identity_terms"]

SKIPS = "skip_identity_terms"
"""The annotation of a block whose terms may be skipped where they change nothing."""


def _conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    if isinstance(condition, And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]


def _value(expr: PrimExpr) -> float | None:
    return expr.value if isinstance(expr, (IntImm, FloatImm)) else None


def _is_lowest(value: float | None, dtype: DataType) -> bool:
    """Return whether no value of a dtype is less than a value."""
    if value is None or not dtype.is_float:
        return False
    return value == -math.inf or (dtype == "float32" and value <= -3.4028234e38)


def _split(term: PrimExpr, is_sum: bool) -> tuple[PrimExpr, PrimExpr] | None:
    """Return the condition under which a term counts, and the term then; None if it always
    does.
    """
    if is_call(term, "tir.if_then_else"):
        condition, then, other = term.args
        value = _value(other)
        skips = value == 0 if is_sum else _is_lowest(value, term.dtype)
        return (condition, then) if skips else None
    if isinstance(term, Cast) and (is_sum or term.dtype.bits <= term.value.dtype.bits):
        inner = _split(term.value, is_sum)
        return inner and (inner[0], Cast(term.dtype, inner[1]))
    if isinstance(term, Mul) and is_sum:
        if (found := _split(term.a, True)) is not None:
            return found[0], found[1] * term.b
        if (found := _split(term.b, True)) is not None:
            return found[0], term.a * found[1]
    return None


def _is_old_value(expr: PrimExpr, store: BufferStore) -> bool:
    return (
        isinstance(expr, BufferLoad)
        and expr.buffer is store.buffer
        and structural_equal(expr.indices, store.indices)
    )


def _guarded(store: BufferStore) -> Stmt:
    value = store.value
    if not isinstance(value, (Add, Max)) or not _is_old_value(value.a, store):
        return store
    found = _split(value.b, isinstance(value, Add))
    if found is None:
        return store
    condition, term = found
    made: Stmt = store.with_fields(value=type(value)(value.a, term))
    for one in reversed(_conjuncts(condition)):
        made = IfThenElse(one, made)
    return made


class _Skipper(Rewriter):
    def visit_Block(self, block: Block) -> Block:
        block = self.children(block)
        if SKIPS not in block.annotations:
            return block
        kept = {key: value for key, value in block.annotations.items() if key != SKIPS}
        body = block.body
        made = _guarded(body) if isinstance(body, BufferStore) else body
        return block.with_fields(annotations=kept, body=made)


@compiler_pass("tir.SkipIdentityTerms")
def skip_identity_terms(func: PrimFunc) -> PrimFunc:
    """Skips the terms of annotated reductions that change nothing.

    Returns ``func`` with conditions around these terms.
    """
    return func.with_body(_Skipper().visit(func.body))
