"""A perceptron of three layers."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import var
from tilesmith.relay.function import Function
from tilesmith.relay.op import nn
from tilesmith.relay.testing.init import create_workload
from tilesmith.relay.testing.layers import dense_add_bias

__all__ = ["get_net", "get_workload"]


def get_net(
    batch_size: int,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> Function:
    """Return the function that gives the probabilities of classes."""
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    found = nn.batch_flatten(data)
    for number, units in enumerate((128, 64), 1):
        found = nn.relu(dense_add_bias(found, units=units, name=f"fc{number}"))
    found = nn.softmax(dense_add_bias(found, units=num_classes, name="fc3"))
    return Function(free_vars(found), found)


def get_workload(
    batch_size: int,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network, and values of its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
