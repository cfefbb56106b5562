"""Tensor computations for tests of schedulers, compared with numpy."""

import numpy as np
import pytest

from tilesmith import te, topi
from tilesmith.lowering import build
from tilesmith.runtime import nd
from tilesmith.support.errors import ConfigError
from tilesmith.testing import auto_scheduler as workloads


def run(tensors, count, *, seed=0):
    """The inputs that were drawn, and what the compiled computation makes of them."""
    generator = np.random.default_rng(seed)
    values = [
        generator.standard_normal([int(size) for size in one.shape]).astype("float32")
        for one in tensors
    ]
    arguments = [nd.array(value) for value in values]
    build(te.create_prim_func(tensors), target="llvm")(*arguments)
    return values[:-count], [one.numpy() for one in arguments[-count:]]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def convolved(data, kernel):
    """A convolution of NCHW without padding."""
    windows = np.lib.stride_tricks.sliding_window_view(data, kernel.shape[2:], axis=(2, 3))
    return np.einsum("ncyxab,ocab->noyx", windows, kernel)


def windows_maximum(data):
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(padded, (2, 2), axis=(2, 3)).max((-1, -2))


def normalized(data, kernel, bias, offset, scale):
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.maximum((convolved(padded, kernel) + bias) * scale + offset, 0)


@pytest.mark.parametrize(
    ("tensors", "reference"),
    [
        (workloads.matmul_auto_scheduler_test(5, 6, 7), lambda a, b: [a @ b]),
        (workloads.matmul_auto_scheduler_test_rename_0(3, 4, 5), lambda a, b: [a @ b]),
        (workloads.double_matmul_auto_scheduler_test(6), lambda a, b, c: [c @ (a @ b)]),
        (workloads.parallel_matmul_auto_scheduler_test(6), lambda a, b, c: [a @ b, a @ c]),
        (
            workloads.conv2d_nchw_bn_relu_auto_scheduler_test(1, 6, 6, 3, 4, 3, 1, 1),
            lambda *inputs: [normalized(*inputs)],
        ),
        (workloads.max_pool2d_auto_scheduler_test(1, 5, 5, 2, 1), lambda a: [windows_maximum(a)]),
        (workloads.min_nm_auto_scheduler_test(5, 7), lambda a: [a.min(axis=-1)]),
        (workloads.softmax_nm_auto_scheduler_test(5, 7), lambda a: [softmax(a)]),
        (workloads.softmax_abcd_auto_scheduler_test(2, 3, 2, 5), lambda a: [softmax(a)]),
        (workloads.zero_rank_reduce_auto_scheduler_test(9), lambda a: [a.sum()]),
        (workloads.zero_rank_compute_auto_scheduler_test(9), lambda a: [a.sum() * 2 + 1]),
    ],
)
def test_what_they_compute(tensors, reference):
    count = 2 if len(tensors) == 5 and tensors[-1].op.name == "E" else 1
    inputs, results = run(tensors, count)
    for result, expected in zip(results, reference(*inputs), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", [0, 1])
def test_winograd(padding):
    tensors = workloads.conv2d_winograd_nhwc_auto_scheduler_test(1, 7, 9, 3, 5, padding=padding)
    _, _, g = topi.nn.winograd_matrices(4, 3)
    generator = np.random.default_rng(1)
    data = generator.standard_normal((1, 7, 9, 3)).astype("float32")
    kernel = generator.standard_normal((5, 3, 3, 3)).astype("float32")  # OIHW
    packed = np.einsum("ya,xb,ocab->yxoc", g, g, kernel).astype("float32")
    out = nd.empty([int(size) for size in tensors[-1].shape])
    build(te.create_prim_func(tensors), target="llvm")(nd.array(data), nd.array(packed), out)
    padded = np.pad(data, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    expected = convolved(padded.transpose(0, 3, 1, 2), kernel).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-3, atol=1e-3)


def test_what_winograd_cannot_do():
    for options in ({"stride": 2}, {"dilation": 2}):
        with pytest.raises(ConfigError, match="stride 1 and dilation 1"):
            workloads.conv2d_winograd_nhwc_auto_scheduler_test(1, 7, 7, 3, 3, **options)


def test_two_axes_of_one_name_are_two_axes():
    a, b = workloads.invalid_compute_definition()
    inputs, (result,) = run([a, b], 1)
    expected = sum(inputs[0][:, first + second] for first in range(2) for second in range(2))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
