"""Inlines elementwise blocks into their consumers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tilesmith.ir import GlobalVar, Node, PrimExpr, Var
from tilesmith.schedule_rules.loops import describe
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import Block, BufferLoad, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, Schedule
from tilesmith.tir.schedule.cursor import FunctionCursor

__all__ = ["inline_elementwise", "top_blocks"]

_MOST_PLACES = 4
"""At so many places a consumer may read a block for one result; at more, as the steps of a
transform do, computing each element where it is read would be much work."""
_MOST_REPEATED = 400
"""So many operations may be written again where a block is inlined into several places. Chains of
blocks that read what is before them twice would double the program with each block otherwise."""


def inline_elementwise(sch: Schedule) -> None:
    """Inline each block without a reduction into its consumers, except where that repeats work."""
    for variable in sch.mod.get_global_vars():
        for block in top_blocks(sch, variable):
            if _is_inside(sch, block) and _is_cheap(sch, block):
                if (repeated := _repeated_operations(sch, block)) > _MOST_REPEATED:
                    reason = f"{repeated} operations would be written again"
                    record_fallback("inlining", describe(sch, block), reason)
                    continue
                try:
                    sch.compute_inline(block)
                except ScheduleError as error:
                    record_fallback("inlining", describe(sch, block), error)


def top_blocks(sch: Schedule, variable: GlobalVar) -> list[BlockRV]:
    """Return the blocks right below the root block of a function.

    The trace gets them by their names, and those that share a name as children of the root.
    """
    function = FunctionCursor(sch.state, variable)
    names = Counter(function.block_names())
    below = [block.block.name_hint for block in function.root().blocks_below()]
    children: list[BlockRV] = []
    if any(names[name] > 1 for name in below):
        root = function.root().block.name_hint
        children = sch.get_child_blocks(sch.get_block(root, variable.name_hint))
    return [
        sch.get_block(name, variable.name_hint) if names[name] == 1 else children[place]
        for place, name in enumerate(below)
    ]


def _is_inside(sch: Schedule, block: BlockRV) -> bool:
    """Return whether only blocks of this function read what a block writes."""
    (written,) = [region.buffer for region in sch.get(block).writes[:1]] or (None,)
    outputs = [one for f in sch.mod.functions.values() for one in f.buffer_map.values()]
    return bool(sch.get_consumers(block)) and not any(written is one for one in outputs)


def _is_cheap(sch: Schedule, block: BlockRV) -> bool:
    """Return whether a block is one elementwise store whose consumers read each element about
    once.
    """
    node: Block = sch.get(block)
    if node.init is not None or any(i.iter_type != IterVar.DataPar for i in node.iter_vars):
        return False
    (written,) = [region.buffer for region in node.writes[:1]]
    for consumer in sch.get_consumers(block):
        other: Block = sch.get(consumer)
        if any(i.iter_type != IterVar.DataPar for i in other.iter_vars):
            return False  # a reduction reads its inputs many times
        found = [load.indices for load in loads(other.body, written)]
        elsewhere = [one for one in found if not all(isinstance(index, Var) for index in one)]
        if len(elsewhere) > _MOST_PLACES:
            return False
    return True


def _repeated_operations(sch: Schedule, block: BlockRV) -> int:
    """Return how many operations inlining a block adds to its consumers beyond its own."""
    node: Block = sch.get(block)
    (written,) = [region.buffer for region in node.writes[:1]]
    consumers = [sch.get(consumer).body for consumer in sch.get_consumers(block)]
    reads = sum([_count(body, lambda one: isinstance(one, BufferLoad) and one.buffer is written)
                 for body in consumers])  # fmt: skip
    return (reads - 1) * _count(node.body, lambda one: isinstance(one, PrimExpr))


def _count(root: Node, counts: Callable[[Node], bool]) -> int:
    """Return how often nodes that count are written in a program. Shared ones count each time,
    though each is looked at once: there may be more of them than fit in memory.
    """
    known: dict[int, int] = {}
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            below = sum([known[id(child)] for child in node.children()])
            known[id(node)] = below + counts(node)
        elif id(node) not in known:
            stack.append((node, True))
            stack += [(child, False) for child in node.children()]
    return known[id(root)]
