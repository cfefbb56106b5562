"""Concatenations of images whose channels are last."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.relax import op
from tilesmith.relax.transform import PackForVectors
from tilesmith.script import relax as R


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def model(shapes, convolves, axis, constant=None):
    """Join images, of which the first ones are convolved by 1x1 weights; convolve the result."""
    builder = relax.BlockBuilder()
    images = [
        relax.Var(f"x{number}", R.Tensor(shape, "float32")) for number, shape in enumerate(shapes)
    ]
    with builder.function("main", images):
        with builder.dataflow():
            parts = list(images)
            for number in range(convolves):
                channels = shapes[number][1]
                weight = relax.const(random(channels, channels, 1, 1, seed=number))
                parts[number] = builder.emit(op.nn.conv2d(images[number], weight))
            if constant is not None:
                parts.append(relax.const(constant))
            joined = builder.emit(op.concat(parts, axis))
            depth = int(joined.struct_info.shape.values[1])
            weight = relax.const(random(24, depth, 3, 3, seed=9))
            result = builder.emit_output(op.nn.conv2d(joined, weight, padding=1))
        builder.emit_func_output(result)
    return builder.get()


CASES = [
    ([(2, 19, 5, 7), (2, 6, 5, 7)], 1, 1, None),
    ([(1, 16, 5, 7), (1, 16, 3, 7)], 1, -2, None),
    ([(1, 17, 4, 3), (1, 17, 4, 9)], 2, 3, None),
    ([(1, 18, 3, 5)], 1, 1, (1, 5, 3, 5)),
    ([(1, 16, 3, 5), (1, 4, 3, 5), (1, 5, 3, 5)], 1, 1, None),  # most are not channels last
]


@pytest.mark.parametrize("shapes, convolves, axis, constant", CASES)
def test_joined_images(shapes, convolves, axis, constant):
    torch = pytest.importorskip("torch")
    more = None if constant is None else random(*constant, seed=7)
    mod = model(shapes, convolves, axis, more)
    data = [random(*shape, seed=20 + number) for number, shape in enumerate(shapes)]
    parts = [torch.tensor(one) for one in data]
    for number in range(convolves):
        channels = shapes[number][1]
        weight = torch.tensor(random(channels, channels, 1, 1, seed=number))
        parts[number] = torch.nn.functional.conv2d(parts[number], weight)
    if more is not None:
        parts.append(torch.tensor(more))
    joined = torch.cat(parts, axis)
    weight = torch.tensor(random(24, joined.shape[1], 3, 3, seed=9))
    want = torch.nn.functional.conv2d(joined, weight, padding=1).numpy()
    found = relax.build(mod, "llvm")(*[ts.nd.array(one) for one in data]).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_the_channels_stay_last_where_half_of_the_images_have_them_there():
    (shapes, convolves, axis, _), few = CASES[0], CASES[-1]
    text = PackForVectors()(model(shapes, convolves, axis)).script()
    assert "R.concat" in text and "axis=3" in text
    assert text.count("axes=[0, 2, 3, 1]") == 1  # of the image that is convolved first
    other = PackForVectors()(model(*few[:3])).script()
    assert "axis=1" in other and "axis=3" not in other
