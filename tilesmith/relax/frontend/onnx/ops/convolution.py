"""Convolutions, also transposed, of integers, and deformed."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.values import rank_of, shape_of
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

_CONVOLUTIONS = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_TRANSPOSED = {1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose}

AUTO_PAD = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def spatial_list(node: OnnxNode, name: str, count: int, default: int) -> list[int]:
    """Return an attribute with one number for each spatial axis. The default, 0 or 1, is the
    smallest number that is allowed, too.
    """
    values = node.attribute(name) or [default] * count
    if len(values) != count:
        raise OpAttributeInvalid(
            f"its attribute '{name}' has {len(values)} numbers for {count} spatial axes"
        )
    if any(value < default for value in values):
        raise OpAttributeInvalid(
            f"its attribute '{name}' is {list(values)}; each number has to be at least {default}"
        )
    return [int(value) for value in values]


def spatial_rank(x: Any) -> int:
    """Return the number of spatial axes of a tensor (N, C, …), 1 to 3."""
    rank = rank_of(x) - 2
    if rank not in _CONVOLUTIONS:
        raise ShapeError(f"it needs a tensor (N, C, spatial…) of rank 3 to 5, got rank {rank + 2}")
    return rank


def same_padding(
    node: OnnxNode, sizes: list[Any], extents: list[int], strides: list[int], lower: bool
) -> list[int]:
    """Return the padding under which the result has ``size / stride`` elements, rounded up."""
    before, after = [], []
    for size, extent, stride in zip(sizes, extents, strides):
        if not isinstance(size, int) and stride != 1:
            raise node.unsupported(
                "auto_pad with strides on an axis of symbolic size",
                "give the shapes of the model's inputs with shape_dict",
            )
        first, last = same_padding_of_axis(size, extent, stride, lower)
        before.append(first)
        after.append(last)
    return before + after


def same_padding_of_axis(size: Any, extent: int, stride: int, lower: bool) -> tuple[int, int]:
    """Return the padding before and after one axis; with a stride of 1 any size has the same."""
    total = extent - 1
    if stride != 1:
        total = max(0, (-(-size // stride) - 1) * stride + extent - size)
    small, large = total // 2, total - total // 2
    return (large, small) if lower else (small, large)


def padding_of(
    node: OnnxNode, sizes: list[Any], kernel: list[int], strides: list[int], dilations: list[int]
) -> list[int]:
    """Return padding before each spatial axis, then after each, from ``pads`` and ``auto_pad``."""
    rank = len(kernel)
    mode = node.choice("auto_pad", "NOTSET", *AUTO_PAD)
    if mode == "VALID":
        return [0] * (2 * rank)
    if mode == "NOTSET":
        pads = [int(value) for value in node.attribute("pads") or [0] * (2 * rank)]
        if len(pads) != 2 * rank:
            raise OpAttributeInvalid(
                f"its attribute 'pads' has {len(pads)} numbers for {rank} spatial axes"
            )
        return pads
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    return same_padding(node, sizes, extents, strides, mode == "SAME_LOWER")


def kernel_shape(node: OnnxNode, weight: Any, rank: int) -> list[int]:
    """Return the spatial sizes of a weight, which an attribute may repeat."""
    sizes = shape_of(weight)[2:]
    given = node.attribute("kernel_shape")
    if given is not None and (len(given) != rank or list(given) != list(sizes)):
        raise OpAttributeInvalid(
            f"its attribute 'kernel_shape' is {list(given)}, the weight has {list(sizes)}"
        )
    if len(sizes) != rank or not all(isinstance(size, int) for size in sizes):
        raise ShapeError(f"its weight needs {rank} constant spatial sizes, got {sizes}")
    if 0 in sizes:
        raise ShapeError(f"its kernel has the sizes {sizes}")
    return [int(size) for size in sizes]


def with_bias(x: Any, bias: Any) -> Any:
    """Return ``x`` (N, C, spatial…) plus one number for each channel."""
    if bias is None:
        return x
    (channels,) = shape_of(bias, 1)
    return op.add(x, op.reshape(bias, [1, channels, *[1] * (rank_of(x) - 2)]))


def convolve(node: OnnxNode, x: Any, weight: Any, out_dtype: Any = None) -> Any:
    """Return the convolution that a node's attributes describe, without bias."""
    rank = spatial_rank(x)
    kernel = kernel_shape(node, weight, rank)
    strides = spatial_list(node, "strides", rank, 1)
    dilations = spatial_list(node, "dilations", rank, 1)
    padding = padding_of(node, shape_of(x)[2:], kernel, strides, dilations)
    return _CONVOLUTIONS[rank](
        x,
        weight,
        strides=strides,
        padding=padding,
        dilation=dilations,
        groups=int(node.attribute("group", 1)),
        out_dtype=out_dtype,
    )


@converter("Conv")
def _conv(node: OnnxNode) -> Any:
    product = convolve(node, node[0], node[1])
    if not node.has(2):
        return product
    return with_bias(node.emit(product), node[2])


@converter("ConvTranspose")
def _conv_transpose(node: OnnxNode) -> Any:
    x, weight = node[0], node[1]
    rank = spatial_rank(x)
    kernel = kernel_shape(node, weight, rank)
    strides = spatial_list(node, "strides", rank, 1)
    dilations = spatial_list(node, "dilations", rank, 1)
    extra = spatial_list(node, "output_padding", rank, 0)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    padding, extra = _transposed_padding(node, shape_of(x)[2:], extents, strides, extra)
    product = _TRANSPOSED[rank](
        x,
        weight,
        strides=strides,
        padding=padding,
        output_padding=extra,
        dilation=dilations,
        groups=int(node.attribute("group", 1)),
    )
    if not node.has(2):
        return product
    return with_bias(node.emit(product), node[2])


def _transposed_padding(
    node: OnnxNode, sizes: list[Any], extents: list[int], strides: list[int], extra: list[int]
) -> tuple[list[int], list[int]]:
    """Return padding (before, then after) and output padding of a transposed convolution."""
    rank = len(extents)
    mode = node.choice("auto_pad", "NOTSET", *AUTO_PAD)
    wanted = node.attribute("output_shape")
    if wanted is not None:
        wanted = [int(value) for value in wanted][-rank:]
    elif mode == "VALID":
        return [0] * (2 * rank), extra
    elif mode == "NOTSET":
        return [int(value) for value in node.attribute("pads") or [0] * (2 * rank)], extra
    before, after, rest = [], [], []
    for i in range(rank):
        # Without padding the result has (size - 1) * stride + extent + extra elements.
        if wanted is None:
            total = extents[i] + extra[i] - strides[i]
        elif isinstance(sizes[i], int):
            total = (sizes[i] - 1) * strides[i] + extents[i] + extra[i] - wanted[i]
        else:
            raise node.unsupported("output_shape with a symbolic size")
        rest.append(extra[i] + max(0, -total))
        total = max(0, total)
        half = total // 2
        before.append(total - half if mode != "SAME_UPPER" else half)
        after.append(half if mode != "SAME_UPPER" else total - half)
    return before + after, rest


@converter("ConvInteger")
def _conv_integer(node: OnnxNode) -> Any:
    x, weight = op.astype(node[0], "int32"), op.astype(node[1], "int32")
    if node.has(2):
        x = op.subtract(x, op.astype(node[2], "int32"))
    if node.has(3):
        zero = op.astype(node[3], "int32")
        if rank_of(zero) == 1:
            zero = op.reshape(zero, [-1, *[1] * (rank_of(weight) - 1)])
        weight = op.subtract(weight, zero)
    return convolve(node, node.emit(x), node.emit(weight))
