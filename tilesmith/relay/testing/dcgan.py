"""The generator of DCGAN: pictures from random numbers.

Radford, Metz, Chintala: Unsupervised representation learning with deep convolutional generative
adversarial networks, 2015.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import var
from tilesmith.relay.function import Function
from tilesmith.relay.op import nn, reshape, tanh
from tilesmith.relay.testing import layers
from tilesmith.relay.testing.init import create_workload
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

__all__ = ["deconv2d", "deconv2d_bn_relu", "get_net", "get_workload"]

_KERNELS = {"NCHW": "IOHW", "NHWC": "HWOI"}
_EPSILON = 1e-5 + 1e-12


def _kernel_layout(layout: str) -> str:
    if layout not in _KERNELS:
        raise OpAttributeInvalid(f"the generator has the layouts NCHW and NHWC, not {layout}")
    return _KERNELS[layout]


def deconv2d(
    data: Any,
    ishape: tuple[int, ...],
    oshape: tuple[int, ...],
    kshape: tuple[int, int],
    layout: str,
    name: str,
    stride: tuple[int, int] = (2, 2),
) -> Any:
    """Return a transposed convolution from one shape (channels, rows, columns) to another."""
    padding, missing = [], []
    for axis in (0, 1):
        extra = (ishape[axis + 1] - 1) * stride[axis] + kshape[axis] - oshape[axis + 1]
        if not -stride[axis] < extra < 2 * kshape[axis]:
            raise ShapeError(f"deconv2d: no padding makes {oshape} of {ishape}")
        padding.append((max(extra, 0) + 1) // 2)
        missing.append(2 * padding[axis] - extra)
    return layers.conv2d_transpose(
        data,
        kernel_size=kshape,
        strides=stride,
        channels=oshape[0],
        padding=tuple(padding),
        output_padding=tuple(missing),
        data_layout=layout,
        kernel_layout=_kernel_layout(layout),
        name=name,
    )


def deconv2d_bn_relu(data: Any, prefix: str, **kwargs: Any) -> Any:
    """Return a transposed convolution, normalised and rectified."""
    found = deconv2d(data, name=f"{prefix}_deconv", **kwargs)
    axis = kwargs["layout"].index("C")
    found = layers.batch_norm_infer(
        found, epsilon=_EPSILON, scale=False, axis=axis, name=f"{prefix}_batch_norm"
    )
    return nn.relu(found)


def get_net(
    batch_size: int,
    random_len: int = 100,
    oshape: tuple[int, ...] = (3, 64, 64),
    ngf: int = 128,
    code: Any = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return the function that makes pictures of the shape (channels, rows, columns); ``ngf`` is
    the number of channels before the last convolution.
    """
    if oshape[-1] != 64 or oshape[-2] != 64:
        raise ShapeError(f"the generator makes pictures of 64 x 64, not {oshape}")
    code = var("data", shape=(batch_size, random_len), dtype=dtype) if code is None else code
    found = nn.dense(code, var("dense_weight"), units=4 * 4 * ngf * 8)
    found = nn.relu(found)
    channels, size = ngf * 8, 4
    in_order = (-1, channels, size, size) if layout == "NCHW" else (-1, size, size, channels)
    found = reshape(found, in_order)
    for number in (2, 3, 4):
        made = (channels // 2, size * 2, size * 2)
        found = deconv2d_bn_relu(
            found,
            f"g{number}",
            ishape=(channels, size, size),
            oshape=made,
            kshape=(4, 4),
            layout=layout,
        )
        channels, size = made[0], made[1]
    found = deconv2d(found, (channels, size, size), oshape[-3:], (4, 4), layout, "g5_deconv")
    found = tanh(found)
    return Function(free_vars(found), found)


def get_workload(
    batch_size: int,
    oshape: tuple[int, ...] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the generator, and values of its parameters."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, None, layout, dtype))
