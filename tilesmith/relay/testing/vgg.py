"""VGG: many convolutions of three by three, then three large matrix products.

Simonyan, Zisserman: Very deep convolutional networks for large-scale image recognition, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import var
from tilesmith.relay.function import Function
from tilesmith.relay.op import nn
from tilesmith.relay.testing import layers
from tilesmith.relay.testing.init import create_workload
from tilesmith.support.errors import ConfigError

__all__ = ["get_classifier", "get_feature", "get_net", "get_workload"]

_LAYERS = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
"""Number of layers → convolutions before each pool."""
_FILTERS = (64, 128, 256, 512, 512)


def get_feature(
    internal_layer: Any, layers: Sequence[int], filters: Sequence[int], batch_norm: bool = False
) -> Any:
    """Return the data after the given numbers of convolutions, of which each has the given numbers
    of channels, and pools.
    """
    found = internal_layer
    for stage, (count, channels) in enumerate(zip(layers, filters), 1):
        for number in range(1, count + 1):
            found = _convolution(found, channels, f"{stage}_{number}", batch_norm)
        found = nn.max_pool2d(found, pool_size=(2, 2), strides=(2, 2))
    return found


def _convolution(data: Any, channels: int, name: str, batch_norm: bool) -> Any:
    found = layers.conv2d(
        data, channels=channels, kernel_size=(3, 3), padding=(1, 1), name="conv" + name
    )
    found = nn.bias_add(found, var(f"conv{name}_bias"))
    if batch_norm:
        found = layers.batch_norm_infer(found, name="bn" + name)
    return nn.relu(found)


def get_classifier(input_data: Any, num_classes: int) -> Any:
    """Return the scores of classes."""
    found = nn.batch_flatten(input_data)
    for name in ("fc6", "fc7"):
        found = nn.relu(layers.dense_add_bias(found, units=4096, name=name))
        found = nn.dropout(found, rate=0.5)
    return layers.dense_add_bias(found, units=num_classes, name="fc8")


def get_net(
    batch_size: int,
    image_shape: tuple[int, ...],
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """Return the network of 11, 13, 16 or 19 layers."""
    if num_layers not in _LAYERS:
        raise ConfigError(f"VGG has 11, 13, 16 or 19 layers, not {num_layers}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    found = get_feature(data, _LAYERS[num_layers], _FILTERS, batch_norm)
    found = nn.softmax(get_classifier(found, num_classes))
    return Function(free_vars(found), found)


def get_workload(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network, and values of its parameters."""
    net = get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm)
    return create_workload(net)
