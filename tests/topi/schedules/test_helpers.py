"""Functions beside the schedules: operators of their modules, intrinsics, testing helpers."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.target import Target
from tilesmith.te.schedule import AttachType
from tilesmith.topi.schedules.features import target_has_avx512, target_has_vnni

RANDOM = np.random.default_rng(0)


def run(outputs, *inputs):
    """Build by the general schedule what some placeholders' arrays lead to, and compute it."""
    made = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    tensors, arrays = zip(*inputs)
    results = [
        ts.nd.array(np.zeros([int(n) for n in one.shape], one.dtype.numpy())) for one in made
    ]
    function = ts.build(topi.generic.schedule_extern(list(made)), [*tensors, *made], "llvm")
    function(*[ts.nd.array(array) for array in arrays], *results)
    return [one.numpy() for one in results]


def given(shape, dtype="float32"):
    """A placeholder and an array for it."""
    low, high = (0, 100) if dtype == "uint8" else (-50, 50)
    array = RANDOM.integers(low, high, shape).astype(dtype)
    return te.placeholder(shape, dtype, name="x"), array


@pytest.mark.parametrize("batch", [False, True])
def test_products_of_packed_weights(batch):
    left = given((2, 3, 8) if batch else (3, 8), "uint8")
    right = given((2, 2, 2, 16, 4) if batch else (2, 2, 16, 4), "int8")
    if batch:
        result = topi.x86.batch_matmul_int8_compute(None, left[0], right[0])
    else:
        result = topi.x86.dense_int8_compute(left[0], right[0])
    plain = np.moveaxis(right[1].astype("int32"), -3, -2)  # outputs / 16, 16, inputs / 4, 4
    plain = plain.reshape(*plain.shape[:-4], 32, 8)
    want = left[1].astype("int32") @ np.swapaxes(plain, -1, -2)
    np.testing.assert_array_equal(run(result, left, right)[0], want)


def test_dense_with_weights_in_blocks():
    data, weight = given((3, 8)), given((32, 8))
    packed = weight[1].reshape(2, 16, 8).transpose(0, 2, 1)
    blocks = te.placeholder(packed.shape, name="w"), np.ascontiguousarray(packed)
    want = data[1] @ weight[1].T
    np.testing.assert_allclose(run(topi.x86.dense_pack(data[0], weight[0]), data, weight)[0], want)
    np.testing.assert_allclose(run(topi.x86.dense_pack(data[0], blocks[0]), data, blocks)[0], want)


def test_scans_of_cuda():
    data = given((3, 9))
    sums = data[1].cumsum(1)
    inclusive = topi.cuda.inclusive_scan(data[0], axis=1)
    np.testing.assert_allclose(run(inclusive, data)[0], sums)
    exclusive = topi.cuda.exclusive_scan(data[0], axis=1)
    np.testing.assert_allclose(run(exclusive, data)[0], sums - data[1])
    products = topi.cuda.inclusive_scan(data[0], 1, None, lambda x, y: ts.tir.Max(x, y), -1e9)
    np.testing.assert_allclose(run(products, data)[0], np.maximum.accumulate(data[1], 1))
    with pytest.raises(ts.TilesmithError, match="topi.sum"):
        topi.cuda.exclusive_scan(data[0], return_reduction=True)


def test_sorts_of_cuda():
    data = te.placeholder((3, 9), name="x"), RANDOM.permutation(27).reshape(3, 9).astype("float32")
    values = given((3, 9))
    order = data[1].argsort(1)
    places = topi.cuda.argsort(data[0], dtype="int32")
    np.testing.assert_array_equal(run(places, data)[0], order)
    both = run(topi.cuda.argsort(data[0], ret_type="both"), data)
    np.testing.assert_array_equal(both[0], np.sort(data[1]))
    np.testing.assert_array_equal(both[1], order)
    keys, moved = run(topi.cuda.sort_by_key(data[0], values[0]), data, values)
    np.testing.assert_array_equal(keys, np.sort(data[1]))
    np.testing.assert_array_equal(moved, np.take_along_axis(values[1], order, 1))


