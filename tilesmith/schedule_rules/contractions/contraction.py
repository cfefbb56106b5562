"""Recognises contractions (matrix products, convolutions) and plans their register tiles.

The accesses decide which axes form the tile: the last axis of the result is vectorised if one
operand runs along it at stride 1 and the others do not depend on it, or all do. Neighbouring axes
along which the vectors are reused become one axis of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilesmith.arith import Analyzer
from tilesmith.ir import Add, IntImm, Mul, PrimExpr, Var, const
from tilesmith.ir.queries import is_call, mentions
from tilesmith.schedule_rules.contractions.loop_nest import LoopNest, Operand, loop_nest
from tilesmith.schedule_rules.contractions.time_model import Product
from tilesmith.schedule_rules.loops import step
from tilesmith.tir import Block, BufferStore, Cast
from tilesmith.tir.functor import substitute

__all__ = ["Contraction", "find_contraction", "multiplies_and_adds", "panel_operand", "product_of"]

_DOT_PRODUCTS = ("tir.dot_bf16bf16", "tir.dot_i16i16", "tir.dot_i8i8", "tir.dot_u8i8")


@dataclass(frozen=True)
class Contraction:
    """A plan for a contraction: the axis for vectors, the axes for rows, the operands."""

    nest: LoopNest
    vector_axis: int
    """Position of the vectorised iterator among the spatial ones."""
    row_axes: tuple[int, ...]
    """Positions of the iterators whose values share the vectors of an operand; several follow each
    other in all accesses, so that they are one axis."""
    packed_width: int | None
    """The T of a packed operand (``o // T``, ``o % T``)."""

    @property
    def row_axis(self) -> int | None:
        """The innermost of the row axes."""
        return self.row_axes[-1] if self.row_axes else None

    @property
    def streams(self) -> list[Operand]:
        """The operands that run along the vectors."""
        last = self.nest.spatial[self.vector_axis].variable
        return [one for one in self.nest.operands if one.uses(last)]

    @property
    def broadcast(self) -> list[Operand]:
        """The operands of which one element serves a vector."""
        last = self.nest.spatial[self.vector_axis].variable
        return [one for one in self.nest.operands if not one.uses(last)]


def multiplies_and_adds(block: Block) -> bool:
    """Return whether a block sums products, so that it may be a contraction."""
    store = block.body
    if block.init is None or not isinstance(store, BufferStore) or not store.indices:
        return False
    value = store.value
    return isinstance(value, Add) and (_is_product(value.a) or _is_product(value.b))


def _is_product(value: PrimExpr) -> bool:
    plain = value.value if isinstance(value, Cast) else value
    return isinstance(plain, Mul) or is_call(plain, *_DOT_PRODUCTS)


def find_contraction(block: Block) -> Contraction | None:
    """Return the plan for a block that multiplies and adds; None for any other block."""
    nest = loop_nest(block) if multiplies_and_adds(block) else None
    if nest is None:
        return None
    last = nest.store.indices[-1]
    if not isinstance(last, Var):
        return None
    if any(not isinstance(index, (Var, IntImm)) for index in nest.store.indices):
        return None
    places = [place for place, axis in enumerate(nest.spatial) if axis.variable is last]
    if not places:
        return None
    strides = [step(one.load, last) for one in nest.operands]
    if any(step not in (0, 1) for step in strides) or 1 not in strides:
        return None
    streams = [one for one, step in zip(nest.operands, strides) if step == 1]
    rows = _row_axes(nest, streams, last) if 0 in strides else ()
    widths = [one.packed_width(last) for one in streams]
    return Contraction(nest, places[0], rows, next((one for one in widths if one), None))


def _row_axes(nest: LoopNest, streams: list[Operand], last: Var) -> tuple[int, ...]:
    """Return the last axis that the streams do not use, with those before it that continue it."""
    spatial = nest.spatial

    def is_shared(position: int) -> bool:
        axis = spatial[position]
        used = any(one.uses(axis.variable) for one in streams)
        return axis.variable is not last and not used and axis.size != 1

    found = [position for position in range(len(spatial)) if is_shared(position)]
    if not found:
        return ()
    rows = [found[-1]]
    while rows[0] > 0 and is_shared(rows[0] - 1) and _continues(nest, rows[0] - 1):
        rows.insert(0, rows[0] - 1)
    return (*rows,)


def _continues(nest: LoopNest, position: int) -> bool:
    """Return whether an axis and the next one are indices side by side in all accesses, the second
    over a whole axis of the buffer: then both are one axis of the flat buffers.
    """
    first, second = nest.spatial[position], nest.spatial[position + 1]
    accesses = [(nest.store.indices, nest.store.buffer.shape)]
    accesses += [(one.load.indices, one.load.buffer.shape) for one in nest.operands]
    both = {first.variable, second.variable}
    analyzer = Analyzer()
    for given, shape in accesses:
        indices = [_without_unit_axes(nest, index, analyzer) for index in given]
        used = [place for place, index in enumerate(indices) if mentions(index, both)]
        if not used:
            continue
        if len(used) != 2 or used[1] != used[0] + 1:
            return False
        if indices[used[0]] is not first.variable or indices[used[1]] is not second.variable:
            return False
        if not analyzer.can_prove_equal(shape[used[1]], second.extent):
            return False
    return nest.axes.index(second) == nest.axes.index(first) + 1


def _without_unit_axes(nest: LoopNest, index: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """Return an index without the reduced axes of one step: ``y + ry`` of a 1x1 window is ``y``."""
    units = {one.variable for one in nest.reduced if one.size == 1}
    if isinstance(index, Var) or not units or not mentions(index, units):
        return index
    return analyzer.simplify(substitute(index, {one: const(0, one.dtype) for one in units}))


def panel_operand(plan: Contraction) -> Operand | None:
    """Return the operand of the vectors if it can be copied into panels."""
    last = plan.nest.spatial[plan.vector_axis]
    if len(plan.streams) != 1 or not plan.broadcast or plan.packed_width or last.size is None:
        return None
    (stream,) = plan.streams
    if any(one.load.buffer is stream.load.buffer for one in plan.broadcast):
        return None
    indices = stream.load.indices
    is_plain = all(isinstance(index, Var) for index in indices) and len(set(indices)) == len(
        indices
    )
    return stream if is_plain and stream.size and indices[-1] is last.variable else None


def product_of(plan: Contraction) -> Product:
    """Return the sizes of a contraction for the model of time."""
    nest = plan.nest
    spatial = nest.spatial
    vector = spatial[plan.vector_axis]
    row_axes = [spatial[place] for place in plan.row_axes]
    others = [one for one in spatial if one is not vector and one not in row_axes]
    batch = [one for one in others if any(s.uses(one.variable) for s in plan.streams)]
    stream = plan.streams[0]
    rows = math.prod([one.estimate for one in row_axes])
    shared = math.prod([one.estimate for one in others if one not in batch])
    count = math.prod([one.estimate for one in batch])
    left_bytes, row_stride = rows * shared * 4, 0
    if plan.broadcast:
        left = plan.broadcast[0]
        whole = left.size or rows * shared * count * nest.depth
        left_bytes = max(1, whole * left.element_bytes // max(1, count))
        if row_axes:
            row_stride = (left.stride(row_axes[-1].variable) or 0) * left.element_bytes
    depth_stride = stream.stride(nest.reduced[-1].variable) if nest.reduced else 0
    return Product(
        batch=count,
        shared=shared,
        rows=max(1, rows),
        columns=max(1, vector.estimate),
        depth=max(1, nest.depth),
        left_bytes=left_bytes,
        row_stride=row_stride,
        element_bytes=stream.element_bytes,
        depth_stride=(depth_stride or 0) * stream.element_bytes,
        packed_width=plan.packed_width,
        result_bytes=nest.store.buffer.dtype.bits // 8,
        rows_are_known=all(one.size is not None for one in row_axes),
        columns_are_known=vector.size is not None,
        depth_is_known=all(one.size is not None for one in nest.reduced),
        may_pack=panel_operand(plan) is not None,
    )
