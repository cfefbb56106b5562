"""Decides whether a function is unscheduled: still in the form that a compute definition makes.

    for i, j in T.grid(128, 128):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)

Whole-model compilation fuses and schedules only unscheduled functions: any other function is as its
author wants it. Fusion and scheduling both ask this predicate, so they never disagree.
"""

from __future__ import annotations

from tilesmith.ir import Var
from tilesmith.ir.operators import is_const
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, BlockRealize, For, ForKind, SeqStmt, Stmt

__all__ = ["is_unscheduled", "unscheduled_blocks"]


def is_unscheduled(func: PrimFunc) -> bool:
    """Return whether a function is unscheduled in the sense of ``unscheduled_blocks``."""
    return unscheduled_blocks(func) is not None


def unscheduled_blocks(func: PrimFunc) -> list[Block] | None:
    """Return the blocks below the root of an unscheduled function, in order; None for any other
    function.

    Unscheduled means: no attribute ``tir.is_scheduled``; a root block without annotations; below it
    nests of serial loops from 0 without annotations; right under each nest one block, without
    predicate, without match_buffers, allocations or blocks of its own, whose iterators are the
    loop variables in order (an iterator of extent 1 may be 0 instead).
    """
    if func.attrs.get("tir.is_scheduled"):
        return None
    root = func.body
    if not isinstance(root, BlockRealize) or root.iter_values or not is_const(root.predicate, 1):
        return None
    if root.block.annotations or root.block.match_buffers or root.block.init is not None:
        return None
    body = root.block.body
    found: list[Block] = []
    for nest in body.seq if isinstance(body, SeqStmt) else (body,):
        block = _block_of_nest(nest)
        if block is None:
            return None
        found.append(block)
    return found


def _block_of_nest(nest: Stmt) -> Block | None:
    """Return the block under a nest of loops as a compute definition makes it, else None."""
    loops: list[Var] = []
    while isinstance(nest, For):
        if nest.kind is not ForKind.SERIAL or nest.annotations or not is_const(nest.min, 0):
            return None
        loops.append(nest.loop_var)
        nest = nest.body
    if not isinstance(nest, BlockRealize) or not is_const(nest.predicate, 1):
        return None
    block = nest.block
    if block.match_buffers or block.alloc_buffers or not _is_bound_to(nest, loops):
        return None
    return None if _holds_block(block.body) else block


def _is_bound_to(realize: BlockRealize, loops: list[Var]) -> bool:
    """Return whether the values of the iterators are the loop variables in order, and otherwise
    0."""
    expected = iter(loops)
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        if is_const(value, 0) and iterator.dom is not None and is_const(iterator.dom.extent, 1):
            continue
        if next(expected, None) is not value:
            return False
    return next(expected, None) is None


def _holds_block(stmt: Stmt) -> bool:
    """Return whether a statement is or contains a block."""
    if isinstance(stmt, BlockRealize):
        return True
    for child in stmt.children():
        if isinstance(child, Stmt) and _holds_block(child):
            return True
    return False
