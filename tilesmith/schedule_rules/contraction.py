"""Schedules contractions (matrix products, convolutions) by register tiles under their consumer.

    for n, y, x, o, ry, rx, c: Y[n, y, x, o] += A[…] * W[o // T, ry, rx, c, o % T]
    for n, y, x, o: Z[n, y, x, o] = relu(Y[n, y, x, o] + bias[o])
  becomes
    parallel for n, o_0, y:
        for x_0:
            Y[P, T] = 0                                     (registers)
            for ry, rx, c: Y[p, t] += A[…] * W[…]            (p unrolled, t in vectors)
            Z[…] = relu(Y[p, t] + bias[…])

The consumer (or a copy, if there is none) is tiled, and the contraction is computed under its
tiles. The accesses decide which axes form the tile: the last axis of the result is vectorised if
one operand runs along it at stride 1 and the others do not depend on it, or all do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Add, FloorMod, IntImm, Mul, PrimExpr, Var
from tilesmith.ir.queries import is_call, mentions, variables
from tilesmith.schedule_rules.loops import PARTITIONED, step
from tilesmith.schedule_rules.tiles import MANY, best_rows, best_tile
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, BufferLoad, BufferStore, Cast, ForKind, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = [
    "Contraction", "find_contraction", "follower_of", "multiplies_and_adds", "parallelise",
    "schedule_contraction",
]  # fmt: skip

_UNROLLED = ("pragma_unroll_explicit", False)
_DOT_PRODUCTS = ("tir.dot_bf16bf16", "tir.dot_i8i8", "tir.dot_u8i8")
_FEWEST_PRODUCTS = 1 << 20  # below about 20 microseconds of work, threads cost more than they save


@dataclass(frozen=True)
class Contraction:
    """A plan for a contraction: the axis for vectors, the axis for rows, their widths."""

    vector_axis: int
    """Position of the vectorised iterator among the spatial ones."""
    row_axis: int | None
    """Position of the iterator whose values share the vectors of an operand."""
    packed_width: int | None
    """The T of a packed operand (``o // T``, ``o % T``)."""


def _loads(block: Block) -> list[BufferLoad]:
    store: BufferStore = block.body  # type: ignore[assignment]
    return [load for load in loads(store.value) if load.buffer is not store.buffer]


def multiplies_and_adds(block: Block) -> bool:
    """Return whether a block sums products, so that it may be a contraction."""
    store = block.body
    if block.init is None or not isinstance(store, BufferStore) or not store.indices:
        return False
    value = store.value
    return isinstance(value, Add) and (_is_product(value.a) or _is_product(value.b))


def find_contraction(block: Block) -> Contraction | None:
    """Return the plan for a block that multiplies and adds; None for any other block."""
    store = block.body
    if not multiplies_and_adds(block) or not isinstance(store, BufferStore):
        return None
    spatial = [i.var for i in block.iter_vars if i.iter_type == IterVar.DataPar]
    last = store.indices[-1]
    if any(not isinstance(index, (Var, IntImm)) for index in store.indices):
        return None
    places = [place for place, variable in enumerate(spatial) if variable is last]
    if not places:
        return None
    inputs = _loads(block)
    strides = [step(load, last) for load in inputs]
    if any(step not in (0, 1) for step in strides) or 1 not in strides:
        return None
    streams = [load for load, step in zip(inputs, strides) if step == 1]
    rows = None
    if 0 in strides:
        for position in reversed(range(len(spatial))):
            variable = spatial[position]
            used = any(mentions(load.indices, {variable}) for load in streams)
            if variable is not last and not used and _extent(block, variable) != 1:
                rows = position
                break
    return Contraction(places[0], rows, _packed_width(streams, last))


def _is_product(value: PrimExpr) -> bool:
    plain = value.value if isinstance(value, Cast) else value
    return isinstance(plain, Mul) or is_call(plain, *_DOT_PRODUCTS)


def _extent(block: Block, variable: Var) -> int:
    """Return the extent of an iterator, 0 if it is symbolic."""
    extent = next(i.dom.extent for i in block.iter_vars if i.var is variable)
    return extent.value if isinstance(extent, IntImm) else 0


def _packed_width(streams: list[BufferLoad], last: Var) -> int | None:
    """Return the tile width of a packed operand."""
    for load in streams:
        inner = load.indices[-1]
        if isinstance(inner, FloorMod) and inner.a is last and isinstance(inner.b, IntImm):
            return inner.b.value
    return None


def schedule_contraction(
    sch: Schedule, block: BlockRV, plan: Contraction, machine: MachineModel, threads: int
) -> None:
    """Tile, vectorise and parallelise a contraction together with its consumer."""
    follower = follower_of(sch, block)
    lanes = machine.lanes(32)
    outer, row, vector = _axes(sch, follower, plan)
    rows_extent, columns = _constant(sch, row), _constant(sch, vector)
    width = plan.packed_width
    if width is None:
        width = max(best_tile(rows_extent or 1, columns or 1, machine).vectors, 1) * lanes
        if columns is None or columns % width:
            width = lanes
    vectors = max(1, width // lanes)
    rows = best_rows(rows_extent or MANY, vectors, machine) if row is not None else 1
    vector_0, vector_1 = sch.split(vector, [None, width])
    inner, last = [vector_1], []
    if row is not None:
        row_0, row_1 = sch.split(row, [None, rows])
        if rows_extent is None or rows_extent % rows:
            sch.annotate(row_0, *PARTITIONED)
        inner, last = [row_1, vector_1], [row_0]
        outer = [loop for loop in outer if loop is not row]
    is_uneven = columns is None or columns % width != 0
    if is_uneven and math.prod([_constant(sch, loop) or MANY for loop in outer]) >= threads:
        # The other loops suffice for the threads, so that this one can be partitioned.
        sch.annotate(vector_0, *PARTITIONED)
        order = [*outer, vector_0, *last]
    else:
        order = _outer_order(outer, vector_0, last)
    sch.reorder(*order, *inner)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, order[-1])
    _tile_body(sch, block, order[-1], lanes)
    _finish_follower(sch, inner, lanes)
    if _work(sch.get(block)) >= _FEWEST_PRODUCTS:
        parallelise(sch, order, threads)


def _work(block: Block) -> int:
    """Return the number of multiplications of a block; a symbolic extent counts as 1024."""
    total = 1
    for iterator in block.iter_vars:
        extent = iterator.dom.extent
        total *= extent.value if isinstance(extent, IntImm) else 1 << 10
    return total


def follower_of(sch: Schedule, block: BlockRV) -> BlockRV:
    """Return the block that reads the result element by element; insert a copy if there is none."""
    store = sch.get(block).body
    consumers = sch.get_consumers(block)
    if len(consumers) == 1 and not _is_output(sch, block):
        other: Block = sch.get(consumers[0])
        reads = list(loads(other.body, store.buffer))
        plain = all(i.iter_type == IterVar.DataPar for i in other.iter_vars)
        target = other.body
        if plain and isinstance(target, BufferStore) and reads:
            same = all(_same_place(load, target) for load in reads)
            whole = len(target.indices) == len(store.indices)
            if same and whole and _same_shape(target.buffer, store.buffer):
                return consumers[0]
    return sch.cache_write(block, 0, "local")


def _same_place(load: BufferLoad, store: BufferStore) -> bool:
    return all(
        a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)
        for a, b in zip(load.indices, store.indices)
    )


