"""Operators under names that tell how they are carried out elsewhere: by a library of a vendor, by
micro kernels, on weights in tiles. Here each is the operator itself, compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith import te
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid
from tilesmith.target import Target
from tilesmith.te import Tensor
from tilesmith.topi.schedules.computes import argsort, exclusive_scan, inclusive_scan, sort_by_key
from tilesmith.topi.schedules.features import target_has_avx2, target_has_avx512, target_has_vnni
from tilesmith.topi.schedules.published import operator

__all__ = [
    "argsort_by_thrust", "check_int8_applicable", "check_vnni_applicable", "conv1d_of_words",
    "conv2d_of_layout", "conv2d_of_packed_weights", "conv2d_of_transposed_weights",
    "conv2d_of_words", "conv2d_transpose_of_layout", "conv3d_of_layout", "get_conv2d_padding",
    "pad_dim_to_multiple", "scan_by_thrust", "sort_by_key_by_thrust", "sort_by_thrust",
    "topk_by_thrust",
]  # fmt: skip


# Convolutions


def conv2d_of_layout(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, groups: int = 1,
    layout: str = "NCHW", out_dtype: Any = "float32",
) -> Tensor:  # fmt: skip
    """Return a convolution of data in a layout with the filter of that layout."""
    return _conv(data, kernel, strides, padding, dilation, groups, layout, "", out_dtype)


conv3d_of_layout = conv2d_of_layout


def conv2d_of_layout_without_groups(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any,
    layout: str = "NCHW", out_dtype: Any = "float32",
) -> Tensor:  # fmt: skip
    """Return a convolution of data in a layout with the filter of that layout."""
    return conv2d_of_layout(data, kernel, strides, padding, dilation, 1, layout, out_dtype)


def conv1d_of_words(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: Any
) -> Tensor:
    """Return a convolution of NWC data with a WOI filter, whose rows are read by words."""
    return _conv(data, kernel, strides, padding, dilation, 1, "NWC", "WOI", out_dtype)


def conv2d_of_words(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: Any
) -> Tensor:
    """Return a convolution of NHWC data with an HWOI filter, whose rows are read by words."""
    return _conv(data, kernel, strides, padding, dilation, 1, "NHWC", "HWOI", out_dtype)


def _conv(*arguments: Any) -> Tensor:
    result: Tensor = operator("nn.conv")(*arguments)
    return result


def conv2d_transpose_of_layout(
    x: Tensor, w: Tensor, stride: Any, padding: Any, out_dtype: Any,
    output_padding: Any = (0, 0), layout: str = "NCHW", groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return a transposed convolution of NCHW data."""
    if layout != "NCHW":
        raise OpAttributeInvalid(
            f"a transposed convolution of {layout} data",
            notes=("use topi.layout_transform around that of NCHW data",),
        )
    result: Tensor = operator("nn.group_conv2d_transpose_nchw")(
        x, w, stride, padding, out_dtype, output_padding, groups
    )
    return result


# Weights in tiles: see topi.nn.conv2d_gemm_weight_transform


def conv2d_of_packed_weights(
    data: Tensor, B: Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: Any,
    kernel_size: Any = None, output_channels: Any = None, *_: Any,
) -> Tensor:  # fmt: skip
    """Return a convolution of NHWC data with weights that conv2d_gemm_weight_transform made: tiles
    (N / tile_N, K / tile_K, tile_N, tile_K), or the matrix (K, N).
    """
    if len(B.shape) == 4:
        rows, columns = B.shape[2], B.shape[3]

        def element(k: Any, n: Any) -> Any:
            places = (op.floordiv(n, rows), op.floordiv(k, columns))
            return B(*places, op.floormod(n, rows), op.floormod(k, columns))

    else:

        def element(k: Any, n: Any) -> Any:
            return B(k, n)

    return _of_matrix(element, data, strides, padding, dilation, out_dtype, kernel_size,
                      output_channels)  # fmt: skip


def conv2d_of_transposed_weights(
    data: Tensor, B: Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: Any,
    kernel_size: Any = None, output_channels: Any = None, *_: Any,
) -> Tensor:  # fmt: skip
    """Return a convolution of NHWC data with weights as a matrix (N, K)."""
    return _of_matrix(lambda k, n: B(n, k), data, strides, padding, dilation, out_dtype,
                      kernel_size, output_channels)  # fmt: skip


