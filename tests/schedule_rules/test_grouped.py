"""Convolutions in groups: packed weights, the rule that tiles them, their results."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax, te, topi
from tilesmith.relax import op
from tilesmith.relax.transform import PackForVectors
from tilesmith.relax.transform.grouped_weights import packed_groups
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.contractions.grouped import (
    Groups,
    best_group_rows,
    best_group_width,
    find_groups,
)
from tilesmith.script import relax as R
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.target.machine import machine_model
from tilesmith.tir.schedule import Schedule

MACHINE = machine_model(Target("llvm"))


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def convolved(x, w, groups, strides, padding, dilation):
    """The convolution in NCHW, tap by tap."""
    top, left, bottom, right = padding
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, inputs = x.shape[:2]
    outputs, _, ky, kx = w.shape
    sizes = [
        (padded.shape[2 + k] - (w.shape[2 + k] - 1) * dilation[k] - 1) // strides[k] + 1
        for k in range(2)
    ]
    parts = w.reshape(groups, outputs // groups, inputs // groups, ky, kx)
    total = np.zeros((n, groups, outputs // groups, *sizes))
    for i in range(ky):
        for j in range(kx):
            rows = i * dilation[0] + np.arange(sizes[0]) * strides[0]
            columns = j * dilation[1] + np.arange(sizes[1]) * strides[1]
            taken = padded[:, :, rows][:, :, :, columns]
            taken = taken.reshape(n, groups, inputs // groups, *sizes)
            total += np.einsum("ngchw,goc->ngohw", taken, parts[..., i, j])
    return total.reshape(n, outputs, *sizes)


def model(shape, weight, bias, groups, strides, padding, dilation):
    """A convolution in groups with bias and ReLU, NCHW."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            made = builder.emit(
                op.nn.conv2d(
                    x, relax.const(weight), strides=strides, padding=padding, dilation=dilation,
                    groups=groups,
                )
            )  # fmt: skip
            made = builder.emit(op.add(made, relax.const(bias)))
            result = builder.emit_output(op.nn.relu(made))
        builder.emit_func_output(result)
    return builder.get()


CASES = [
    # shape, outputs, groups, kernel, strides, padding, dilation
    ((1, 32, 9, 7), 32, 2, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((2, 48, 11, 6), 72, 3, (3, 2), (2, 1), (0, 1, 2, 1), (1, 2)),  # 24 outputs in a group
    ((1, 32, 8, 13), 32, 8, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),  # four groups in a vector
    ((1, 30, 5, 5), 45, 5, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),  # masks
    ((1, 6, 7, 9), 12, 6, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),  # two outputs of each channel
    ((1, 80, 4, 30), 160, 2, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),  # several tiles in a group
    ((2, 10, 5, 28), 224, 2, (3, 2), (1, 2), (1, 0, 1, 1), (1, 1)),  # and half of one
    ((1, 9, 3, 17), 144, 3, (1, 3), (1, 1), (0, 1, 0, 1), (1, 1)),  # rows and tiles that are left
]


@pytest.mark.parametrize("shape, outputs, groups, kernel, strides, padding, dilation", CASES)
def test_convolutions_in_groups(shape, outputs, groups, kernel, strides, padding, dilation):
    x = random(*shape)
    weight, bias = random(outputs, shape[1] // groups, *kernel, seed=1), random(outputs, 1, 1)
    options = groups, strides, padding, dilation
    mod = model(shape, weight, bias, *options)
    with collect_fallbacks() as report:
        found = relax.build(mod, "llvm")(ts.nd.array(x)).numpy()
    assert not [one for one, _ in report.rows() if one.kind in ("packing", "schedule")]
    want = np.maximum(convolved(x, weight, *options) + bias, 0)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_a_convolution_in_groups_of_symbolic_sizes():
    n, h, w = (te.var(name, "int64") for name in "nhw")
    weight, bias = random(24, 4, 3, 3, seed=1), random(24, 1, 1)
    options = 3, (1, 1), (1, 1, 1, 1), (1, 1)
    built = relax.build(model((n, 12, h, w), weight, bias, *options), "llvm")
    for shape in [(1, 12, 5, 7), (2, 12, 1, 20)]:
        x = random(*shape)
        want = np.maximum(convolved(x, weight, *options) + bias, 0)
        np.testing.assert_allclose(built(ts.nd.array(x)).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "inputs, outputs, groups, kernel, stride, padding, extra",
    [(8, 12, 2, 4, 2, 1, 0), (6, 6, 6, 3, 2, 1, 1), (12, 24, 3, 3, 1, 0, 0)],
)
def test_transposed_convolutions_in_groups(inputs, outputs, groups, kernel, stride, padding, extra):
    torch = pytest.importorskip("torch")
    weight = random(inputs, outputs // groups, kernel, kernel, seed=1)
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, inputs, 5, 7), "float32"))
    options = {"padding": padding, "output_padding": extra, "groups": groups}
    with builder.function("main", [x]):
        with builder.dataflow():
            made = op.nn.conv2d_transpose(x, relax.const(weight), strides=stride, **options)
            result = builder.emit_output(made)
        builder.emit_func_output(result)
    mod = builder.get()
    with collect_fallbacks() as report:
        PackForVectors()(mod)
    assert not [one for one, _ in report.rows() if one.kind == "packing"]
    a = random(2, inputs, 5, 7)
    want = torch.nn.functional.conv_transpose2d(
        torch.tensor(a), torch.tensor(weight), stride=stride, **options
    )
    found = relax.build(mod, "llvm")(ts.nd.array(a)).numpy()
    np.testing.assert_allclose(found, want.numpy(), rtol=1e-4, atol=1e-4)


