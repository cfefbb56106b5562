"""Where the intermediate tensors of a graph function lie in its workspace.

A storage lives from the first to the last step that touches it. Storages of known size are placed
one after the other, in order of their first step, each at the lowest offset where it overlaps no
storage that lives at the same time; those of symbolic size follow behind, without sharing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Call, IntImm, PrimExpr, Var, const
from tilesmith.ir.operators import floordiv

__all__ = ["ALIGNMENT", "Storage", "plan_workspace"]

ALIGNMENT = 64


class Storage:
    """The memory of a tensor: in the workspace, or outside of it (an input, output or constant)."""

    __slots__ = ("base", "first", "is_workspace", "last", "offset", "pointer_of", "size")

    def __init__(self, size: Any, pointer_of: Callable[[], PrimExpr] | None) -> None:
        self.size = size
        self.pointer_of = pointer_of
        self.is_workspace = pointer_of is None
        self.first: int | None = None
        self.last = 0
        self.offset: PrimExpr = const(0, "int64")
        self.base: Var | None = None

    @staticmethod
    def workspace(size: PrimExpr) -> Storage:
        """Memory of so many bytes, to be placed in the workspace."""
        return Storage(size, None)

    @staticmethod
    def outside(pointer_of: Callable[[], PrimExpr]) -> Storage:
        """Memory that somebody else provides."""
        return Storage(None, pointer_of)

    def become(self, pointer_of: Callable[[], PrimExpr]) -> None:
        """Lie outside of the workspace after all: in an output."""
        self.pointer_of = pointer_of
        self.is_workspace = False

    def touch(self, step: int) -> None:
        """Live at a step."""
        self.first = step if self.first is None else min(self.first, step)
        self.last = max(self.last, step)

    def pointer(self) -> PrimExpr:
        """The address, once the workspace is planned."""
        if self.pointer_of is not None:
            return self.pointer_of()
        return Call("handle", "tir.handle_add_byte_offset", (self.base, self.offset))


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan_workspace(storages: list[Storage], analyzer: Analyzer) -> PrimExpr:
    """Give each storage its offset; the number of bytes that the workspace needs."""
    fixed = [storage for storage in storages if isinstance(storage.size, IntImm)]
    placed: list[tuple[Storage, int, int]] = []
    total = 0
    for storage in sorted(fixed, key=lambda one: (one.first, -one.size.value)):
        size = _rounded(storage.size.value)
        offset = 0
        for other, start, end in sorted(placed, key=lambda row: row[1]):
            alive = other.last >= storage.first and storage.last >= other.first  # type: ignore[operator]
            if alive and start < offset + size and end > offset:
                offset = end
        placed.append((storage, offset, offset + size))
        storage.offset = const(offset, "int64")
        total = max(total, offset + size)
    end: PrimExpr = const(total, "int64")
    for storage in storages:
        if not isinstance(storage.size, IntImm):
            storage.offset = end
            rounded = floordiv(storage.size + (ALIGNMENT - 1), ALIGNMENT) * ALIGNMENT
            end = analyzer.simplify(end + rounded)
    return end
