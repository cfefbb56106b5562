"""Weights whose elements a tuner has put into another order.

A rewritten layout lists parts of axes from the slowest to the fastest, each as its size and the
name of its axis: "4k16n8k" is a weight of 32 by 16 elements, the 32 of k in 4 blocks of 8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import product, ravel_index, same_size, unravel_index

__all__ = ["given_weight"]

_PART = re.compile(r"(\d+)([A-Za-z_][\w.@]*?)(?=\d|$)")


def given_weight(
    weight: Tensor, axes: Sequence[str], rewritten_layout: str | None, original_shape: Any
) -> Tensor:
    """Return a weight with the axes that an operator reads.

    ``rewritten_layout``: the weight stands in that order, ``axes`` are the names of the original
    axes. ``original_shape``: the shape that the weight had before its elements were rearranged; one
    that differs is refused, because it does not say how they were.
    """
    if rewritten_layout and original_shape:
        raise OpAttributeInvalid("a weight was rewritten by one tuner only, two are named")
    if rewritten_layout:
        return _restored(weight, list(axes), rewritten_layout)
    if original_shape and (
        len(original_shape) != len(weight.shape)
        or not all(same_size(a, b) for a, b in zip(original_shape, weight.shape))
    ):
        raise UnsupportedError(
            f"a weight of shape {list(weight.shape)} that once had the shape "
            f"{list(original_shape)}: the order of its elements is not known",
            notes=("give the weight in its original layout",),
        )
    return weight


def _restored(weight: Tensor, axes: list[str], layout: str) -> Tensor:
    """Return a weight in the order of ``axes``, from one in a rewritten layout."""
    parts = [(int(size), name) for size, name in _PART.findall(layout.replace(" ", ""))]
    if "".join(f"{size}{name}" for size, name in parts) != layout.replace(" ", ""):
        raise OpAttributeInvalid(
            f"'{layout}' is not a rewritten layout", notes=("such as 4k16n8k: sizes and axes",)
        )
    if {name for _, name in parts} != set(axes):
        raise OpAttributeInvalid(f"the rewritten layout '{layout}' has not the axes {axes}")
    sizes = [size for size, _ in parts]
    if not same_size(product(sizes), product(weight.shape)):
        raise ShapeError(f"a weight of shape {list(weight.shape)} does not fit '{layout}'")
    own = {axis: [size for size, name in parts if name == axis] for axis in axes}
    shape = [product(own[axis]) for axis in axes]

    def element(*indices: Any) -> PrimExpr:
        rest: dict[str, Any] = dict(zip(axes, indices))
        found = []
        for size, name in reversed(parts):
            found.append(op.floormod(rest[name], size) if size > 1 else const(0, "int32"))
            rest[name] = op.floordiv(rest[name], size)
        place = found[::-1]
        if len(weight.shape) == len(place):
            return weight(*place)
        return weight(*unravel_index(ravel_index(place, sizes), weight.shape))

    return compute(shape, element, name="original_weight", tag=tag.INJECTIVE)
