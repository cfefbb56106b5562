"""SqueezeNet: few parameters by narrow layers before wide ones.

Iandola et al.: SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, 2016.
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

__all__ = ["get_net", "get_workload"]

_POOL = "pool"
_VERSIONS: dict[str, tuple[tuple[int, int], tuple[Any, ...]]] = {
    "1.0": (
        (96, 7),
        (_POOL, (16, 64), (16, 64), (32, 128), _POOL, (32, 128), (48, 192), (48, 192), (64, 256),
         _POOL, (64, 256)),
    ),
    "1.1": (
        (64, 3),
        (_POOL, (16, 64), (16, 64), _POOL, (32, 128), (32, 128), _POOL, (48, 192), (48, 192),
         (64, 256), (64, 256)),
    ),
}  # fmt: skip
"""Version → channels and window of the first convolution; then pools and fire modules, which have
channels of the narrow layer and of each of the two wide ones."""


def _convolution(data: Any, channels: int, size: int, name: str, padding: int = 0) -> Any:
    found = layers.conv2d(
        data,
        channels=channels,
        kernel_size=(size, size),
        padding=(padding, padding),
        name=name,
    )
    return nn.relu(nn.bias_add(found, var(name + "_bias")))


def _fire(data: Any, narrow: int, wide: int, name: str) -> Any:
    squeezed = _convolution(data, narrow, 1, name + "_input")
    left = _convolution(squeezed, wide, 1, name + "_left")
    right = _convolution(squeezed, wide, 3, name + "_right", 1)
    return concatenate((left, right), axis=1)


def get_net(
    batch_size: int, image_shape: tuple[int, ...], num_classes: int, version: str, dtype: str
) -> Function:
    """Return the network of a version, "1.0" or "1.1"."""
    if version not in _VERSIONS:
        raise ConfigError(f"SqueezeNet has the versions 1.0 and 1.1, not {version!r}")
    (channels, size), parts = _VERSIONS[version]
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    found = layers.conv2d(
        data, channels=channels, kernel_size=(size, size), strides=(2, 2), name="conv1"
    )
    found = nn.relu(nn.bias_add(found, var("conv1_bias")))
    number = 1
    for part in parts:
        if part == _POOL:
            found = nn.max_pool2d(found, pool_size=(3, 3), strides=(2, 2))
        else:
            narrow, wide = part
            found = _fire(found, narrow, wide, f"fire{number}")
            number += 1
    found = _convolution(nn.dropout(found, rate=0.5), num_classes, 1, "conv_final")
    found = nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(found)))
    return Function(free_vars(found), found)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network, and values of its parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
