"""Products, convolutions, normalisations, attention: what layers are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import PrimExpr
from tilesmith.relax import op
from tilesmith.relax.expr import const
from tilesmith.relax.frontend.nn import core
from tilesmith.relax.frontend.nn.core import Tensor, wrap_nested
from tilesmith.relax.frontend.nn.op.arguments import IntExpr, expression
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeInvalid, OpAttributeRequired, ShapeError

__all__ = [
    "conv1d", "conv1d_transpose", "conv2d", "conv3d", "get_timestep_embedding", "group_norm",
    "interpolate", "layer_norm", "matmul", "rms_norm", "scaled_dot_product_attention",
]  # fmt: skip

Sizes = Any
"""A number for all axes, or one for each."""


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """Return the product of matrices, with broadcasting of the axes before the last two."""
    left, right = expression(a, "matmul", "a"), expression(b, "matmul", "b")
    made: Tensor = wrap_nested(op.matmul(left, right, out_dtype), name)
    return made


def _convolution(
    operator: Callable[..., Any],
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    called: str,
    name: str,
    layout: str,
    **settings: Any,
) -> Tensor:
    data, kernel = expression(x, called), expression(weight, called, "weight")
    result = operator(data, kernel, data_layout=layout, **settings)
    if bias is not None:
        shape = [-1 if axis == "C" else 1 for axis in layout]
        result = op.add(result, op.reshape(expression(bias, called, "bias"), shape))
    made: Tensor = wrap_nested(result, name)
    return made


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    name: str = "conv1d",
) -> Tensor:
    """Return a convolution of (batch, channels, length)."""
    return _convolution(
        op.nn.conv1d, x, weight, bias, "conv1d", name, "NCW",
        strides=stride, padding=padding, dilation=dilation, groups=groups,
    )  # fmt: skip


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    name: str = "conv2d",
) -> Tensor:
    """Return a convolution of images; the weight is (outputs, inputs, height, width)."""
    return _convolution(
        op.nn.conv2d, x, weight, bias, "conv2d", name, data_layout,
        strides=stride, padding=padding, dilation=dilation, groups=groups,
    )  # fmt: skip


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_layout: str = "NCDHW",
    name: str = "conv3d",
) -> Tensor:
    """Return a convolution of volumes; the weight is (outputs, inputs, depth, height, width)."""
    return _convolution(
        op.nn.conv3d, x, weight, bias, "conv3d", name, data_layout,
        strides=stride, padding=padding, dilation=dilation, groups=groups,
    )  # fmt: skip


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    name: str = "conv1d_transpose",
) -> Tensor:
    """Return a transposed convolution; the weight is (inputs, outputs, length)."""
    return _convolution(
        op.nn.conv1d_transpose, x, weight, bias, "conv1d_transpose", name, "NCW",
        strides=stride, padding=padding, output_padding=output_padding, dilation=dilation,
        groups=groups,
    )  # fmt: skip


def layer_norm(
    x: Tensor,
    normalized_shape: int | list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """Return the tensor with mean 0 and variance 1 over its last axes, scaled and shifted."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    value = expression(x, "layer_norm")
    gamma = _or_constant(weight, shape, x.dtype, 1, "layer_norm", "weight")
    beta = _or_constant(bias, shape, x.dtype, 0, "layer_norm", "bias")
    axes = list(range(-len(shape), 0))
    made: Tensor = wrap_nested(op.nn.layer_norm(value, gamma, beta, axes, eps), name)
    return made


def _or_constant(
    value: Tensor | None, shape: list[Any], dtype: str, fill: float, called: str, what: str
) -> Any:
    """Return a tensor's expression, or a constant in its place."""
    if value is not None:
        return expression(value, called, what)
    if any(isinstance(size, PrimExpr) for size in shape):
        return op.full(shape, const(fill, dtype), dtype)
    return const(numpy.full(shape, fill, DataType(dtype).numpy()))


def rms_norm(
    x: Tensor,
    weight: Tensor,
    axes: int | list[int],
    epsilon: float = 1e-5,
    name: str = "rms_norm",
) -> Tensor:
    """Return the tensor divided by its root mean square over axes, scaled."""
    value, gamma = expression(x, "rms_norm"), expression(weight, "rms_norm", "weight")
    made: Tensor = wrap_nested(op.nn.rms_norm(value, gamma, axes, epsilon), name)
    return made


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
    channel_axis: int = 1,
    axes: list[int] | None = None,
    name: str = "group_norm",
) -> Tensor:
    """Return the tensor with mean 0 and variance 1 over each group of channels and ``axes``
    (default: all but the first and the channels), scaled and shifted.
    """
    value, channel = expression(x, "group_norm"), channel_axis % x.ndim
    over = axes or [axis for axis in range(x.ndim) if axis not in (0, channel)]
    shape = [x.shape[channel]]
    gamma = _or_constant(weight, shape, x.dtype, 1, "group_norm", "weight")
    beta = _or_constant(bias, shape, x.dtype, 0, "group_norm", "bias")
    result = op.nn.group_norm(value, gamma, beta, num_groups, channel, over, eps)
    made: Tensor = wrap_nested(result, name)
    return made


