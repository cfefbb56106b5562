"""BindParallelLoops: parallel loops of a device's functions become threads."""

import pytest

from tests.tir.transform.harness import apply
from tilesmith.ir import assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir.transform import BindParallelLoops


@T.prim_func
def before(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")):
    for row in T.parallel(100):
        for k in T.parallel(1):
            B[row + k] = A[row]


@T.prim_func
def after(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")):
    row_0 = T.launch_thread("blockIdx.x", 2)
    row_1 = T.launch_thread("threadIdx.x", 64)
    if row_0 * 64 + row_1 < 100:
        for k in range(1):
            B[row_0 * 64 + row_1 + k] = A[row_0 * 64 + row_1]


@T.prim_func
def on_threads(A: T.Buffer((100,), "float32")):
    tx = T.launch_thread("threadIdx.x", 10)
    for row in T.parallel(10):
        A[tx * 10 + row] = 0.0


@T.prim_func
def serial_on_threads(A: T.Buffer((100,), "float32")):
    tx = T.launch_thread("threadIdx.x", 10)
    for row in range(10):
        A[tx * 10 + row] = 0.0


@T.prim_func
def around_threads(A: T.Buffer((100,), "float32")):
    for row in T.parallel(10):
        tx = T.launch_thread("threadIdx.x", 10)
        A[row * 10 + tx] = 0.0


@T.prim_func
def serial_around_threads(A: T.Buffer((100,), "float32")):
    for row in range(10):
        tx = T.launch_thread("threadIdx.x", 10)
        A[row * 10 + tx] = 0.0


@T.prim_func(private=True)
def called(A: T.handle("float32")):
    T.func_attr({"tir.is_device_function": True})
    B = T.decl_buffer((4,), data=A)
    for i in T.parallel(4):
        B[i] = 0.0


def test_functions_of_the_device_work_for_one_thread():
    found = apply(called.with_attr("target", Target("opencl")), BindParallelLoops())
    assert "thread" not in str(found.body) and "T.parallel" not in str(found.body)


@pytest.mark.parametrize(
    ("func", "target", "expected"),
    [
        (before, Target("opencl -max_threads_per_block=64"), after),
        (on_threads, Target("opencl"), serial_on_threads),
        (around_threads, Target("opencl"), serial_around_threads),
        (before, Target("llvm"), before),
        (before, None, before),
    ],
)
def test_loops(func, target, expected):
    given = func if target is None else func.with_attr("target", target)
    found = apply(given, BindParallelLoops())
    assert_structural_equal(found.body, expected.body)
