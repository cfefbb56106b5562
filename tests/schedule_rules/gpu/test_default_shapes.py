"""The default schedule of GPUs for shapes that are hard to divide: empty, several open sizes."""

import numpy as np
import pytest

import tilesmith
from tilesmith import te, topi
from tilesmith.schedule_rules.default import default_schedule
from tilesmith.target import Target
from tilesmith.tir.interpreter import run


def build_sum(shape):
    """x + 1 for a shape of numbers and names."""
    sizes = {name: te.size_var(name, "int64") for name in shape if isinstance(name, str)}
    x = te.placeholder([sizes.get(one, one) for one in shape], "float32", name="x")
    made = te.compute(x.shape, lambda *i: x(*i) + 1.0, name="y")
    return te.create_prim_func([x, made], index_dtype_override="int64")


def check(function, arguments, expected):
    """Schedule for OpenCL, interpret; run where there is a device."""
    scheduled = default_schedule(function, Target("opencl"))
    module = tilesmith.build(scheduled, target="opencl")
    if tilesmith.opencl(0).exist and all(one.size for one in arguments):
        given = [tilesmith.nd.array(one, tilesmith.opencl(0)) for one in arguments]
        module(*given)
        np.testing.assert_allclose(given[-1].numpy(), expected, rtol=1e-4, atol=1e-4)
    run(scheduled, *arguments)
    np.testing.assert_allclose(arguments[-1], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shape, sizes",
    [
        ((2, "n", "m", 5), {"n": 3, "m": 4}),
        ((2, "n", "m", "k", "q", 3), {"n": 3, "m": 2, "k": 2, "q": 2}),
        ((2, 3, "n", "m"), {"n": 7, "m": 1}),
        ((0,), {}),
        ((3, 0, 2), {}),
        (("n", "m", 0, 4), {"n": 2, "m": 2}),
    ],
    ids=lambda one: "-".join(map(str, one)),
)
def test_elementwise(shape, sizes):
    x = np.random.default_rng(0).standard_normal([sizes.get(one, one) for one in shape])
    x = x.astype("float32")
    check(build_sum(shape), [x, np.zeros_like(x)], x + 1)


def test_batched_product_of_open_sizes():
    """Attention's scores: heads and both lengths; the sum stays in a thread's registers."""
    n, m = te.size_var("n", "int64"), te.size_var("m", "int64")
    a = te.placeholder((2, 2, n, 4), name="a")
    b = te.placeholder((2, 2, m, 4), name="b")
    function = te.create_prim_func(
        [a, b, topi.einsum("abik,abjk->abij", a, b)], index_dtype_override="int64"
    )
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((2, 2, size, 4)).astype("float32") for size in (3, 5))
    check(function, [x, y, np.zeros((2, 2, 3, 5), "float32")], x @ y.transpose(0, 1, 3, 2))


def test_product_over_nothing():
    a, b = te.placeholder((3, 0), name="a"), te.placeholder((0, 4), name="b")
    relu = te.compute(a.shape, lambda *i: a(*i) * 2.0, name="r")
    function = te.create_prim_func([a, b, topi.matmul(relu, b)], index_dtype_override="int64")
    arguments = [np.zeros((3, 0), "float32"), np.zeros((0, 4), "float32")]
    check(function, [*arguments, np.ones((3, 4), "float32")], np.zeros((3, 4), "float32"))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("of", ["pool", "sum"])
def test_divided_open_sizes(of, dtype):
    """Fused loops over (n + 2) // 3 rows; sizes of 64 bits stand beside constants of 32."""
    n = te.size_var("n", dtype)
    x = te.placeholder((2, n, 4, 2), name="x")
    data = np.random.default_rng(2).standard_normal((2, 5, 4, 2)).astype("float32")
    if of == "pool":
        made = topi.nn.pool2d(x, [1, 2], [3, 2], [1, 1], [0, 0, 0, 0], "max", layout="NHWC")
        expected = data[:, ::3].reshape(2, 2, 2, 2, 2).max(3)
    else:
        third = topi.strided_slice(x, [0, 0, 0, 0], [2, n, 4, 2], [1, 3, 1, 1])
        made, expected = topi.sum(topi.exp(third), axis=2), np.exp(data[:, ::3]).sum(2)
    function = te.create_prim_func([x, made])
    assert "blockIdx.x" in default_schedule(function, Target("cuda -arch=sm_80")).script()
    for target in ("opencl", "llvm"):
        found = np.zeros_like(expected)
        run(default_schedule(function, Target(target)), data, found)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
