"""SplitBranchesAtBarriers: lets the barriers of a block stand outside of branches.

    if n > 4:                                   if n > 4:
        S[tx] = A[tx]                               S[tx] = A[tx]
        T.tvm_storage_sync("shared")            T.tvm_storage_sync("shared")
        B[tx] = S[31 - tx]                      if n > 4:
                                                    B[tx] = S[31 - tx]

A barrier within a branch is one that all threads of a block take or none, so it may as well be
passed where the branch is not taken. That costs a barrier then; but compilers that run the threads
of a block one after the other (PoCL) copy everything behind each barrier that stands in a branch,
so that the time they take doubles with each. It is done for OpenCL alone, and where the condition
reads no memory. Barriers in loops within a branch stay.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, Not, PrimExpr
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, is_call
from tilesmith.ir.visitor import Rewriter
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    AttrStmt,
    Evaluate,
    IfThenElse,
    SeqStmt,
    Stmt,
    stmt_list,
    stmt_seq,
)

__all__ = ["split_branches_at_barriers"]

_OF_BLOCKS = ("shared", "shared.dyn")
_WAITS = ("async_wait_queue_scope", "async_wait_inflight_count")


def _is_barrier(stmt: Stmt) -> bool:
    """Return whether a statement is a barrier, maybe behind a wait for copies."""
    while isinstance(stmt, AttrStmt) and stmt.attr_key in _WAITS:
        stmt = stmt.body
    if not isinstance(stmt, Evaluate) or not is_call(stmt.value, "tir.tvm_storage_sync"):
        return False
    return str(stmt.value.args[0].value) in _OF_BLOCKS  # type: ignore[attr-defined]


def _parts(stmt: Stmt) -> list[Stmt]:
    """Return the statements that a statement is a sequence of, its barriers among them."""
    if isinstance(stmt, SeqStmt):
        return [part for one in stmt_list(stmt) for part in _parts(one)]
    if isinstance(stmt, AttrStmt) and stmt.attr_key in _WAITS:
        first, *later = _parts(stmt.body)
        if any(_is_barrier(part) for part in (first, *later)):
            return [stmt.with_fields(body=first), *later]  # what waits, waits before all of them
    return [stmt]


def _is_steady(condition: PrimExpr) -> bool:
    """Return whether a condition is the same wherever it is evaluated: it reads no memory."""
    return not any_node(
        condition,
        lambda node: (
            isinstance(node, BufferLoad)
            or (isinstance(node, Call) and not is_call(node, "tir.likely"))
        ),
    )


def _guarded(condition: PrimExpr, stmt: Stmt, span: Any) -> list[Stmt]:
    """Return a statement under a condition, split at its barriers."""
    made: list[Stmt] = []
    group: list[Stmt] = []
    for part in [*_parts(stmt), None]:
        if part is not None and not _is_barrier(part):
            group.append(part)
            continue
        if group:
            made.append(IfThenElse(condition, stmt_seq(*group), None, span=span))
        group = []
        if part is not None:
            made.append(part)
    return made


class _Splitter(Rewriter):
    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        node = self.children(node)
        cases = [node.then_case, *([] if node.else_case is None else [node.else_case])]
        with_barrier = any(_is_barrier(part) for case in cases for part in _parts(case))
        if not with_barrier or not _is_steady(node.condition):
            return node
        found = _guarded(node.condition, node.then_case, node.span)
        if node.else_case is not None:
            found += _guarded(Not(node.condition), node.else_case, node.span)
        return stmt_seq(*found, span=node.span)


@compiler_pass("tir.SplitBranchesAtBarriers")
def split_branches_at_barriers(func: PrimFunc) -> PrimFunc:
    """Returns ``func`` with the barriers of branches that all threads of a block take outside of
    them.
    """
    return func.with_body(_Splitter().visit(func.body))
