"""Layers with variables for their weights, which are named after the layer."""

from __future__ import annotations

from typing import Any

from tilesmith.relay.expr import TupleWrapper, var
from tilesmith.relay.op import nn
from tilesmith.support.errors import ConfigError, OpAttributeInvalid

__all__ = [
    "batch_norm_infer", "conv2d", "conv2d_transpose", "conv3d", "conv_kernel_layout",
    "dense_add_bias",
]  # fmt: skip

_KERNELS = {"NCHW": "OIHW", "NHWC": "HWIO", "NCDHW": "OIDHW", "NDHWC": "DHWIO"}


def _name(options: dict[str, Any], layer: str) -> str:
    name = options.pop("name", None)
    if not name:
        raise ConfigError(f"{layer} needs a name", notes=('write name="conv0"',))
    return str(name)


def _weight(given: Any, name: str) -> Any:
    return var(name) if given is None else given


def batch_norm_infer(
    data: Any,
    gamma: Any = None,
    beta: Any = None,
    moving_mean: Any = None,
    moving_var: Any = None,
    **kwargs: Any,
) -> Any:
    """Return the normalised data; ``name`` names the variables that are not given."""
    name = _name(kwargs, "batch_norm_infer")
    result: TupleWrapper = nn.batch_norm(
        data,
        _weight(gamma, name + "_gamma"),
        _weight(beta, name + "_beta"),
        _weight(moving_mean, name + "_moving_mean"),
        _weight(moving_var, name + "_moving_var"),
        **kwargs,
    )
    return result[0]


def conv2d(data: Any, weight: Any = None, **kwargs: Any) -> Any:
    """Return a convolution; ``name`` names its weight."""
    name = _name(kwargs, "conv2d")
    return nn.conv2d(data, _weight(weight, name + "_weight"), **kwargs)


def conv3d(data: Any, weight: Any = None, **kwargs: Any) -> Any:
    """Return a convolution over three axes; ``name`` names its weight."""
    name = _name(kwargs, "conv3d")
    return nn.conv3d(data, _weight(weight, name + "_weight"), **kwargs)


def conv2d_transpose(data: Any, weight: Any = None, **kwargs: Any) -> Any:
    """Return a transposed convolution; ``name`` names its weight."""
    name = _name(kwargs, "conv2d_transpose")
    return nn.conv2d_transpose(data, _weight(weight, name + "_weight"), **kwargs)


def dense_add_bias(
    data: Any, weight: Any = None, bias: Any = None, units: int | None = None, **kwargs: Any
) -> Any:
    """Return a matrix product with a bias added; ``name`` names both variables."""
    name = _name(kwargs, "dense_add_bias")
    product = nn.dense(data, _weight(weight, name + "_weight"), units, **kwargs)
    return nn.bias_add(product, _weight(bias, name + "_bias"), axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the usual layout of weights for data of a layout."""
    if data_layout not in _KERNELS:
        raise OpAttributeInvalid(
            f"there is no usual layout of weights for data in {data_layout}",
            notes=("layouts of data: " + ", ".join(_KERNELS),),
        )
    if is_depthwise and data_layout == "NHWC":
        return "HWOI"
    return _KERNELS[data_layout]
