"""Gives memory that is allocated inside the loop one copy per lane."""

from __future__ import annotations

from tilesmith.ir import Add, Mul, PrimExpr, Ramp, Var, const
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.transform.loops.vectorizer.lanes import Lanes

__all__ = ["LaneMemory"]


class LaneMemory:
    """The ``pointers`` to memory with one copy per lane, and the buffers over it.

    The copies of an element lie beside each other, so that an access by all lanes is a Ramp.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.pointers: set[Var] = set()
        self._buffers: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer with one copy per lane, if its memory has them."""
        if buffer.data not in self.pointers:
            return buffer
        found = self._buffers.get(buffer)
        if found is None:
            shape = (*buffer.shape[:-1], buffer.shape[-1] * self._lanes.count)
            found = self._buffers[buffer] = buffer.with_fields(shape=shape)
        return found

    def place(self, index: PrimExpr) -> PrimExpr:
        """Return the indices of the element at ``index`` in the copies of all lanes."""
        lanes = self._lanes
        number = const(lanes.count, index.dtype.element)
        own = Ramp(const(0, number.dtype), const(1, number.dtype), lanes.count)
        scaled = lanes.combined(Mul, index, number)
        if scaled is None:
            scaled = Mul(index, lanes.wide(number))
        place = lanes.combined(Add, scaled, own)
        return Add(lanes.wide(scaled), own) if place is None else place
