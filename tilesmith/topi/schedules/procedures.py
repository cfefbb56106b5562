"""Moves operators that are written as statements (sorting, scans, updates in place) to a device.

    for row in range(5):                    for only in T.parallel(1):
        total[row] = ...                        for row in range(5):
                                                    total[row] = ...

Parallel loops become blocks of threads (`BindParallelLoops`). A statement without one is run by one
thread. What calls functions of the host stays there, and so does what launches threads itself.
"""

from __future__ import annotations

from tilesmith.ir import Var, const
from tilesmith.ir.queries import any_node, called_name
from tilesmith.te import ExternOp, Operation, Schedule
from tilesmith.te.schedule.replacement import replace_operations
from tilesmith.tir.queries import has_loop_of_kind, statements
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    For,
    ForKind,
    LetStmt,
    SeqStmt,
    Stmt,
    stmt_seq,
)

__all__ = ["move_to_device"]


def move_to_device(schedule: Schedule) -> None:
    """Let threads run all statements of a schedule's extern operations that may run there."""
    replaced: dict[Operation, Operation] = {}
    for stage in schedule.stages:
        op = stage.op
        if isinstance(op, ExternOp) and _is_of_device(op.body):
            body = _on_threads(op.body)
            if body is not op.body:
                replaced[op] = ExternOp(
                    op.name, op.tag, op.attrs, op.inputs, op.input_placeholders,
                    op.output_placeholders, body,
                )  # fmt: skip
    if replaced:
        replace_operations(schedule, replaced)


def _is_of_device(body: Stmt) -> bool:
    """Return whether a statement launches no threads, and calls no functions of the host."""
    launches = any(
        isinstance(one, AttrStmt) and one.attr_key == "thread_extent"
        or isinstance(one, For) and one.kind is ForKind.THREAD_BINDING
        for one in statements(body)
    )  # fmt: skip
    return not launches and not any_node(body, _calls_host)


def _calls_host(node: object) -> bool:
    name = called_name(node).removeprefix("tir.")
    return "packed" in name or name in ("call_extern", "call_pure_extern")


def _on_threads(stmt: Stmt) -> Stmt:
    """Let one thread run what has no parallel loops."""
    if not has_loop_of_kind(stmt, ForKind.PARALLEL):
        zero, one = const(0, "int32"), const(1, "int32")
        return For(Var("only", "int32"), zero, one, ForKind.PARALLEL, stmt)
    if isinstance(stmt, Allocate | AttrStmt | DeclBuffer | LetStmt):
        return stmt.with_fields(body=_on_threads(stmt.body))
    if isinstance(stmt, For) and stmt.kind is ForKind.SERIAL:
        return stmt.with_fields(body=_on_threads(stmt.body))
    if isinstance(stmt, SeqStmt):
        return stmt_seq([_on_threads(part) for part in stmt.seq])
    return stmt
