"""Convolutions without neighbours: they stay in NCHW where that takes less time."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.relax import op
from tilesmith.relax.transform import PackForVectors
from tilesmith.relax.transform.lone_convolutions import (
    Sizes,
    depthwise_stays,
    pixelwise_stays,
    rows_stay_in_planes,
)
from tilesmith.schedule_rules.contractions.tiles import Tile
from tilesmith.script import relax as R
from tilesmith.target.machine import AVX2, AVX512, ZEN_AVX512

torch = pytest.importorskip("torch")


def weights(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def graph(shape, body, *others):
    """A function of an image and other tensors; ``body`` gets the builder and the variables."""
    builder = relax.BlockBuilder()
    params = [
        relax.Var(f"x{k}", R.Tensor(one, "float32")) for k, one in enumerate((shape, *others))
    ]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(body(builder, *params))
        builder.emit_func_output(result)
    return builder.get()


def depthwise(b, x, channels):
    w = relax.const(weights(channels, 1, 3, 3))
    return b.emit(op.nn.conv2d(x, w, padding=1, groups=channels))


def pixelwise(b, x, inputs, outputs, **options):
    return b.emit(op.nn.conv2d(x, relax.const(weights(outputs, inputs, 1, 1)), **options))


def test_a_lone_depthwise_convolution_stays():
    mod = graph((1, 16, 20, 24), lambda b, x: op.nn.relu(depthwise(b, x, 16)))
    text = PackForVectors()(mod).script()
    assert "permute_dims" not in text and "R.nn.conv2d" in text


def test_neighbours_share_the_channels_last():
    def body(b, x):
        y = b.emit(op.nn.relu(depthwise(b, x, 16)))
        return op.nn.relu(pixelwise(b, y, 16, 32))

    text = PackForVectors()(graph((1, 16, 20, 24), body)).script()
    assert text.count("R.permute_dims") >= 2 and "R.nn.conv2d" not in text


def test_a_lone_convolution_of_pixels_runs_over_all_pixels():
    def body(b, x, r):
        y = b.emit(op.add(pixelwise(b, x, 16, 24), relax.const(weights(1, 24, 1, 1))))
        return op.nn.relu(b.emit(op.add(y, r)))

    mod = graph((2, 16, 8, 6), body, (2, 24, 8, 6))
    text = PackForVectors()(mod).script()
    assert "permute_dims" not in text and "(2, 24, 1, 48)" in text
    x, r = weights(2, 16, 8, 6, seed=2), weights(2, 24, 8, 6, seed=3)
    want = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(weights(24, 16, 1, 1))).numpy()
    want = np.maximum(want + weights(1, 24, 1, 1) + r, 0)
    found = relax.build(mod, "llvm")(ts.nd.array(x), ts.nd.array(r)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "groups", "taps", "reads"),
    [
        ({"strides": 2}, 1, 1, "conv2d_planes_packed"),  # pixels are read in place
        ({"padding": 1, "strides": 3}, 1, 3, "conv2d_nhwc_packed"),  # permuted as it is padded
        ({"padding": [1, 0, 2, 1], "strides": 3}, 2, 3, "grouped_conv2d_nhwc_packed"),
    ],
)
def test_lone_convolutions_read_planes(options, groups, taps, reads):
    w = weights(64, 32 // groups, taps, taps)

    def body(b, x):
        return b.emit(op.nn.conv2d(x, relax.const(w), groups=groups, **options))

    mod = graph((2, 32, 9, 13), body)
    text = PackForVectors()(mod).script()
    assert text.count("R.permute_dims") == 1 and reads in text  # that of the result
    x = weights(2, 32, 9, 13, seed=2)
    top, left, bottom, right = (
        options.get("padding", 0) if groups == 2 else [options.get("padding", 0)] * 4
    )
    padded = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    want = torch.nn.functional.conv2d(
        torch.tensor(padded), torch.tensor(w), stride=options.get("strides", 1), groups=groups
    )
    found = relax.build(mod, "llvm")(ts.nd.array(x)).numpy()
    np.testing.assert_allclose(found, want.numpy(), rtol=1e-4, atol=1e-4)


def test_pixels_of_symbolic_images():
    h, w = ts.tir.Var("h", "int64"), ts.tir.Var("w", "int64")
    mod = graph((1, 8, h, w), lambda b, x: op.nn.relu(pixelwise(b, x, 8, 16)))
    built = relax.build(mod, "llvm")
    for shape in [(1, 8, 5, 9), (1, 8, 1, 1)]:
        x = weights(*shape, seed=2)
        want = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(weights(16, 8, 1, 1)))
        found = built(ts.nd.array(x)).numpy()
        np.testing.assert_allclose(found, want.relu().numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "body",
    [
        lambda b, x: pixelwise(b, x, 16, 24, strides=2),
        lambda b, x: pixelwise(b, x, 16, 24, padding=1),
        lambda b, x: op.nn.softmax(pixelwise(b, x, 16, 24), axis=3),
        lambda b, x: op.add(pixelwise(b, x, 16, 24), relax.const(weights(12))),  # one for a column
    ],
)
def test_other_neighbours_of_lone_convolutions(body):
    mod = graph((1, 16, 8, 12), body)
    x = weights(1, 16, 8, 12, seed=2)
    found = relax.build(mod, "llvm")(ts.nd.array(x)).numpy()
    with ts.transform.PassContext(disabled_pass=["PackForVectors"]):
        want = relax.build(mod, "llvm")(ts.nd.array(x)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_the_estimates_weigh_permutations_against_lanes():
    image = [1, 96, 112, 112]
    assert depthwise_stays(Sizes(image, image, 9), AVX512)
    narrow = [1, 960, 3, 3]  # most lanes of a row would be empty
    assert not depthwise_stays(Sizes(narrow, narrow, 49), AVX512)
    assert pixelwise_stays(Sizes([1, 256, 56, 56], [1, 64, 56, 56], 1), AVX512)
    assert not pixelwise_stays(Sizes([1, 512, 7, 7], [1, 2048, 7, 7], 1), AVX512)  # uneven
    assert not pixelwise_stays(Sizes([1, 2048, 1, 1], [1, 2048, 1, 1], 1), AVX512)
    assert depthwise_stays(Sizes([None, 96, None, None], [None, 96, None, None], 9), AVX512)


@pytest.mark.parametrize(
    ("channels", "size", "stride", "stays"),
    [((512, 2048), 7, 1, False), ((512, 64), 7, 1, True), ((64, 256), 56, 2, True)],
)
def test_parts_of_lines_weigh_against_a_permutation(channels, size, stride, stays):
    """Tiles of few rows use a small part of a line in each step, and many panels read it again."""
    inputs, outputs = channels
    sizes = Sizes([1, inputs, size, size], [1, outputs, size // stride, size // stride], 1)
    assert rows_stay_in_planes(sizes, stride, Tile(6, 2), AVX2) == stays
    assert all(rows_stay_in_planes(sizes, stride, Tile(7, 2), one) for one in (AVX512, ZEN_AVX512))