@pytest.mark.parametrize("kind", ["skylake", "cascadelake", ""])
def test_tensor_intrinsics_of_x86(kind):
    target = Target("llvm")
    if not (target_has_vnni(target) if kind == "cascadelake" else target_has_avx512(target)):
        target = Target("llvm -mcpu=cascadelake")  # compiled, not run
    name = "dot_16x1x16_uint8_int8_int32" + (f"_{kind}" if kind else "")
    a, b = given((3, 4), "uint8"), given((16, 4), "int8")
    k = te.reduce_axis((0, 4), name="k")

    def element(i, j):
        return te.sum(a[0][i, k].astype("int32") * b[0][j, k].astype("int32"), axis=k)

    c = te.compute((3, 16), element, name="c")
    sch = te.create_schedule(c.op)
    with target:
        sch[c].tensorize(c.op.axis[1], getattr(topi.x86.tensor_intrin, name)())
    function = ts.build(sch, [a[0], b[0], c], target)
    if target.mcpu:
        assert "vpmaddwd" in function.get_source("asm") or "vpdpbusd" in function.get_source("asm")
        return
    result = ts.nd.array(np.zeros((3, 16), "int32"))
    function(ts.nd.array(a[1]), ts.nd.array(b[1]), result)
    want = a[1].astype("int32") @ b[1].astype("int32").T
    np.testing.assert_array_equal(result.numpy(), want)


def test_traverse_inline():
    a = te.placeholder((8, 8), name="a")
    b = topi.exp(topi.add(a, 1.0))
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((8,), lambda i: te.sum(b(i, k), axis=k), name="c", tag="comm_reduce")
    d = topi.add(topi.multiply(c, 2.0), c)
    sch = te.create_schedule(d.op)
    seen = []
    topi.utils.traverse_inline(sch, d.op, lambda op: seen.append(op.name))
    assert seen == ["c", "T_multiply", "T_add"]  # a reduction ends the walk
    placed = {stage.name: stage.attach_type for stage in sch.stages}
    assert placed["T_multiply"] == AttachType.INLINE
    assert placed["c"] == AttachType.GROUP_ROOT
    assert topi.traverse_inline is topi.utils.traverse_inline


@pytest.mark.parametrize(
    "target, module",
    [
        ("llvm", "x86"),
        ("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu", "arm_cpu"),
        ("cuda", "cuda"),
        ("opencl -device=mali", "cuda"),
        ("aocl", "hls"),
        ("ext_dev", "generic"),
    ],
)
def test_schedules_by_target(target, module):
    schedule = topi.testing.get_injective_schedule(target)
    assert schedule is getattr(topi, module).schedule_injective
    assert topi.testing.get_broadcast_schedule(target) is schedule
    assert topi.testing.get_elemwise_schedule(target) is schedule
    reduce = topi.testing.get_reduce_schedule(target)
    expected = "x86" if module == "arm_cpu" else module
    assert reduce is getattr(topi, expected).schedule_reduce


@pytest.mark.parametrize(
    "target, name",
    [
        ("llvm", "schedule_conv2d_nchw"),
        ("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu", "schedule_conv2d_nchw_spatial_pack"),
        ("opencl -device=mali", "schedule_conv2d_nchw_spatial_pack"),
        ("opencl -device=bifrost", "schedule_conv2d_nchw_spatial_pack"),
        ("opencl -device=intel_graphics", "schedule_conv2d_nchw"),
        ("cuda", "schedule_conv2d_nchw"),
    ],
)
def test_convolution_by_target(target, name):
    compute, schedule = topi.testing.get_conv2d_nchw_implement(target)
    assert schedule.__name__ == name
    data, kernel = te.placeholder((1, 4, 8, 8)), te.placeholder((8, 4, 3, 3))
    with Target(target):
        result = compute(data, kernel, 1, 1, 1, "float32")
        assert isinstance(schedule([result]), te.Schedule)


def test_compare_numpy_tvm():
    x, y = (RANDOM.uniform(-1, 1, (9, 33)).astype("float32") for _ in range(2))
    schedule = topi.testing.get_injective_schedule("llvm")
    topi.testing.compare_numpy_tvm([x, y], x + y, "llvm", ts.cpu(), topi.add, schedule)
    with pytest.raises(AssertionError):
        topi.testing.compare_numpy_tvm([x, y], x - y, "llvm", ts.cpu(), topi.add, schedule)


def test_products_by_a_library():
    a, b, c = given((3, 8)), given((5, 8)), given((5,))
    result = topi.nn.relu(topi.x86.dense_cblas(None, a[0], b[0], c[0]))
    want = np.maximum(a[1] @ b[1].T + c[1], 0)
    np.testing.assert_allclose(run(result, a, b, c)[0], want, rtol=1e-5)
    common = topi.x86.matmul_blas_common(a[0], b[0], None, "float32", False, True, ts.contrib.cblas)
    np.testing.assert_allclose(run(common, a, b)[0], a[1] @ b[1].T, rtol=1e-5)
    with pytest.raises(ts.TilesmithError, match="cblas, mkl or dnnl"):
        topi.x86.matmul_blas_common(a[0], b[0], None, None, False, True, np)
