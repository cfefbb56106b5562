"""DenseNet: each layer reads what all layers before it made.

Huang, Liu, van der Maaten, Weinberger: Densely connected convolutional networks, 2017.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import var
from tilesmith.relay.function import Function
from tilesmith.relay.op import concatenate, nn
from tilesmith.relay.testing import layers
from tilesmith.relay.testing.init import create_workload
from tilesmith.support.errors import ConfigError

__all__ = ["get_workload"]

_NETWORKS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
"""Number of layers → channels of the first convolution, channels that each layer adds, and numbers
of layers in the blocks."""
_NARROW = 4


def _activated(data: Any, name: str) -> Any:
    return nn.relu(layers.batch_norm_infer(data, epsilon=1e-5, name=name))


def _layer(data: Any, growth: int, name: str) -> Any:
    found = _activated(data, f"{name}_bn1")
    found = layers.conv2d(
        found, channels=_NARROW * growth, kernel_size=(1, 1), name=f"{name}_conv1"
    )
    found = _activated(found, f"{name}_bn2")
    found = layers.conv2d(
        found, channels=growth, kernel_size=(3, 3), padding=(1, 1), name=f"{name}_conv2"
    )
    return concatenate((data, found), axis=1)


def _between(data: Any, channels: int, name: str) -> Any:
    found = _activated(data, f"{name}_bn")
    found = layers.conv2d(found, channels=channels, kernel_size=(1, 1), name=f"{name}_conv")
    return nn.avg_pool2d(found, pool_size=(2, 2), strides=(2, 2))


def _network(
    first: int, growth: int, blocks: tuple[int, ...], data: Any, num_classes: int
) -> Function:
    found = layers.conv2d(
        data, channels=first, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1"
    )
    found = _activated(found, "batch1")
    found = nn.max_pool2d(found, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    channels = first
    for block, count in enumerate(blocks, 1):
        for number in range(1, count + 1):
            found = _layer(found, growth, f"block{block}_layer{number}")
        channels += count * growth
        if block < len(blocks):
            channels //= 2
            found = _between(found, channels, f"transition{block}")
    found = nn.global_avg_pool2d(_activated(found, "batch2"))
    found = layers.dense_add_bias(nn.batch_flatten(found), units=num_classes, name="dense1")
    return Function(free_vars(found), found)


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network of 121, 161, 169 or 201 layers, and values of its
    parameters.
    """
    if densenet_size not in _NETWORKS:
        raise ConfigError(f"DenseNet has 121, 161, 169 or 201 layers, not {densenet_size}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    return create_workload(_network(*_NETWORKS[densenet_size], data, classes))