def _same_shape(a: Any, b: Any) -> bool:
    analyzer = Analyzer()
    return all(analyzer.can_prove_equal(x, y) for x, y in zip(a.shape, b.shape))


def _is_output(sch: Schedule, block: BlockRV) -> bool:
    buffer = sch.get(block).writes[0].buffer
    return any(
        buffer is other for f in sch.mod.functions.values() for other in f.buffer_map.values()
    )


def _axes(
    sch: Schedule, follower: BlockRV, plan: Contraction
) -> tuple[list[LoopRV], LoopRV | None, LoopRV]:
    """Return the loops of the consumer: the outer ones, the one of rows, the one of vectors."""
    loops = sch.get_loops(follower)
    vector = loops[-1]
    spatial = loops[:-1]
    row = None
    if plan.row_axis is not None and plan.row_axis < len(spatial):
        row = spatial[plan.row_axis]
    return spatial, row, vector


def _constant(sch: Schedule, loop: LoopRV | None) -> int | None:
    if loop is None:
        return None
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else None


def _outer_order(outer: list[LoopRV], vector_0: LoopRV, last: list[LoopRV]) -> list[LoopRV]:
    """Order the outer loops: batches, then tiles of columns, then the rest. So the weights of a
    tile stay in the cache while all rows use them.
    """
    if not last:
        return [*outer, vector_0]
    batch = outer[:1] if len(outer) > 1 else []
    return [*batch, vector_0, *outer[len(batch) :], *last]


