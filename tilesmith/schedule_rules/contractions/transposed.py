"""Transposes an operand of a contraction that both operands run along, so that it gets tiles.

    for i, j, k: Y[i, j] += A[i, k] * B[j, k]
  becomes
    for k, j: T[k, j] = B[j, k]
    for i, j, k: Y[i, j] += A[i, k] * T[k, j]

The copy pays off where enough rows of ``A`` use it.
"""

from __future__ import annotations

from tilesmith.ir import IntImm, PrimExpr, Var
from tilesmith.ir.queries import mentions
from tilesmith.schedule_rules.loops import iterator_extent
from tilesmith.tir import Block, BufferLoad, BufferStore, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = ["transpose_operand"]

_FEWEST_ROWS = 16
_FEWEST_COLUMNS = 16


def transpose_operand(sch: Schedule, block: BlockRV) -> bool:
    """Transpose the operand that runs along the reduced axis instead of the last axis of the
    result; return whether there is one.
    """
    node: Block = sch.get(block)
    found = _operand(node)
    if found is None:
        return False
    load, column, row = found
    number = next(k for k, one in enumerate(node.reads) if one.buffer is load.buffer)
    copy = sch.cache_read(block, number, "global")

    def turned(*indices: Var) -> list[Var]:
        order = list(indices)
        order[column], order[row] = order[row], order[column]
        return order

    sch.transform_layout(copy, ("write", 0), turned)
    return True


def _operand(block: Block) -> tuple[BufferLoad, int, int] | None:
    """Return the operand with the places of the column and of the reduced axis among its indices;
    None if there is not exactly one, or too few rows or columns use it.
    """
    store = block.body
    if not isinstance(store, BufferStore) or not store.indices:
        return None
    last = store.indices[-1]
    reduced = [one.var for one in block.iter_vars if one.iter_type == IterVar.CommReduce]
    operands = [one for one in loads(store.value) if one.buffer is not store.buffer]
    if not isinstance(last, Var) or len(reduced) != 1 or len(operands) != 2:
        return None
    along = [one for one in operands if mentions(one.indices, {last})]
    if len(along) != 1 or operands[0].buffer is operands[1].buffer:
        return None
    (load,) = along
    if not all(isinstance(index, (Var, IntImm)) for index in load.indices):
        return None
    column, row = _place(load.indices, last), _place(load.indices, reduced[0])
    if row != len(load.indices) - 1 or column < 0:
        return None
    rows = 1
    for one in block.iter_vars:
        if not mentions([*load.indices], {one.var}):
            rows *= iterator_extent(one) or 0
        elif one.var is last and (iterator_extent(one) or 0) < _FEWEST_COLUMNS:
            return None
    return (load, column, row) if rows >= _FEWEST_ROWS else None


def _place(indices: tuple[PrimExpr, ...], variable: Var) -> int:
    found = [k for k, index in enumerate(indices) if index is variable]
    return found[0] if len(found) == 1 else -1
