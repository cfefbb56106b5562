"""Filters as the matrices that convolutions by matrix products read."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid
from tilesmith.te import Tensor
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.utils import get_const_int

__all__ = ["conv2d_gemm_weight_transform"]


def conv2d_gemm_weight_transform(
    kernel: Tensor,
    tile_N: int,
    tile_K: int,
    use_scalable_vectors: bool = False,
    use_sme: bool = False,
) -> Tensor:
    """Return an HWIO filter as a matrix of K = H * W * I rows and N = O columns, filled up with
    zeros to whole tiles, tile by tile: (N / tile_N, K / tile_K, tile_N, tile_K).

    For vectors whose length is not known (``use_scalable_vectors``, ``use_sme``) it is the matrix
    itself, (K, N), and for SME on float16 its transposed.
    """
    if tile_N < 1 or tile_K < 1:
        raise OpAttributeInvalid(f"tiles of {tile_N} by {tile_K} elements")
    height, width, inner, outer = [get_const_int(size) for size in kernel.shape]
    length = height * width * inner

    def row(k: Any, n: Any) -> PrimExpr:
        place = op.floordiv(k, inner)
        return kernel(
            op.floordiv(place, width), op.floormod(place, width), op.floormod(k, inner), n
        )

    flat = compute((length, outer), row, name="weight_flatten", tag="injective")
    flat = pad(flat, [0, 0], [-length % tile_K, -outer % tile_N], name="weight_padding")
    rows, columns = [get_const_int(size) for size in flat.shape]
    if use_sme and kernel.dtype == "float16":
        return compute(
            (columns, rows), lambda n, k: flat(k, n), name="weight_transpose", tag="injective"
        )
    if use_scalable_vectors or use_sme:
        return flat
    return compute(
        (columns // tile_N, rows // tile_K, tile_N, tile_K),
        lambda n, k, y, x: flat(k * tile_K + x, n * tile_N + y),
        name="weight_block_reshape",
        tag="injective",
    )
