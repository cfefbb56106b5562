"""MobileNet: convolutions of each channel by itself, then of the channels at each place.

Howard et al.: MobileNets: efficient convolutional neural networks for mobile vision applications,
2017.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import var
from tilesmith.relay.function import Function
from tilesmith.relay.op import nn
from tilesmith.relay.testing import layers
from tilesmith.relay.testing.init import create_workload

__all__ = ["conv_block", "get_workload", "mobile_net", "separable_conv_block"]

_BLOCKS = (
    (64, False),
    (128, True),
    (128, False),
    (256, True),
    (256, False),
    (512, True),
    *[(512, False)] * 5,
    (1024, True),
    (1024, False),
)
"""Channels of each block, and whether it halves the sizes; shallow networks lack the five in the
middle."""


def _activated(data: Any, epsilon: float, layout: str, name: str) -> Any:
    axis = layout.index("C")
    return nn.relu(layers.batch_norm_infer(data, epsilon=epsilon, axis=axis, name=name))


def conv_block(
    data: Any,
    name: str,
    channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
) -> Any:
    """Return data after a convolution, a normalisation and a rectifier."""
    found = layers.conv2d(
        data,
        channels=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=padding,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=name + "_conv",
    )
    return _activated(found, epsilon, layout, name + "_bn")


def separable_conv_block(
    data: Any,
    name: str,
    depthwise_channels: int,
    pointwise_channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    downsample: bool = False,
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Any:
    """Return data after a convolution of each channel by itself, and one of the channels."""
    shape: tuple[int, ...] = (depthwise_channels, 1, *kernel_size)
    if layout == "NHWC":
        shape = (*kernel_size, depthwise_channels, 1)
    found = layers.conv2d(
        data,
        var(name + "_weight", shape=shape, dtype=dtype),
        channels=depthwise_channels,
        groups=depthwise_channels,
        kernel_size=kernel_size,
        strides=(2, 2) if downsample else (1, 1),
        padding=padding,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout, is_depthwise=True),
        name=name + "_depthwise_conv1",
    )
    found = _activated(found, epsilon, layout, name + "_bn1")
    found = layers.conv2d(
        found,
        channels=pointwise_channels,
        kernel_size=(1, 1),
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=name + "_conv2",
    )
    return _activated(found, epsilon, layout, name + "_bn2")


def mobile_net(
    num_classes: int = 1000,
    data_shape: tuple[int, ...] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """Return the network; ``alpha`` multiplies all numbers of channels."""
    data = var("data", shape=data_shape, dtype=dtype)
    channels = int(32 * alpha)
    found = conv_block(data, "conv_block_1", channels, strides=(2, 2), layout=layout)
    blocks = [*_BLOCKS[:6], *_BLOCKS[11:]] if is_shallow else _BLOCKS
    for number, (wanted, downsample) in enumerate(blocks, 1):
        made = int(wanted * alpha)
        found = separable_conv_block(
            found,
            f"separable_conv_block_{number}",
            channels,
            made,
            downsample=downsample,
            layout=layout,
            dtype=dtype,
        )
        channels = made
    flat = nn.batch_flatten(nn.global_avg_pool2d(found, layout=layout))
    found = nn.softmax(layers.dense_add_bias(flat, units=num_classes, name="fc"))
    return Function(free_vars(found), found)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network, and values of its parameters."""
    shape = (batch_size, *image_shape)
    return create_workload(mobile_net(num_classes, shape, dtype, layout=layout))
