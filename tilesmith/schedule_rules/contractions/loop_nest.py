"""Analyses a block that reduces: its axes, and how each operand moves along them.

    for i, j, k: Y[i, j] += A[i, k] * B[k, j]        A: i → 64, k → 1 (elements), not along j
                                                     B: k → 96, j → 1, not along i: reused along it

Rules share it. Nothing is told by names: the iterators and the indices of the accesses decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilesmith.arith import Analyzer
from tilesmith.ir import FloorDiv, FloorMod, IntImm, PrimExpr, Var, const
from tilesmith.ir.queries import mentions
from tilesmith.tir import Block, BufferLoad, BufferStore, IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads

__all__ = ["TYPICAL", "Axis", "LoopNest", "Operand", "loop_nest"]

TYPICAL = 1024
"""What a symbolic extent counts as where work and traffic are estimated."""


@dataclass(frozen=True, eq=False)
class Axis:
    """An iterator of a block."""

    variable: Var
    extent: PrimExpr
    is_reduced: bool

    @property
    def size(self) -> int | None:
        """The number of its values; None if it is symbolic."""
        return self.extent.value if isinstance(self.extent, IntImm) else None

    @property
    def estimate(self) -> int:
        """The number of its values, or what a symbolic one counts as."""
        return TYPICAL if self.size is None else self.size


@dataclass(frozen=True, eq=False)
class Operand:
    """A load of a block from another buffer than that of its result."""

    load: BufferLoad

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return max(1, self.load.buffer.dtype.bits * self.load.buffer.dtype.lanes // 8)

    @property
    def size(self) -> int | None:
        """The number of elements of the buffer; None if it is symbolic."""
        sizes = [one.value for one in self.load.buffer.shape if isinstance(one, IntImm)]
        return math.prod(sizes) if len(sizes) == len(self.load.buffer.shape) else None

    def uses(self, variable: Var) -> bool:
        """Return whether the operand moves along an axis; it is reused along all others."""
        return mentions(self.load.indices, {variable})

    def packed_width(self, variable: Var) -> int | None:
        """Return the T of an operand in panels along an axis: ``[…, o // T, …, o % T]``."""
        inner = self.load.indices[-1] if self.load.indices else None
        if isinstance(inner, FloorMod) and inner.a is variable and isinstance(inner.b, IntImm):
            outer = [one for one in self.load.indices[:-1] if mentions(one, {variable})]
            if all(isinstance(one, FloorDiv) and one.a is variable for one in outer):
                return inner.b.value
        return None

    def stride(self, variable: Var) -> int | None:
        """Return how many elements a step along an axis moves in the flat buffer (along panels:
        within one); None if that varies or is symbolic.
        """
        if not self.uses(variable):
            return 0
        if self.packed_width(variable) is not None:
            return 1
        analyzer, total, size = Analyzer(), 0, 1
        for index, extent in zip(reversed(self.load.indices), reversed(self.load.buffer.shape)):
            if mentions(index, {variable}):
                if size == 0:  # a symbolic axis lies inside of this one
                    return None
                moved = substitute(index, {variable: variable + const(1, variable.dtype)})
                distance = analyzer.simplify(moved - index)
                if not isinstance(distance, IntImm):
                    return None
                total += distance.value * size
            size = size * extent.value if isinstance(extent, IntImm) else 0
        return total


@dataclass(frozen=True, eq=False)
class LoopNest:
    """The axes of a block with one store, and its operands."""

    axes: tuple[Axis, ...]
    operands: tuple[Operand, ...]
    store: BufferStore

    @property
    def spatial(self) -> list[Axis]:
        """The axes of the result."""
        return [axis for axis in self.axes if not axis.is_reduced]

    @property
    def reduced(self) -> list[Axis]:
        """The axes that are summed over."""
        return [axis for axis in self.axes if axis.is_reduced]

    @property
    def depth(self) -> int:
        """The estimated number of steps of the reduction."""
        return math.prod([axis.estimate for axis in self.reduced])


def loop_nest(block: Block) -> LoopNest | None:
    """Return the analysis of a block that is one store; None for any other."""
    store = block.body
    if not isinstance(store, BufferStore) or any(one.dom is None for one in block.iter_vars):
        return None
    axes = [
        Axis(one.var, one.dom.extent, one.iter_type == IterVar.CommReduce)
        for one in block.iter_vars
        if one.dom is not None
    ]
    found = [load for load in loads(store.value) if load.buffer is not store.buffer]
    return LoopNest((*axes,), (*[Operand(load) for load in found],), store)
