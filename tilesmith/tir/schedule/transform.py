"""Transforms schedules by several primitives at once."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm
from tilesmith.tir.schedule.analysis import get_tensorize_loop_mapping
from tilesmith.tir.schedule.schedule import Schedule
from tilesmith.tir.schedule.trace import BlockRV, LoopRV
from tilesmith.tir.tensor_intrin import TensorIntrin

__all__ = ["tile_with_tensor_intrin"]


def tile_with_tensor_intrin(
    sch: Schedule, block: BlockRV, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Split and reorder the loops of a block so that its innermost loops are those of a tensor
    intrinsic.

    Returns the outermost of these loops, to be given to ``sch.tensorize``; None if the block does
    not compute what the intrinsic does, or if extents are not multiples of the intrinsic's. With
    ``allow_padding`` such extents are padded (``sch.pad_einsum``). Raises ValueError for an unknown
    intrinsic.
    """
    intrinsic = TensorIntrin.get(intrin_name)
    assert intrinsic is not None  # an unknown one is an error
    description = intrinsic.desc
    found = get_tensorize_loop_mapping(sch, block, description, allow_padding)
    if found is None:
        return None
    if found.block_iter_paddings is not None:
        sch.pad_einsum(block, found.block_iter_paddings)
        found = get_tensorize_loop_mapping(sch, block, description)
        if found is None:
            return None
    loops = {sch.get_sref(loop): loop for loop in sch.get_loops(block)}
    inner: dict[int, LoopRV] = {}
    for sref, part in found.loop_map.items():
        number = found.desc_loop_indexer[part]
        inner[number] = _innermost_part(sch, loops[sref], part.extent)
    order = [inner[number] for number in sorted(inner)]
    sch.reorder(*_others_below(sch, block, order), *order)
    return order[0]


def _innermost_part(sch: Schedule, loop: LoopRV, extent: Any) -> LoopRV:
    """Return a loop of an extent: the inner part of a loop, or the loop itself."""
    size = extent.value if isinstance(extent, IntImm) else extent
    own = sch.get(loop).extent
    if isinstance(own, IntImm) and own.value == size:
        return loop
    _, inner = sch.split(loop, [None, size])
    return inner


def _others_below(sch: Schedule, block: BlockRV, inner: list[LoopRV]) -> list[LoopRV]:
    """Return the loops from the first of some loops down to the block, without these."""
    wanted = {sch.get_sref(loop) for loop in inner}
    loops = sch.get_loops(block)
    places = [sch.get_sref(loop) in wanted for loop in loops]
    first = places.index(True)
    return [
        loop for loop, is_inner in zip(loops[first:], places[first:], strict=True) if not is_inner
    ]
