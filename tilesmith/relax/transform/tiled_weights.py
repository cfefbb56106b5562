"""Weights cut into tiles of columns, as kernels with packed weights read them."""

from __future__ import annotations

import numpy

from tilesmith.relax.expr import Constant
from tilesmith.runtime import nd

__all__ = ["tiled_weights"]


def tiled_weights(weights: numpy.ndarray, width: int) -> Constant:
    """Return weights ``(…, columns)`` as ``(tiles, …, width)``, padded with zeros."""
    columns = weights.shape[-1]
    full, rest = divmod(columns, width)
    made = nd.empty((full + bool(rest), *weights.shape[:-1], width), str(weights.dtype))
    tiles = made.numpy_view()
    split = weights[..., : full * width].reshape(*weights.shape[:-1], full, width)
    tiles[:full] = numpy.moveaxis(split, -2, 0)
    if rest:
        tiles[full, ..., :rest] = weights[..., full * width :]
        tiles[full, ..., rest:] = 0
    return Constant(made)
