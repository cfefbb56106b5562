"""Decides which pipeline lowers a function."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    AttrStmt,
    Block,
    BufferRealize,
    For,
    ForKind,
    ProducerRealize,
    ProducerStore,
    Stmt,
)

__all__ = ["ProgramKind", "program_kind"]

PIPELINE = "software_pipeline_stage"
CLASSIC = "from_legacy_te_schedule"
_CLASSIC_STATEMENTS = (BufferRealize, ProducerRealize, ProducerStore)


class ProgramKind(Enum):
    """Kinds of programs that are lowered differently."""

    BLOCKS = "blocks"
    THREADS = "blocks on threads, or with pipelines"
    CLASSIC = "classic loops"


def program_kind(func: Any) -> ProgramKind:
    """Return the kind: blocks (or plain loops), the same on threads or pipelined, or loops that
    realize buffers.

    A function says that it comes from a classic schedule by the attribute
    ``from_legacy_te_schedule``, or by its statements.
    """
    if not isinstance(func, PrimFunc):
        return ProgramKind.BLOCKS
    if func.attrs.get(CLASSIC):
        return ProgramKind.CLASSIC
    return _kind_of(func.body)


_ATTRIBUTES = ("thread_extent", "virtual_thread", "double_buffer_scope")


def _needs_threads(stmt: Any) -> bool:
    """Return whether a statement is bound to threads or pipelined."""
    if isinstance(stmt, For):
        return stmt.kind is ForKind.THREAD_BINDING or PIPELINE in stmt.annotations
    if isinstance(stmt, AttrStmt):
        return stmt.attr_key in _ATTRIBUTES
    return isinstance(stmt, Block) and "double_buffer_scope" in stmt.annotations


def _kind_of(stmt: Any) -> ProgramKind:
    if isinstance(stmt, _CLASSIC_STATEMENTS):
        return ProgramKind.CLASSIC
    kind = ProgramKind.BLOCKS
    if _needs_threads(stmt):
        kind = ProgramKind.THREADS
    for child in stmt.children():
        if isinstance(child, Stmt):
            found = _kind_of(child)
            if found is ProgramKind.CLASSIC:
                return found
            if found is ProgramKind.THREADS:
                kind = found
    return kind