def test_the_channels_stay_last_between_convolutions():
    weight, bias = random(32, 16, 3, 3), random(32, 1, 1)
    mod = model((1, 32, 8, 8), weight, bias, 2, (3, 3), (1, 1, 1, 1), (1, 1))
    text = PackForVectors()(mod).script()
    assert "grouped_conv2d" in text and text.count("permute_dims") >= 2


def test_packed_weights():
    weight = random(8, 3, 2, 2)
    packed = packed_groups(weight, 4, 7, MACHINE).data.numpy()
    groups, tiles, ky, kx, inputs, width = packed.shape
    joined = 4 // groups
    assert (tiles * width, inputs, ky, kx) == (2 * joined, 3 * joined, 2, 2)
    dense = packed.transpose(0, 1, 5, 4, 2, 3).reshape(groups, 2 * joined, 3 * joined, 2, 2)
    for group in range(4):
        place, member = divmod(group, joined)
        own = dense[place, member * 2 : member * 2 + 2, member * 3 : member * 3 + 3]
        np.testing.assert_array_equal(own, weight[group * 2 : group * 2 + 2])
    assert np.count_nonzero(dense) == weight.size


def test_groups_are_told_by_their_accesses():
    x = te.placeholder((1, 6, 6, 48), name="x")
    w = te.placeholder((2, 2, 3, 3, 24, 12), name="w")
    made = topi.nn.grouped_conv2d_nhwc_packed(x, w, 48, [1, 1], [0, 0, 0, 0], [1, 1])
    function = te.create_prim_func([x, w, made], index_dtype_override="int64")
    sch = Schedule(function)
    block = sch.get(sch.get_block("grouped_conv2d_nhwc_packed"))
    assert find_groups(block) == Groups(24, 12, 2)
    text = default_schedule(function, Target("llvm -num-cores=1")).script()
    assert 'scope="local"' in text and "pragma_unroll_explicit" in text
    a, b = te.placeholder((8, 8), name="a"), te.placeholder((8, 16), name="b")
    sch = Schedule(te.create_prim_func([a, b, topi.matmul(a, b)]))
    assert find_groups(sch.get(sch.get_block("T_matmul"))) is None
    packed = te.placeholder((2, 8, 16), name="packed")  # tiles of weights are no groups
    sch = Schedule(te.create_prim_func([a, packed, topi.nn.matmul_packed(a, packed, 32)]))
    assert find_groups(sch.get(sch.get_block("matmul_packed"))) is None


@pytest.mark.parametrize("outputs", [8, 16, 24, 40, 72, 112, 240])
def test_widths_divide_the_outputs_of_a_group_that_fill_no_vectors(outputs):
    lanes = MACHINE.lanes(32)
    width = best_group_width(outputs, 9 * outputs, 28, MACHINE)
    assert outputs % width == 0 if outputs % lanes else width % lanes == 0
    assert 1 <= best_group_rows(28, outputs, width, MACHINE) <= 28


def test_tiles_of_a_group_are_as_wide_as_registers_want():
    machine = machine_model(Target("llvm -mcpu=znver5 -num-cores=2"))
    assert best_group_width(112, 9 * 112, 28, machine) == 32  # three and a half tiles
    assert best_group_rows(28, 112, 32, machine) == 14
    packed = packed_groups(random(224, 112, 3, 3), 2, 28, machine).data.numpy()
    assert packed.shape == (2, 4, 3, 3, 112, 32)
    assert not packed[:, 3, ..., 16:].any() and packed[:, 3, ..., :16].all()


