"""Products of float32 on tensor cores, as tf32: rounded operands, sums of float32."""

from functools import cache

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.gpu_products import kernels_of, mma_product, on_threads, wmma_product
from tilesmith.codegen.gpu import emit_source
from tilesmith.schedule_rules.intrinsics import cuda
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir.interpreter import run
from tilesmith.tir.interpreter.lockstep import run_kernels
from tilesmith.tir.interpreter.operators import rounded_to_tf32
from tilesmith.tir.schedule import ScheduleError

TARGET = "cuda -arch=sm_80"
VALUES = np.array([
    0, 1, -1, 1 + 2**-10, 1 + 2**-11, -1 - 2**-11, 1 + 2**-11 - 2**-20, 1 + 2**-12, 1.2345678,
    2 - 2**-20, 3e38, 1e-40, np.inf, -np.inf, np.nan, 65504,
], "float32")  # fmt: skip


def nearest_by_hand(x):
    """The neighbours with 10 bits behind the point; halves go away from zero."""
    if not np.isfinite(x) or x == 0:
        return x
    step = 2.0 ** (max(int(np.floor(np.log2(abs(float(x))))), -126) - 10)
    whole = np.floor(abs(float(x)) / step + 0.5) * step
    return np.float32(np.copysign(whole, x))


@T.prim_func
def rounds(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = T.call_intrin("float32", "tir.round_to_tf32", A[i])


@pytest.mark.parametrize("how", ["interpreter", "llvm", "c"])
def test_rounding(how):
    found = np.zeros(16, "float32")
    if how == "interpreter":
        run(rounds, VALUES.copy(), found)
    else:
        tensor = ts.nd.array(found)
        ts.build(rounds, target=how)(ts.nd.array(VALUES), tensor)
        found = tensor.numpy()
    np.testing.assert_array_equal(found, [nearest_by_hand(x) for x in VALUES])


@cache
def scheduled(make, transposed):
    return make("float32", "float32", transposed, 32 if make is wmma_product else 64)


PRODUCTS = [(wmma_product, False), (mma_product, True)]


@pytest.mark.parametrize("make, transposed", PRODUCTS)
def test_products_of_rounded_operands(make, transposed):
    program, sch = scheduled(make, transposed)
    random = np.random.default_rng(0)
    shapes = [[int(n) for n in program.buffer_map[one].shape] for one in program.params]
    a, b, c = [random.standard_normal(shape).astype("float32") for shape in shapes]
    module = on_threads(sch.mod, TARGET)
    assert run_kernels(module["main"], [a, b, c]).findings == ()
    exact = rounded_to_tf32(a).astype("float64") @ (
        rounded_to_tf32(b.T if transposed else b).astype("float64")
    )
    np.testing.assert_allclose(c, exact, rtol=1e-5, atol=2e-5)
    assert abs(c - a.astype("float64") @ (b.T if transposed else b)).max() > 1e-3


@pytest.mark.parametrize("make, transposed", PRODUCTS)
def test_text(make, transposed):
    _, sch = scheduled(make, transposed)
    source = emit_source(kernels_of(sch.mod, TARGET), Target(TARGET))
    assert source.count("cvt.rna.tf32.f32") == 1
    kernel = source[source.index("main_kernel(") :]
    if make is mma_product:  # four elements of each operand, in the threads that load them
        assert kernel.count("= round_to_tf32(") == 8
    else:
        assert "wmma_load_a_m16n16k8_row_tf32_shared(" in kernel
        assert source.count("round_to_tf32(__uint_as_float(") == 2  # in the functions that load


@T.prim_func
def bits_cut(A: T.Buffer((32, 4), "float32"), C: T.Buffer((32, 4), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    a = T.decl_buffer((4,), scope="local")
    b = T.decl_buffer((2,), scope="local")
    c = T.decl_buffer((4,), scope="local")
    for i in range(4):
        a[i] = A[tx, i]
        c[i] = T.float32(0)
    for i in range(2):
        b[i] = T.float32(1)
    T.ptx_mma("float32", "m16n8k8", "row", "col", "tf32", "tf32", "fp32", a.data, 0, b.data, 0,
              c.data, 0, False)  # fmt: skip
    for i in range(4):
        C[tx, i] = c[i]


def test_the_instruction_cuts_bits_off():
    a, c = np.full((32, 4), 1 + 2**-10 + 2**-11, "float32"), np.zeros((32, 4), "float32")
    for runs in (run, lambda func, *arrays: run_kernels(func, arrays)):
        runs(bits_cut, a, c)
        np.testing.assert_array_equal(c, np.full((32, 4), 8 * (1 + 2**-10)))
        c[:] = 0


def test_what_is_refused():
    for group in (
        lambda: cuda.get_mma_intrin_group("shared", "global", "float32", "float16"),
        lambda: cuda.get_wmma_intrin_group("shared", "global", "float32", "float16", False),
    ):
        with pytest.raises(ScheduleError, match="as tf32"):
            group()
