"""Defines small tensor computations that tests of schedulers work on.

Each function returns the tensors of its computation: the inputs, then the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith import te, tir, topi
from tilesmith.support.errors import ConfigError
from tilesmith.te import Tensor

__all__ = [
    "conv2d_nchw_bn_relu_auto_scheduler_test", "conv2d_winograd_nhwc_auto_scheduler_test",
    "double_matmul_auto_scheduler_test", "invalid_compute_definition", "matmul_auto_scheduler_test",
    "matmul_auto_scheduler_test_rename_0", "max_pool2d_auto_scheduler_test",
    "min_nm_auto_scheduler_test", "parallel_matmul_auto_scheduler_test",
    "softmax_abcd_auto_scheduler_test", "softmax_nm_auto_scheduler_test",
    "zero_rank_compute_auto_scheduler_test", "zero_rank_reduce_auto_scheduler_test",
]  # fmt: skip


def _product(a: Tensor, b: Tensor, name: str, **options: Any) -> Tensor:
    """Return the product of two matrices."""
    k = te.reduce_axis((0, a.shape[1]), name="k")
    shape = (a.shape[0], b.shape[1])
    product: Tensor = te.compute(
        shape, lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name, **options
    )
    return product


def matmul_auto_scheduler_test(N: int, M: int, K: int) -> list[Tensor]:
    """Multiply an N×K by a K×M matrix, whose layout may be chosen freely."""
    a, b = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [a, b, _product(a, b, "C", attrs={"layout_free_placeholders": [b]})]


def matmul_auto_scheduler_test_rename_0(N: int, M: int, K: int) -> list[Tensor]:
    """Multiply an N×K by a K×M matrix: the same computation under another name."""
    return matmul_auto_scheduler_test(N, M, K)


def double_matmul_auto_scheduler_test(N: int) -> list[Tensor]:
    """Multiply two N×N matrices, then a third by the product."""
    a, b, c = (te.placeholder((N, N), name=name) for name in "ABC")
    return [a, b, c, _product(c, _product(a, b, "D"), "E")]


def parallel_matmul_auto_scheduler_test(N: int) -> list[Tensor]:
    """Multiply one N×N matrix by two others."""
    a, b, c = (te.placeholder((N, N), name=name) for name in "ABC")
    return [a, b, c, _product(a, b, "D"), _product(a, c, "E")]


def conv2d_nchw_bn_relu_auto_scheduler_test(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    strides: int,
    padding: int,
    dilation: int = 1,
) -> list[Tensor]:
    """Convolve, add a bias, scale, shift, and cut off below zero."""
    data = te.placeholder((N, CI, H, W), name="Data")
    kernel = te.placeholder((CO, CI, kernel_size, kernel_size), name="Kernel")
    bias, scale, offset = (
        te.placeholder((CO, 1, 1), name=name) for name in ("Bias", "Bn_scale", "Bn_offset")
    )
    convolved = topi.nn.conv2d_nchw(data, kernel, strides, padding, dilation)

    biased = te.compute(
        convolved.shape, lambda n, c, y, x: convolved[n, c, y, x] + bias[c, 0, 0], name="Bias_add"
    )
    scaled = te.compute(
        biased.shape, lambda n, c, y, x: biased[n, c, y, x] * scale[c, 0, 0], name="Bn_mul"
    )
    shifted = te.compute(
        scaled.shape, lambda n, c, y, x: scaled[n, c, y, x] + offset[c, 0, 0], name="Bn_add"
    )
    return [data, kernel, bias, offset, scale, topi.nn.relu(shifted)]


def max_pool2d_auto_scheduler_test(N: int, H: int, W: int, CI: int, padding: int) -> list[Tensor]:
    """Take the maximum of windows of 2×2 at every place."""
    data = te.placeholder((N, CI, H, W), name="Data")
    return [data, topi.nn.pool2d(data, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")]


def min_nm_auto_scheduler_test(N: int, M: int) -> list[Tensor]:
    """Take the minimum of each row."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.min(a, axis=-1)]


