"""Two sums for each result: convolutions whose columns leave half of their last vector empty."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax, te, tir, topi
from tilesmith.ir import IRModule
from tilesmith.relax import op
from tilesmith.relax.transform import PackForVectors
from tilesmith.schedule_rules import default_schedule
from tilesmith.schedule_rules.contractions.tiles import even_rows, two_sums_columns
from tilesmith.schedule_rules.contractions.two_sums import find_two_sums
from tilesmith.script import relax as R
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.target.machine import machine_model
from tilesmith.tir.schedule import Schedule

AVX512 = "llvm -mcpu=skylake-avx512"
MACHINE = machine_model(Target(AVX512))


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def kernel(sizes, outputs, width, kernel_size=1, stride=1):
    """The kernel of a convolution of NHWC data with a bias and ReLU."""
    ky = kx = kernel_size
    x = te.placeholder(sizes, name="x")
    tiles = outputs // width
    w = te.placeholder((tiles, ky, kx, sizes[3] // 2, 2 * width), name="w")
    b = te.placeholder((outputs,), name="b")
    pad = [kernel_size // 2] * 4
    y = topi.nn.conv2d_nhwc_two_sums(x, w, outputs, [stride] * 2, pad, [1, 1])
    z = te.compute(y.shape, lambda n, i, j, o: te.max(y[n, i, j, o] + b[o], 0.0), name="z")
    return te.create_prim_func([x, w, b, z])


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [(56, 24, 24), (28, 40, 40), (14, 72, 24), (56, 32, None), (56, 20, None), (None, 24, None)],
)
def test_only_columns_that_leave_half_a_vector_empty_are_worth_it(rows, columns, expected):
    assert two_sums_columns(rows, columns, MACHINE) == expected


def test_rows_of_tiles_divide_the_extent():
    assert [even_rows(extent, 3, MACHINE) for extent in (56, 49, 13, 1)] == [8, 7, 1, 1]


def test_the_rule_finds_the_sums_and_no_other_contraction():
    sch = Schedule(IRModule({"main": kernel((1, 8, 8, 6), 24, 24)}))
    sums = sch.get_block("conv2d_nhwc_two_sums")
    assert find_two_sums(sch.get(sums)) == 48
    x, w = te.placeholder((1, 8, 8, 6)), te.placeholder((1, 1, 1, 6, 24))
    plain = topi.nn.conv2d_nhwc_packed(x, w, 24, [1] * 2, [0] * 4, [1] * 2)
    sch = Schedule(IRModule({"main": te.create_prim_func([x, w, plain])}))
    assert find_two_sums(sch.get(sch.get_block("conv2d_nhwc_packed"))) is None


def test_pairs_of_inputs_fill_vectors_without_gathers():
    function = default_schedule(kernel((1, 8, 8, 6), 24, 24), Target(AVX512))
    text = ts.build(IRModule({"main": function}), target=AVX512).get_source("ll")
    assert "gather" not in text
    assert "load <2 x float>" in text  # a pair of inputs, repeated in all lanes
    assert "load <32 x float>" in text  # the sums of 16 results, of which shuffles pick halves


@pytest.mark.parametrize(
    ("sizes", "outputs", "width", "kernel_size", "stride"),
    [((1, 5, 8, 6), 24, 24, 1, 1), ((2, 7, 9, 4), 40, 40, 3, 2), ((1, 3, 13, 4), 72, 24, 1, 1)],
)
@pytest.mark.parametrize("target", ["llvm -num-cores=1", "llvm -num-cores=2"])
def test_results(sizes, outputs, width, kernel_size, stride, target):
    function = kernel(sizes, outputs, width, kernel_size, stride)
    with collect_fallbacks() as report:
        scheduled = default_schedule(function, Target(target))
    assert not [one for one, _ in report.rows() if one.kind == "schedule"]
    given = [random(*[int(one) for one in function.buffer_map[p].shape]) for p in function.params]
    runs = []
    for one in (function, scheduled):
        arguments = [ts.nd.array(array) for array in given]
        module = IRModule({"main": one.with_attr("global_symbol", "main")})
        ts.build(module, target=target)["main"](*arguments)
        runs.append(arguments[-1].numpy())
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-5, atol=1e-5)


def block(shape, w, v, residual):
    """Two convolutions of single pixels, as at the end of an inverted residual block."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.nn.relu(op.nn.conv2d(x, relax.const(w))))
            z = builder.emit(op.nn.conv2d(y, relax.const(v)))
            result = builder.emit_output(op.add(z, x) if residual else z)
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("batch", [1, 2, None], ids=["1", "2", "symbolic"])
@pytest.mark.parametrize("residual", [True, False])
def test_networks(batch, residual):
    w, v = random(8, 24, 1, 1, seed=1), random(24, 8, 1, 1, seed=2)
    shape = (tir.Var("n", "int64") if batch is None else batch, 24, 5, 7)
    mod = block(shape, w, v, residual)
    assert "conv2d_nhwc_two_sums" in PackForVectors(AVX512)(mod).script()
    x = random(batch or 3, 24, 5, 7)
    found = relax.build(mod, "llvm")(ts.nd.array(x)).numpy()
    hidden = np.maximum(np.einsum("ncyx,oc->noyx", x, w[:, :, 0, 0]), 0)
    want = np.einsum("ncyx,oc->noyx", hidden, v[:, :, 0, 0]) + (x if residual else 0)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
