"""Gradients of convolutions, of any rank, groups and layouts.

By the data, the gradient is a transposed convolution of that of the result; by the weight it is a
convolution of the data with the gradient, in which channels and items of the batch change places.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.op import convolution
from tilesmith.relax.op.backward import composed
from tilesmith.relax.op.convolution import SPATIAL
from tilesmith.relax.op.index import strided_slice
from tilesmith.relax.op.manipulate import permute_dims
from tilesmith.relax.op.views import reshape
from tilesmith.relax.spec import Gradient
from tilesmith.support.errors import UnsupportedError

__all__ = ["convolution_gradient", "transposed_gradient", "weight_gradient"]


def _info(expr: Any) -> Any:
    """Return what is known about a value; the caller knows of which kind it is."""
    return known_struct_info(expr)


def _function(rank: int, is_transposed: bool = False) -> Any:
    return getattr(convolution, f"conv{rank}d" + ("_transpose" if is_transposed else ""))


def _constant(expr: Any) -> list[int]:
    shape = _info(expr).concrete_shape
    if shape is None:
        raise UnsupportedError("the gradient of a convolution needs constant sizes")
    return [int(size) for size in shape]


def _order(source: str, wanted: str) -> list[int]:
    return [source.index(axis) for axis in wanted]


def weight_gradient(rank: int, data: Any, grad: Any, kernel: list[int], attrs: Any) -> Any:
    """Return the gradient of a weight (O, I of one group, window): of a convolution of ``data``
    whose result has the gradient ``grad``.
    """
    items, channels, *sizes = _constant(data)
    _, made, *_ = _constant(grad)
    groups = attrs.groups
    rest = list(range(3, rank + 3))
    parts = reshape(data, [items, groups, channels // groups, *sizes])
    parts = permute_dims(parts, [2, 1, 0, *rest])
    parts = reshape(parts, [channels // groups, groups * items, *sizes])
    found = _function(rank)(
        parts,
        permute_dims(grad, [1, 0, *range(2, rank + 2)]),
        strides=attrs.dilation,
        padding=attrs.padding,
        dilation=attrs.strides,
        groups=groups,
    )
    axes = list(range(2, rank + 2))
    cut = strided_slice(found, axes, [0] * rank, kernel[2:])
    return reshape(permute_dims(cut, [1, 0, *axes]), [made, channels // groups, *kernel[2:]])


def _turned(rank: int, is_transposed: bool) -> Gradient:
    """Return the gradient of a convolution in another layout: of what turns its axes."""
    axes = SPATIAL[rank]
    kernel = ("IO" if is_transposed else "OI") + axes

    def meaning(attrs: Any, data: Any, weight: Any) -> Any:
        if not {*attrs.data_layout, *attrs.kernel_layout} <= {*"NCOI", *axes}:
            raise UnsupportedError("the gradient of a convolution needs layouts without blocks")
        out = attrs.out_layout or attrs.data_layout
        given = {**dict(attrs.items()), "data_layout": "NC" + axes, "kernel_layout": kernel}
        found = _function(rank, is_transposed)(
            permute_dims(data, _order(attrs.data_layout, "NC" + axes)),
            permute_dims(weight, _order(attrs.kernel_layout, kernel)),
            **{**given, "out_layout": None},
        )
        return permute_dims(found, _order("NC" + axes, out))

    return composed(meaning)


def _is_plain(attrs: Any, rank: int, kernel: str) -> bool:
    data = "NC" + SPATIAL[rank]
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or data)
    return layouts == (data, kernel + SPATIAL[rank], data)


def convolution_gradient(rank: int) -> Gradient:
    """Return the gradient of the convolution along ``rank`` axes."""
    turned = _turned(rank, False)

    def gradient(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
        attrs = orig_call.attrs
        if not _is_plain(attrs, rank, "OI"):
            return turned(orig_var, orig_call, output_grad, ctx)
        data, weight = orig_call.args
        sizes, kernel, out = [_constant(one) for one in (data, weight, orig_var)]
        missing = []
        for axis in range(rank):
            pads = attrs.padding[axis] + attrs.padding[axis + rank]
            window = (kernel[axis + 2] - 1) * attrs.dilation[axis] + 1
            reached = (out[axis + 2] - 1) * attrs.strides[axis] - pads + window
            missing.append(sizes[axis + 2] - reached)
        by_data = _function(rank, True)(
            output_grad,
            weight,
            strides=attrs.strides,
            padding=attrs.padding,
            output_padding=missing,
            dilation=attrs.dilation,
            groups=attrs.groups,
        )
        return [by_data, weight_gradient(rank, data, output_grad, kernel, attrs)]

    return gradient


def transposed_gradient(rank: int) -> Gradient:
    """Return the gradient of the transposed convolution along ``rank`` axes."""
    turned = _turned(rank, True)

    def gradient(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
        attrs = orig_call.attrs
        if not _is_plain(attrs, rank, "IO"):
            return turned(orig_var, orig_call, output_grad, ctx)
        data, weight = orig_call.args
        by_data = _function(rank)(
            output_grad,
            weight,  # its axes I, O are those that a convolution back calls O, I
            strides=attrs.strides,
            padding=attrs.padding,
            dilation=attrs.dilation,
            groups=attrs.groups,
        )
        by_weight = weight_gradient(rank, output_grad, data, _constant(weight), attrs)
        return [by_data, by_weight]

    return gradient
