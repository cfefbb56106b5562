"""Inception v3: towers of convolutions side by side.

Szegedy, Vanhoucke, Ioffe, Shlens, Wojna: Rethinking the inception architecture for computer vision,
2015.
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

__all__ = [
    "Conv", "Inception7A", "Inception7B", "Inception7C", "Inception7D", "Inception7E", "Pooling",
    "get_net", "get_workload",
]  # fmt: skip

_EPSILON = 2e-5


def Conv(
    data: Any,
    num_filter: int,
    kernel: tuple[int, int] = (1, 1),
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int] = (0, 0),
    name: str | None = None,
    suffix: str = "",
) -> Any:
    """Return a convolution, normalised and rectified."""
    found = layers.conv2d(
        data,
        channels=num_filter,
        kernel_size=kernel,
        strides=stride,
        padding=pad,
        name=f"{name}{suffix}_conv1",
    )
    found = layers.batch_norm_infer(found, epsilon=_EPSILON, scale=False, name=f"{name}{suffix}_bn")
    return nn.relu(found)


def Pooling(
    data: Any,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    pool_type: str,
    name: str,
) -> Any:
    """Return a pool, "max" or "avg"; the mean counts what is padded."""
    if pool_type == "max":
        return nn.max_pool2d(data, pool_size=kernel, strides=stride, padding=pad)
    if pool_type == "avg":
        return nn.avg_pool2d(
            data, pool_size=kernel, strides=stride, padding=pad, count_include_pad=True
        )
    raise ConfigError(f"{name}: a pool is 'max' or 'avg', not {pool_type!r}")


def _tower(data: Any, name: str, *steps: tuple[int, tuple[int, int]], stride: int = 1) -> Any:
    """Return convolutions one after the other; they keep the sizes, but for one with a stride."""
    found = data
    for number, (channels, kernel) in enumerate(steps):
        is_last = number == len(steps) - 1 and stride > 1
        pad = (0, 0) if is_last else (kernel[0] // 2, kernel[1] // 2)
        strides = (stride, stride) if is_last else (1, 1)
        suffix = "_conv" if number == 0 else f"_conv_{number}"
        found = Conv(found, channels, kernel, strides, pad, name, suffix)
    return found


def _projected(data: Any, pool: str, channels: int, name: str) -> Any:
    pooled = Pooling(data, (3, 3), (1, 1), (1, 1), pool, f"{pool}_pool_{name}_pool")
    return Conv(pooled, channels, name=f"{name}_tower_2", suffix="_conv")


def _joined(*towers: Any) -> Any:
    return concatenate(towers, axis=1)


def Inception7A(
    data: Any,
    num_1x1: int,
    num_3x3_red: int,
    num_3x3_1: int,
    num_3x3_2: int,
    num_5x5_red: int,
    num_5x5: int,
    pool: str,
    proj: int,
    name: str,
) -> Any:
    """Return towers with windows of 1, 5 and twice 3."""
    return _joined(
        Conv(data, num_1x1, name=f"{name}_conv"),
        _tower(data, f"{name}_tower", (num_5x5_red, (1, 1)), (num_5x5, (5, 5))),
        _tower(
            data,
            f"{name}_tower_1",
            (num_3x3_red, (1, 1)),
            (num_3x3_1, (3, 3)),
            (num_3x3_2, (3, 3)),
        ),
        _projected(data, pool, proj, name),
    )


def Inception7B(
    data: Any,
    num_3x3: int,
    num_d3x3_red: int,
    num_d3x3_1: int,
    num_d3x3_2: int,
    pool: str,
    name: str,
) -> Any:
    """Return towers that halve the sizes."""
    return _joined(
        _tower(data, f"{name}_conv", (num_3x3, (3, 3)), stride=2),
        _tower(
            data,
            f"{name}_tower",
            (num_d3x3_red, (1, 1)),
            (num_d3x3_1, (3, 3)),
            (num_d3x3_2, (3, 3)),
            stride=2,
        ),
        Pooling(data, (3, 3), (2, 2), (0, 0), pool, f"{pool}_pool_{name}_pool"),
    )


def Inception7C(
    data: Any,
    num_1x1: int,
    num_d7_red: int,
    num_d7_1: int,
    num_d7_2: int,
    num_q7_red: int,
    num_q7_1: int,
    num_q7_2: int,
    num_q7_3: int,
    num_q7_4: int,
    pool: str,
    proj: int,
    name: str,
) -> Any:
    """Return towers with windows of seven places in a row, then in a column."""
    return _joined(
        Conv(data, num_1x1, name=f"{name}_conv"),
        _tower(data, f"{name}_tower", (num_d7_red, (1, 1)), (num_d7_1, (1, 7)), (num_d7_2, (7, 1))),
        _tower(
            data,
            f"{name}_tower_1",
            (num_q7_red, (1, 1)),
            (num_q7_1, (7, 1)),
            (num_q7_2, (1, 7)),
            (num_q7_3, (7, 1)),
            (num_q7_4, (1, 7)),
        ),
        _projected(data, pool, proj, name),
    )


def Inception7D(
    data: Any,
    num_3x3_red: int,
    num_3x3: int,
    num_d7_3x3_red: int,
    num_d7_1: int,
    num_d7_2: int,
    num_d7_3x3: int,
    pool: str,
    name: str,
) -> Any:
    """Return towers that halve the sizes, one of them with windows of seven places."""
    return _joined(
        _tower(data, f"{name}_tower", (num_3x3_red, (1, 1)), (num_3x3, (3, 3)), stride=2),
        _tower(
            data,
            f"{name}_tower_1",
            (num_d7_3x3_red, (1, 1)),
            (num_d7_1, (1, 7)),
            (num_d7_2, (7, 1)),
            (num_d7_3x3, (3, 3)),
            stride=2,
        ),
        Pooling(data, (3, 3), (2, 2), (0, 0), pool, f"{pool}_pool_{name}_pool"),
    )


def Inception7E(
    data: Any,
    num_1x1: int,
    num_d3_red: int,
    num_d3_1: int,
    num_d3_2: int,
    num_3x3_d3_red: int,
    num_3x3: int,
    num_3x3_d3_1: int,
    num_3x3_d3_2: int,
    pool: str,
    proj: int,
    name: str,
) -> Any:
    """Return towers whose ends are a row and a column of three places side by side."""
    second = _tower(data, f"{name}_tower", (num_d3_red, (1, 1)))
    third = _tower(data, f"{name}_tower_1", (num_3x3_d3_red, (1, 1)), (num_3x3, (3, 3)))
    return _joined(
        Conv(data, num_1x1, name=f"{name}_conv"),
        Conv(second, num_d3_1, (1, 3), pad=(0, 1), name=f"{name}_tower", suffix="_mixed_conv"),
        Conv(second, num_d3_2, (3, 1), pad=(1, 0), name=f"{name}_tower", suffix="_mixed_conv_1"),
        Conv(third, num_3x3_d3_1, (1, 3), pad=(0, 1), name=f"{name}_tower_1", suffix="_mixed_conv"),
        Conv(
            third, num_3x3_d3_2, (3, 1), pad=(1, 0), name=f"{name}_tower_1", suffix="_mixed_conv_1"
        ),
        _projected(data, pool, proj, name),
    )


def _beginning(data: Any) -> Any:
    found = Conv(data, 32, (3, 3), stride=(2, 2), name="conv")
    found = Conv(found, 32, (3, 3), name="conv_1")
    found = Conv(found, 64, (3, 3), pad=(1, 1), name="conv_2")
    found = Pooling(found, (3, 3), (2, 2), (0, 0), "max", "pool")
    found = Conv(found, 80, name="conv_3")
    found = Conv(found, 192, (3, 3), name="conv_4")
    return Pooling(found, (3, 3), (2, 2), (0, 0), "max", "pool1")


def get_net(
    batch_size: int, num_classes: int, image_shape: tuple[int, ...], dtype: str
) -> Function:
    """Return the network; images have 299 rows and columns, at least 75."""
    found = _beginning(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    for number, projected in enumerate((32, 64, 64)):
        name = "mixed" if number == 0 else f"mixed_{number}"
        found = Inception7A(found, 64, 64, 96, 96, 48, 64, "avg", projected, name)
    found = Inception7B(found, 384, 64, 96, 96, "max", "mixed_3")
    for number, inner in enumerate((128, 160, 160, 192), 4):
        first, second = (inner, inner, 192), (inner, inner, inner, inner, 192)
        found = Inception7C(found, 192, *first, *second, "avg", 192, f"mixed_{number}")
    found = Inception7D(found, 192, 320, 192, 192, 192, 192, "max", "mixed_8")
    for number, pool in ((9, "avg"), (10, "max")):
        channels = (320, 384, 384, 384, 448, 384, 384, 384)
        found = Inception7E(found, *channels, pool, 192, f"mixed_{number}")
    flat = nn.batch_flatten(nn.global_avg_pool2d(found))
    found = nn.softmax(layers.dense_add_bias(flat, units=num_classes, name="fc1"))
    return Function(free_vars(found), found)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 299, 299),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network, and values of its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