def test_the_last_tile_of_a_group_has_fewer_vectors():
    x = te.placeholder((1, 8, 30, 96), name="x")
    w = te.placeholder((2, 2, 3, 3, 48, 32), name="w")
    made = topi.nn.grouped_conv2d_nhwc_packed(x, w, 96, [1, 1], [0, 0, 0, 0], [1, 1])
    function = te.create_prim_func([x, w, made], index_dtype_override="int64")
    target = Target("llvm -mcpu=znver5 -num-cores=2")
    with collect_fallbacks() as report:
        scheduled = default_schedule(function, target)
    assert not report.rows()
    text = ts.lower(scheduled).script()
    assert text.count("for ax2_0 in range(2)") == 2  # a whole tile, and half of one
    assert "if " not in text


def packed_convolution(shape, weights, channels, strides, padding):
    """A grouped convolution with packed weights, channels last, with bias."""
    x, w = te.placeholder(shape, name="x"), te.placeholder(weights, name="w")
    made = topi.nn.grouped_conv2d_nhwc_packed(x, w, channels, strides, padding, [1, 1])
    bias = te.placeholder((1, 1, 1, channels), name="bias")
    function = te.create_prim_func([x, w, bias, topi.add(made, bias)])
    return function.with_attr("global_symbol", "main")


def loops_around(function, target):
    """The outer loops of the tiles of a scheduled convolution, and those of the padding."""
    sch = Schedule(default_schedule(function, Target(target)))
    names = ("T_add", "pad_temp")
    extents = [
        [sch.get(loop).extent.value for loop in sch.get_loops(sch.get_block(name))]
        for name in names
    ]
    return [[extent for extent in one if extent > 1] for one in extents]


@pytest.mark.parametrize("threads", [1, 2])
def test_padding_is_made_strip_by_strip_and_groups_are_inside_of_rows(threads):
    function = packed_convolution((1, 56, 56, 64), (8, 1, 3, 3, 8, 8), 64, [2, 2], [1] * 4)
    target = f"llvm -mcpu=znver3 -num-cores={threads}"
    tiles, padding = loops_around(function, target)
    assert tiles[:3] == [4, 7, 8]  # strips, rows of a strip, groups
    assert padding[:3] == [4, 15, 57]  # the rows that a strip reads


def test_small_images_are_padded_once_where_one_thread_runs():
    function = packed_convolution((1, 14, 14, 64), (8, 1, 3, 3, 8, 8), 64, [1, 1], [1] * 4)
    tiles, padding = loops_around(function, "llvm -mcpu=znver3 -num-cores=1")
    assert tiles[:2] == [14, 8] and padding[:2] == [16, 16]
    strips, padding = loops_around(function, "llvm -mcpu=znver3 -num-cores=2")
    assert strips[:3] == [2, 7, 8] and padding[:2] == [2, 9]


def test_groups_with_many_weights_are_outside_of_rows():
    function = packed_convolution((1, 28, 28, 256), (2, 8, 3, 3, 128, 16), 256, [1, 1], [1] * 4)
    tiles, padding = loops_around(function, "llvm -mcpu=znver3 -num-cores=2")
    assert tiles[0] == 2 and 28 in tiles[1:3]
    assert padding[-3:-1] == [30, 30] or padding[0] == 30 * 30


@pytest.mark.parametrize("channels", [24, 40, 56])
@pytest.mark.parametrize(("size", "stride"), [(28, 1), (28, 2), (30, 2), (23, 1)])
def test_padded_strips_compute_the_convolution(channels, size, stride):
    groups = channels // 8
    function = packed_convolution(
        (2, size, size, channels), (groups, 1, 3, 3, 8, 8), channels, [stride] * 2, [1] * 4
    )
    target = Target("llvm -num-cores=2 -machine=l2_bytes:65536")
    module = ts.build(default_schedule(function, target), target=target)
    x, bias = random(2, size, size, channels), random(1, 1, 1, channels, seed=2)
    w = random(channels, 8, 3, 3, seed=1)
    packed = w.reshape(groups, 1, 8, 8, 3, 3).transpose(0, 1, 4, 5, 3, 2)
    wanted = convolved(x.transpose(0, 3, 1, 2), w, groups, (stride,) * 2, (1,) * 4, (1, 1))
    result = ts.nd.empty((2, *wanted.shape[2:], channels), "float32")
    module(*[ts.nd.array(np.ascontiguousarray(one)) for one in (x, packed, bias)], result)
    np.testing.assert_allclose(
        result.numpy(), wanted.transpose(0, 2, 3, 1) + bias, rtol=1e-4, atol=1e-4
    )