def get_timestep_embedding(
    x: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1,
    scale: float = 1,
    max_period: int = 10000,
    name: str = "get_timestep_embedding",
) -> Tensor:
    """Return sines and cosines of times (one axis) with falling frequencies: (times,
    embedding_dim).
    """
    times = op.expand_dims(op.astype(expression(x, "get_timestep_embedding"), "float32"), 1)
    half = embedding_dim // 2
    rate = -math.log(max_period) / (half - downscale_freq_shift)
    frequencies = numpy.exp(numpy.arange(half, dtype="float32") * rate)[None]
    angles = op.multiply(times, const((frequencies * scale).astype("float32")))
    waves = [op.sin(angles), op.cos(angles)]
    result = op.concat(waves[::-1] if flip_sin_to_cos else waves, -1)
    if embedding_dim % 2:
        result = op.nn.pad(result, [0, 0, 0, 1])
    made: Tensor = wrap_nested(op.astype(result, core.get_default_dtype()), name)
    return made


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    name: str = "scaled_dot_product_attention",
) -> Tensor:
    """Return attention of (batch, sequence, heads, features).

    The mask is added to the scores (batch, heads, queries, keys), or tells where there may be
    attention if it is boolean. With ``is_causal`` query ``i`` sees the keys up to ``i``.
    """
    called = "scaled_dot_product_attention"
    q, k = expression(query, called, "query"), expression(key, called, "key")
    v = expression(value, called, "value")
    bias = None if attn_mask is None else expression(attn_mask, called, "attn_mask")
    if attn_mask is not None and DataType(attn_mask.dtype).is_bool:
        none, blocked = const(0, query.dtype), const(-math.inf, query.dtype)
        bias = op.where(bias, none, blocked)
    causal = "TopLeft" if is_causal else None
    result = op.nn.attention(q, k, v, bias=bias, scale=scale, causal_mask=causal)
    made: Tensor = wrap_nested(result, name)
    return made


_METHODS = {"nearest": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}


def interpolate(
    x: Tensor,
    size: int | tuple[IntExpr, ...] | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool | None = None,
    data_layout: str = "NCHW",
    name: str = "interpolate",
) -> Tensor:
    """Return images in another size, or times a factor.

    A factor gives sizes rounded down, which decide where pixels are taken from, as with
    ``recompute_scale_factor`` in torch.
    """
    if mode not in _METHODS:
        raise OpAttributeInvalid(
            f"nn.op.interpolate has no mode '{mode}'", notes=("known: " + ", ".join(_METHODS),)
        )
    if antialias:
        raise OpAttributeInvalid(
            "nn.op.interpolate: antialias is not supported", notes=("smooth the image before",)
        )
    if data_layout not in ("NCHW", "NHWC"):
        raise OpAttributeInvalid(f"nn.op.interpolate: no layout '{data_layout}'")
    value = expression(x, "interpolate")
    before = x.shape[2:] if data_layout == "NCHW" else x.shape[1:3]
    sizes = _new_sizes(before, size, scale_factor)
    place = (
        "align_corners" if align_corners else "asymmetric" if mode == "nearest" else "half_pixel"
    )
    result = op.image.resize2d(
        value, sizes, layout=data_layout, method=_METHODS[mode],
        coordinate_transformation_mode=place, rounding_method="floor", cubic_alpha=-0.75,
    )  # fmt: skip
    made: Tensor = wrap_nested(result, name)
    return made


def _new_sizes(before: list[Any], size: Any, factor: Any) -> list[Any]:
    if (size is None) == (factor is None):
        raise OpAttributeRequired("nn.op.interpolate needs either size or scale_factor")
    given = factor if size is None else size
    values = list(given) if isinstance(given, (list, tuple)) else [given] * len(before)
    if len(values) != len(before):
        raise ShapeError(f"nn.op.interpolate: {len(values)} sizes for {len(before)} axes")
    if size is not None:
        return values
    made = []
    for old, each in zip(before, values):
        if isinstance(old, PrimExpr) and each != int(each):
            raise ShapeError(
                f"nn.op.interpolate: the symbolic size {old} times {each} is no whole number",
                notes=("give the size instead",),
            )
        made.append(old * int(each) if isinstance(old, PrimExpr) else int(old * each))
    return made
