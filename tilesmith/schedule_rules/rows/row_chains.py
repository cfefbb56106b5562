"""Finds row chains: reductions along rows and elementwise blocks over the same rows, such as
softmax and the normalisations.

    for i, k: S[i] = max(S[i], A[i, k])
    for i, k: E[i, k] = exp(A[i, k] - S[i])
    for i, k: T[i] += E[i, k]
    for i, k: B[i, k] = E[i, k] / T[i]

The last block is the sink of the chain; the others are its steps. Each block reads from the rows of
other blocks only the row that it works on itself, so a row goes through all blocks while it is in
the nearest cache or in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tilesmith.ir import FloorDiv, IntImm, PrimExpr, Var
from tilesmith.ir.queries import mentions
from tilesmith.schedule_rules.loops import describe, is_marked, iterator_extent
from tilesmith.schedule_rules.rows.row_reduction import runs_along_rows
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import Block, Buffer, BufferLoad, BufferStore, IterVar
from tilesmith.tir.queries import loads, stores
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = ["RowChain", "find_row_chains", "inline_into_row_reductions"]

_MOST_SCALAR = 256
"""So many steps of a reduction that does not run along rows are few beside a row."""


@dataclass(frozen=True)
class RowChain:
    """The blocks of a chain in the order of the program; the last one is the sink."""

    blocks: tuple[BlockRV, ...]
    rows: int
    """So many outer loops of the sink run over the rows."""
    group: int = 1
    """So many steps of the last of these loops are one row."""


def find_row_chains(sch: Schedule, blocks: list[BlockRV]) -> list[RowChain]:
    """Return the chains among the top blocks of a function, in the order of the program."""
    left = [block for block in blocks if _is_free(sch, block)]
    readers = _Readers(sch, blocks)
    found = []
    while left:
        sink = left.pop()
        chain = _chain_of(sch, sink, left, readers)
        if chain is not None:
            found.append(chain)
            left = [block for block in left if block not in chain.blocks]
    return found[::-1]


def inline_into_row_reductions(sch: Schedule, blocks: list[BlockRV]) -> list[BlockRV]:
    """Inline elementwise blocks of which each element is read once, by a reduction along rows that
    stays one; return the blocks that are left.
    """
    left = list(blocks)
    readers = _Readers(sch, left)
    for block in blocks:
        found = readers.of(block)
        if len(found) == 1 and _is_read_once(sch, block, found[0]):
            trial = sch.copy()
            try:
                trial.compute_inline(block)
            except ScheduleError as error:
                record_fallback("inlining", describe(sch, block), error)
                continue
            if runs_along_rows(trial, found[0]):
                sch.compute_inline(block)
                left.remove(block)
    return left


def _is_read_once(sch: Schedule, block: BlockRV, reader: BlockRV) -> bool:
    """Return whether a block is elementwise and its reader a free reduction along rows that reads
    each element in one step.
    """
    node: Block = sch.get(block)
    if node.init is not None or not isinstance(node.body, BufferStore):
        return False
    if not (_is_free(sch, block) and _is_free(sch, reader) and runs_along_rows(sch, reader)):
        return False
    (written,) = [region.buffer for region in node.writes]
    reading: Block = sch.get(reader)
    return all(
        mentions(load.indices, {iterator.var})
        for load in loads(reading.body, written)
        for iterator in reading.iter_vars
        if not _is_unit(iterator)
    )


class _Readers:
    """Which blocks read what a block writes."""

    def __init__(self, sch: Schedule, blocks: list[BlockRV]) -> None:
        self._sch = sch
        self._blocks = blocks
        functions: list[Any] = [*sch.mod.functions.values()]
        self._results = [one for f in functions for one in f.buffer_map.values()]

    def of(self, block: BlockRV) -> list[BlockRV]:
        """Return the blocks that read what a block writes; none if others may read it too."""
        written = [region.buffer for region in self._sch.get(block).writes]
        if any(one is buffer for one in self._results for buffer in written):
            return []
        return [
            other
            for other in self._blocks
            if other is not block
            and any(
                region.buffer is buffer
                for region in self._sch.get(other).reads
                for buffer in written
            )
        ]


def _is_free(sch: Schedule, block: BlockRV) -> bool:
    """Return whether each loop of a block drives one iterator and has no schedule yet."""
    loops = sch.get_loops(block)
    if not loops or any(is_marked(sch, loop) for loop in loops):
        return False
    realize: Any = sch.cursor(block).stmt
    return all(isinstance(value, Var | IntImm) for value in realize.iter_values)


def _chain_of(
    sch: Schedule, sink: BlockRV, others: list[BlockRV], readers: _Readers
) -> RowChain | None:
    """Return the chain that ends in a block: with those blocks before it that only blocks of the
    chain read, row by row.
    """
    rows, group = _rows_of_sink(sch, sink, others)
    if not rows:
        return None
    members = [sink]
    for block in reversed(others):
        if _is_step(sch, block, members, readers.of(block), rows, group):
            members.insert(0, block)
    if not any(runs_along_rows(sch, block) for block in members):
        return None
    return RowChain(tuple(members), rows, group)


def _rows_of_sink(sch: Schedule, sink: BlockRV, others: list[BlockRV]) -> tuple[int, int]:
    """Return how many outer loops of a block run over rows, and the steps of the last that are one
    row; 0 loops if it is no sink.
    """
    node: Block = sch.get(sink)
    space = _spatial(node)
    if node.init is not None:
        if not (runs_along_rows(sch, sink) or _is_small(node, len(space))):
            return 0, 1
        while len(space) > 1 and _is_unit(space[-1]):
            space.pop()
        return len(space), 1
    if not isinstance(node.body, BufferStore):
        return 0, 1
    statistics = [
        region.buffer
        for block in others
        if sch.get(block).init is not None
        for region in sch.get(block).writes
    ]
    found = [
        _prefix(load, space)
        for load in loads(node.body)
        if any(load.buffer is one for one in statistics)
    ]
    found = [one for one in found if one[0]]
    rows, group = min(found, default=(0, 1))
    while rows > 1 and _is_unit(space[rows - 1]):
        rows -= 1  # the axis that a reduction has kept is not one of rows
    return rows, group


def _prefix(load: BufferLoad, space: list[IterVar]) -> tuple[int, int]:
    """Return how many leading indices of a load are the leading iterators, and by what constant the
    last of them is divided.
    """
    count, group = 0, 1
    for index, iterator in zip(load.indices, space):
        if _is_at(index, iterator):
            count += 1
            continue
        if isinstance(index, FloorDiv) and index.a is iterator.var and isinstance(index.b, IntImm):
            extent = iterator_extent(iterator)
            if extent is not None and extent % index.b.value == 0:
                count, group = count + 1, index.b.value
        break
    return count, group


def _is_at(index: PrimExpr, iterator: IterVar) -> bool:
    """Return whether an index is the value of an iterator."""
    return index is iterator.var or (
        isinstance(index, IntImm) and index.value == 0 and _is_unit(iterator)
    )


def _is_step(
    sch: Schedule,
    block: BlockRV,
    members: list[BlockRV],
    readers: list[BlockRV],
    rows: int,
    group: int,
) -> bool:
    """Return whether a block writes rows that only the members read, each its own row."""
    node: Block = sch.get(block)
    space = _spatial(node)
    if len(space) < rows or not readers or any(one not in members for one in readers):
        return False
    if node.init is None:
        if not isinstance(node.body, BufferStore):
            return False
    elif not (runs_along_rows(sch, block) or _is_small(node, rows)):
        return False
    if not all(
        _is_at(index, iterator)
        for store in stores(node.body)
        for index, iterator in zip(store.indices[:rows], space)
    ):
        return False
    written = [region.buffer for region in node.writes]
    return all(
        _reads_by_row(sch.get(one), written, rows, group if one is members[-1] else 1)
        for one in readers
    )


def _reads_by_row(node: Block, buffers: list[Buffer], rows: int, group: int) -> bool:
    """Return whether a block reads from buffers only the row that it works on."""
    space = _spatial(node)
    found = [load for load in loads(node.body) if any(load.buffer is one for one in buffers)]
    for load in found:
        count, divisor = _prefix(load, space[:rows])
        if count < rows or divisor != group:
            return False
    return bool(found)


def _is_small(node: Block, rows: int) -> bool:
    """Return whether a block takes few steps in each row."""
    extents = [iterator_extent(one) for one in (*_spatial(node)[rows:], *_reduced(node))]
    return None not in extents and prod(one or 1 for one in extents) <= _MOST_SCALAR


def _spatial(node: Block) -> list[IterVar]:
    return [one for one in node.iter_vars if one.iter_type == IterVar.DataPar]


def _reduced(node: Block) -> list[IterVar]:
    return [one for one in node.iter_vars if one.iter_type == IterVar.CommReduce]


def _is_unit(iterator: IterVar) -> bool:
    return iterator_extent(iterator) == 1
