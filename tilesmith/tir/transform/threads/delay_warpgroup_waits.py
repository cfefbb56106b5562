"""DelayWarpgroupWaits: begins copies in the background while four warps still multiply.

    T.ptx_wgmma_commit_group()                  T.ptx_wgmma_commit_group()
    T.ptx_wgmma_wait_group(0)                   for i in range(4):
    for i in range(4):                              T.ptx_cp_async(...)
        T.ptx_cp_async(...)                     T.ptx_wgmma_wait_group(0)

A wait for products moves behind the copies in the background that follow it without a barrier.
These touch neither registers nor the tiles that are read: ThreadSync, which runs before, puts a
barrier between a product and a copy to the same place, as each product reads what other threads
copied. It runs after InjectPTXAsyncCopy, which makes these copies.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, called_name, is_call, nodes
from tilesmith.ir.visitor import Rewriter
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    LetStmt,
    SeqStmt,
    Stmt,
    stmt_list,
    stmt_seq,
)

__all__ = ["delay_warpgroup_waits"]

_WAIT = "tir.ptx_wgmma_wait_group"
_COPIES = ("tir.ptx_cp_async", "tir.ptx_commit_group")
_AROUND_COPIES = ("async_commit_queue_scope", "async_scope")


def _only_copies(stmt: Stmt) -> bool:
    """Return whether a statement does nothing but begin copies in the background."""
    if isinstance(stmt, AttrStmt):
        return stmt.attr_key in _AROUND_COPIES and _only_copies(stmt.body)
    if isinstance(stmt, (For, LetStmt)):
        values = (stmt.extent,) if isinstance(stmt, For) else (stmt.value,)
        return not any(_is_uncertain(value) for value in values) and _only_copies(stmt.body)
    if isinstance(stmt, SeqStmt):
        return all(_only_copies(inner) for inner in stmt_list(stmt))
    return isinstance(stmt, Evaluate) and called_name(stmt.value) in _COPIES and not any(
        isinstance(node, BufferLoad) for node in nodes(stmt, BufferLoad)
    )  # fmt: skip


def _is_uncertain(value: Any) -> bool:
    return any_node(value, lambda node: isinstance(node, (BufferLoad, Call)))


def _without_last_wait(stmt: Stmt) -> tuple[Stmt | None, Stmt | None]:
    """Return a statement without the wait that it ends with, and the wait; None where there is
    nothing.
    """
    if isinstance(stmt, Evaluate) and is_call(stmt.value, _WAIT):
        return None, stmt
    if isinstance(stmt, SeqStmt):
        *others, last = stmt_list(stmt)
        kept, wait = _without_last_wait(last)
        if wait is None:
            return stmt, None
        return stmt_seq(*others, *([] if kept is None else [kept])), wait
    if isinstance(stmt, (AttrStmt, LetStmt, DeclBuffer)):
        kept, wait = _without_last_wait(stmt.body)
        if wait is not None and kept is not None:
            return stmt.with_fields(body=kept), wait
    return stmt, None


class _Delay(Rewriter):
    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        node = self.children(node)
        found, wait = [], None
        for stmt in stmt_list(node):
            if wait is not None and not _only_copies(stmt):
                found.append(wait)
                wait = None
            kept, ending = _without_last_wait(stmt)
            if ending is not None:
                wait = ending
            if kept is not None:
                found.append(kept)
        if wait is not None:
            found.append(wait)
        return stmt_seq(*found, span=node.span)


@compiler_pass("tir.DelayWarpgroupWaits")
def delay_warpgroup_waits(func: PrimFunc) -> PrimFunc:
    """Begins copies in the background while four warps still multiply.

    Returns ``func`` with waits for ``ptx_wgmma`` behind the copies that follow.
    """
    if not any_node(func.body, lambda node: is_call(node, _WAIT)):
        return func
    return func.with_body(_Delay().visit(func.body))
