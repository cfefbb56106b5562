"""Rules for GPUs: which pattern a function has, what its kernels compute, wide accesses."""

import importlib

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.opencl_harness import run_on_opencl
from tilesmith import te, topi
from tilesmith.codegen.gpu.cubin import kernel_resources
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.schedule_rules.gpu import (
    RULES,
    elementwise,
    first_rule,
    gemv,
    general_reduction,
    reduction,
)
from tilesmith.schedule_rules.gpu.joined_sums import joined_sums
from tilesmith.target import Target
from tilesmith.tir.interpreter import run

TARGET = Target("cuda -arch=sm_90")


def add(n, m):
    a, b = [te.placeholder((n, m), name=name) for name in "ab"]
    return [a, b, te.compute((n, m), lambda i, j: a[i, j] * 2.0 + b[i, j], name="c")]


def transposed(n, m):
    a = te.placeholder((n, m), name="a")
    return [a, te.compute((m, n), lambda i, j: a[j, i], name="c")]


def rows(n, m):
    a, k = te.placeholder((n, m), name="a"), te.reduce_axis((0, m), "k")
    return [a, te.compute((n,), lambda i: te.sum(a[i, k], k), name="y")]


def columns(n, m):
    a, k = te.placeholder((n, m), name="a"), te.reduce_axis((0, n), "k")
    return [a, te.compute((m,), lambda j: te.max(a[k, j], k), name="y")]


def everything(n, m):
    a, k = te.placeholder((n * m,), name="a"), te.reduce_axis((0, n * m), "k")
    return [a, te.compute((), lambda: te.sum(a[k], k), name="y")]


def vector_product(n, m):
    a, x = te.placeholder((n, m), name="a"), te.placeholder((m,), name="x")
    k = te.reduce_axis((0, m), "k")
    return [a, x, te.compute((n,), lambda i: te.sum(a[i, k] * x[k], k), name="y")]


def softmax(n, m):
    a = te.placeholder((n, m), name="a")
    return [a, topi.nn.softmax(a)]


def layer_norm(n, m):
    a = te.placeholder((n, m), name="a")
    g, b = te.placeholder((m,), name="g"), te.placeholder((m,), name="b")
    return [a, g, b, topi.nn.layer_norm(a, g, b, [1], 1e-5)]


def one_row(n, m):
    a, b = te.placeholder((1, n), name="a"), te.placeholder((n, m), name="b")
    return [a, b, topi.matmul(a, b)]


def maximum(n, m):
    return images(1, n, m)


