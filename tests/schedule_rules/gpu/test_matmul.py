"""The rule for products of matrices: layouts, odd sizes, what is behind the product."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.codegen.gpu import kernel_resources
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.lowering.gpu_checks import kernels_of
from tilesmith.schedule_rules import dlight
from tilesmith.schedule_rules.gpu import first_rule, matmul
from tilesmith.target import Target
from tilesmith.tir.interpreter import run
from tilesmith.tir.interpreter.lockstep import LockstepOptions, run_kernels

TARGET = Target("cuda -arch=sm_90")


def inputs(*shapes, dtype="float32"):
    return [te.placeholder(shape, dtype, name=name) for name, shape in zip("abc", shapes)]


def plain(n, m, k):
    a, b = inputs((n, k), (k, m))
    return [a, b, topi.matmul(a, b)]


def dense(n, m, k):
    a, w, c = inputs((n, k), (m, k), (m,))
    return [a, w, c, topi.nn.relu(topi.add(topi.nn.dense(a, w), c))]


def transposed(n, m, k):
    a, b = inputs((k, n), (m, k))
    return [a, b, topi.matmul(a, b, True, True)]


def heads(n, m, k):
    a, b = inputs((2, n, 2, k), (2, m, 2, k))
    r = te.reduce_axis((0, k), "r")
    return [a, b, te.compute((2, 2, n, m), lambda s, h, i, j: te.sum(
        a[s, i, h, r] * b[s, j, h, r], r), name="scores")]  # fmt: skip


def turned(n, m, k):
    *given, product = plain(n, m, k)
    return [*given, topi.transpose(product)]


def convolution(n, m, k):
    a, w = inputs((1, k, n // 2, 4), (m, k, 3, 3))
    return [a, w, topi.nn.relu(topi.nn.conv2d(a, w, 1, 1, 1, "NCHW"))]


def channels_last(n, m, k):
    a, w = inputs((1, n // 2, 4, k), (3, 3, k, m))
    return [a, w, topi.nn.conv2d(a, w, 1, 1, 1, "NHWC")]


def half(n, m, k):
    a, b = inputs((n, k), (k, m), dtype="float16")
    return [a, b, topi.matmul(a, b, out_dtype="float32")]


def arrays(func):
    rng = np.random.default_rng(0)
    made = []
    for parameter in func.params:
        buffer = func.buffer_map[parameter]
        values = rng.integers(-3, 4, [int(size) for size in buffer.shape])
        made.append(values.astype(str(buffer.dtype)))
    made[-1] = np.full(made[-1].shape, np.nan, "float32")
    return made


def expected(func):
    want = arrays(func)
    run(func, *want)
    return want[-1]


CASES = [
    (plain, (37, 19, 9)), (dense, (17, 35, 16)), (transposed, (19, 32, 11)), (heads, (16, 18, 8)),
    (turned, (20, 16, 8)), (convolution, (8, 17, 1)), (channels_last, (8, 16, 1)),
    (half, (20, 16, 16)),
]  # fmt: skip


@pytest.mark.parametrize("make, size", CASES)
def test_kernels_compute_the_same(make, size):
    func = te.create_prim_func(make(*size))
    sch = matmul(ts.tir.Schedule(func), TARGET)
    given = arrays(func)
    run(ts.lower(sch.mod)["main"], *given)
    np.testing.assert_array_equal(given[-1], expected(func))


@pytest.mark.parametrize("make, size", [(plain, (37, 51, 19)), (dense, (36, 65, 24))])
def test_kernels_on_an_opencl_device(make, size):
    if not ts.opencl(0).exist:
        pytest.skip("no OpenCL device")
    func = te.create_prim_func(make(*size))
    built = ts.build(first_rule(func, Target("opencl")).mod, target="opencl")
    given = [ts.nd.array(value, ts.opencl(0)) for value in arrays(func)]
    built["main"](*given)
    np.testing.assert_array_equal(given[-1].numpy(), expected(func))


def test_threads_do_not_race():
    """In the lowered kernel, with its barriers."""
    func = te.create_prim_func(dense(17, 35, 24))
    module = ts.lower(matmul(ts.tir.Schedule(func), TARGET).mod)
    given = arrays(func)
    kernels = kernels_of(module, TARGET)["main"]
    assert run_kernels(kernels, given, LockstepOptions(blocks=4, statements=10**9)).findings == ()
    np.testing.assert_array_equal(given[-1], expected(func))


def source(make, *size):
    sch = first_rule(te.create_prim_func(make(*size)), TARGET)
    return ts.build(sch.mod, target=TARGET).imported_modules[0].get_source()


def test_large_products_get_large_tiles():
    """As long as there are blocks for all multiprocessors."""
    large, middle = source(plain, 4096, 4096, 64), source(dense, 1024, 1024, 64)
    assert "blockIdx (1024, 1, 1), threadIdx (256, 1, 1)" in large
    assert "__launch_bounds__(256, 2)" in large
    assert "blockIdx (256, 1, 1), threadIdx (64, 1, 1)" in middle
    for text in (large, middle):
        loop = text[text.index("  for (int ax2_0") :]
        loop = loop[: loop.index("\n  }\n")]
        assert loop.count("__syncthreads();") == 1
        assert loop.count("*(const float4*)") == 6
        (found,) = kernel_resources(compile_source(text, "sm_90")).values()
        assert found.local_bytes == 0


@pytest.mark.parametrize("size", [(4096, 4096, 64), (128, 4096, 64), (512, 512, 48)])
def test_tiles_fit_the_shared_memory_of_the_target(size):
    """OpenCL has 16 KiB where the target says nothing."""
    func = te.create_prim_func(plain(*size))
    for target in (Target("opencl"), Target("opencl -max_shared_memory_per_block=65536")):
        assert (
            "__kernel"
            in ts.build(first_rule(func, target).mod, target=target)
            .imported_modules[0]
            .get_source()
        )


def test_tiles_are_not_mostly_padding():
    """Of 64 rows, tiles of 128 rows would be half empty."""
    assert "blockIdx (512, 1, 1), threadIdx (64, 1, 1)" in source(plain, 64, 32768, 64)


def test_rows_that_are_not_whole_vectors_are_read_by_element():
    text = source(plain, 1021, 1023, 64)
    assert "*(const float4*)(a + " in text  # its rows have 64 elements
    assert "float4*)(b + " not in text and "float4*)(T_matmul" not in text


@pytest.mark.parametrize(
    "make, size", [(plain, (8, 64, 64)), (plain, (64, 1, 64)), (plain, (64, 64, 4))]
)
def test_small_products_are_left_to_others(make, size):
    assert matmul(ts.tir.Schedule(te.create_prim_func(make(*size))), TARGET) is None


def test_two_products_are_left_to_others():
    (a, b), (c,) = inputs((32, 32), (32, 32)), inputs((32, 32))
    func = te.create_prim_func([a, b, c, topi.matmul(topi.matmul(a, b), c)])
    assert matmul(ts.tir.Schedule(func), TARGET) is None


def test_under_the_name_that_users_know():
    func = te.create_prim_func(plain(64, 64, 32))
    assert dlight.gpu.Matmul().apply(func, TARGET, False) is not None
    assert dlight.gpu.Matmul().apply(func, Target("llvm"), False) is None
