"""A made-up network: a matrix product and a convolution of the same data, added up."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import var
from tilesmith.relay.function import Function
from tilesmith.relay.op import cast_like, nn, reshape, reshape_like
from tilesmith.relay.testing import layers
from tilesmith.relay.testing.init import create_workload

__all__ = ["get_net", "get_workload"]


def get_net(
    input_shape: tuple[int, ...] = (1, 3, 24, 12),
    dtype: str = "float32",
    wtype: str | None = None,
) -> Function:
    """Return the network; ``wtype`` is the dtype of its weights."""
    wtype = dtype if wtype is None else wtype
    data = var("data", shape=input_shape, dtype=dtype)
    channels, width = input_shape[1], input_shape[3]
    weight: Any = var("dense_weight", shape=(width, width), dtype=wtype)
    rows = reshape(data, (-1, width))
    dense = nn.relu(nn.dense(rows, cast_like(weight, data) if wtype != dtype else weight))
    weight = var("conv_weight", shape=(channels, channels, 3, 3), dtype=wtype)
    convolution = layers.conv2d(
        data,
        cast_like(weight, data) if wtype != dtype else weight,
        channels=channels,
        kernel_size=(3, 3),
        padding=(1, 1),
        name="conv",
    )
    bias: Any = var("conv_bias", shape=(channels,), dtype=wtype)
    bias = cast_like(bias, data) if wtype != dtype else bias
    found = nn.relu(nn.bias_add(convolution, bias)) + reshape_like(dense, data)
    return Function(free_vars(found), found)


def get_workload(
    input_shape: tuple[int, ...] = (1, 3, 24, 12),
    dtype: str = "float32",
    wtype: str | None = None,
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network, and values of its parameters."""
    return create_workload(get_net(input_shape, dtype, wtype))