def _of_matrix(
    matrix: Callable[[Any, Any], Any], data: Tensor, strides: Any, padding: Any, dilation: Any,
    out_dtype: Any, kernel_size: Any, output_channels: Any,
) -> Tensor:  # fmt: skip
    if kernel_size is None or output_channels is None:
        raise OpAttributeInvalid(
            "packed weights do not tell the window and the number of channels of the result",
            notes=("give kernel_size=(3, 3), output_channels=64",),
        )
    height, width = kernel_size
    inner = data.shape[3]
    kernel = te.compute(
        (height, width, inner, output_channels),
        lambda h, w, i, o: matrix((h * width + w) * inner + i, o),
        name="weight_unpacked",
        tag="injective",
    )
    result: Tensor = operator("nn.conv2d_nhwc")(data, kernel, strides, padding, dilation, out_dtype)
    return result


def pad_dim_to_multiple(dim: Any, multiple: Any) -> tuple[Any, Any]:
    """Return the next multiple from a size on, and how much it is larger."""
    padding = (-dim) % multiple
    return dim + padding, padding


def get_conv2d_padding(M: Any, K: Any, tile_M: Any, tile_K: Any) -> tuple[Any, Any]:
    """Return by how much the sizes of a matrix have to grow to become multiples of a tile's."""
    return pad_dim_to_multiple(M, tile_M)[1], pad_dim_to_multiple(K, tile_K)[1]


# Sorting


def sort_by_thrust(data: Tensor, axis: int = -1, is_ascend: int = 1, workspace: Any = None) -> Any:
    """Return the sorted elements."""
    return operator("sort")(data, axis=axis, is_ascend=is_ascend)


def argsort_by_thrust(
    data: Tensor, axis: int = -1, is_ascend: int = 1, dtype: str = "float32",
    ret_type: str = "indices", workspace: Any = None,
) -> Any:  # fmt: skip
    """Return the positions of the sorted elements; with ``ret_type="both"`` the elements first."""
    return argsort(data, axis, is_ascend, dtype, ret_type)


def topk_by_thrust(
    data: Tensor, k: Any = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False,
    dtype: str = "int64", workspace: Any = None,
) -> Any:  # fmt: skip
    """Return the largest elements, their positions, or both."""
    return operator("topk")(data, k, axis, ret_type, is_ascend, dtype)


def sort_by_key_by_thrust(
    keys: Tensor, values: Tensor, for_scatter: bool = False, workspace: Any = None
) -> Any:
    """Return sorted keys, and values in the order of their keys."""
    if for_scatter:  # keys are positions, of which negative ones count from the end
        size = op.cast(keys.dtype, keys.shape[0])
        keys = te.compute(
            keys.shape,
            lambda i: op.add(keys(i), size * op.cast(keys.dtype, keys(i) < 0)),
            name="at",
        )
    return sort_by_key(keys, values)


def scan_by_thrust(
    data: Tensor, output_dtype: Any, exclusive: bool = True, return_reduction: bool = False,
    binop: Any = None, workspace: Any = None,
) -> Any:  # fmt: skip
    """Return for each element what the elements before it (and it) combine to: by default sums."""
    if exclusive:
        return exclusive_scan(data, -1, return_reduction, output_dtype, binop)
    return inclusive_scan(data, -1, output_dtype, binop)


# Questions about products of bytes


def check_int8_applicable(x: Any, y: Any, allow_padding: bool = False) -> bool:
    """Return whether the current target multiplies two matrices of bytes by its dot products."""
    target = Target.current(allow_none=False)
    has_vectors = any(ask(target) for ask in (target_has_avx2, target_has_avx512, target_has_vnni))
    return has_vectors and _are_bytes(x, y) and (allow_padding or _fits(y.shape))


def check_vnni_applicable(x: Any, y: Any) -> bool:
    """Return whether the current target multiplies two matrices of bytes by VNNI."""
    has_vnni = target_has_vnni(Target.current(allow_none=False))
    return has_vnni and _are_bytes(x, y) and _fits(y.shape)


def _are_bytes(x: Any, y: Any) -> bool:
    return all(str(one.dtype) in ("int8", "uint8") for one in (x, y))


def _fits(shape: Sequence[Any]) -> bool:
    return int(shape[-2]) % 16 == 0 and int(shape[-1]) % 4 == 0
