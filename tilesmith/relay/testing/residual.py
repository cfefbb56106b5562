"""Residual networks with activations before convolutions, over two or three spatial axes.

He, Zhang, Ren, Sun: Identity mappings in deep residual networks, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import var
from tilesmith.relay.function import Function
from tilesmith.relay.op import nn
from tilesmith.relay.testing import layers
from tilesmith.support.errors import ConfigError

__all__ = ["Blocks", "network", "structure"]

_EPSILON = 2e-5
_LARGE = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}
"""Number of layers → units of each of four stages."""


@dataclass(frozen=True)
class Blocks:
    """The parts of residual networks in one layout."""

    layout: str
    kernel_layout: str

    @property
    def dims(self) -> int:
        """The number of spatial axes."""
        return len(self.layout) - 2

    def convolution(
        self, data: Any, channels: int, size: int | Sequence[int], stride: Any, name: str
    ) -> Any:
        """Return a convolution that keeps the sizes, but for its stride."""
        window = (size,) * self.dims if isinstance(size, int) else tuple(size)
        strides = (stride,) * self.dims if isinstance(stride, int) else tuple(stride)
        return getattr(layers, f"conv{self.dims}d")(
            data,
            channels=channels,
            kernel_size=window,
            strides=strides,
            padding=tuple([one // 2 for one in window]),
            data_layout=self.layout,
            kernel_layout=self.kernel_layout,
            name=name,
        )

    def activated(self, data: Any, name: str) -> Any:
        """Return data that is normalised and rectified."""
        axis = self.layout.index("C")
        return nn.relu(layers.batch_norm_infer(data, epsilon=_EPSILON, axis=axis, name=name))

    def unit(
        self, data: Any, channels: int, stride: Any, dim_match: bool, name: str, bottle_neck: bool
    ) -> Any:
        """Return data to which convolutions of it are added; ``dim_match``: it has the shape of
        their result already.
        """
        first = self.activated(data, name + "_bn1")
        if bottle_neck:
            inner = channels // 4
            found = self.convolution(first, inner, 1, stride, name + "_conv1")
            found = self.activated(found, name + "_bn2")
            found = self.convolution(found, inner, 3, 1, name + "_conv2")
            found = self.activated(found, name + "_bn3")
            found = self.convolution(found, channels, 1, 1, name + "_conv3")
        else:
            found = self.convolution(first, channels, 3, stride, name + "_conv1")
            found = self.activated(found, name + "_bn2")
            found = self.convolution(found, channels, 3, 1, name + "_conv2")
        if not dim_match:
            data = self.convolution(first, channels, 1, stride, name + "_sc")
        return found + data

    def beginning(self, data: Any, channels: int, is_small: bool) -> Any:
        """Return the data after the first convolution, and the pooling of large images."""
        axis = self.layout.index("C")
        data = layers.batch_norm_infer(
            data, epsilon=_EPSILON, scale=False, axis=axis, name="bn_data"
        )
        if is_small:
            return self.convolution(data, channels, 3, 1, "conv0")
        depth = (3,) * (self.dims - 2), (1,) * (self.dims - 2)
        found = self.convolution(data, channels, (*depth[0], 7, 7), (*depth[1], 2, 2), "conv0")
        pool = getattr(nn, f"max_pool{self.dims}d")
        window, padding, stride = (3,) * self.dims, (1,) * self.dims, (2,) * self.dims
        return pool(
            self.activated(found, "bn0"), window, stride, padding=padding, layout=self.layout
        )


def network(
    blocks: Blocks,
    units: Sequence[int],
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: Sequence[int],
    bottle_neck: bool,
    dtype: str,
) -> Function:
    """Return the function that gives the probabilities of classes."""
    data = var("data", shape=tuple(data_shape), dtype=dtype)
    is_small = int(data_shape[blocks.layout.index("H")]) <= 32
    found = blocks.beginning(data, filter_list[0], is_small)
    for stage, (count, channels) in enumerate(zip(units, filter_list[1:])):
        for number in range(count):
            stride = 1 if stage == 0 or number > 0 else 2
            name = f"stage{stage + 1}_unit{number + 1}"
            found = blocks.unit(found, channels, stride, number > 0, name, bottle_neck)
    found = blocks.activated(found, "bn1")
    found = getattr(nn, f"global_avg_pool{blocks.dims}d")(found, layout=blocks.layout)
    found = layers.dense_add_bias(nn.batch_flatten(found), units=num_classes, name="fc1")
    found = nn.softmax(found)
    return Function(free_vars(found), found)


def structure(num_layers: int, height: int) -> dict[str, Any]:
    """Return the units, channels and kind of blocks for a number of layers; images up to 28 rows
    get the networks for small images. Raises ConfigError for a number that there is not.
    """
    if height <= 28:
        if num_layers >= 164 and (num_layers - 2) % 9 == 0:
            units, channels, bottle_neck = (num_layers - 2) // 9, [16, 64, 128, 256], True
        elif num_layers < 164 and (num_layers - 2) % 6 == 0:
            units, channels, bottle_neck = (num_layers - 2) // 6, [16, 16, 32, 64], False
        else:
            raise ConfigError(
                f"no residual network for images of {height} rows has {num_layers} layers",
                notes=("up to 163 layers: 6n + 2 (20, 32, 56, 110), from 164: 9n + 2",),
            )
        return {"units": [units] * 3, "filter_list": channels, "bottle_neck": bottle_neck}
    if num_layers not in _LARGE:
        raise ConfigError(
            f"no residual network has {num_layers} layers",
            notes=("numbers of layers: " + ", ".join([str(one) for one in _LARGE]),),
        )
    bottle_neck = num_layers >= 50
    channels = [64, 256, 512, 1024, 2048] if bottle_neck else [64, 64, 128, 256, 512]
    return {
        "units": list(_LARGE[num_layers]),
        "filter_list": channels,
        "bottle_neck": bottle_neck,
    }
