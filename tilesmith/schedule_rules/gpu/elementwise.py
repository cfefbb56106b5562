"""Elementwise functions: one pass over memory, 128 bits at a time."""

from __future__ import annotations

from tilesmith.ir import IntImm
from tilesmith.schedule_rules.elementwise.inline import inline_elementwise
from tilesmith.schedule_rules.gpu import facts
from tilesmith.target import Target
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = ["elementwise", "spread"]

THREADS = 256


def elementwise(sch: Schedule, target: Target) -> Schedule | None:
    """Schedule a function whose blocks compute each result by itself.

    Blocks are inlined into those that read them; what is left gets a kernel each.
    """
    blocks = sch.get_child_blocks(sch.get_block("root"))
    if not blocks or not all(facts.is_spatial(sch.get(block)) for block in blocks):
        return None
    inline_elementwise(sch)
    for block in sch.get_child_blocks(sch.get_block("root")):
        spread(sch, block, target)
    return sch


def spread(sch: Schedule, block: BlockRV, target: Target) -> None:
    """Divide the results of a block among threads, in vectors where rows allow it."""
    loops = sch.get_loops(block)
    if not loops:
        loops = [sch.add_unit_loop(block)]
    node = sch.get(block)
    last = facts.constant_extent(sch, loops[-1])
    last = last if _is_contiguous(node) else 1
    dtypes = [access.buffer.dtype for access in (*node.reads, *node.writes)]
    vector = facts.vector_length(last, *dtypes)
    threads = min(THREADS, facts.thread_limit(target))
    if vector > 1:
        *outer, row = loops
        row, lanes = sch.split(row, [None, vector])
        fused = sch.fuse(*outer, row)
        bx, tx = sch.split(fused, [None, threads])
        sch.vectorize(lanes)
    else:
        fused = sch.fuse(*loops)
        extent = facts.constant_extent(sch, fused)
        bx, tx = sch.split(fused, [None, min(threads, extent or threads)])
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")


def _is_contiguous(block: facts.Block) -> bool:
    """Return whether the last iterator runs along memory, or does not occur, in each access."""
    if not block.iter_vars or block.iter_vars[-1].dom is None:
        return False
    last = block.iter_vars[-1].var
    stores = [region for region in block.writes if region.region]
    if not all(region.region[-1].min is last for region in stores):
        return False
    for load, along in facts.contiguous_iterators(block):
        uses = [facts.mentions_variable(index, last) for index in load.indices]
        if any(uses[:-1]) or (uses and uses[-1] and along is not last):
            return False
    return all(isinstance(region.region[-1].extent, IntImm) for region in stores)
