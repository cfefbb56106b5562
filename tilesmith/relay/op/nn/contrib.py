"""Convolutions and products on weights in blocks or transformed, on packed bits, and buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import (
    Schema,
    boolean,
    dtype,
    integer,
    optional,
    optional_integer,
    paddings,
    repeated,
    text,
)
from tilesmith.relax.op.convolution_gradients import weight_gradient
from tilesmith.relax.spec import topi
from tilesmith.relay.op.nn.convolution import convolution_fields
from tilesmith.relay.op.view import computed, define, function, name_or_empty, sizes
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.support.lazy import resolve

# Blocks of channels


def _blocked(name: str) -> Callable[..., Any]:
    def compute(attrs: Any, data: Any, kernel: Any) -> Any:
        return getattr(topi.nn, name)(
            data,
            kernel,
            attrs.strides,
            attrs.padding,
            attrs.dilation,
            attrs.data_layout,
            attrs.out_layout or attrs.data_layout,
            attrs.out_dtype or data.dtype,
        )

    return compute


def _blocked_schema() -> Schema:
    return Schema(**{**convolution_fields(2, "OIHW"), "data_layout": text("NCHW8c")})


for _name, _what in (
    ("conv2d_NCHWc", "A convolution of blocked data with a filter (O / b, I / a, H, W, a, b)."),
    ("depthwise_conv2d_NCHWc", "Blocked data, each channel with a filter (C / b, 1, H, W, 1, b)."),
):
    made = computed(
        "nn.contrib_" + _name,
        "data kernel",
        _blocked(_name),
        level=10,
        schema=_blocked_schema(),
        description=_what,
    )
    function("nn.contrib_" + _name.lower())(made)


def _dense_pack(attrs: Any, data: Any, weight: Any) -> Any:
    return topi.nn.dense_pack(data, weight, None, attrs.out_dtype or data.dtype)


computed(
    "nn.contrib_dense_pack",
    "data weight",
    _dense_pack,
    level=10,
    schema=Schema(
        weight_layout=text("NC"), units=optional_integer(), out_dtype=name_or_empty()
    ),
    description="``data @ w.T`` for a weight whose outputs are in tiles: (N / T, K, T).",
)


# Transformed weights


def _winograd_fields(dims: int, kernel_layout: str) -> dict[str, Any]:
    return {"tile_size": integer(4), **convolution_fields(dims, kernel_layout)}


def _winograd(attrs: Any, data: Any, weight: Any) -> Any:
    name = {"NCHW": "nchw", "NHWC": "nhwc"}.get(attrs.data_layout)
    if name is None or attrs.tile_size != 4 or attrs.groups != 1:
        raise OpAttributeInvalid(
            f"convolutions by tiles are of NCHW or NHWC data without groups, tile_size=4: "
            f"not {attrs.data_layout}, {attrs.groups} groups, tile_size={attrs.tile_size}"
        )
    compute = getattr(topi.nn, f"conv2d_winograd_{name}_without_weight_transform")
    return compute(
        data, weight, attrs.strides, attrs.padding, attrs.dilation, attrs.out_dtype or data.dtype
    )


computed(
    "nn.contrib_conv2d_winograd_without_weight_transform",
    "data weight",
    _winograd,
    level=10,
    schema=Schema(**_winograd_fields(2, "OIHW")),
    description=(
        "A convolution by tiles of 4 by 4 results, with a filter transformed before: (alpha, "
        "alpha, I, O) for NCHW data, (alpha, alpha, O, I) for NHWC."
    ),
)
for _name, _dims in (("conv2d", 2), ("conv3d", 3)):
    computed(
        f"nn.contrib_{_name}_winograd_weight_transform",
        "weight",
        lambda attrs, weight, name=_name: getattr(topi.nn, f"{name}_winograd_weight_transform")(
            weight, attrs.tile_size
        ),
        level=10,
        schema=Schema(tile_size=integer()),
        description="The filter as a convolution by tiles of results reads it.",
    )
computed(
    "nn.contrib_conv2d_gemm_weight_transform",
    "weights",
    lambda attrs, weights: topi.nn.conv2d_gemm_weight_transform(
        weights, attrs.tile_N, attrs.tile_K
    ),
    level=10,
    schema=Schema(tile_N=integer(), tile_K=integer()),
    description="An HWIO filter as a matrix in tiles.",
)


def _of_matrix(attrs: Any, data: Any, weight: Any) -> Any:
    if attrs.data_layout != "NHWC" or attrs.groups != 1:
        raise OpAttributeInvalid("convolutions by products of matrices are of NHWC data")
    if attrs.kernel_size is None or attrs.channels is None:
        raise OpAttributeInvalid("a filter as a matrix needs kernel_size and channels")
    compute = resolve("tilesmith.topi.schedules.other_forms:conv2d_of_packed_weights")
    return compute(
        data, weight, attrs.strides, attrs.padding, attrs.dilation,
        attrs.out_dtype or data.dtype, attrs.kernel_size, attrs.channels,
    )  # fmt: skip


computed(
    "nn.contrib_conv2d_gemm_without_weight_transform",
    "data weight",
    _of_matrix,
    level=10,
    schema=Schema(**convolution_fields(2, "HWIO")),
    description="A convolution of NHWC data with a filter that is a matrix in tiles.",
)


@function("nn.contrib_conv3d_winograd_without_weight_transform")
def contrib_conv3d_winograd_without_weight_transform(*_: Any, **__: Any) -> Any:
    """Raise UnsupportedError: three-dimensional convolutions are not computed by tiles."""
    raise UnsupportedError(
        "three-dimensional convolutions are not computed by tiles of results",
        notes=("relay.nn.conv3d computes the same from the filter itself",),
    )


@function("nn.contrib_conv2d_winograd_nnpack_weight_transform")
def contrib_conv2d_winograd_nnpack_weight_transform(*_: Any, **__: Any) -> Any:
    """Raise UnsupportedError: nothing here calls NNPACK, whose order of weights is its own."""
    raise UnsupportedError(
        "weights in NNPACK's own order are of no use: Tilesmith does not call NNPACK",
        notes=("nn.contrib_conv2d_winograd_weight_transform needs no library",),
    )


# Bits


computed(
    "nn.bitpack",
    "data",
    lambda attrs, data: topi.nn.bitpack(
        data, attrs.bits, attrs.pack_axis, attrs.bit_axis, attrs.pack_type, attrs.name
    ),
    level=2,
    schema=Schema(
        bits=integer(1),
        pack_axis=integer(1),
        bit_axis=integer(2),
        pack_type=dtype("uint32"),
        name=text("BitPack"),
    ),
    description="Pack the lowest bits of integers along an axis into words.",
)


def _bitserial_conv2d(attrs: Any, data: Any, weight: Any) -> Any:
    name = {"NCHW": "nchw", "NHWC": "nhwc"}.get(attrs.data_layout)
    if name is None:
        raise OpAttributeInvalid(
            f"bitserial_conv2d has the layouts NCHW and NHWC, not {attrs.data_layout}"
        )
    return getattr(topi.nn, "bitserial_conv2d_" + name)(
        data,
        weight,
        attrs.strides,
        attrs.padding,
        attrs.activation_bits,
        attrs.weight_bits,
        attrs.pack_dtype,
        attrs.out_dtype,
        attrs.unipolar,
    )


computed(
    "nn.bitserial_conv2d",
    "data weight",
    _bitserial_conv2d,
    level=2,
    schema=Schema(
        strides=repeated(2, least=1),
        padding=paddings(2),
        channels=optional_integer(),
        kernel_size=optional(repeated(2, least=1)),
        activation_bits=integer(1),
        weight_bits=integer(1),
        data_layout=text("NCHW"),
        kernel_layout=text("OIHW"),
        pack_dtype=dtype("uint32"),
        out_dtype=dtype("int16"),
        unipolar=boolean(True),
    ),
    description="A convolution of numbers of a few bits.",
)
computed(
    "nn.bitserial_dense",
    "data weight",
    lambda attrs, data, weight: topi.nn.bitserial_dense(
        data,
        weight,
        attrs.data_bits,
        attrs.weight_bits,
        attrs.pack_dtype,
        attrs.out_dtype,
        attrs.unipolar,
    ),
    level=1,
    schema=Schema(
        units=optional_integer(),
        data_bits=integer(1),
        weight_bits=integer(1),
        pack_dtype=dtype("uint32"),
        out_dtype=dtype("int16"),
        unipolar=boolean(True),
    ),
    description="``data @ weight.T`` of numbers of a few bits.",
)
computed(
    "nn.fifo_buffer",
    "data buffer",
    lambda attrs, data, buffer: topi.nn.fifo_buffer(data, buffer, attrs.axis),
    level=10,
    schema=Schema(axis=integer()),
    description="The last elements of a buffer followed by the data, as many as the buffer has.",
)


# The gradient of a weight


def _turned(tensor: Any, source: str, target: str) -> Any:
    """Return a tensor with its axes in another order."""
    if sorted(source) != sorted(target):
        raise OpAttributeInvalid(f"'{source}' and '{target}' do not have the same axes")
    order = [source.index(axis) for axis in target]
    return tensor if source == target else relax.permute_dims(tensor, order)


def _backward_weight(attrs: Any, grad: Any, data: Any) -> Any:
    if attrs.kernel_size is None:
        raise OpAttributeInvalid("conv2d_backward_weight needs kernel_size")
    grad = _turned(grad, attrs.grad_layout, "NCHW")
    data = _turned(data, attrs.data_layout, "NCHW")
    channels, outputs = sizes(data)[1], sizes(grad)[1]
    if attrs.channels is not None and attrs.channels != outputs:
        raise ShapeError(f"channels is {attrs.channels}, the gradient has {outputs}")
    kernel = [outputs, channels // attrs.groups, *attrs.kernel_size]
    found = weight_gradient(2, data, grad, kernel, attrs)
    found = _turned(found, "OIHW", attrs.kernel_layout)
    return relax.astype(found, attrs.out_dtype) if attrs.out_dtype else found


define(
    "nn.conv2d_backward_weight",
    "grad data",
    _backward_weight,
    level=2,
    schema=Schema(
        strides=repeated(2, least=1),
        padding=paddings(2),
        dilation=repeated(2, least=1),
        groups=integer(1, least=1),
        channels=optional_integer(),
        kernel_size=optional(repeated(2, least=1)),
        grad_layout=text("NCHW"),
        data_layout=text("NCHW"),
        kernel_layout=text("OIHW"),
        out_dtype=name_or_empty(),
    ),
    description="The gradient of a weight of ``conv2d``, from that of its result and the data.",
)
