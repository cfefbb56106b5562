"""Vectorized loops over T.vscale() * n iterations, run with vectors of several lengths."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
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


SVE = 'T.target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+sve"]})'
HEAD = """@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "main"})
"""
LOOP = """    for i in range(4):
        for j in T.vectorized(LANES):
            if i * LANES + j < n:
                B[i * LANES + j] = A[i * LANES + j]
"""


def configured(body):
    return apply(from_source(HEAD + body, {"T": T}), transform.VectorizeLoop())


@pytest.mark.parametrize("lanes", ["8", "T.vscale() * 4"])
@pytest.mark.parametrize("place", ["function", "region"])
@pytest.mark.parametrize("feature", ["+sve", "+sme"])
def test_guards_become_predicates_where_the_target_has_scalable_vectors(lanes, place, feature):
    body = LOOP.replace("LANES", lanes)
    described = SVE.replace("+sve", feature)
    if place == "function":
        target = f'    T.func_attr({{"global_symbol": "main", "target": {described}}})\n'
        source = HEAD.rsplit("    T.func_attr", 1)[0] + target + body
    else:
        indented = "".join([f"    {line}\n" for line in body.splitlines()])
        source = HEAD + f'    with T.attr({described}, "target", 0):\n' + indented
    func = from_source(source, {"T": T})
    got = apply(func, transform.VectorizeLoop())
    assert got.script().count("T.get_active_lane_mask") == 2
    arrays = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    copies = [array.copy() for array in arrays]
    run(got, *copies, 13, options=Options(vscale=1))
    assert copies[1].tolist() == [*range(13), *[0] * 51]


@pytest.mark.parametrize(
    "body, message",
    [
        ("    for j in T.vectorized(T.vscale() * 4):\n        B[j] = A[j]\n", "extent T.vscale"),
        (
            f'    with T.attr({SVE}, "target", 0):\n        for j in T.vectorized(4):\n'
            "            B[j:j + T.vscale() * 4] = A[j:j + T.vscale() * 4]\n",
            "existing scalable vectors",
        ),
    ],
)
def test_what_scalable_vectors_refuse(body, message):
    with pytest.raises(UnsupportedError, match=message):
        configured(body)