def _tile_body(sch: Schedule, block: BlockRV, place: LoopRV, lanes: int) -> None:
    """Schedule the tile: reduction loops outside, rows and vectors unrolled, lanes vectorised."""
    tile, reduction = _tile_loops(sch, block, place)
    if not tile or not reduction:  # sums of one element have no reduction loop
        return
    first, second = sch.split(tile[-1], [None, lanes])
    for loop in reduction:
        sch.annotate(loop, "pragma_unroll_disable", True)
    sch.reorder(*reduction, *tile[:-1], first, second)
    sch.vectorize(second)
    init = sch.decompose_reduction(block, reduction[0])
    for loop in (*tile[:-1], first):
        _unroll(sch, loop)
    init_loops = sch.get_loops(init)
    # The nest of the initialisation is a copy: vectors inside, the rest of the tile around.
    for loop in init_loops[-len(tile) - 1 : -1]:
        if sch.get(loop).kind is ForKind.SERIAL:
            _unroll(sch, loop)


def _tile_loops(sch: Schedule, block: BlockRV, place: LoopRV) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the loops of a block below ``place``: those of the tile, those of the reduction."""
    realize = sch.cursor(block).stmt
    reduction_vars: set[Var] = set()
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        if iterator.iter_type == IterVar.CommReduce:
            reduction_vars.update(variables(value))
    loops = sch.get_loops(block)
    around = [loop.sref for loop in sch.cursor(block).loops()]
    outside = around.index(sch.cursor(place).sref) + 1
    inside = loops[outside:]
    reduction = [loop for loop in inside if sch.get(loop).loop_var in reduction_vars]
    return [loop for loop in inside if loop not in reduction], reduction


def _unroll(sch: Schedule, loop: LoopRV) -> None:
    sch.annotate(loop, *_UNROLLED)
    sch.unroll(loop)


def _finish_follower(sch: Schedule, inner: list[LoopRV], lanes: int) -> None:
    first, second = sch.split(inner[-1], [None, lanes])
    sch.vectorize(second)
    for loop in (*inner[:-1], first):
        _unroll(sch, loop)


def parallelise(sch: Schedule, order: list[LoopRV], threads: int) -> None:
    """Fuse outer loops until there is work for all threads, and run the result in parallel."""
    if threads < 2:
        return
    chosen: list[LoopRV] = []
    count = 1
    for loop in order[:-1]:
        if sch.get(loop).annotations:
            break  # one that is partitioned keeps its variable
        chosen.append(loop)
        extent = _constant(sch, loop)
        count *= extent if extent is not None else threads
        if count >= 4 * threads:
            break
    if not chosen:
        if (_constant(sch, order[0]) or threads) > 1 and not sch.get(order[0]).annotations:
            sch.parallel(order[0])
        return
    sch.parallel(sch.fuse(*chosen))
