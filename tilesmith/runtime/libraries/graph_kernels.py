"""Kernels of `runtime.json_graph` that call BLAS and oneDNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilesmith.runtime.libraries import dnnl
from tilesmith.runtime.libraries.blas import cblas_matmul

if TYPE_CHECKING:
    from tilesmith.runtime.ndarray import NDArray

__all__ = ["CBLAS", "DNNL"]


def _dense(attrs: Mapping[str, Any], operands: Sequence[NDArray], out: NDArray) -> None:
    cblas_matmul(operands[0], operands[1], out, False, True)


def _transposed(attrs: Mapping[str, Any]) -> tuple[bool, bool]:
    return bool(attrs.get("transpose_a", False)), bool(attrs.get("transpose_b", False))


def _matmul(attrs: Mapping[str, Any], operands: Sequence[NDArray], out: NDArray) -> None:
    cblas_matmul(operands[0], operands[1], out, *_transposed(attrs))


def _dnnl_dense(attrs: Mapping[str, Any], operands: Sequence[NDArray], out: NDArray) -> None:
    dnnl.matmul(operands[0], operands[1], out, False, True)


def _dnnl_matmul(attrs: Mapping[str, Any], operands: Sequence[NDArray], out: NDArray) -> None:
    dnnl.matmul(operands[0], operands[1], out, *_transposed(attrs))


def _dnnl_conv2d(attrs: Mapping[str, Any], operands: Sequence[NDArray], out: NDArray) -> None:
    padding = [int(one) for one in attrs["padding"]]
    top, left, bottom, right = padding if len(padding) == 4 else padding * (4 // len(padding))
    (stride_y, stride_x), (dilation_y, dilation_x) = attrs["strides"], attrs["dilation"]
    dnnl.conv2d(
        operands[0], operands[1], out, top, left, bottom, right, stride_y, stride_x, dilation_y,
        dilation_x, int(attrs["groups"]), attrs["data_layout"] == "NHWC",
    )  # fmt: skip


CBLAS = {"nn.dense": _dense, "nn.matmul": _matmul, "nn.batch_matmul": _matmul}

DNNL = {"nn.dense": _dnnl_dense, "nn.matmul": _dnnl_matmul, "nn.conv2d": _dnnl_conv2d}
