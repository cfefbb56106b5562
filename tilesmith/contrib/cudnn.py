"""What programs ask about cuDNN: whether it is there, and the sizes of its results.

Its functions are not called: convolutions and softmax are compiled.
"""

from __future__ import annotations

import ctypes.util
from collections.abc import Sequence
from typing import Any, NoReturn

from tilesmith.support.errors import ShapeError, UnknownNameError, UnsupportedError

__all__ = [
    "algo_to_index", "conv_backward_data", "conv_backward_data_find_algo", "conv_backward_filter",
    "conv_backward_filter_find_algo", "conv_dgrad_shape", "conv_forward", "conv_forward_find_algo",
    "conv_output_shape", "exists", "log_softmax", "softmax",
]  # fmt: skip


def exists() -> bool:
    """True if the library is on this machine."""
    return ctypes.util.find_library("cudnn") is not None


_ALGORITHMS = {
    "fwd": (
        "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING", "WINOGRAD",
        "WINOGRAD_NONFUSED", "COUNT",
    ),
    "bwd_filter": ("0", "1", "FFT", "3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING", "COUNT"),
    "bwd_data": ("0", "1", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED", "COUNT"),
}  # fmt: skip
"""cuDNN's algorithms for convolutions, in the order of their numbers."""


def algo_to_index(algo_type: str, algo_name: str) -> int:
    """Return the number of an algorithm such as "CUDNN_CONVOLUTION_FWD_ALGO_GEMM"; ``algo_type`` is
    "fwd", "bwd_filter" or "bwd_data".
    """
    if algo_type not in _ALGORITHMS:
        raise UnknownNameError(f"'{algo_type}' is none of {', '.join(_ALGORITHMS)}")
    prefix = f"CUDNN_CONVOLUTION_{algo_type.upper()}_ALGO_"
    names = [prefix + one for one in _ALGORITHMS[algo_type]]
    if algo_name not in names:
        raise UnknownNameError(
            f"'{algo_name}' is no algorithm of '{algo_type}'", notes=("known: " + ", ".join(names),)
        )
    return names.index(algo_name)


def _along(value: int | Sequence[int], rank: int) -> list[int]:
    numbers = [value] * rank if isinstance(value, int) else list(value)
    if len(numbers) != rank:
        raise ShapeError(f"{rank} numbers are needed, got {len(numbers)}")
    return numbers


def _parts(tensor_format: int, shape: Sequence[int]) -> tuple[int, int, list[int]]:
    """Return batch (or the filter's number), channels and the spatial sizes of a shape."""
    if tensor_format not in (0, 1):
        raise UnsupportedError(
            f"cudnn: tensor format {tensor_format} is neither 0 (NCHW) nor 1 (NHWC)"
        )
    first, *rest = [int(size) for size in shape]
    return (first, rest[0], rest[1:]) if tensor_format == 0 else (first, rest[-1], rest[:-1])


def _whole(tensor_format: int, batch: int, channels: int, sizes: Sequence[int]) -> list[int]:
    return [batch, channels, *sizes] if tensor_format == 0 else [batch, *sizes, channels]


def conv_output_shape(
    tensor_format: int,
    pad: int | Sequence[int],
    stride: int | Sequence[int],
    dilation: int | Sequence[int],
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    data_dtype: str,
    conv_dtype: str,
    groups: int = 1,
) -> list[int]:
    """Return the shape of a convolution's result; ``tensor_format`` 0 is NCHW, 1 is NHWC."""
    batch, channels, sizes = _parts(tensor_format, x_shape)
    outer, per_group, kernel = _parts(tensor_format, w_shape)
    if channels != per_group * groups:
        raise ShapeError(f"{channels} channels, a filter of {per_group} in {groups} groups")
    rank = len(sizes)
    found = [
        (size + 2 * p - ((k - 1) * d + 1)) // s + 1
        for size, k, p, s, d in zip(
            sizes, kernel, _along(pad, rank), _along(stride, rank), _along(dilation, rank)
        )
    ]
    return _whole(tensor_format, batch, outer, found)


def conv_dgrad_shape(
    tensor_format: int,
    pad: int | Sequence[int],
    stride: int | Sequence[int],
    dilation: int | Sequence[int],
    dy_shape: Sequence[int],
    w_shape: Sequence[int],
    output_padding: int | Sequence[int] = (0, 0),
    groups: int = 1,
) -> list[int]:
    """Return the shape of the data of a convolution from that of its result."""
    batch, _, sizes = _parts(tensor_format, dy_shape)
    _, per_group, kernel = _parts(tensor_format, w_shape)
    rank = len(sizes)
    found = [
        (size - 1) * s - 2 * p + (k - 1) * d + 1 + extra
        for size, k, p, s, d, extra in zip(
            sizes,
            kernel,
            _along(pad, rank),
            _along(stride, rank),
            _along(dilation, rank),
            _along(output_padding, rank),
        )
    ]
    return _whole(tensor_format, batch, per_group * groups, found)


def _refuse(name: str, instead: str) -> NoReturn:
    raise UnsupportedError(
        f"cudnn.{name}: cuDNN is not called, kernels are compiled", notes=(f"use {instead}",)
    )


def conv_forward(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: convolutions are compiled."""
    _refuse("conv_forward", "topi.nn.conv")


def conv_forward_find_algo(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: there is no algorithm of cuDNN to choose."""
    _refuse("conv_forward_find_algo", "topi.nn.conv, whose schedule is chosen by the target")


def conv_backward_data_find_algo(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: there is no algorithm of cuDNN to choose."""
    _refuse("conv_backward_data_find_algo", "topi.nn.conv_transpose")


def conv_backward_filter_find_algo(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: there is no algorithm of cuDNN to choose."""
    _refuse("conv_backward_filter_find_algo", "relax.transform.Gradient")


def conv_backward_data(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: convolutions are compiled."""
    _refuse("conv_backward_data", "topi.nn.conv_transpose")


def conv_backward_filter(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: convolutions are compiled."""
    _refuse("conv_backward_filter", "relax.transform.Gradient, which differentiates nn.conv2d")


def softmax(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: softmax is compiled."""
    _refuse("softmax", "topi.nn.softmax")


def log_softmax(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: softmax is compiled."""
    _refuse("log_softmax", "topi.nn.log_softmax")
