"""Primitives that query the program: blocks by name, loops, producers and consumers."""

from __future__ import annotations

import difflib

from tilesmith.tir.schedule.blocks import consumers_of, producers_of, scope_of, written_buffers
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.parameters import FunctionName
from tilesmith.tir.schedule.primitive import primitive

__all__ = [
    "enter_postproc", "get_block", "get_child_blocks", "get_consumers", "get_loops",
    "get_output_blocks", "get_producers",
]  # fmt: skip


@primitive(is_pure=True, aliases=("get_sblock",), no_sampler="every sampler calls it")
def get_block(name: str, func_name: FunctionName = None) -> BlockCursor:
    """Return the only block of that name."""
    assert func_name is not None  # None stands for the function that the schedule works on
    found = func_name.find_blocks(name)
    if len(found) == 1:
        return found[0]
    if found:
        reason = f"{len(found)} blocks of '{func_name.name}' are called '{name}'"
        advice = "give each block a name of its own, or take it by get_child_blocks"
        raise refuse(reason, func_name, advice)
    names = func_name.block_names()
    near = difflib.get_close_matches(name, names, n=1)
    advice = f"did you mean '{near[0]}'?" if near else "blocks: " + ", ".join(sorted(set(names)))
    raise refuse(f"'{func_name.name}' has no block '{name}'", func_name, advice)


@primitive(is_pure=True, no_sampler="every sampler calls it")
def get_loops(block: Cursor) -> list[LoopCursor]:
    """Return the loops around a block up to the next block, outermost first."""
    return block.loops()


@primitive(is_pure=True)
def get_child_blocks(block_or_loop: Cursor) -> list[BlockCursor]:
    """Return the outermost blocks inside a block or loop."""
    return block_or_loop.blocks_below()


@primitive(is_pure=True)
def get_producers(block: BlockCursor) -> list[BlockCursor]:
    """Return the blocks of the same scope that write buffers that this block reads."""
    return producers_of(block, scope_of(block))


@primitive(is_pure=True)
def get_consumers(block: BlockCursor) -> list[BlockCursor]:
    """Return the blocks of the same scope that read buffers that this block writes."""
    return consumers_of(block, scope_of(block))


@primitive(is_pure=True)
def get_output_blocks(scope_block: BlockCursor) -> list[BlockCursor]:
    """Return the blocks inside a scope that write buffers allocated outside of it."""
    inside = {id(buffer) for buffer in scope_block.block.alloc_buffers}
    return [
        block
        for block in scope_block.blocks_below()
        if any(id(buffer) not in inside for buffer in written_buffers(block.block))
    ]


@primitive(is_postproc=True, no_sampler="a mark in the trace, drawn at the end of a schedule")
def enter_postproc() -> None:
    """Mark all later instructions of the trace as post-processing."""
