"""The rule for windows without sums over channels: what it applies to, its tiles, its results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.windows.channels_last import Windows, best_window_tile, find_windows
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.target.machine import AVX512, ZEN_AVX512, machine_model
from tilesmith.tir.schedule import Schedule

TWO_THREADS = Target("llvm -num-cores=2")


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def depthwise(shape, kernel, strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1)):
    """A depthwise convolution with bias and ReLU6, channels last."""
    x = te.placeholder(shape, name="x")
    w = te.placeholder((*kernel, shape[3]), name="w")
    b = te.placeholder((shape[3],), name="b")
    made = topi.nn.depthwise_conv2d_nhwc_packed(x, w, strides, padding, dilation)
    made = topi.clip(topi.add(made, b), 0.0, 6.0)
    return te.create_prim_func([x, w, b, made], index_dtype_override="int64")


def expected(x, w, b, strides, padding, dilation):
    top, left, bottom, right = padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0))).astype("float64")
    sizes = [
        (padded.shape[1 + k] - (w.shape[k] - 1) * dilation[k] - 1) // strides[k] + 1
        for k in range(2)
    ]
    total = np.zeros((x.shape[0], *sizes, x.shape[3]))
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            rows = slice(
                i * dilation[0], i * dilation[0] + (sizes[0] - 1) * strides[0] + 1, strides[0]
            )
            columns = slice(
                j * dilation[1], j * dilation[1] + (sizes[1] - 1) * strides[1] + 1, strides[1]
            )
            total += padded[:, rows, columns] * w[i, j]
    return np.clip(total + b, 0, 6)


def check(function, shape, kernel, strides, padding, dilation, target=TWO_THREADS):
    """Run a scheduled function on a shape and compare; what it must not touch is seen as NaN."""
    x, w, b = random(*shape), random(*kernel, shape[3], seed=1), random(shape[3], seed=2)
    want = expected(x, w, b, strides, padding, dilation)
    out = ts.nd.array(np.full(want.shape, np.nan, "float32"))
    function["main"](*[ts.nd.array(one) for one in (x, w, b)], out)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-4)


def compiled(function, target=TWO_THREADS):
    made = default_schedule(function, target)
    return made, ts.build(made, target="llvm")


def test_a_depthwise_convolution_is_tiled_over_pixels_and_reads_its_padding_in_place():
    with collect_fallbacks() as report:
        made = default_schedule(
            depthwise((1, 56, 56, 96), (3, 3), padding=(1, 1, 1, 1)), TWO_THREADS
        )
    text = made.script()
    assert "pad_temp" not in text
    assert "skip_identity_terms" in text and 'scope="local"' in text and "T.parallel(" in text
    assert not report.rows()


@pytest.mark.parametrize(
    "rows, channels, shared",
    [(14, 384, ["y"]), (7, 960, ["y", "c"]), (7, 32, [])],  # 7 rows cannot be dealt out evenly
)
def test_threads_get_the_rows_that_they_wrote(rows, channels, shared):
    function = depthwise((1, rows, 14, channels), (3, 3), padding=(1, 1, 1, 1))
    made = default_schedule(function, Target("llvm -mcpu=znver5 -num-cores=2")).script()
    loops = [line for line in made.splitlines() if "T.parallel(" in line]
    assert len(loops) == bool(shared)
    if shared:
        (tasks,) = (
            int(line.split("T.parallel(")[1].split(")")[0].split("(")[-1]) for line in loops
        )
        assert tasks == 2 if shared == ["y"] else tasks % 7 == 0 and tasks >= 14


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "cpu, pixels, window, is_inside",
    [
        ("znver3", 112, 3, True),
        ("znver3", 112, 7, False),  # a row of windows reads seven of the input
        ("znver3", 28, 3, False),  # the input stays in L2
        ("znver5", 112, 3, False),  # a vector is a whole line
    ],
)
def test_lines_come_from_the_last_cache_once(cpu, pixels, window, is_inside, threads):
    pad = (window // 2,) * 4
    function = depthwise((1, pixels, pixels, 32), (window, window), padding=pad)
    made = default_schedule(function, Target(f"llvm -mcpu={cpu} -num-cores={threads}"))
    sch = Schedule(made)
    loops = [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block("T_clip"))]
    assert (loops.index("ax3_0") > loops.index("ax2_0")) == is_inside


@pytest.mark.parametrize(
    "shape, kernel, strides, padding, dilation",
    [
        ((1, 14, 14, 32), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
        ((2, 13, 11, 40), (3, 3), (2, 2), (0, 1, 2, 1), (1, 1)),  # odd sizes, asymmetric padding
        ((1, 9, 17, 21), (5, 3), (2, 1), (2, 1, 2, 1), (1, 2)),  # masks, dilation
        ((1, 12, 10, 8), (3, 3), (1, 3), (2, 2, 2, 2), (2, 2)),
        ((3, 1, 1, 16), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),  # most taps lie in the padding
        ((1, 6, 40, 48), (1, 9), (1, 1), (0, 4, 0, 4), (1, 1)),  # one row of taps
        ((1, 60, 41, 200), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),  # in threads, uneven columns
    ],
)
def test_depthwise_convolutions(shape, kernel, strides, padding, dilation):
    options = strides, padding, dilation
    made, library = compiled(depthwise(shape, kernel, *options))
    check(library, shape, kernel, *options)
    assert "pad_temp" not in made.script()


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    st.integers(1, 20), st.integers(1, 20), st.integers(1, 40), st.integers(1, 4),
    st.integers(1, 3), st.integers(0, 3), st.integers(0, 3), st.integers(1, 2),
)  # fmt: skip
def test_depthwise_convolutions_of_any_shape(h, w, c, kernel, stride, before, after, dilation):
    reach = (kernel - 1) * dilation + 1
    options = (stride, stride), (before, after, after, before), (dilation, dilation)
    shape = (1, max(h, reach), max(w, reach), c)
    _, library = compiled(depthwise(shape, (kernel, kernel), *options))
    check(library, shape, (kernel, kernel), *options)


@pytest.mark.parametrize("stride", [1, 2])
def test_symbolic_sizes(stride):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    options = (stride, stride), (1, 1, 1, 1), (1, 1)
    made, library = compiled(depthwise((n, h, w, 24), (3, 3), *options))
    assert "pad_temp" not in made.script()
    for shape in [(1, 7, 7, 24), (2, 1, 30, 24), (1, 33, 2, 24), (1, 64, 65, 24)]:
        check(library, shape, (3, 3), *options)


def test_a_residual_is_added_in_registers():
    x, r = (te.placeholder((1, 10, 10, 32), name=name) for name in "xr")
    w = te.placeholder((3, 3, 32), name="w")
    made = topi.nn.depthwise_conv2d_nhwc_packed(x, w, [1, 1], [1, 1, 1, 1], [1, 1])
    made = topi.nn.relu(topi.add(made, r))
    made, library = compiled(te.create_prim_func([x, w, r, made], index_dtype_override="int64"))
    a, b, c = random(1, 10, 10, 32), random(3, 3, 32, seed=1), random(1, 10, 10, 32, seed=2)
    out = ts.nd.array(np.zeros((1, 10, 10, 32), "float32"))
    library["main"](*[ts.nd.array(one) for one in (a, b, c)], out)
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = sum(padded[:, i : i + 10, j : j + 10] * b[i, j] for i in range(3) for j in range(3)) + c
    np.testing.assert_allclose(out.numpy(), np.maximum(want, 0), rtol=1e-4, atol=1e-4)
    assert made.script().count("alloc_buffer") == 1


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("stride, padding, counts", [(1, 1, True), (2, 1, False), (3, 0, True)])
def test_pooling(kind, stride, padding, counts):
    shape = (2, 15, 13, 20)
    x = te.placeholder(shape, name="x")
    pooled = topi.nn.pool2d(
        x, [3, 3], [stride] * 2, [1, 1], [padding] * 4, kind, False, "NHWC", counts
    )
    made, library = compiled(te.create_prim_func([x, pooled], index_dtype_override="int64"))
    assert "skip_identity_terms" in made.script()
    a = random(*shape)
    fill = -np.inf if kind == "max" else 0.0
    wide = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    parts, ones = [], []
    padded, inside = np.pad(a, wide, constant_values=fill), np.pad(np.ones_like(a), wide)
    sizes = [(padded.shape[k] - 3) // stride + 1 for k in (1, 2)]
    for i in range(3):
        for j in range(3):
            place = (
                slice(None),
                slice(i, i + (sizes[0] - 1) * stride + 1, stride),
                slice(j, j + (sizes[1] - 1) * stride + 1, stride),
            )
            parts.append(padded[place])
            ones.append(inside[place])
    want = (
        np.max(parts, 0) if kind == "max" else np.sum(parts, 0) / (9 if counts else np.sum(ones, 0))
    )
    out = ts.nd.array(np.zeros(want.shape, "float32"))
    library["main"](ts.nd.array(a), out)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-5)


def test_means_over_pixels_run_over_several_vectors():
    x = te.placeholder((1, 7, 9, 80), name="x")
    made, library = compiled(
        te.create_prim_func(
            [x, topi.divide(topi.sum(x, [1, 2]), 63.0)], index_dtype_override="int64"
        )
    )
    a = random(1, 7, 9, 80)
    out = ts.nd.array(np.zeros((1, 80), "float32"))
    library["main"](ts.nd.array(a), out)
    np.testing.assert_allclose(out.numpy(), a.mean((1, 2)), rtol=1e-4, atol=1e-5)
    assert 'scope="local"' in made.script()


def test_windows_are_told_by_their_accesses():
    def plan(function, name):
        sch = Schedule(function)
        return find_windows(sch.get(sch.get_block(name)))

    function = depthwise((1, 9, 15, 8), (3, 5), (2, 2), (0, 0, 0, 0), (1, 3))
    assert plan(function, "depthwise_conv2d_nhwc") == Windows(2, 5, 15, 2, 3, True)
    x, y = te.placeholder((4, 8), name="x"), te.placeholder((8, 16), name="y")
    assert plan(te.create_prim_func([x, y, topi.matmul(x, y)]), "T_matmul") is None
    assert plan(te.create_prim_func([x, topi.sum(x, 1)]), "x_red") is None
    assert plan(te.create_prim_func([y, topi.sum(y, 0)]), "y_red") == Windows(
        None, 1, 8, 1, 1, False
    )


@pytest.mark.parametrize("extent, columns", [(56, 144), (7, 960), (14, 384), (1, 16), (None, None)])
def test_tiles_fit_the_registers(extent, columns):
    for target in ("llvm", "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"):
        machine = machine_model(Target(target))
        for taps in (1, 3, 5):
            tile = best_window_tile(extent, columns, Windows(2, taps, taps**2, 1, 1, True), machine)
            assert tile.rows * tile.vectors < machine.vector_registers
    tile = best_window_tile(56, 144, Windows(2, 3, 9, 1, 1, True), AVX512)
    assert 56 % tile.rows == 0 and 9 % tile.vectors == 0  # 9 vectors of channels


def test_rows_of_windows_leave_room_in_the_first_cache():
    many = best_window_tile(56, 96, Windows(2, 3, 9, 2, 1, True), ZEN_AVX512)
    few = best_window_tile(14, 192, Windows(2, 3, 9, 2, 1, True), ZEN_AVX512)
    assert many.vectors == 1 and few.vectors == 3  # three rows of 112 elements, or of 28
    large = replace(ZEN_AVX512, l1_bytes=1 << 20)
    assert best_window_tile(56, 96, Windows(2, 3, 9, 2, 1, True), large).vectors == 3


@pytest.mark.parametrize("extent, columns, stride", [(14, 672, 1), (14, 240, 2), (28, 240, 1)])
def test_elements_and_weights_of_wide_windows_stay_in_registers(extent, columns, stride):
    """Results, and the weights and elements of one row of five taps."""
    tile = best_window_tile(extent, columns, Windows(2, 5, 25, stride, 1, True), ZEN_AVX512)
    assert tile.rows * tile.vectors + 2 * 5 * tile.vectors < ZEN_AVX512.vector_registers
