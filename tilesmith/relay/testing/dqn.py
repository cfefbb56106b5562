"""The network that learnt to play games: the values of actions, from four pictures.

Mnih et al.: Human-level control through deep reinforcement learning, 2015.
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

__all__ = ["get_net", "get_workload"]

_CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, size of the window and stride of each convolution."""


def get_net(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """Return the function that gives the value of each action."""
    found: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for number, (channels, size, stride) in enumerate(_CONVOLUTIONS, 1):
        found = layers.conv2d(
            found,
            channels=channels,
            kernel_size=(size, size),
            strides=(stride, stride),
            data_layout=layout,
            kernel_layout=layers.conv_kernel_layout(layout),
            name=f"conv{number}",
        )
        found = nn.bias_add(found, var(f"conv{number}_bias"), axis=layout.index("C"))
        found = nn.relu(found)
    found = layers.dense_add_bias(nn.batch_flatten(found), units=512, name="dense1")
    found = layers.dense_add_bias(nn.relu(found), units=num_actions, name="dense2")
    return Function(free_vars(found), found)


def get_workload(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network, and values of its parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
