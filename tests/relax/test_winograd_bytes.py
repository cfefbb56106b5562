"""Winograd's convolutions of bytes: exact in int16, chosen where the target multiplies these."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tilesmith import relax, te, topi
from tilesmith.relax.transform import FoldConstant, PackForVectors
from tilesmith.relax.transform.byte_products import in_words
from tilesmith.script import relax as R
from tilesmith.target import Target
from tilesmith.tir import interpreter

PAIRS = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"
X86 = [PAIRS] if Target("llvm").features.is_x86 else []


def exact(x, weights, point, padding, stride, groups=1):
    """The sums of a convolution of NHWC bytes by OIHW weights; ``point`` is in the padding."""
    top, left, bottom, right = padding
    wide = np.pad(x.astype("int64") - point, ((0, 0), (top, bottom), (left, right), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
    windows = windows[:, ::stride, ::stride]
    parts = zip(np.split(windows, groups, 3), np.split(weights.astype("int64"), groups))
    return np.concatenate([np.einsum("nyxchw,ochw->nyxo", *part) for part in parts], 3)


def points(weights, width, stride, groups):
    """Weights in words at the points of tiles of two by two results."""
    count = topi.nn.winograd_width(2, stride) ** 2
    made = []
    for own in np.split(weights, groups):
        outputs, inputs = own.shape[:2]
        part = np.empty((-(-outputs // width), count, inputs, width), "float64")
        topi.nn.winograd_points(own, 2, part, stride)
        made.append(part * 2 ** topi.nn.winograd_weight_shift(2, stride))
    whole = np.stack(made) if groups > 1 else made[0]
    assert (whole == np.rint(whole)).all()
    return in_words(whole.astype("int64"), "int16")


def bytes_of(shape, dtype, seed=0):
    limits = np.iinfo(dtype)
    random = np.random.default_rng(seed)
    return random.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def by_strips(x, weights, point, padding, rows, width, stride=1, groups=1):
    """The function of a convolution with an epilogue, and its weights."""
    words = points(weights, width, stride, groups)
    data = te.placeholder(x.shape, str(x.dtype), "x")
    packed = te.placeholder(words.shape, "int32", "w")
    made = topi.nn.conv2d_nhwc_winograd_words(
        data, packed, len(weights), padding, 2, rows, stride, point
    )
    result = topi.maximum(made, -1000)
    return te.create_prim_func([data, packed, result], index_dtype_override="int64"), words


SHAPES = [
    # images, height, width, inputs, outputs; padding; rows of a strip, width; stride, groups
    ((1, 7, 9, 5, 24), (1, 1, 1, 1), 2, 16, 1, 1),
    ((2, 8, 6, 16, 16), (0, 0, 0, 0), 1, 8, 1, 1),
    ((1, 5, 11, 33, 20), (2, 0, 1, 3), 3, 16, 1, 1),
    ((2, 9, 8, 17, 48), (1, 1, 1, 1), 2, 16, 2, 1),
    ((1, 12, 13, 14, 40), (0, 1, 0, 0), 1, 8, 2, 2),
    ((1, 6, 5, 34, 96), (1, 1, 1, 1), 3, 48, 1, 2),
]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("target", ["llvm", *X86])
@pytest.mark.parametrize(("sizes", "padding", "rows", "width", "stride", "groups"), SHAPES)
def test_strips_compute_the_convolution(
    sizes, padding, rows, width, stride, groups, target, dtype
):  # fmt: skip
    *shape, outputs = sizes
    x = bytes_of(shape, dtype)
    weights = bytes_of((outputs, shape[-1] // groups, 3, 3), "int8", 1)
    x = x[..., : weights.shape[1] * groups]
    function, words = by_strips(x, weights, 7, padding, rows, width, stride, groups)
    want = np.maximum(exact(x, weights, 7, padding, stride, groups), -1000)
    found = np.zeros(want.shape, "int32")
    out = ts.nd.array(found)
    ts.build(function, target=target)["main"](ts.nd.array(x), ts.nd.array(words), out)
    np.testing.assert_array_equal(out.numpy(), want)


def test_the_interpreter_agrees():
    x, weights = bytes_of((1, 4, 3, 5), "uint8"), bytes_of((8, 5, 3, 3), "int8", 1)
    function, words = by_strips(x, weights, 200, (1, 1, 1, 1), 1, 8)
    want = np.maximum(exact(x, weights, 200, (1, 1, 1, 1), 1), -1000)
    found = np.zeros(want.shape, "int32")
    interpreter.run(function, x, words, found)
    np.testing.assert_array_equal(found, want)


def convolution(x, weights, point, stride=1, groups=1, padding=1):
    """A module of one convolution of bytes."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", R.Tensor(x.shape, str(x.dtype)))
    with builder.function("main", [data]):
        wide = relax.op.subtract(relax.op.astype(data, "int32"), relax.const(point, "int32"))
        made = relax.op.nn.conv2d(
            wide, relax.const(weights.astype("int32")), strides=stride, padding=padding,
            groups=groups,
        )  # fmt: skip
        builder.emit_func_output(builder.emit(made))
    return builder.get()


