"""Blocks of pixels as channels, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import simplify

__all__ = ["depth_to_space", "space_to_depth"]


def _axes(layout: str) -> list[int]:
    if layout not in ("NCHW", "NHWC"):
        raise UnsupportedError(f"layout '{layout}' is neither NCHW nor NHWC")
    return [layout.index(letter) for letter in "CHW"]


def _divided(size: Any, factor: int, what: str) -> PrimExpr:
    if op.is_const(size) and int(size) % factor:
        raise ShapeError(f"{what} of size {size} does not divide into blocks of {factor}")
    return simplify(op.floordiv(size, factor))


def _rearranged(data: Tensor, axes: list[int], sizes: Sequence[Any], place: Any, name: str) -> Any:
    shape = list(data.shape)
    for axis, size in zip(axes, sizes):
        shape[axis] = size

    def element(*i: Any) -> PrimExpr:
        own = list(i)
        for axis, index in zip(axes, place(*[i[axis] for axis in axes])):
            own[axis] = index
        return data(*own)

    return compute(shape, element, name=name, tag=tag.INJECTIVE)


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Turn each block of ``block_size`` by ``block_size`` pixels into one pixel: the position in
    the block is the outer part of the channel, the old channel the inner one.
    """
    axes, b = _axes(layout), block_size
    channels, height, width = [data.shape[axis] for axis in axes]

    def place(c: Any, y: Any, x: Any) -> tuple[Any, Any, Any]:
        block = op.floordiv(c, channels)
        return (
            op.floormod(c, channels),
            y * b + op.floordiv(block, b),
            x * b + op.floormod(block, b),
        )

    sizes = (channels * b * b, _divided(height, b, "height"), _divided(width, b, "width"))
    return _rearranged(data, axes, sizes, place, "space_to_depth")


def depth_to_space(
    data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR"
) -> Tensor:
    """Turn channels into blocks of ``block_size`` by ``block_size`` pixels.

    ``mode``: the place within the block is the outer ("DCR") or the inner part ("CRD") of the
    channel. Raises ShapeError where the channels do not fill blocks.
    """
    if mode not in ("DCR", "CRD"):
        raise UnsupportedError(f"depth_to_space: mode '{mode}' is neither DCR nor CRD")
    axes, b = _axes(layout), block_size
    channels, height, width = [data.shape[axis] for axis in axes]
    depth = _divided(channels, b * b, "channels")

    def place(c: Any, y: Any, x: Any) -> tuple[Any, Any, Any]:
        block = op.floormod(y, b) * b + op.floormod(x, b)
        channel = block * depth + c if mode == "DCR" else c * (b * b) + block
        return channel, op.floordiv(y, b), op.floordiv(x, b)

    return _rearranged(data, axes, (depth, height * b, width * b), place, "depth_to_space")
