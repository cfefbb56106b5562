"""Tells which operands a PrimFunc copies before it uses them, as a convolution pads its input.

A producer that only moves elements may then be computed by the copy: nothing is computed twice.
"""

from __future__ import annotations

from tilesmith.ir import IntImm
from tilesmith.tir import Block, BufferStore, IterVar, PrimFunc
from tilesmith.tir.analysis import unscheduled_blocks
from tilesmith.tir.queries import loads

__all__ = ["copies_narrow_operand"]

_MOST_CHANNELS = 4
"""So long may the last axis be. Longer ones make vectors of a plain copy; permuting them as well
costs more than it saves, and windows read the padding of such operands in place."""


def copies_narrow_operand(function: PrimFunc, place: int) -> bool:
    """Return whether only one block reads a parameter, which copies its elements one by one to
    memory of the function, and the parameter's last axis is as short as the colours of an image.
    """
    buffer = function.buffer_map.get(function.params[place])
    blocks = unscheduled_blocks(function)
    if buffer is None or blocks is None or not buffer.shape:
        return False
    last = buffer.shape[-1]
    if not isinstance(last, IntImm) or not 1 < last.value <= _MOST_CHANNELS:
        return False
    found = [block for block in blocks if list(loads(block, buffer))]
    outputs = list(function.buffer_map.values())
    return len(found) == 1 and _is_copy(found[0]) and found[0].writes[0].buffer not in outputs


def _is_copy(block: Block) -> bool:
    """Return whether a block stores each element at its iterators and reads one for it."""
    store = block.body
    return (
        block.init is None
        and isinstance(store, BufferStore)
        and all(one.iter_type == IterVar.DataPar for one in block.iter_vars)
        and list(store.indices) == [one.var for one in block.iter_vars]
        and len(list(loads(store.value))) == 1
    )
