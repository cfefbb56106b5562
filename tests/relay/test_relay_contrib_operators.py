"""Operators on weights in blocks, tiles or bits, sparse rows and segments, against numpy and torch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tilesmith as ts
from tilesmith import relay
from tilesmith.support.errors import OpAttributeInvalid, UnsupportedError

RANDOM = np.random.default_rng(0)


def floats(*shape):
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def run(make, *inputs, kind="debug"):
    variables = [
        relay.var(f"x{place}", shape=one.shape, dtype=str(one.dtype))
        for place, one in enumerate(inputs)
    ]
    call = make(*variables)
    call = call.tuple_value if hasattr(call, "tuple_value") else call
    mod = ts.IRModule.from_expr(relay.Function(variables, call))
    found = relay.create_executor(kind, mod, ts.cpu(), "llvm").evaluate()(*inputs)
    return [one.numpy() for one in found] if not hasattr(found, "numpy") else found.numpy()


def conv(x, w, **attrs):
    return F.conv2d(torch.tensor(x), torch.tensor(w), **attrs).numpy()


def in_blocks(x, size):
    n, c, h, w = x.shape
    return x.reshape(n, c // size, size, h, w).transpose(0, 1, 3, 4, 2)


def test_blocked_convolutions():
    x, w = floats(1, 8, 6, 6), floats(4, 8, 3, 3)
    blocks = w.reshape(1, 4, 2, 4, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    found = run(
        lambda a, b: relay.nn.contrib_conv2d_nchwc(
            a, b, padding=(1, 1), kernel_size=(3, 3), channels=4, data_layout="NCHW4c",
            kernel_layout="OIHW4i4o",
        ),
        in_blocks(x, 4), blocks,
    )  # fmt: skip
    np.testing.assert_allclose(found, in_blocks(conv(x, w, padding=1), 4), rtol=1e-4, atol=1e-5)
    w = floats(8, 1, 3, 3)
    blocks = w.reshape(2, 4, 1, 1, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    found = run(
        lambda a, b: relay.nn.contrib_depthwise_conv2d_nchwc(
            a, b, padding=(1, 1), kernel_size=(3, 3), channels=8, groups=8, data_layout="NCHW4c",
            kernel_layout="OIHW1i4o",
        ),
        in_blocks(x, 4), blocks,
    )  # fmt: skip
    wanted = in_blocks(conv(x, w, padding=1, groups=8), 4)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_packed_weights():
    x, w = floats(3, 5), floats(8, 5)
    packed = w.reshape(2, 4, 5).transpose(0, 2, 1)
    found = run(lambda a, b: relay.nn.contrib_dense_pack(a, b, "NC4n"), x, packed)
    np.testing.assert_allclose(found, x @ w.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_tiles_of_results(layout):
    x, w = floats(1, 3, 8, 8), floats(4, 3, 3, 3)

    def make(data, weight):
        made = relay.nn.contrib_conv2d_winograd_weight_transform(weight, 4)
        if layout == "NCHW":
            made = relay.transpose(made, (0, 1, 3, 2))
        return relay.nn.contrib_conv2d_winograd_without_weight_transform(
            data, made, 4, padding=(1, 1), data_layout=layout
        )

    given = x if layout == "NCHW" else x.transpose(0, 2, 3, 1)
    found = run(make, given, w)
    wanted = conv(x, w, padding=1)
    wanted = wanted if layout == "NCHW" else wanted.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_filters_as_matrices():
    x, w = floats(1, 6, 6, 3), floats(3, 3, 3, 8)

    def make(data, weight):
        made = relay.nn.contrib_conv2d_gemm_weight_transform(weight, 4, 16)
        return relay.nn.contrib_conv2d_gemm_without_weight_transform(
            data, made, kernel_size=(3, 3), channels=8, data_layout="NHWC", kernel_layout="HWIO"
        )

    wanted = conv(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(run(make, x, w), wanted, rtol=1e-4, atol=1e-5)


def test_three_dimensional_filters_are_transformed():
    w = floats(2, 3, 3, 3, 3)
    found = run(lambda a: relay.nn.contrib_conv3d_winograd_weight_transform(a, 2), w)
    assert found.shape == (4, 4, 4, 2, 3)


def test_bits():
    x = RANDOM.integers(0, 4, (2, 32)).astype("uint32")
    w = RANDOM.integers(0, 2, (3, 32)).astype("uint32")
    packed = run(lambda a: relay.nn.bitpack(a, bits=2, pack_axis=1, bit_axis=1), x)
    bits = [((x >> bit) & 1) for bit in range(2)]
    wanted = [[int("".join(str(one) for one in row), 2) for row in bit] for bit in bits]
    np.testing.assert_array_equal(packed[..., 0], np.array(wanted).T)
    found = run(lambda a, b: relay.nn.bitserial_dense(a, b, 3, data_bits=2, weight_bits=1,
                                                      unipolar=False), x, w)  # fmt: skip
    np.testing.assert_array_equal(found, (x.astype(int) @ w.astype(int).T))
    image = RANDOM.integers(0, 2, (1, 32, 4, 4)).astype("uint32")
    kernel = RANDOM.integers(0, 2, (2, 32, 3, 3)).astype("uint32")
    found = run(lambda a, b: relay.nn.bitserial_conv2d(a, b, channels=2, unipolar=False), image,
                kernel)  # fmt: skip
    wanted = conv(image.astype("float32"), kernel.astype("float32"))
    np.testing.assert_array_equal(found, wanted.astype("int16"))


def test_a_buffer_moves_on():
    new, old = floats(2, 2), floats(2, 5)
    found = run(lambda a, b: relay.nn.fifo_buffer(a, b, axis=1), new, old)
    np.testing.assert_array_equal(found, np.concatenate([old, new], 1)[:, -5:])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_gradient_of_a_weight(layout):
    x, w = floats(2, 4, 6, 6), floats(6, 2, 3, 3)
    weight = torch.tensor(w, requires_grad=True)
    out = F.conv2d(torch.tensor(x), weight, padding=1, stride=2, groups=2)
    grad = floats(*out.shape)
    out.backward(torch.tensor(grad))
    turn = (lambda a: a) if layout == "NCHW" else (lambda a: a.transpose(0, 2, 3, 1))
    found = run(
        lambda g, d: relay.nn.conv2d_backward_weight(
            g, d, strides=(2, 2), padding=(1, 1), groups=2, kernel_size=(3, 3), channels=6,
            grad_layout=layout, data_layout=layout,
        ),
        np.ascontiguousarray(turn(grad)), np.ascontiguousarray(turn(x)),
    )  # fmt: skip
    np.testing.assert_allclose(found, weight.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_what_is_not_computed_says_what_is():
    with pytest.raises(UnsupportedError, match="conv3d computes the same"):
        relay.nn.contrib_conv3d_winograd_without_weight_transform(None, None, 4)
    with pytest.raises(UnsupportedError, match="needs no library"):
        relay.nn.contrib_conv2d_winograd_nnpack_weight_transform(None, 0)
    with pytest.raises(OpAttributeInvalid, match="tile_size=4"):
        run(lambda a, b: relay.nn.contrib_conv2d_winograd_without_weight_transform(a, b, 2),
            floats(1, 3, 8, 8), floats(4, 4, 3, 4))  # fmt: skip


INDICES = np.array([[0, 1], [3, 2], [3, 0]])
SPARSE = (INDICES, np.array([1, 2, 3], "float32"), np.array([5, 4]), np.array(9, "float32"))


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_empty_rows_are_filled(kind):
    indices, values, is_empty = run(relay.sparse_fill_empty_rows, *SPARSE, kind=kind)
    np.testing.assert_array_equal(indices, [[0, 1], [1, 0], [2, 0], [3, 2], [3, 0], [4, 0]])
    np.testing.assert_array_equal(values, [1, 9, 9, 2, 3, 9])
    np.testing.assert_array_equal(is_empty, [False, True, True, False, True])


def test_sparse_indices_in_another_shape():
    old, new = np.array([4, 6]), np.array([2, -1, 3])
    indices, shape = run(relay.sparse_reshape, INDICES, old, new)
    flat = np.ravel_multi_index(INDICES.T, (4, 6))
    np.testing.assert_array_equal(indices.T, np.unravel_index(flat, (2, 4, 3)))
    np.testing.assert_array_equal(shape, [2, 4, 3])


@pytest.mark.parametrize("number", [None, 4])
@pytest.mark.parametrize("shape", [(5,), (5, 2, 3)])
def test_sums_of_segments(number, shape):
    x, ids = floats(*shape), np.array([0, 0, 1, 2, 2], "int32")
    found = run(lambda a, b: relay.segment_sum(a, b, number), x, ids)
    wanted = np.zeros((number or 3, *shape[1:]), "float32")
    np.add.at(wanted, ids, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
