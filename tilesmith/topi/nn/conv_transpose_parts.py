"""Transposed convolutions as convolutions: of data with zeros between its elements, by a filter
that is turned round.

These are for schedules that want the two parts as stages of their own; `conv_transpose` computes
the same without zeros in memory.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.convolution import conv
from tilesmith.topi.nn.dilate import dilate
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import SPATIAL, Numbers, Padding, get_pad_tuple_generic, per_axis
from tilesmith.topi.transform import transpose
from tilesmith.topi.utils import DType, get_const_int, same_size
from tilesmith.topi.variants import variant

__all__ = [
    "conv2d_transpose_nchw_preprocess", "conv3d_transpose_ncdhw_preprocess",
    "declaration_conv2d_transpose_impl", "declaration_conv3d_transpose_impl", "layout_transform",
]  # fmt: skip


def layout_transform(tensor: Tensor, current_layout: str, desired_layout: str) -> Tensor:
    """Return a tensor with its axes in another order: `transpose` by letters."""
    if sorted(current_layout) != sorted(desired_layout) or len(current_layout) != len(tensor.shape):
        raise ShapeError(
            f"layout_transform: '{current_layout}' and '{desired_layout}' of {len(tensor.shape)} "
            "dimensions",
            notes=("topi.layout_transform knows layouts with blocks",),
        )
    if current_layout == desired_layout:
        return tensor
    return transpose(tensor, [current_layout.index(letter) for letter in desired_layout])


def _preprocess(
    rank: int,
    data: Tensor,
    kernel: Tensor,
    strides: Numbers,
    padding: Padding,
    out_dtype: DType | None,
    output_padding: Numbers,
) -> tuple[Tensor, Tensor]:
    if len(data.shape) != rank + 2 or len(kernel.shape) != rank + 2:
        raise ShapeError(f"conv{rank}d_transpose: data and kernel have {rank + 2} dimensions")
    if not same_size(data.shape[1], kernel.shape[0]):
        raise ShapeError(
            f"conv{rank}d_transpose: the input has {data.shape[1]} channels, the filter takes "
            f"{kernel.shape[0]}"
        )
    steps = per_axis(strides, rank, "strides")
    extra = per_axis(output_padding, rank, "output_padding", 0)
    sizes = [get_const_int(size) for size in kernel.shape[2:]]
    before, after = get_pad_tuple_generic(padding, sizes)
    dilated = dilate(data, [1, 1, *steps], name="data_dilate")
    # A padding that is larger than the filter's reach cuts elements off.
    padded = pad(
        dilated,
        [0, 0, *[size - 1 - low for size, low in zip(sizes, before)]],
        [0, 0, *[size - 1 - high + more for size, high, more in zip(sizes, after, extra)]],
        name="data_pad",
    )

    def turned(*i: Any) -> PrimExpr:
        return kernel(i[1], i[0], *[size - 1 - at for size, at in zip(sizes, i[2:])])

    shape = [kernel.shape[1], kernel.shape[0], *kernel.shape[2:]]
    return padded, compute(shape, turned, name="kernel_transform", tag="injective")


def _implementation(
    rank: int,
    data: Tensor,
    kernel: Tensor,
    strides: Numbers,
    padding: Padding,
    out_dtype: DType | None,
    output_padding: Numbers,
) -> Tensor:
    parts = _preprocess(rank, data, kernel, strides, padding, out_dtype, output_padding)
    return conv(*parts, 1, 0, 1, 1, "NC" + SPATIAL[rank], out_dtype=out_dtype or data.dtype)


_PREPROCESS = """Return the two operands of the convolution (strides 1, no padding) that gives a
    transposed one: the data with zeros between and around its elements, and the filter, outputs
    first and turned round. ``out_dtype`` has no influence.
    """
_IMPLEMENTATION = """Return a transposed convolution as a convolution of what the preprocessing
    gives; parameters as in `{}`.
    """

conv2d_transpose_nchw_preprocess = variant(
    "conv2d_transpose_nchw_preprocess", _preprocess, 2, _PREPROCESS
)
conv3d_transpose_ncdhw_preprocess = variant(
    "conv3d_transpose_ncdhw_preprocess", _preprocess, 3, _PREPROCESS
)
declaration_conv2d_transpose_impl = variant(
    "declaration_conv2d_transpose_impl",
    _implementation,
    2,
    _IMPLEMENTATION.format("conv2d_transpose_nchw"),
)
declaration_conv3d_transpose_impl = variant(
    "declaration_conv3d_transpose_impl",
    _implementation,
    3,
    _IMPLEMENTATION.format("conv3d_transpose_ncdhw"),
)
