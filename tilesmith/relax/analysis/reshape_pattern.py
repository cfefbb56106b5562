"""Recognises kernels that copy all elements in order."""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Range, const
from tilesmith.tir import BufferLoad, BufferStore, PrimFunc
from tilesmith.tir.analysis import unscheduled_blocks

__all__ = ["has_reshape_pattern"]


def has_reshape_pattern(func: PrimFunc) -> bool:
    """Return whether a PrimFunc copies its first buffer to its last one, all elements in the same
    order.
    """
    blocks = unscheduled_blocks(func)
    if blocks is None or len(blocks) != 1 or len(func.buffer_map) < 2:
        return False
    block, buffers = blocks[0], func.buffers
    store = block.body
    if block.init is not None or not isinstance(store, BufferStore):
        return False
    load = store.value
    if not isinstance(load, BufferLoad) or load.buffer is not buffers[0]:
        return False
    if store.buffer is not buffers[-1] or load.buffer.dtype != store.buffer.dtype:
        return False
    analyzer = Analyzer()
    sizes = [
        analyzer.simplify(one.get_flattened_buffer().shape[0]) for one in (buffers[0], buffers[-1])
    ]
    if not analyzer.can_prove_equal(*sizes):
        return False  # it copies the first ones alone
    for iterator in block.iter_vars:
        domain: Any = iterator.dom
        extent = domain.extent
        analyzer.bind(iterator.var, Range.from_min_extent(const(0, extent.dtype), extent))
    source = load.buffer.offset_of(load.indices)[0]
    target = store.buffer.offset_of(store.indices)[0]
    return bool(analyzer.can_prove_equal(source, target))
