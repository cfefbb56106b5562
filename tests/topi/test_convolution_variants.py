"""Convolutions in blocks of channels, by tiles, by bits, and the parts of transposed ones."""

import numpy as np
import pytest

from tests.topi.harness import Case, check, real, torch_function, whole
from tilesmith import te, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.topi import testing


def blocked(x, block):
    """NCHW data with its channels in blocks."""
    n, c, h, w = x.shape
    return np.ascontiguousarray(x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))


def unblocked(x):
    n, c, h, w, block = x.shape
    return np.ascontiguousarray(x.transpose(0, 1, 4, 2, 3).reshape(n, c * block, h, w))


def blocked_filter(w, inner, outer):
    """An OIHW filter as (O / outer, I / inner, H, W, inner, outer)."""
    o, i, h, v = w.shape
    parts = w.reshape(o // outer, outer, i // inner, inner, h, v)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 3, 1))


def conv2d(x, w, **options):
    return torch_function("conv2d", x.astype("float64"), w.astype("float64"), **options)


def by_blocks(groups, inner, outer, dtype="float32"):
    """A case of conv2d_NCHWc: 12 channels, 8 outputs."""
    data = whole(2, 12, 7, 5).astype(dtype)
    weight = whole(8, 12 // groups, 3, 2, seed=1).astype(dtype)
    options = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": groups}
    return Case(
        f"blocks_{groups}_{inner}_{outer}_{dtype}",
        lambda x, w: topi.nn.conv2d_NCHWc(
            x, w, (2, 1), (1, 0), (1, 2), f"NCHW{inner}c", f"NCHW{outer}c", "float32"
        ),
        lambda x, w: blocked(conv2d(data, weight, **options), outer),
        (blocked(data, inner), blocked_filter(weight, min(inner, 12 // groups), outer)),
        1e-4,
    )


def by_bytes(groups):
    data = whole(1, 16, 6, 7, low=0, high=255).astype("uint8")
    weight = whole(8, 16 // groups, 3, 3, seed=1, low=-128, high=127).astype("int8")
    packed = blocked_filter(weight, 8, 4)
    shape = packed.shape
    packed = packed.reshape(*shape[:4], 2, 4, shape[5]).swapaxes(5, 6)
    return Case(
        f"bytes_{groups}",
        lambda x, w: topi.nn.conv2d_NCHWc_int8(x, w, 1, 1, 1, "NCHW8c", "NCHW4c"),
        lambda x, w: blocked(conv2d(data, weight, padding=1, groups=groups), 4),
        (blocked(data, 8), np.ascontiguousarray(packed)),
    )


def depthwise_by_blocks(multiplier, inner, outer):
    data, weight = real(2, 6, 7, 5), real(6 * multiplier, 1, 3, 2, seed=1)
    return Case(
        f"depthwise_{multiplier}_{inner}_{outer}",
        lambda x, w: topi.nn.depthwise_conv2d_NCHWc(
            x, w, 2, 1, (1, 2), f"NCHW{inner}c", f"NCHW{outer}c"
        ),
        lambda x, w: blocked(torch_function("conv2d", data, weight, None, 2, 1, (1, 2), 6), outer),
        (blocked(data, inner), blocked_filter(weight, 1, outer)),
        1e-4,
    )


def depthwise_nhwc(order):
    weight = real(3, 2, 4, 3, seed=1)
    given = weight if order == "HWOI" else np.ascontiguousarray(weight.swapaxes(2, 3))
    return Case(
        f"depthwise_nhwc_{order}",
        lambda x, w: topi.nn.depthwise_conv2d_nhwc(x, w, (2, 1), (1, 0), 1, order),
        lambda x, w: testing.depthwise_conv2d_python_nhwc(x, weight, (2, 1), (1, 0)),
        (real(2, 7, 6, 4), given),
        1e-4,
    )


def depthwise_gradient(by):
    """The gradient of a depthwise convolution of (2, 7, 6, 3) data by its input or its weight."""
    torch = pytest.importorskip("torch")
    data, weight = real(2, 7, 6, 3), real(3, 2, 3, 2, seed=1)
    x = torch.from_numpy(data).requires_grad_()
    w = torch.from_numpy(weight).requires_grad_()
    filters = w.permute(2, 3, 0, 1).reshape(6, 1, 3, 2)
    out = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), filters, None, (2, 1), (1, 0), 1, 3)
    out = out.permute(0, 2, 3, 1)
    gradient = real(*out.shape, seed=3)
    out.backward(torch.from_numpy(gradient))
    function = getattr(topi.nn, f"depthwise_conv2d_backward_{by}_nhwc")
    wanted = (x if by == "input" else w).grad.numpy()
    return Case(
        f"depthwise_gradient_by_{by}",
        lambda a, g: function(a, g, out.shape, wanted.shape, (2, 1), (1, 0)),
        lambda a, g: wanted,
        (weight if by == "input" else data, gradient),
        1e-4,
    )


def by_tiles(layout, padding, taps=3, dtype="float32", rtol=1e-3):
    data = real(2, 3, 7, 9).astype(dtype)
    weight = real(5, 3, taps, taps, seed=1).astype(dtype)
    is_last = layout == "NHWC"
    turn = (lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1))) if is_last else lambda x: x
    function = getattr(topi.nn, "conv2d_winograd_" + layout.lower())
    return Case(
        f"tiles_{layout}_{padding}_{taps}_{dtype}",
        lambda x, w: function(x, w, 1, padding, 1, dtype),
        lambda x, w: turn(conv2d(data, weight, padding=padding)),
        (turn(data), weight.transpose(2, 3, 1, 0).copy() if is_last else weight),
        rtol,
    )


def by_transformed_tiles(layout):
    """The filter transformed by a computation of its own."""
    data, weight = real(1, 3, 6, 5), real(4, 3, 3, 3, seed=1)
    is_last = layout == "NHWC"
    function = getattr(topi.nn, f"conv2d_winograd_{layout.lower()}_without_weight_transform")

    def build(x, w):
        transformed = topi.nn.conv2d_winograd_weight_transform(w, 4)  # (6, 6, outputs, inputs)
        if not is_last:
            transformed = topi.transpose(transformed, (0, 1, 3, 2))
        return function(x, transformed, 1, 1, 1, "float32")

    order = (0, 2, 3, 1) if is_last else (0, 1, 2, 3)
    return Case(
        f"transformed_tiles_{layout}",
        build,
        lambda x, w: conv2d(data, weight, padding=1).transpose(order),
        (np.ascontiguousarray(data.transpose(order)), weight),
        1e-3,
    )


def transformed_volume(depth):
    """The transform of a filter of 3 by 3, and of as many as three in depth."""
    _, _, g = topi.nn.winograd_matrices(2, 3)
    if depth == 3:
        way = "oidyx,Dd,Yy,Xx->DYXoi"
        meaning = lambda w: np.einsum(way, w, g, g, g)
    else:
        meaning = lambda w: np.einsum("oidyx,Yy,Xx->YXdoi", w, g, g)
    return Case(
        f"transformed_volume_{depth}",
        lambda w: topi.nn.conv3d_winograd_weight_transform(w, 2),
        meaning,
        (real(2, 3, depth, 3, 3),),
        1e-4,
    )


def bits(layout, data_bits, weight_bits, unipolar, word="uint32", is_packed=False):
    """A convolution of numbers of a few bits; unipolar weights of b bits mean 2 w - (2**b - 1)."""
    channels = 2 * int(word[4:])
    data = whole(1, channels, 5, 6, low=0, high=1 << data_bits)
    weight = whole(3, channels, 3, 2, seed=1, low=0, high=1 << weight_bits)
    meant = 2 * weight - ((1 << weight_bits) - 1) if unipolar else weight
    order = (0, 2, 3, 1) if layout == "NHWC" else (0, 1, 2, 3)
    filter_order = (2, 3, 1, 0) if layout == "NHWC" else (0, 1, 2, 3)
    function = getattr(topi.nn, "bitserial_conv2d_" + layout.lower())

    def build(x, w):
        if is_packed:
            axis = 2 if layout == "NHWC" else 1
            w = topi.nn.bitpack(w, weight_bits, axis, 4, word)
        return function(x, w, (2, 1), (1, 0), data_bits, weight_bits, word, "int32", unipolar)

    return Case(
        f"bits_{layout}_{data_bits}_{weight_bits}_{unipolar}_{word}_{is_packed}",
        build,
        lambda x, w: conv2d(data, meant, stride=(2, 1), padding=(1, 0)).transpose(order),
        (data.transpose(order).copy(), weight.transpose(filter_order).copy()),
    )


def bits_of_a_product(data_bits, weight_bits, unipolar):
    meant = lambda w: 2 * w - ((1 << weight_bits) - 1) if unipolar else w
    return Case(
        f"bits_of_a_product_{data_bits}_{weight_bits}_{unipolar}",
        lambda x, w: topi.nn.bitserial_dense(
            x, w, data_bits, weight_bits, "uint8", "int16", unipolar
        ),
        lambda x, w: x @ meant(w).T,
        (
            whole(3, 24, low=0, high=1 << data_bits),
            whole(5, 24, seed=1, low=0, high=1 << weight_bits),
        ),
    )


def packed_bits(x):
    """Planes of two bits along the last axis, 8 numbers in a byte, in front of the first axis."""
    return np.stack([np.packbits((x >> bit) & 1, -1) for bit in range(2)])


def transposed(rank, is_split, padding):
    sizes = {2: (2, 4, 5, 3), 3: (1, 4, 3, 4, 2)}[rank]
    window = {2: (3, 2), 3: (3, 2, 2)}[rank]
    spatial = "DHW"[-rank:].lower()
    which = f"conv{rank}d_transpose"
    if is_split:
        split = getattr(topi.nn, f"{which}_nc{spatial}_preprocess")

        def build(x, w):
            parts = split(x, w, 2, padding, "float32", 1)
            return topi.nn.conv(*parts, 1, 0, 1, 1, "NC" + spatial.upper())
    else:
        whole_one = getattr(topi.nn, f"declaration_{which}_impl")
        build = lambda x, w: whole_one(x, w, 2, padding, "float32", 1)
    return Case(
        f"{which}_{is_split}_{padding}",
        build,
        lambda x, w: torch_function(
            f"conv_transpose{rank}d", x, w, None, 2, padding, output_padding=1
        ),
        (real(*sizes), real(4, 3, *window, seed=1)),
        1e-4,
    )


def as_matrix(weight, tile_n, tile_k):
    """An HWIO filter as a matrix, filled up to whole tiles."""
    matrix = weight.reshape(-1, weight.shape[3])
    return np.pad(matrix, [(0, -matrix.shape[0] % tile_k), (0, -matrix.shape[1] % tile_n)])


def tiled_matrix(weight, tile_n, tile_k):
    matrix = as_matrix(weight, tile_n, tile_k)
    k, n = matrix.shape
    return matrix.T.reshape(n // tile_n, tile_n, k // tile_k, tile_k).transpose(0, 2, 1, 3)


FILTER = real(3, 2, 5, 6)

CASES = [
    *[by_blocks(*row) for row in ((1, 4, 8), (1, 3, 2), (4, 4, 2), (1, 12, 1))],
    by_blocks(2, 6, 4, "float16"),
    by_bytes(1),
    by_bytes(2),
    *[depthwise_by_blocks(*row) for row in ((1, 3, 3), (1, 2, 3), (2, 3, 4))],
    depthwise_nhwc("HWOI"),
    depthwise_nhwc("HWIO"),
    *[by_tiles(layout, padding) for layout in ("NHWC", "NCHW") for padding in (0, 1)],
    by_tiles("NHWC", 2, 5, rtol=5e-3),
    by_tiles("NCHW", 1, 3, "float16", 2e-2),
    by_transformed_tiles("NHWC"),
    by_transformed_tiles("NCHW"),
    Case(
        "transformed_filter",
        lambda w: topi.nn.conv2d_winograd_weight_transform(w, 2),
        lambda w: np.einsum("oiyx,Yy,Xx->YXoi", w, *[topi.nn.winograd_matrices(2, 3)[2]] * 2),
        (real(2, 3, 3, 3),),
        1e-4,
    ),
    transformed_volume(3),
    transformed_volume(2),
    bits("NCHW", 2, 1, True),
    bits("NCHW", 1, 2, False, "uint8", True),
    bits("NHWC", 2, 2, True, "uint16", True),
    bits("NHWC", 1, 1, False, "uint64"),
    bits_of_a_product(2, 1, True),
    bits_of_a_product(1, 3, False),
    Case(
        "bitpack",
        lambda x: topi.nn.bitpack(x, 2, -1, 0, "uint8"),
        packed_bits,
        (whole(3, 16, low=0, high=4).astype("uint8"),),
    ),
    *[
        transposed(rank, is_split, padding)
        for rank, is_split, padding in ((2, True, 1), (2, False, 0), (2, False, 2), (3, True, 0))
    ],
    transposed(3, False, 1),
    Case(
        "gemm_tiles",
        lambda w: topi.nn.conv2d_gemm_weight_transform(w, 4, 16),
        lambda w: tiled_matrix(w, 4, 16),
        (FILTER,),
    ),
    Case(
        "gemm_matrix",
        lambda w: topi.nn.conv2d_gemm_weight_transform(w, 4, 7, use_scalable_vectors=True),
        lambda w: as_matrix(w, 4, 7),
        (FILTER,),
    ),
    Case(
        "gemm_transposed",
        lambda w: topi.nn.conv2d_gemm_weight_transform(w, 4, 8, use_sme=True),
        lambda w: as_matrix(w, 4, 8).T,
        (FILTER.astype("float16"),),
    ),
    Case(
        "unpacked",
        lambda x: topi.nn.unpack_NCHWc_to_nchw(x, "float64"),
        unblocked,
        (real(2, 3, 4, 5, 2),),
    ),
    Case(
        "layout_of_letters",
        lambda x: topi.nn.layout_transform(x, "NCHW", "HWNC"),
        lambda x: x.transpose(2, 3, 0, 1),
        (real(2, 3, 4, 5),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_computes(case):
    check(case)


@pytest.mark.parametrize("by", ["input", "weight"])
def test_gradients_of_depthwise_convolutions(by):
    check(depthwise_gradient(by))


@pytest.mark.parametrize("tile", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("taps", [1, 2, 3, 5])
def test_matrices_give_correlations(tile, taps):
    a, b, g = topi.nn.winograd_matrices(tile, taps)
    data, weight = real(tile + taps - 1).astype("float64"), real(taps, seed=1).astype("float64")
    made = a.T @ ((g @ weight) * (b.T @ data))
    np.testing.assert_allclose(made, np.correlate(data, weight, "valid"), rtol=1e-9, atol=1e-9)
    tensors = topi.nn.winograd_transform_matrices(tile, taps, "float32")
    assert [tensor.op.name for tensor in tensors] == ["A", "B", "G"]
    assert [[int(size) for size in tensor.shape] for tensor in tensors] == [
        list(matrix.shape) for matrix in (a, b, g)
    ]


def placeholder(*shape, dtype="float32"):
    return te.placeholder(shape, dtype, "x")


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (
            lambda: topi.nn.conv2d_NCHWc(
                placeholder(1, 2, 5, 5, 4), placeholder(1, 2, 3, 3, 4, 8), 1, 0, 1, "NCHW", "NCHW8c"
            ),
            UnsupportedError,
            "no blocks of channels",
        ),
        (
            lambda: topi.nn.conv2d_NCHWc(
                placeholder(1, 2, 5, 5, 4), placeholder(1, 2, 3, 3, 4, 8), 1, 0, 1, "NCHW8c",
                "NCHW8c",
            ),
            ShapeError,
            "'NCHW8c' with blocks of 4",
        ),
        (
            lambda: topi.nn.conv2d_NCHWc(
                placeholder(1, 2, 5, 5, 4), placeholder(3, 1, 3, 3, 4, 8), 1, 0, 1, "NCHW4c",
                "NCHW8c",
            ),
            ShapeError,
            "groups hold whole blocks",
        ),
        (
            lambda: topi.nn.conv2d_winograd_nhwc(
                placeholder(1, 9, 9, 4), placeholder(3, 3, 4, 5), 2, 0, 1, "float32"
            ),
            UnsupportedError,
            "strides and dilation 1",
        ),
        (
            lambda: topi.nn.conv2d_winograd_nhwc(
                placeholder(1, 9, 9, 4), placeholder(3, 2, 4, 5), 1, 0, 1, "float32"
            ),
            ShapeError,
            "not square: 3 by 2",
        ),
        (
            lambda: topi.nn.conv2d_winograd_nchw(
                placeholder(1, 4, 9, 9), placeholder(5, 3, 3, 3), 1, 0, 1, "float32"
            ),
            ShapeError,
            "4 channels, the filter takes 3",
        ),
        (
            lambda: topi.nn.conv2d_winograd_nhwc(
                placeholder(1, 9, 9, 4), placeholder(3, 3, 4, 5), 1, 0, 1, "int32"
            ),
            UnsupportedError,
            "fractions",
        ),
        (lambda: topi.nn.winograd_matrices(8, 9), OpAttributeInvalid, "tiles of 8 with 9 taps"),
        (
            lambda: topi.nn.conv2d_winograd_nnpack_weight_transform(
                placeholder(4, 4, 3, 3), 1, "float32"
            ),
            UnsupportedError,
            "NNPACK",
        ),
        (
            lambda: topi.nn.bitpack(placeholder(3, 12, dtype="int32"), 1, 1, 1, "uint8"),
            ShapeError,
            "12 numbers do not fill words of 8 bits",
        ),
        (
            lambda: topi.nn.bitpack(placeholder(3, 8, dtype="int32"), 40, 1, 1, "uint8"),
            OpAttributeInvalid,
            "40 bits of int32",
        ),
        (lambda: topi.nn.binary_op_multiplier("int32"), OpAttributeInvalid, "unsigned"),
        (
            lambda: topi.nn.depthwise_conv2d_nhwc(
                placeholder(1, 5, 5, 4), placeholder(3, 3, 4, 1), 1, 0, 1, "OIHW"
            ),
            UnsupportedError,
            "neither HWOI nor HWIO",
        ),
        (
            lambda: topi.nn.depthwise_conv2d_backward_input_nhwc(
                placeholder(3, 3, 4, 1), placeholder(1, 3, 3, 4), (1, 4, 3, 4), (1, 5, 5, 4), 1, 0
            ),
            ShapeError,
            r"shape \[1, 3, 3, 4\] for a result of shape \[1, 4, 3, 4\]",
        ),
        (
            lambda: topi.nn.layout_transform(placeholder(1, 2, 3, 4), "NCHW", "NCH"),
            ShapeError,
            "'NCH'",
        ),
        (
            lambda: topi.nn.conv2d_gemm_weight_transform(placeholder(1, 2, 3, 4), 0, 4),
            OpAttributeInvalid,
            "tiles of 0 by 4",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_said(build, error, text):
    with pytest.raises(error, match=text):
        build()
