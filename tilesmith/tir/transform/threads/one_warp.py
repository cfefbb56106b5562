"""Tells which branches threads of one warp take, whom a barrier of the warp orders.

if tx < 32:                       of 128 threads
    S[tx] = S[tx] + S[tx + 32]
    T.tvm_storage_sync("warp")
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import EQ, LE, LT, And, FloorDiv, IntImm, PrimExpr, Var
from tilesmith.ir.queries import any_node, is_call
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter.program import warp_size_of
from tilesmith.tir.stmt import Stmt

__all__ = ["has_warp_barrier", "takes_one_warp", "waiting_warp"]


def waiting_warp(func: PrimFunc) -> int:
    """Return the threads of a warp, if a target has barriers of warps that stand in branches; 0 if
    it has none: OpenCL's are barriers of the block.
    """
    target = func.attrs.get("target")
    return warp_size_of(func) if target is not None and "cuda" in target.keys else 0


def takes_one_warp(
    condition: PrimExpr, axes: Mapping[Var, int], axis_of: Callable[[Any], Any], size: int
) -> bool:
    """Return whether all threads for which a condition holds are of one warp. ``axes``: the extents
    of the axes of threads; ``axis_of`` gives an axis for each of its variables.
    """
    if is_call(condition, "tir.likely"):
        return takes_one_warp(condition.args[0], axes, axis_of, size)
    if isinstance(condition, And):
        return takes_one_warp(condition.a, axes, axis_of, size) or takes_one_warp(
            condition.b, axes, axis_of, size
        )
    if not isinstance(condition, (LT, LE, EQ)) or not isinstance(condition.b, IntImm):
        return False
    value, bound = condition.a, condition.b.value
    if isinstance(condition, EQ):
        is_narrow = True
        if isinstance(value, FloorDiv) and isinstance(value.b, IntImm):
            is_narrow = size % value.b.value == 0 if value.b.value > 0 else False
            value = value.a
    else:
        is_narrow = bound + isinstance(condition, LE) <= size
    axis = axis_of(value)
    others = [extent for one, extent in axes.items() if one is not axis]
    return is_narrow and axis in axes and all(extent == 1 for extent in others)


def has_warp_barrier(stmt: Stmt) -> bool:
    """Return whether a statement has a barrier of the warp in it."""
    return any_node(
        stmt,
        lambda node: (
            is_call(node, "tir.tvm_storage_sync")
            and str(getattr(node.args[0], "value", "")) == "warp"
        ),
    )