def images(count, n, m):
    a = te.placeholder((count, 5, n, m), name="a")
    return [a, topi.nn.pool2d(a, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")]


def average(n, m):
    a = te.placeholder((2, n, m, 6), name="a")
    return [a, topi.nn.pool2d(a, (2, 2), (1, 1), (1, 1), (0, 1, 0, 1), "avg", layout="NHWC")]


def depthwise(n, m, stride=1, pad=0):
    a, w = te.placeholder((1, 5, n, m), name="a"), te.placeholder((5, 1, 3, 3), name="w")
    made = topi.nn.depthwise_conv2d_nchw(a, w, stride, pad, 1)
    b, r = te.placeholder((1, 5, 1, 1), name="b"), te.placeholder(made.shape, name="r")
    return [a, w, b, r, topi.clip(topi.add(topi.add(made, b), r), 0, 6)]


def strided(n, m):
    return depthwise(n, m, 2, 1)


def product(n, m):
    a, b = te.placeholder((n, m), name="a"), te.placeholder((m, n), name="b")
    return [a, b, topi.matmul(a, b)]


def arrays(func):
    rng = np.random.default_rng(0)
    shapes = [[int(size) for size in func.buffer_map[p].shape] for p in func.params]
    made = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    made[-1] = np.full(shapes[-1], np.nan, "float32")
    return made


@pytest.mark.parametrize(
    "make, size, rule",
    [
        (add, (6, 32), elementwise),
        (add, (3, 7), elementwise),
        (transposed, (4, 8), elementwise),
        (rows, (4, 256), reduction),
        (rows, (3, 37), reduction),
        (columns, (64, 8), reduction),
        (columns, (35, 5), reduction),
        (everything, (1, 77), reduction),
        (everything, (64, 72), reduction),
        (vector_product, (3, 128), reduction),
        (vector_product, (3, 65), reduction),
        (one_row, (80, 12), reduction),
        (maximum, (13, 11), reduction),
        (average, (5, 7), reduction),
        (depthwise, (9, 8), reduction),
        (strided, (9, 8), reduction),
        (softmax, (2, 128), general_reduction),
        (softmax, (3, 33), general_reduction),
        (layer_norm, (2, 64), general_reduction),
        (layer_norm, (2, 45), general_reduction),
    ],
)
def test_kernels_compute_the_same(make, size, rule):
    func = te.create_prim_func(make(*size))
    sch = rule(ts.tir.Schedule(func), TARGET)
    given = arrays(func)
    want = [array.copy() for array in given]
    run(func, *want)
    run(ts.lower(sch.mod)["main"], *given)
    np.testing.assert_allclose(given[-1], want[-1], rtol=2e-5, atol=2e-5)
    on_device = arrays(func)
    if run_on_opencl(sch.mod, *on_device):
        np.testing.assert_allclose(on_device[-1], want[-1], rtol=2e-5, atol=2e-5)
    chosen = first_rule(func, TARGET)
    ts.ir.assert_structural_equal(chosen.mod, sch.mod)


def source(make, *size):
    sch = first_rule(te.create_prim_func(make(*size)), TARGET)
    return ts.build(sch.mod, target=TARGET).imported_modules[0].get_source()


@pytest.mark.parametrize("make", [add, rows, columns, vector_product, softmax, layer_norm])
def test_rows_of_whole_vectors_are_read_in_vectors(make):
    """128 bits at once where rows allow it; odd rows are read element by element."""
    wide, odd = source(make, 2048, 1024), source(make, 2048, 1021)
    assert "*(const float4*)" in wide and "(float4*)" not in odd
    assert wide.count("__global__") == (2 if make is columns else 1)


@pytest.mark.parametrize("make", [softmax, layer_norm])
@pytest.mark.parametrize("size", [(2, 37), (2, 48)])
def test_long_sums_of_rows_are_not_split_twice(monkeypatch, make, size):
    """topi adds up long rows in blocks; threads share a row anyway."""
    monkeypatch.setattr(topi.accumulation, "LONGEST", 32)
    monkeypatch.setattr(topi.accumulation, "BLOCK", 16)
    func = te.create_prim_func(make(*size))
    assert "_block" in func.script()
    joined = joined_sums(func)
    assert joined.script().count("T.init()") < func.script().count("T.init()")
    given, got, kernel = [arrays(func) for _ in range(3)]
    run(func, *given)
    run(joined, *got)
    np.testing.assert_allclose(got[-1], given[-1], rtol=2e-5, atol=2e-5)
    run(ts.lower(first_rule(func, TARGET).mod)["main"], *kernel)
    np.testing.assert_allclose(kernel[-1], given[-1], rtol=2e-5, atol=2e-5)
    on_device = arrays(func)
    if run_on_opencl(first_rule(func, TARGET).mod, *on_device):
        np.testing.assert_allclose(on_device[-1], given[-1], rtol=2e-5, atol=2e-5)


def test_other_reductions_stay():
    func = te.create_prim_func(softmax(2, 37))
    assert joined_sums(func) is func


def test_sums_of_many_strips(monkeypatch):
    """A warp adds up the strips of a column where there are many of them."""
    module = importlib.import_module("tilesmith.schedule_rules.gpu.reduction")
    monkeypatch.setattr(module, "FEW_STRIPS", 2)
    func = te.create_prim_func(columns(128, 8))
    sch = reduction(ts.tir.Schedule(func), TARGET)
    given, want = arrays(func), arrays(func)
    run(func, *want)
    run(ts.lower(sch.mod)["main"], *given)
    np.testing.assert_array_equal(given[-1], want[-1])
    on_device = arrays(func)
    if run_on_opencl(sch.mod, *on_device):
        np.testing.assert_array_equal(on_device[-1], want[-1])


def test_a_row_is_read_once():
    text = source(softmax, 8192, 4096)
    assert text.count("*(const float4*)(a + ") == 1
    assert "__shfl_down_sync" in text and "blockIdx (8192, 1, 1)" in text


def test_several_rows_share_a_block_of_threads():
    assert "blockIdx (2048, 1, 1), threadIdx (32, 8, 1)" in source(vector_product, 16384, 16384)


@pytest.mark.parametrize(
    "make, size",
    [
        (maximum, (33, 35)), (average, (33, 35)), (depthwise, (33, 35)), (strided, (33, 35)),
        (images, (te.var("n"), 33, 35)),
    ],
)  # fmt: skip
def test_windows_are_one_kernel(make, size):
    """Borders are not written to memory, and neither are sums; a thread has a result."""
    text = source(make, *size)
    assert text.count("__global__") == 1 and "__shfl" not in text
    assert "__launch_bounds__(128)" in text
    (found,) = kernel_resources(compile_source(text, "sm_80")).values()
    assert found.local_bytes == 0 and found.registers <= 64


def test_what_no_rule_knows():
    """A product of narrow matrices reads everything several times, and tiles are mostly padding."""
    func = te.create_prim_func(product(4, 4))
    assert first_rule(func, TARGET) is None
    assert gemv(ts.tir.Schedule(func), TARGET) is None
    assert gemv(ts.tir.Schedule(te.create_prim_func(rows(8, 8))), TARGET) is None
    assert gemv(ts.tir.Schedule(te.create_prim_func(vector_product(8, 8))), TARGET) is not None
    assert len(RULES) == 5
