"""Which way through lowering a function takes."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    AttrStmt,
    BufferRealize,
    For,
    ForKind,
    ProducerRealize,
    ProducerStore,
    Stmt,
)

__all__ = ["ProgramKind", "program_kind"]

CLASSIC = "from_legacy_te_schedule"
_CLASSIC_STATEMENTS = (BufferRealize, ProducerRealize, ProducerStore)


class ProgramKind(Enum):
    """What a program is made of."""

    BLOCKS = "blocks"
    THREADS = "blocks on threads"
    CLASSIC = "classic loops"


def program_kind(func: Any) -> ProgramKind:
    """Blocks (or plain loops), the same bound to threads, or classic loops that realize buffers.

    A function says that it comes from a classic schedule by the attribute
    ``from_legacy_te_schedule``, or by its statements.
    """
    if not isinstance(func, PrimFunc):
        return ProgramKind.BLOCKS
    if func.attrs.get(CLASSIC):
        return ProgramKind.CLASSIC
    return _kind_of(func.body)


def _kind_of(stmt: Any) -> ProgramKind:
    if isinstance(stmt, _CLASSIC_STATEMENTS):
        return ProgramKind.CLASSIC
    kind = ProgramKind.BLOCKS
    if isinstance(stmt, For) and stmt.kind is ForKind.THREAD_BINDING:
        kind = ProgramKind.THREADS
    elif isinstance(stmt, AttrStmt) and stmt.attr_key in ("thread_extent", "virtual_thread"):
        kind = ProgramKind.THREADS
    for child in stmt.children():
        if isinstance(child, Stmt):
            found = _kind_of(child)
            if found is ProgramKind.CLASSIC:
                return found
            if found is ProgramKind.THREADS:
                kind = found
    return kind
