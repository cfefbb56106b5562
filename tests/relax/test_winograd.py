"""Convolutions by Winograd's algorithm: where they are chosen, what they compute, how they fuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tilesmith import relax, te, topi
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.relax import op
from tilesmith.relax import transform as passes
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.contractions.winograd_cost import ConvolutionSize, winograd_plan
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, ShapeError
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.target.machine import machine_model
from tilesmith.tir import PrimFunc, interpreter

SERVER = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def direct(x, weights, padding, groups=1, stride=1):
    """The convolution of NHWC data by OIHW weights, in float64."""
    if groups > 1:
        parts = zip(np.split(x, groups, 3), np.split(weights, groups))
        return np.concatenate([direct(*part, padding, 1, stride) for part in parts], 3)
    top, left, bottom, right = padding
    padded = np.pad(x.astype("float64"), ((0, 0), (top, bottom), (left, right), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    windows = windows[:, ::stride, ::stride]
    return np.einsum("nyxchw,ochw->nyxo", windows, weights.astype("float64"))


def packed(weights, tile, width, groups=1, stride=1):
    if groups > 1:
        parts = np.split(weights, groups)
        return np.stack([packed(own, tile, width, 1, stride) for own in parts])
    outputs, inputs = weights.shape[:2]
    points = topi.nn.winograd_width(tile, stride) ** 2
    made = np.full((-(-outputs // width), points, inputs, width), np.nan, "float32")
    return topi.nn.winograd_points(weights, tile, made, stride)


def by_strips(x, weights, padding, tile, rows, width, groups=1, stride=1):
    """The function of a convolution with a ReLU, and its weights."""
    points = packed(weights, tile, width, groups, stride)
    places = [te.placeholder(one.shape, name=name) for one, name in ((x, "x"), (points, "w"))]
    made = topi.nn.conv2d_nhwc_winograd(*places, weights.shape[0], padding, tile, rows, stride)
    result = topi.nn.relu(made)
    return te.create_prim_func([*places, result], index_dtype_override="int64"), points


def run(function, *inputs):
    shape = [int(size) for size in function.buffer_map[function.params[-1]].shape]
    out = ts.nd.array(np.zeros(shape, "float32"))
    ts.build(function, target="llvm")["main"](*[ts.nd.array(one) for one in inputs], out)
    return out.numpy()


SHAPES = [
    # images, height, width, inputs, outputs; padding; tile, rows of a strip, width; groups, stride,
    # threads
    ((1, 7, 9, 5, 24), (1, 1, 1, 1), 2, 2, 32, 1, 1, 1),
    ((2, 8, 6, 16, 16), (0, 0, 0, 0), 2, 1, 16, 1, 1, 2),
    ((1, 5, 11, 33, 20), (2, 0, 1, 3), 2, 3, 16, 1, 1, 2),
    ((1, 9, 10, 16, 24), (1, 1, 1, 1), 4, 2, 32, 1, 1, 1),
    ((1, 6, 5, 19, 32), (1, 1, 1, 1), 4, 2, 16, 1, 1, 2),
    ((2, 7, 9, 15, 96), (1, 0, 1, 2), 2, 2, 16, 3, 1, 1),
    ((1, 6, 5, 34, 96), (1, 1, 1, 1), 2, 3, 48, 2, 1, 2),
    ((1, 5, 6, 32, 48), (1, 1, 1, 1), 4, 1, 32, 2, 1, 1),  # 24 outputs of a group: part of a tile
    ((2, 9, 8, 17, 48), (1, 1, 1, 1), 2, 2, 32, 1, 2, 1),
    ((1, 12, 13, 16, 20), (0, 1, 0, 0), 2, 1, 16, 1, 2, 2),
    ((1, 11, 9, 30, 32), (1, 1, 1, 1), 4, 1, 16, 2, 2, 1),
]


@pytest.mark.parametrize(
    ("sizes", "padding", "tile", "rows", "width", "groups", "stride", "threads"), SHAPES
)
def test_strips_compute_the_convolution(
    sizes, padding, tile, rows, width, groups, stride, threads
):  # fmt: skip
    *data, outputs = sizes
    x, weights = random(*data), random(outputs, data[-1] // groups, 3, 3, seed=1)
    function, points = by_strips(x, weights, padding, tile, rows, width, groups, stride)
    with collect_fallbacks() as report:
        made = default_schedule(function, Target(f"llvm -num-cores={threads}"))
        for cpu in ("znver3", "znver5"):  # 16 and 32 registers: tiles of one row, and of more
            default_schedule(function, Target(f"llvm -mcpu={cpu} -num-cores={threads}"))
    assert [one for one, _ in report.rows() if one.kind == "schedule"] == []
    wanted = np.maximum(direct(x, weights, padding, groups, stride), 0)
    np.testing.assert_allclose(run(made, x, points), wanted, rtol=1e-4, atol=1e-3)


@settings(max_examples=6, deadline=None)
@given(
    st.tuples(*[st.integers(1, 2), *[st.integers(1, 6)] * 2, *[st.integers(1, 4)] * 2]),
    st.tuples(*[st.integers(1, 2)] * 4), st.sampled_from([2, 4]), st.integers(1, 3),
    st.sampled_from([(1, 1), (2, 1), (1, 2)]),
)  # fmt: skip
def test_any_sizes_in_the_interpreter(sizes, padding, tile, rows, more):
    (*data, own, outputs), (groups, stride) = sizes, more
    x, weights = random(*data, own * groups), random(outputs * groups, own, 3, 3, seed=1)
    function, points = by_strips(x, weights, padding, tile, rows, 4, groups, stride)
    wanted = np.maximum(direct(x, weights, padding, groups, stride), 0)
    found = np.zeros(wanted.shape, "float32")
    interpreter.run(function, x, points, found)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def test_weights_of_other_tiles_are_refused():
    x, weights = te.placeholder((1, 4, 4, 8)), te.placeholder((1, 36, 8, 16))
    with pytest.raises(ShapeError, match="have 16 points, the weights 36"):
        topi.nn.conv2d_nhwc_winograd(x, weights, 16, (1, 1, 1, 1), 2, 1)


def test_channels_that_groups_do_not_share_are_refused():
    x, weights = te.placeholder((1, 4, 4, 18)), te.placeholder((2, 1, 16, 8, 16))
    with pytest.raises(ShapeError, match="take 16 channels in 2 groups, the data have 18"):
        topi.nn.conv2d_nhwc_winograd(x, weights, 32, (1, 1, 1, 1), 2, 1)


def scheduled(threads, rows, groups=1):
    weights = random(32, 32 // groups, 3, 3)
    function, _ = by_strips(
        random(1, 28, 28, 32), weights, (1, 1, 1, 1), 2, rows, 32 // groups, groups
    )
    return default_schedule(function, Target(f"{SERVER} -num-cores={threads}")).script()


def test_strips_run_in_parallel_and_hold_their_data():
    lines = scheduled(2, 2).splitlines()
    loops = [line for line in lines if line.startswith("    for ")]
    assert len(loops) == 1 and "T.parallel(T.int64(7))" in loops[0]
    whole = "\n".join(lines)
    assert "products_global" in whole and 'scope="local"' in whole
    for block in ("pad_temp", "data_points", "products_update", "compute"):
        (at,) = [k for k, line in enumerate(lines) if f'T.block("{block}")' in line]
        assert "T.vectorized(T.int64(16))" in lines[at - 1]
    (at,) = [k for k, line in enumerate(lines) if 'T.block("data_points")' in line]
    assert all("T.unroll(T.int64(4)" in line for line in lines[at - 3 : at - 1])


def test_groups_run_one_after_the_other_with_their_own_data():
    lines = scheduled(2, 2, groups=2).splitlines()
    loops = [line for line in lines if line.startswith("    for ")]
    assert len(loops) == 1 and "T.parallel(T.int64(14))" in loops[0]
    for block, channels in (("pad_temp", "v_ax3"), ("data_points", "v_ax2"), ("compute", "v_ax3")):
        (at,) = [k for k, line in enumerate(lines) if f'T.block("{block}")' in line]
        first = next(line for line in lines[at:] if channels in line)
        # the group is the outermost part of the loop: no strip comes between two uses of weights
        assert "_fused // T.int64(7)" in first, block


def test_one_strip_shares_its_parts():
    text = scheduled(2, 14)
    assert text.count("T.parallel(") == 3
    assert "T.parallel(" not in scheduled(1, 14)


@pytest.mark.parametrize(("outputs", "rows", "prefetches"), [(64, 3, True), (32, 3, False)])
def test_panels_of_weights_are_fetched_before_their_turn(outputs, rows, prefetches):
    """Where one follows another; small ones too: other layers have driven them from the cache."""
    x, weights = random(1, 12, 12, 16), random(outputs, 16, 3, 3, seed=1)
    function, points = by_strips(x, weights, (1, 1, 1, 1), 2, rows, 32)
    made = default_schedule(function, Target("llvm -mcpu=znver5 -num-cores=1"))
    assert ("T.prefetch(" in ts.lower(made).script()) == prefetches
    wanted = np.maximum(direct(x, weights, (1, 1, 1, 1)), 0)
    np.testing.assert_allclose(run(made, x, points), wanted, rtol=1e-4, atol=1e-3)


@T.prim_func
def batched_product(
    x: T.Buffer((4, 8, 16), "float32"), w: T.Buffer((4, 16, 32), "float32"),
    z: T.Buffer((4, 8, 32), "float32"),
):  # fmt: skip
    y = T.alloc_buffer((4, 8, 32))
    for b, i, j, k in T.grid(4, 8, 32, 16):
        with T.block("y"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                y[vb, vi, vj] = T.float32(0)
            y[vb, vi, vj] = y[vb, vi, vj] + x[vb, vi, vk] * w[vb, vk, vj]
    for b, i, j in T.grid(4, 8, 32):
        with T.block("z"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            z[vb, vi, vj] = T.max(y[vb, vi, vj], T.float32(0))


def test_other_products_keep_their_rule():
    text = default_schedule(batched_product, Target(SERVER)).script()
    assert "y_update" in text and "y_global" not in text


def residual_block(shape, outputs=None, dtype="float32", **options):
    """``relu(conv2d(x, w) + b + x)``, and its weights and bias."""
    channels = outputs or shape[1]
    weights = (random(channels, shape[1], 3, 3, seed=1) / 10).astype(dtype)
    bias = random(1, channels, 1, 1, seed=2).astype(dtype)
    options = {"padding": [1, 1], **options}
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.nn.conv2d(x, relax.const(weights), **options))
            y = builder.emit(op.add(y, relax.const(bias)))
            if outputs is None and "strides" not in options:
                y = builder.emit(op.add(y, x))
            result = builder.emit_output(op.nn.relu(y))
        builder.emit_func_output(result)
    return builder.get(), weights, bias


def of_block(x, weights, bias):
    last = x.transpose(0, 2, 3, 1)
    y = direct(last, weights, (1, 1, 1, 1)).transpose(0, 3, 1, 2) + bias + x
    return np.maximum(y, 0)


def names(module):
    return sorted(
        variable.name_hint
        for variable, function in module.functions.items()
        if isinstance(function, PrimFunc)
    )


def packs(module, target=SERVER, **config):
    with PassContext(config=config):
        return names(passes.PackForVectors(target)(module))


def test_a_residual_block_becomes_one_kernel_with_channels_last():
    module, _, _ = residual_block((1, 32, 28, 28))
    fuse = [
        passes.PackForVectors(SERVER), passes.DeadCodeElimination(), passes.LegalizeOps(),
        passes.AnnotateTIROpPattern(), passes.FuseOps(), passes.FuseTIR(),
        passes.DeadCodeElimination(),
    ]  # fmt: skip
    made = Sequential(fuse)(module)
    kernels = [name for name in names(made) if "conv2d" in name]
    assert len(kernels) == 1 and "add" in kernels[0] and "relu" in kernels[0]
    text = default_schedule(made[kernels[0]], Target(f"{SERVER} -num-cores=2")).script()
    assert len([line for line in text.splitlines() if line.startswith("    for ")]) == 1
    assert len(names(made)) == 3  # the data and the result are permuted


def test_weights_of_16_bits_that_become_points_of_float32_are_told():
    module, _, _ = residual_block((1, 32, 28, 28))
    narrow = passes.NarrowWeights("float16")(module)
    for one, expected in ((narrow, ["relax.nn.conv2d"]), (module, [])):
        with collect_fallbacks() as report:
            assert "conv2d_winograd" in packs(one)
        told = [row.place for row, _ in report.rows() if row.kind == "precision"]
        assert told == expected


def convolution(groups, channels, stride=1):
    """A convolution in groups with a ReLU, and its weights."""
    weights = random(channels, channels // groups, 3, 3, seed=1) / 10
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((1, channels, 14 * stride, 16 * stride), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            options = {"strides": [stride] * 2, "padding": [1, 1], "groups": groups}
            y = builder.emit(op.nn.conv2d(x, relax.const(weights), **options))
            result = builder.emit_output(op.nn.relu(y))
        builder.emit_func_output(result)
    return builder.get(), weights


@pytest.mark.parametrize(("groups", "channels", "stride"), [(3, 96, 1), (1, 64, 2)])
def test_groups_of_whole_vectors_and_strides_gain_too(groups, channels, stride):
    module, weights = convolution(groups, channels, stride)
    assert "conv2d_winograd" in packs(module, "llvm -mcpu=znver5 -num-cores=1")
    x = random(1, channels, 14 * stride, 16 * stride, seed=5)
    machine = relax.VirtualMachine(relax.build(module, "llvm -num-cores=1"), ts.cpu())
    wanted = direct(x.transpose(0, 2, 3, 1), weights, (1, 1, 1, 1), groups, stride)
    found = machine["main"](ts.nd.array(x)).numpy()
    np.testing.assert_allclose(
        found, np.maximum(wanted, 0).transpose(0, 3, 1, 2), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize(("groups", "channels"), [(16, 64), (2, 48)])
def test_groups_that_leave_lanes_empty_stay_direct(groups, channels):
    assert packs(convolution(groups, channels)[0]) == ["grouped_conv2d"]


@pytest.mark.parametrize("images", [2, "n"])
def test_a_model_computes_the_same(images):
    size = relax.ShapeExpr([images]).values[0] if images != "n" else ts.tir.Var("n", "int64")
    module, weights, bias = residual_block((size, 32, 13, 15))
    assert "conv2d_winograd" in packs(module)
    x = random(2, 32, 13, 15, seed=5)
    found = relax.VirtualMachine(relax.build(module, "llvm -num-cores=2"), ts.cpu())["main"](
        ts.nd.array(x)
    )
    np.testing.assert_allclose(found.numpy(), of_block(x, weights, bias), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((1, 3, 32, 32), {"outputs": 32}),
        ((1, 64, 2, 2), {}),
        ((1, 32, 28, 28), {"strides": [3, 3]}),
        ((1, 32, 28, 28), {"strides": [2, 1]}),
        ((1, 32, 28, 28), {"padding": [2, 2], "dilation": [2, 2]}),
        ((1, 32, 28, 28), {"dtype": "float16"}),
        ((1, 32, ts.tir.Var("h", "int64"), 28), {}),
    ],
)
def test_other_convolutions_stay_direct(shape, options):
    assert packs(residual_block(shape, **options)[0]) == ["conv2d"]


MODEL = machine_model(Target(f"{SERVER} -num-cores=1"))
LAYERS = [(56, 64), (28, 128), (14, 256), (7, 512)]


@pytest.mark.parametrize(("size", "channels"), LAYERS)
def test_the_layers_of_networks_gain(size, channels):
    plan = winograd_plan(ConvolutionSize(1, size, size, channels, channels), MODEL)
    assert plan is not None and plan.tile == 2
    tiles = plan.rows * -(-size // 2)
    # Strips stay in the cache, and have rows enough for register tiles.
    assert tiles >= 14 and 16 * tiles * channels * 4 <= MODEL.l2_bytes


def test_strides_leave_fewer_products_out():
    """25 products take the place of 36, not 16: small images do not gain."""
    for outputs, size, pays in ((128, 28, True), (256, 14, True), (512, 7, False)):
        layer = ConvolutionSize(1, size, size, outputs // 2, outputs, stride=2)
        plan = winograd_plan(layer, machine_model(Target("llvm -mcpu=znver5 -num-cores=1")))
        assert (plan is not None) == pays


@pytest.mark.parametrize(
    "images, channels, size, cores, pays",
    [  # measured on Zen 5 in layers whose weights come from memory
        (1, 256, 5, 1, False), (1, 256, 3, 1, False), (1, 512, 4, 1, False), (1, 256, 7, 1, True),
        (1, 512, 6, 1, True), (1, 512, 7, 1, True), (2, 256, 4, 2, False), (1, 512, 6, 2, False),
        (1, 256, 7, 2, True), (1, 512, 7, 2, True), (8, 512, 7, 2, True), (1, 64, 56, 2, True),
    ],
)  # fmt: skip
def test_weights_from_memory_decide_where_images_are_small(images, channels, size, cores, pays):
    machine = machine_model(Target(f"llvm -mcpu=znver5 -num-cores={cores}"))
    plan = winograd_plan(ConvolutionSize(images, size, size, channels, channels), machine)
    assert (plan is not None) == pays


def test_larger_tiles_need_a_tolerance():
    size = ConvolutionSize(1, 56, 56, 64, 64)
    assert winograd_plan(size, MODEL, 1e-3).tile == 4
    assert winograd_plan(size, MODEL, 1e-6).tile == 2
    module, _, _ = residual_block((1, 64, 28, 28))
    loose = passes.PackForVectors(SERVER)
    with PassContext(config={"relax.winograd_tolerance": 1e-3}):
        text = loose(module)["conv2d_winograd"].script()
    assert "T.int64(36)" in text
    assert "T.int64(36)" not in loose(module)["conv2d_winograd"].script()
    assert packs(module, **{"relax.winograd_tolerance": -1.0}) == ["conv2d"]
    with pytest.raises(ConfigError, match=r"relax\.winograd_tolerance"):
        PassContext(config={"relax.winograd_tolerance": "much"})


def test_the_tiles_of_a_group_are_whole():
    for outputs, width in ((112, (16, 112)), (64, (16, 32, 64)), (48, (16, 48))):
        plan = winograd_plan(ConvolutionSize(1, 28, 28, outputs, outputs, 2), MODEL)
        assert plan is not None and plan.width in width
    assert winograd_plan(ConvolutionSize(1, 28, 28, 56, 56, 2), MODEL) is None


def test_threads_divide_strips():
    two = machine_model(Target(f"{SERVER} -num-cores=2"))
    for size, channels in LAYERS[:2]:
        plan = winograd_plan(ConvolutionSize(1, size, size, channels, channels), two)
        assert -(-size // (2 * plan.rows)) >= 2
