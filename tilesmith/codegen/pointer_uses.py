"""Finds what a function does with the memory behind its pointers."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.ir import Call, Var
from tilesmith.ir.queries import is_call
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import BufferStore, DeclBuffer

__all__ = ["PointerUses", "pointer_uses"]


class PointerUses(NamedTuple):
    """The pointers whose memory a function writes, those that it reads, and those that it hands on
    to calls.
    """

    written: set[Var]
    read: set[Var]
    escaped: set[Var]

    @property
    def exchanged(self) -> set[Var]:
        """The pointers through which threads may exchange values.

        What one thread writes another may read behind a barrier. If such a pointer were restricted
        ("noalias"), the compiler would be free to take the value from before the barrier.
        """
        return (self.written & self.read) | self.escaped


def pointer_uses(function: PrimFunc) -> PointerUses:
    """Return what a function does with the memory behind its pointers."""
    uses = PointerUses(set(), set(), set())
    waiting: list[Any] = [function.body]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, BufferLoad):
            uses.read.add(node.buffer.data)
            waiting += node.indices
            if node.predicate is not None:
                waiting.append(node.predicate)
        elif isinstance(node, DeclBuffer):
            waiting.append(node.body)
        elif isinstance(node, Var):
            if node.dtype.is_handle:
                uses.escaped.add(node)
        else:
            if isinstance(node, BufferStore):
                uses.written.add(node.buffer.data)
            elif isinstance(node, Call) and is_call(node, "tir.address_of"):
                loads = [arg for arg in node.args if isinstance(arg, BufferLoad)]
                uses.escaped.update([load.buffer.data for load in loads])
            if not node.is_leaf:
                node.push_children(waiting)
    return uses