def softmax_nm_auto_scheduler_test(N: int, M: int) -> list[Tensor]:
    """Normalise each row by softmax."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.nn.softmax(a, axis=1)]


def softmax_abcd_auto_scheduler_test(a: int, b: int, c: int, d: int) -> list[Tensor]:
    """Normalise the last of four axes by softmax."""
    values = te.placeholder((a, b, c, d), name="A")
    return [values, topi.nn.softmax(values, axis=-1)]


def invalid_compute_definition() -> list[Tensor]:
    """Reduce over two axes that have one name, which schedulers have to refuse or tell apart."""
    a = te.placeholder((10, 10), name="A")
    first, second = te.reduce_axis((0, 2), name="r1"), te.reduce_axis((0, 2), name="r1")
    b = te.compute((10,), lambda i: te.sum(a[i, first + second], axis=[first, second]), name="B")
    return [a, b]


def zero_rank_reduce_auto_scheduler_test(N: int) -> list[Tensor]:
    """Add a vector up: the result has no axes."""
    a = te.placeholder((N,), name="A")
    k = te.reduce_axis((0, N), name="k")
    return [a, te.compute((), lambda: te.sum(a[k], axis=[k]), name="B")]


def zero_rank_compute_auto_scheduler_test(N: int) -> list[Tensor]:
    """Add a vector up and go on with the sum: computations without axes."""
    a, total = zero_rank_reduce_auto_scheduler_test(N)
    return [a, te.compute((), lambda: total() * 2.0 + 1.0, name="C")]


def _constants(values: numpy.ndarray, name: str) -> Tensor:
    """Return a matrix of numbers as a tensor that is computed from its indices."""

    def at(i: Any, j: Any) -> Any:
        found: Any = tir.const(0.0, "float32")
        for (row, column), value in numpy.ndenumerate(values):
            if value:
                here = tir.all(i == row, j == column)
                found = tir.Select(here, tir.const(float(value), "float32"), found)
        return found

    attrs = {"schedule_rule": "None", "const_matrix": True}
    constants: Tensor = te.compute(values.shape, at, name=name, attrs=attrs)
    return constants


def conv2d_winograd_nhwc_auto_scheduler_test(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int = 3,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
) -> list[Tensor]:
    """Convolve by Winograd's algorithm with tiles of 4×4; the filter comes transformed, as an array
    of shape (alpha, alpha, CO, CI) with alpha = kernel_size + 3.
    """
    if stride != 1 or dilation != 1:
        raise ConfigError("Winograd's algorithm has stride 1 and dilation 1")
    tile = 4
    alpha = tile + kernel_size - 1
    height, width = (size + 2 * padding - kernel_size + 1 for size in (H, W))
    rows, columns = -(-height // tile), -(-width // tile)
    inputs = te.placeholder((N, H, W, CI), name="inputs")
    kernel = te.placeholder((alpha, alpha, CO, CI), name="kernel_pack")
    beyond = [0, rows * tile - height + padding, columns * tile - width + padding, 0]
    padded = topi.nn.pad(inputs, (0, padding, padding, 0), beyond, name="data_pad")
    a, b, _ = topi.nn.winograd_matrices(tile, kernel_size)
    a_matrix, b_matrix = _constants(a, "A"), _constants(b, "B")
    tiles = N * rows * columns

    def input_at(y: Any, x: Any, p: Any, c: Any) -> Any:
        image, row, column = p // (rows * columns), p // columns % rows, p % columns
        return padded[image, row * tile + y, column * tile + x, c]

    cut = te.compute((alpha, alpha, tiles, CI), input_at, name="input_tile")
    packed = _transformed(cut, b_matrix, alpha, "data_pack")
    k = te.reduce_axis((0, CI), name="ci")
    product = te.compute(
        (alpha, alpha, tiles, CO),
        lambda y, x, p, c: te.sum(packed[y, x, p, k] * kernel[y, x, c, k], axis=[k]),
        name="bgemm",
    )
    inverse = _transformed(product, a_matrix, tile, "inverse")
    output = te.compute(
        (N, height, width, CO),
        lambda n, y, x, c: inverse[
            y % tile, x % tile, n * rows * columns + y // tile * columns + x // tile, c
        ],
        name="conv2d_winograd",
    )
    return [inputs, kernel, output]


def _transformed(values: Tensor, matrix: Tensor, size: int, name: str) -> Tensor:
    """Return ``matrix.T @ tile @ matrix`` for the first two axes of the values."""
    count = values.shape[0]
    first, second = te.reduce_axis((0, count), "r_a"), te.reduce_axis((0, count), "r_b")
    shape: Sequence[Any] = (size, size, *values.shape[2:])
    transformed: Tensor = te.compute(
        shape,
        lambda y, x, p, c: te.sum(
            values[first, second, p, c] * matrix[first, y] * matrix[second, x],
            axis=[first, second],
        ),
        name=name,
    )
    return transformed
