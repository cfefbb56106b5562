"""Parts of the rules that compute a block in register tiles under its consumer."""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, Var, const
from tilesmith.ir.queries import is_call, mentions, walk
from tilesmith.schedule_rules.loops import loop_extent, split_loops
from tilesmith.schedule_rules.work import is_even
from tilesmith.tir import BufferLoad, BufferStore, ForKind, IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = [
    "element_consumer", "finish_consumer", "has_own_loops", "keep_reduction", "loops_below",
    "moves", "padding_of", "parallelise", "sums_outside", "tile_loops", "unroll",
    "unroll_initialisation",
]  # fmt: skip

_UNROLLED = ("pragma_unroll_explicit", False)
_STEPS = "llvm.loop.unroll.count"


def moves(index: PrimExpr, variable: Var) -> int:
    """Return how far an index moves when a variable grows by one, 0 if that is not constant."""
    moved = substitute(index, {variable: variable + const(1, variable.dtype)})
    found = Analyzer().simplify(moved - index)
    return found.value if isinstance(found, IntImm) else 0


def element_consumer(sch: Schedule, block: BlockRV) -> BlockRV:
    """Return the block that reads the result element by element; insert a copy if there is none, or
    if its loops are not those of its elements (fused ones, or tiles of another block's results).
    """
    store = sch.get(block).body
    consumers = sch.get_consumers(block)
    if len(consumers) == 1 and not _is_output(sch, block):
        other = sch.get(consumers[0])
        target = other.body
        plain = all(one.iter_type == IterVar.DataPar for one in other.iter_vars)
        if plain and isinstance(target, BufferStore) and _reads_elements(target, store):
            if has_own_loops(sch, consumers[0]):
                return consumers[0]
    return sch.cache_write(block, 0, "local")


def padding_of(sch: Schedule, block: BlockRV) -> BlockRV | None:
    """Return the block that pads an operand, if there is one that nothing else reads."""
    for producer in sch.get_producers(block):
        body = sch.get(producer).body
        if isinstance(body, BufferStore) and is_call(body.value, "tir.if_then_else"):
            if len(sch.get_consumers(producer)) == 1:
                return producer
    return None


def has_own_loops(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the loops of a block are its iterators, in their order."""
    realize: Any = sch.cursor(block).stmt
    return list(realize.iter_values) == [sch.get(loop).loop_var for loop in sch.get_loops(block)]


def _reads_elements(target: BufferStore, store: BufferStore) -> bool:
    """Return whether a block reads the element of a result that it writes of its own."""
    reads = list(loads(target, store.buffer))
    if not reads or len(target.indices) != len(store.indices):
        return False
    analyzer = Analyzer()
    shapes = zip(target.buffer.shape, store.buffer.shape)
    return all(_same_place(load, target) for load in reads) and all(
        analyzer.can_prove_equal(a, b) for a, b in shapes
    )


def _same_place(load: BufferLoad, store: BufferStore) -> bool:
    return all(
        a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)
        for a, b in zip(load.indices, store.indices)
    )


def _is_output(sch: Schedule, block: BlockRV) -> bool:
    buffer = sch.get(block).writes[0].buffer
    functions: list[Any] = list(sch.mod.functions.values())
    return any(buffer is other for one in functions for other in one.buffer_map.values())


def tile_loops(sch: Schedule, block: BlockRV, place: LoopRV) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the loops of a block below ``place``: those of the tile, those of the reduction."""
    return split_loops(sch, block, loops_below(sch, block, place))


def loops_below(sch: Schedule, block: BlockRV, place: LoopRV) -> list[LoopRV]:
    """Return the loops of a block below ``place``."""
    around = [loop.sref for loop in sch.cursor(block).loops()]
    return list(sch.get_loops(block)[around.index(sch.cursor(place).sref) + 1 :])


def sums_outside(
    sch: Schedule, block: BlockRV, place: LoopRV, lanes: int, steps: int
) -> tuple[list[LoopRV], BlockRV] | None:
    """Run the reduction of a tile outside of its results, whose lanes are vectorised. Return the
    loops of the tile, the one of lanes last, and the block that starts the sums; None for sums of
    one element, which have no reduction loop. ``steps``: see `keep_reduction`.
    """
    tile, reduction = tile_loops(sch, block, place)
    if not tile or not reduction:
        return None
    loops = [*tile[:-1], *sch.split(tile[-1], [None, lanes])]
    keep_reduction(sch, block, reduction, steps)
    sch.reorder(*reduction, *loops)
    sch.vectorize(loops[-1])
    return loops, sch.decompose_reduction(block, reduction[0])


def keep_reduction(sch: Schedule, block: BlockRV, reduction: list[LoopRV], steps: int) -> None:
    """Let the loops of a reduction stay loops; the innermost one takes some of its steps in one
    iteration, but for the taps of a window. Of dot products of int16 at most two: LLVM would add
    those of several steps first, for which the registers do not suffice.

    Neighbouring results read the same elements at different taps. LLVM would load these once and
    hold them, for which the registers do not suffice.
    """
    if any(is_call(node, "tir.dot_i16i16") for node in walk(sch.get(block).body)):
        steps = min(steps, 2)
    running = [loop for loop in reduction if loop_extent(sch, loop) != 1]
    for loop in reduction:
        if steps > 1 and loop in running[-1:] and not _is_tap(sch, block, loop):
            sch.annotate(loop, _STEPS, steps)
        else:
            sch.annotate(loop, "pragma_unroll_disable", True)


def _is_tap(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """Return whether a loop of a reduction moves a window along an axis of the result."""
    realize: Any = sch.cursor(block).stmt
    node = realize.block
    moved = {sch.get(loop).loop_var}
    driven = {
        one.var for one, value in zip(node.iter_vars, realize.iter_values)
        if mentions([value], moved)
    }  # fmt: skip
    results = {one.var for one in node.iter_vars if one.iter_type == IterVar.DataPar}
    return any(
        mentions([index], driven) and mentions([index], results)
        for load in loads(node.body)
        for index in load.indices
    )


def unroll(sch: Schedule, *loops: LoopRV) -> None:
    """Leave loops of a register tile to the back end, which unrolls them."""
    for loop in loops:
        sch.annotate(loop, *_UNROLLED)
        sch.unroll(loop)


def unroll_initialisation(sch: Schedule, init: BlockRV, count: int) -> None:
    """Unroll the last loops of the block that a reduction was decomposed into, but for the one of
    lanes.
    """
    for loop in sch.get_loops(init)[-count - 1 : -1]:
        if sch.get(loop).kind is ForKind.SERIAL:
            unroll(sch, loop)


def finish_consumer(sch: Schedule, inner: list[LoopRV], lanes: int) -> None:
    """Vectorise and unroll the loops of a consumer over one tile."""
    first, second = sch.split(inner[-1], [None, lanes])
    sch.vectorize(second)
    unroll(sch, *inner[:-1], first)


def parallelise(sch: Schedule, order: list[LoopRV], threads: int) -> None:
    """Fuse outer loops until their iterations can be dealt out evenly, and run the result in
    parallel.
    """
    chosen: list[LoopRV] = []
    count = 1
    for loop in order:
        if threads < 2 or sch.get(loop).annotations or is_even(count, threads):
            break  # a loop that is partitioned keeps its variable
        chosen.append(loop)
        extent = loop_extent(sch, loop)
        count *= 1 if extent is None else extent  # an open extent may be 1
    if any(loop_extent(sch, loop) != 1 for loop in chosen):
        sch.parallel(sch.fuse(*chosen))
