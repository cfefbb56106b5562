"""Convolutions and transposed convolutions of one to three spatial axes."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import ShapeExpr
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    full_like_shape,
    rank_of,
    reshape,
    shape_of,
)
from tilesmith.relax.frontend.torch.registry import converter

_PLAIN = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_TRANSPOSED = {
    1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose,
}  # fmt: skip


@converter("convolution", "_convolution")
def _convolution(node: AtenNode) -> Any:
    return convolution(node, bool(node["transposed"]), node.ints("output_padding"))


@converter("conv1d", "conv2d", "conv3d")
def _plain(node: AtenNode) -> Any:
    return convolution(node, False, [0])


@converter("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _transposed(node: AtenNode) -> Any:
    return convolution(node, True, node.ints("output_padding"))


def convolution(node: AtenNode, transposed: bool, output_padding: list[int]) -> Any:
    """Convert a convolution whose arguments have torch's names; a missing batch axis is added."""
    x, weight = node.tensor("input"), node.tensor("weight")
    if any(isinstance(size, int) and size == 0 for size in [*node.shape, *shape_of(weight)]):
        return _of_nothing(node)
    rank = rank_of(weight) - 2
    is_batch = rank_of(x) == rank + 2
    if not is_batch:
        x = reshape(x, [1, *shape_of(x)])
    found = _convolve(node, x, weight, rank, transposed, output_padding)
    if node.has("bias"):
        bias = node.tensor("bias")
        found = op.add(found, reshape(bias, [1, *shape_of(bias), *[1] * rank]))
    return found if is_batch else op.reshape(found, ShapeExpr(node.shape))


def _of_nothing(node: AtenNode) -> Any:
    found = full_like_shape(node.shape, 0, node.dtype)
    if not node.has("bias"):
        return found
    bias, rank = node.tensor("bias"), len(node.shape)
    spatial = rank_of(node.tensor("weight")) - 2
    lead = [1] if rank == spatial + 2 else []
    return op.add(found, reshape(bias, [*lead, *shape_of(bias), *[1] * spatial]))


def _convolve(
    node: AtenNode, x: Any, weight: Any, rank: int, transposed: bool, output_padding: list[int]
) -> Any:
    strides, dilation = node.ints("stride", rank), node.ints("dilation", rank)
    padding = node.get("padding", 0)
    if isinstance(padding, str):
        before, after = _named_padding(node, padding, shape_of(weight)[2:], dilation)
    else:
        before = after = node.ints("padding", rank)
    settings = {
        "strides": strides,
        "padding": [*before, *after],
        "dilation": dilation,
        "groups": int(node["groups"]),
    }
    if not transposed:
        return _PLAIN[rank](x, weight, **settings)
    extra = output_padding * rank if len(output_padding) == 1 else output_padding
    return _TRANSPOSED[rank](x, weight, output_padding=extra, **settings)


def _named_padding(
    node: AtenNode, name: str, kernel: list[Any], dilation: list[int]
) -> tuple[list[int], list[int]]:
    if name == "valid":
        return [0] * len(kernel), [0] * len(kernel)
    totals = [(size - 1) * step for size, step in zip(node.static(kernel, "padding"), dilation)]
    return [total // 2 for total in totals], [total - total // 2 for total in totals]
