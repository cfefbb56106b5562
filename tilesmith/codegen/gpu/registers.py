"""Finds the loops that have to be unrolled so that a thread's arrays can be kept in registers.

Registers have no addresses: an array in the scope "local" lives in them only if each index is a
constant once loops are unrolled; else it lies in memory, which is a hundred times slower.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, IntImm, PrimExpr, Var
from tilesmith.ir.queries import mentions
from tilesmith.tir import stmt as tir
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.register_operands import register_operands

__all__ = ["indexes_registers"]

LARGEST_EXTENT = 64
"""Longer loops stay: their arrays would not fit into registers."""


def indexes_registers(loop: tir.For) -> bool:
    """True if a serial loop of few iterations computes indices of a thread's own arrays."""
    if loop.kind is not tir.ForKind.SERIAL or not isinstance(loop.extent, IntImm):
        return False
    if loop.extent.value > LARGEST_EXTENT:
        return False
    derived: set[Var] = {loop.loop_var}
    waiting: list[Any] = [loop.body]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or node.is_leaf:
            continue
        seen.add(id(node))
        if isinstance(node, tir.LetStmt):
            if mentions(node.value, derived):
                derived.add(node.var)
            waiting += [node.value, node.body]
            continue
        if isinstance(node, (BufferLoad, tir.BufferStore)):
            scope = node.buffer.data.storage_scope.partition(".")[0]
            if scope == "local" and mentions(node.indices, derived):
                return True
        if isinstance(node, Call) and mentions(_register_numbers(node), derived):
            return True
        if isinstance(node, (PrimExpr, tir.Stmt)):
            node.push_children(waiting)
    return False


def _register_numbers(call: Call) -> list[PrimExpr]:
    """Return the arguments of a call that say which of a thread's registers it takes, or which
    fragments of its warp; none if it takes none.
    """
    operands = register_operands(call)
    if operands:
        return [call.args[operand.place + 1] for operand in operands]
    pointers = [arg for arg in call.args if isinstance(arg, Var) and arg.dtype.is_handle]
    takes = any(one.storage_scope.startswith(("local", "wmma")) for one in pointers)
    return list(call.args) if takes else []
