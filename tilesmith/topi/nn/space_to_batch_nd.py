"""Blocks of spatial axes as batches, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.utils import simplify

__all__ = ["batch_to_space_nd", "space_to_batch_nd"]


def _check(data: Tensor, blocks: list[int], *others: Sequence[int]) -> int:
    """Return the number of spatial axes."""
    rank = len(blocks)
    if rank >= len(data.shape) or any(len(other) != rank for other in others):
        raise ShapeError(f"{rank} blocks need as many spatial axes and as many pairs of numbers")
    return rank


def space_to_batch_nd(
    data: Tensor,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:
    """Pad the spatial axes, which follow the batch, and move the place within a block in front of
    the batch: (blocks * batch, sizes / blocks, rest).
    """
    blocks = [int(block) for block in block_shape]
    rank = _check(data, blocks, pad_before, pad_after)
    rest = [0] * (len(data.shape) - rank - 1)
    padded = pad(data, [0, *pad_before, *rest], [0, *pad_after, *rest], pad_value)
    shape = list(padded.shape)
    for axis, block in enumerate(blocks, 1):
        if op.is_const(shape[axis]) and int(shape[axis]) % block:
            raise ShapeError(
                f"space_to_batch_nd: axis {axis} of padded size {shape[axis]} does not divide into "
                f"blocks of {block}"
            )
        shape[axis] = simplify(op.floordiv(shape[axis], block))
        shape[0] = simplify(shape[0] * block)
    batch = data.shape[0]

    def element(*i: Any) -> PrimExpr:
        places, place = list(i), op.floordiv(i[0], batch)
        places[0] = op.floormod(i[0], batch)
        for axis, block in reversed(list(enumerate(blocks, 1))):
            places[axis] = i[axis] * block + op.floormod(place, block)
            place = op.floordiv(place, block)
        return padded(*places)

    return compute(shape, element, name="space_to_batch_nd", tag=tag.INJECTIVE)


def batch_to_space_nd(
    data: Tensor,
    block_shape: Sequence[int],
    crop_begin_list: Sequence[int],
    crop_end_list: Sequence[int],
) -> Tensor:
    """Undo `space_to_batch_nd`: the outer part of the batch becomes the place within a block; then
    take elements away from both ends of the spatial axes.
    """
    blocks = [int(block) for block in block_shape]
    rank = _check(data, blocks, crop_begin_list, crop_end_list)
    shape = list(data.shape)
    for axis, block in enumerate(blocks, 1):
        if op.is_const(shape[0]) and int(shape[0]) % block:
            raise ShapeError(f"batch_to_space_nd: a batch of {data.shape[0]} for blocks {blocks}")
        cropped = int(crop_begin_list[axis - 1]) + int(crop_end_list[axis - 1])
        shape[axis] = simplify(shape[axis] * block - cropped)
        shape[0] = simplify(op.floordiv(shape[0], block))
        if op.is_const(shape[axis]) and int(shape[axis]) < 0:
            raise ShapeError(f"batch_to_space_nd: more is taken from axis {axis} than it has")
    batch = shape[0]

    def element(*i: Any) -> PrimExpr:
        places, place = list(i), None
        for axis in range(1, rank + 1):
            block, index = blocks[axis - 1], i[axis] + int(crop_begin_list[axis - 1])
            places[axis] = op.floordiv(index, block)
            within = op.floormod(index, block)
            place = within if place is None else place * block + within
        places[0] = i[0] if place is None else place * batch + i[0]
        return data(*places)

    return compute(shape, element, name="batch_to_space_nd", tag=tag.INJECTIVE)
