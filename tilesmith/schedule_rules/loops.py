"""Queries about the loops of a block."""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import FloorDiv, FloorMod, IntImm, PrimExpr, Var, const
from tilesmith.ir.queries import calls, mentions, variables
from tilesmith.tir import Block, BufferLoad, BufferStore, ForKind, IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = [
    "BRANCHES", "FEWEST_FOR_THREADS", "PARTITIONED", "TAILS", "describe", "is_marked",
    "iterator_extent", "joins_elements", "loop_extent", "split_loops", "step",
]  # fmt: skip

FEWEST_FOR_THREADS = 1 << 16
"""Elements below which a parallel loop costs more than it saves."""
PARTITIONED = ("pragma_loop_partition_hint", True)
"""The annotation of a loop whose whole tiles are to run without the condition of the last one."""
BRANCHES = ("pragma_loop_partition_branches", True)
"""The annotation of such a loop that is parallel: its last iteration stays one of the loop, with
code of its own, so that threads share it, too."""
TAILS = "pragma_loop_partition_tails"
"""The annotation of such a loop of register tiles whose last tile has an open number of rows: it
gets code for each; its value is the number of rows of a whole tile."""


def describe(sch: Schedule, block: BlockRV) -> str:
    """Return the name of a block for reports."""
    return f"block '{sch.get(block).name_hint}'"


def is_marked(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether a loop has a schedule already: a kind or annotations."""
    node = sch.get(loop)
    return node.kind is not ForKind.SERIAL or bool(node.annotations)


def iterator_extent(iterator: IterVar) -> int | None:
    """Return the number of values of an iterator of a block, if that is known."""
    extent = None if iterator.dom is None else iterator.dom.extent
    return extent.value if isinstance(extent, IntImm) else None


def loop_extent(sch: Schedule, loop: LoopRV | None) -> int | None:
    """Return the extent of a loop, None if it is symbolic or there is no loop."""
    extent = sch.get(loop).extent if loop is not None else None
    return extent.value if isinstance(extent, IntImm) else None


def joins_elements(block: Block) -> bool:
    """Return whether a block makes words of narrower elements, by shifts."""
    store = block.body
    if not isinstance(store, BufferStore) or not store.buffer.dtype.is_integer:
        return False
    bits = store.buffer.dtype.bits
    found = list(loads(store.value))
    has_shift = next(calls(store.value, "tir.shift_left"), None) is not None
    return has_shift and bool(found) and all(load.buffer.dtype.bits < bits for load in found)


def split_loops(
    sch: Schedule, block: BlockRV, loops: list[LoopRV]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the loops that drive data-parallel iterators, and those that drive reductions."""
    realize: Any = sch.cursor(block).stmt
    reduction_vars = set()
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        if iterator.iter_type != IterVar.DataPar:
            reduction_vars.update(variables(value))
    spatial = [loop for loop in loops if sch.get(loop).loop_var not in reduction_vars]
    return spatial, [loop for loop in loops if loop not in spatial]


def step(load: BufferLoad, variable: Var) -> int | None:
    """Return how far a load moves when a variable grows by one: 0, 1, or None for anything else."""
    if not mentions(load.indices, {variable}):
        return 0
    inner = load.indices[-1]
    outer_free = not any(
        mentions(index, {variable})
        for index in load.indices[:-1]
        if not _is_tile_number(index, variable)
    )
    if isinstance(inner, FloorMod) and inner.a is variable and outer_free:
        return 1
    if mentions(load.indices[:-1], {variable}):
        return None
    analyzer = Analyzer()
    moved = substitute(inner, {variable: variable + const(1, variable.dtype)})
    return 1 if analyzer.can_prove_equal(moved - inner, 1) else None


def _is_tile_number(index: PrimExpr, variable: Var) -> bool:
    return isinstance(index, FloorDiv) and index.a is variable
