"""Vectorized loops over T.vscale() * n iterations, run with vectors of several lengths."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.tir import transform
from tilesmith.tir.interpreter import Options, run


def results(func, arrays, vscale):
    copies = [array.copy() for array in arrays]
    run(func, *copies, options=Options(vscale=vscale))
    return copies


def check(func, *shapes):
    random = np.random.default_rng(0)
    arrays = [random.random(shape).astype("float32") for shape in shapes]
    got = apply(func, transform.VectorizeLoop(freely=True))
    for vscale in (1, 2, 4):
        for one, other in zip(results(got, arrays, vscale), results(func, arrays, vscale)):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    return got


def test_scalable_vectors():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            for j in T.vectorized(T.vscale() * 4):
                B[i * 4 + j] = A[i * 4 + j] * T.float32(2) + T.Cast("float32", j)

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            B[T.Ramp(i * 4, 1, T.vscale() * 4)] = A[T.Ramp(i * 4, 1, T.vscale() * 4)] * T.Broadcast(
                T.float32(2), T.vscale() * 4
            ) + T.Cast("float32xvscalex4", T.Ramp(0, 1, T.vscale() * 4))

    assert_structural_equal(check(before, 64, 64), expected)


def test_conditions_on_scalable_lanes():
    @T.prim_func
    def func(A: T.Buffer((33,), "float32"), B: T.Buffer((33,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(9):
            for j in T.vectorized(T.vscale() * 4):
                if i * 4 + j < 33:
                    B[i * 4 + j] = A[32 - (i * 4 + j)]

    got = check(func, 33, 33)
    assert "T.serial" not in got.script() and "predicate" in got.script()


def test_what_has_no_scalable_form_runs_lane_by_lane():
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), S: T.Buffer((1,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for j in T.vectorized(T.vscale() * 4):
            S[0] = S[0] + A[j]

    got = check(func, 64, 1)
    assert "range(T.vscale() * 4)" in got.script()


@pytest.mark.parametrize("enabled", [True, False])
def test_other_extents_become_serial_loops(enabled):
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for j in T.vectorized(n if enabled else T.vscale() * 4):
            A[j] = T.float32(1)

    got = apply(func, transform.VectorizeLoop(enabled, freely=True))
    assert got.body.kind.name == "SERIAL"
