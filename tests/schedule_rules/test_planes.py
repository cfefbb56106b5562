"""The rule for windows of planes (NCHW): what it applies to, and its results."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.windows.planes import Planes, find_planes
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.tir.schedule import Schedule


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def windows(x, kernel, strides, padding, dilation, fill=0.0):
    """The elements of each window, one array for each tap."""
    top, left, bottom, right = padding
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    sizes = [
        (padded.shape[2 + k] - (kernel[k] - 1) * dilation[k] - 1) // strides[k] + 1
        for k in range(2)
    ]
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = i * dilation[0] + np.arange(sizes[0]) * strides[0]
            columns = j * dilation[1] + np.arange(sizes[1]) * strides[1]
            yield i, j, padded[:, :, rows][:, :, :, columns]


def depthwise(shape, kernel, strides, padding, dilation):
    x = te.placeholder(shape, name="x")
    w = te.placeholder((shape[1], 1, *kernel), name="w")
    b = te.placeholder((shape[1], 1, 1), name="b")
    made = topi.nn.depthwise_conv2d_nchw(x, w, list(strides), list(padding), list(dilation))
    made = topi.nn.relu(topi.add(made, b))
    return te.create_prim_func([x, w, b, made], index_dtype_override="int64")


def check(library, shape, kernel, strides, padding, dilation):
    x, w, b = random(*shape), random(shape[1], 1, *kernel, seed=1), random(shape[1], 1, 1, seed=2)
    taps = windows(x, kernel, strides, padding, dilation)
    want = np.maximum(sum(part * w[:, :, i, j][..., None] for i, j, part in taps) + b, 0)
    out = ts.nd.array(np.full(want.shape, np.nan, "float32"))
    library["main"](*[ts.nd.array(one) for one in (x, w, b)], out)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shape, kernel, strides, padding, dilation",
    [
        ((1, 8, 16, 32), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
        ((2, 5, 9, 21), (3, 3), (1, 1), (1, 0, 2, 1), (1, 1)),  # odd sizes, asymmetric padding
        ((1, 3, 20, 38), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),  # every other element
        ((1, 4, 15, 19), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),  # more weights than registers
        ((1, 3, 18, 20), (3, 5), (1, 2), (2, 4, 2, 4), (2, 2)),  # dilation
        ((1, 70, 32, 50), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),  # in threads
    ],
)
def test_depthwise_convolutions(shape, kernel, strides, padding, dilation):
    options = strides, padding, dilation
    with collect_fallbacks() as report:
        made = default_schedule(depthwise(shape, kernel, *options), Target("llvm -num-cores=2"))
    assert 'scope="local"' in made.script()
    assert not [one for one, _ in report.rows() if one.kind == "schedule"]
    check(ts.build(made, target="llvm"), shape, kernel, *options)


def test_symbolic_sizes():
    n, h, w = (te.var(name, "int64") for name in "nhw")
    options = (1, 1), (1, 1, 1, 1), (1, 1)
    made = default_schedule(depthwise((n, 6, h, w), (3, 3), *options), Target("llvm -num-cores=2"))
    library = ts.build(made, target="llvm")
    for shape in [(1, 6, 7, 7), (2, 6, 1, 35), (1, 6, 33, 64)]:
        check(library, shape, (3, 3), *options)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling(kind):
    shape, options = (2, 3, 14, 25), ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1))
    x = te.placeholder(shape, name="x")
    pooled = topi.nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1] * 4, kind, False, "NCHW", True)
    function = te.create_prim_func([x, pooled], index_dtype_override="int64")
    made = default_schedule(function, Target("llvm -num-cores=2"))
    assert 'scope="local"' in made.script()
    a = random(*shape)
    fill = -np.inf if kind == "max" else 0.0
    parts = [part for *_, part in windows(a, *options, fill)]
    want = np.max(parts, 0) if kind == "max" else np.mean(parts, 0)
    out = ts.nd.array(np.zeros(want.shape, "float32"))
    ts.build(made, target="llvm")["main"](ts.nd.array(a), out)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-5)


def test_planes_are_told_by_their_accesses():
    def plan(function, name):
        sch = Schedule(function)
        return find_planes(sch.get(sch.get_block(name)))

    function = depthwise((1, 4, 9, 15), (3, 5), (1, 2), (0, 0, 0, 0), (1, 1))
    assert plan(function, "DepthwiseConv2d") == Planes(15)
    x, w = te.placeholder((1, 4, 9, 9), name="x"), te.placeholder((8, 4, 3, 3), name="w")
    made = topi.nn.conv2d_nchw(x, w, [1, 1], [0, 0, 0, 0], [1, 1])  # it sums channels
    sch = Schedule(te.create_prim_func([x, w, made]))
    assert all(
        find_planes(sch.get(block)) is None for block in sch.get_child_blocks(sch.get_block("root"))
    )