def packed(mod, target):
    return PackForVectors(target)(FoldConstant()(mod)).script()


LARGE = bytes_of((1, 64, 24, 24), "uint8"), bytes_of((64, 64, 3, 3), "int8", 1)


def test_it_is_chosen_where_int16_are_multiplied():
    mod = convolution(*LARGE, 7)
    assert "conv2d_winograd" in packed(mod, PAIRS)
    assert "conv2d_winograd" not in packed(mod, VNNI)


def test_it_is_not_chosen_where_numbers_could_overflow():
    x, weights = LARGE
    wide = weights.astype("int32") * 100  # 9 times as great at the points: no int16
    assert "conv2d_winograd" not in packed(convolution(x, wide, 7), PAIRS)
    data = np.zeros((1, 4096, 24, 24), "uint8")
    heavy = np.full((64, 4096, 3, 3), 127, "int8")  # sums of 4 * 255 * 127 * 36864
    assert "conv2d_winograd" not in packed(convolution(data, heavy, 0), PAIRS)


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("point", [0, 255])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("weight", [-128, 127])
def test_extreme_bytes(weight, stride, point, target):
    x = np.full((1, 128, 24, 24), 255 - point, "uint8")
    weights = np.full((64, 128, 3, 3), weight, "int8")
    mod = convolution(x, weights, point, stride)
    assert stride == 2 or "conv2d_winograd" in packed(mod, target)
    found = relax.build(mod, target)(x).numpy()
    want = exact(x.transpose(0, 2, 3, 1), weights, point, (1, 1, 1, 1), stride)
    np.testing.assert_array_equal(found, want.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("target", X86)
@settings(max_examples=8)
@given(st.data())
def test_any_convolution_is_exact(target, data):
    height, width = data.draw(st.tuples(st.integers(8, 30), st.integers(8, 30)))
    groups, stride = data.draw(st.sampled_from([1, 1, 2])), data.draw(st.sampled_from([1, 1, 2]))
    inputs, outputs = data.draw(st.integers(8, 40)), 8 * data.draw(st.integers(2, 8))
    x = bytes_of((1, inputs * groups, height, width), data.draw(st.sampled_from(["int8", "uint8"])))
    weights = bytes_of((outputs * groups, inputs, 3, 3), "int8", 1)
    point = data.draw(st.integers(-128, 127) if x.dtype == "int8" else st.integers(0, 255))
    found = relax.build(convolution(x, weights, point, stride, groups), target)(x).numpy()
    want = exact(x.transpose(0, 2, 3, 1), weights, point, (1, 1, 1, 1), stride, groups)
    np.testing.assert_array_equal(found, want.transpose(0, 3, 1, 2))
