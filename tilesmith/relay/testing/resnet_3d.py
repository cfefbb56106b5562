"""Residual networks for films: convolutions over time, too.

He, Zhang, Ren, Sun: Identity mappings in deep residual networks, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.function import Function
from tilesmith.relay.testing import resnet as networks

__all__ = ["get_net", "get_workload", "residual_unit", "resnet"]


def residual_unit(
    data: Any,
    num_filter: int,
    stride: Any,
    dim_match: bool,
    name: str,
    bottle_neck: bool = True,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
) -> Any:
    """Return data to which convolutions of it are added; ``dim_match``: it has the shape of their
    result already.
    """
    return networks.residual_unit(
        data, num_filter, stride, dim_match, name, bottle_neck, data_layout, kernel_layout
    )


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: Sequence[int],
    bottle_neck: bool = True,
    layout: str = "NCDHW",
    dtype: str = "float32",
) -> Function:
    """Return the network of the given numbers of units and of channels (those of the first
    convolution, then of each stage).
    """
    return networks.resnet(
        units, num_stages, filter_list, num_classes, data_shape, bottle_neck, layout, dtype
    )


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> Function:
    """Return the network of a number of layers; ``image_shape`` is in the order of the layout."""
    return networks.get_net(
        batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs
    )


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network, and values of its parameters."""
    return networks.get_workload(
        batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs
    )
