"""Vectors of a length that the CPU decides: types, printing, code for AArch64 SVE and RISC-V V."""

import re

import numpy as np
import pytest

import tilesmith
from tilesmith.ir import load_json, save_json, structural_equal
from tilesmith.runtime.dtype import DataType
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import CodegenError, TypeMismatchError
from tilesmith.tir.interpreter import run
from tilesmith.tir.interpreter.options import Options

SVE = "llvm -mtriple=aarch64-linux-gnu -mattr=+sve"
RVV = "llvm -mtriple=riscv64-linux-gnu -mattr=+v,+d,+f,+m"


@T.prim_func(check_well_formed=False)
def scaled(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "scaled", "tir.noalias": True})
    step = T.meta_var(4 * T.vscale())
    for i in range((n + step - 1) // step):
        lanes = T.meta_var(T.Ramp(i * step, 1, step))
        inside = T.get_active_lane_mask("boolxvscalex4", i * step, n)
        twice = T.meta_var(A.vload([lanes], predicate=inside) * T.Broadcast(T.float32(2), step))
        B.vstore([lanes], twice, predicate=inside)


def assembly(function, target):
    return tilesmith.build(function, target=target).get_source("asm")


def test_data_types():
    kind = DataType("float32xvscalex4")
    assert kind.is_scalable and kind.is_vector and kind.element == "float32" and kind.lanes > 1
    assert kind.lanes != 4 and int(kind.lanes) == 4 and kind.with_lanes(4) == "float32x4"
    assert DataType("int32").with_lanes(kind.lanes) is DataType("int32xvscalex4")
    assert kind.with_lanes(1) == "float32" and DataType("float32x4").with_lanes(kind.lanes) is kind
    assert not DataType("float32x4").is_scalable and kind.nbytes == 16
    with pytest.raises(TypeMismatchError, match="numpy has no data type"):
        kind.numpy()


def test_vectors_keep_their_lanes_in_text_and_json():
    ramp = T.Ramp(0, 1, T.vscale() * 4)
    assert ramp.dtype == "int32xvscalex4" and not structural_equal(ramp, T.Ramp(0, 1, 4))
    assert structural_equal(load_json(save_json(ramp)), ramp)
    assert "T.vscale() * 4" in str(ramp)
    again = from_source(scaled.script())
    assert structural_equal(again, scaled)
    with pytest.raises(TypeMismatchError, match=r"multiple of T.vscale\(\)"):
        T.Broadcast(1, T.vscale() + 4)


@pytest.mark.parametrize(
    "target, words",
    [
        (SVE, (r"whilelo|whilelt", r"ld1w\s", r"st1w\s", r"f(mul|add)\s+z\d")),
        (RVV, (r"vsetvli", r"vle32", r"vse32", r"vf(mul|add)")),
    ],
)
def test_code(target, words):
    text = assembly(scaled, target)
    for word in words:
        assert re.search(word, text), word


@pytest.mark.parametrize("target, words", [(SVE, "ld1w"), (RVV, "vl[uo]xei|vlse")])
def test_strides_gather(target, words):
    @T.prim_func(check_well_formed=False)
    def strided(A: T.Buffer((1024,), "int32"), B: T.Buffer((1024,), "int32")):
        T.func_attr({"global_symbol": "strided", "tir.noalias": True})
        step = T.meta_var(4 * T.vscale())
        B[T.Ramp(0, 1, step)] = A[T.Ramp(3, 5, step)] + T.Broadcast(1, step)

    assert re.search(words, assembly(strided, target))


def test_refusals():
    @T.prim_func(check_well_formed=False)
    def erf(A: T.Buffer((1024,), "float64")):
        lanes = T.Ramp(0, 1, 2 * T.vscale())
        A[lanes] = T.erf(A[lanes])

    with pytest.raises(CodegenError, match="lane by lane"):
        assembly(erf, SVE)
    with pytest.raises(CodegenError, match=r"(?s)which the target does not have.*\+sve"):
        assembly(scaled, "llvm -mcpu=x86-64")


@pytest.mark.parametrize("vscale", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 16, 1001])
def test_the_interpreter_takes_any_length(vscale, count):
    """Results do not depend on how long the vectors of the CPU are."""
    source, target = np.random.default_rng(0).random(1024).astype("f4"), np.zeros(1024, "f4")
    run(scaled, source, target, count, options=Options(vscale=vscale))
    np.testing.assert_array_equal(target[:count], source[:count] * 2)
    assert not target[count:].any()


@T.prim_func
def guarded(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(T.ceildiv(n, 4 * T.vscale())):
        for j in T.vectorized(4 * T.vscale()):
            if T.likely(i * 4 * T.vscale() + j < n):
                B[i * 4 * T.vscale() + j] = A[i * 4 * T.vscale() + j] + T.float32(1)


def test_what_is_below_a_limit_is_a_mask_of_lanes():
    module = tilesmith.build(guarded, target=SVE)
    text = module.get_source("ll")
    assert "@llvm.get.active.lane.mask.nxv4i1.i32(i32 0, i32 %" in text
    assert "llvm.masked.load" in text and "llvm.masked.store" in text and "stepvector" not in text
    assert re.search(r"whilelo", module.get_source("asm"))
    with tilesmith.target.Target(SVE):
        assert "<vscale x 4 x float>" in tilesmith.build(guarded).get_source("ll")


def test_functions_tell_how_long_vectors_may_be():
    text = tilesmith.build(guarded, target=SVE).get_source("ll")
    assert re.search(r"define [^\n]*@guarded\([^\n]*\) nounwind vscale_range\(1,16\)( #0)? {", text)
    assert "vscale_range" not in tilesmith.build(guarded, target=RVV).get_source("ll")


@pytest.mark.parametrize("kind", [T.int32, T.int64])
def test_masks_of_a_fixed_number_of_lanes(kind):
    @T.prim_func
    def first(A: T.Buffer((8,), "bool"), base: kind, limit: kind):
        A[T.ramp(0, 1, 8)] = T.get_active_lane_mask("boolx8", base, limit)

    module, found = tilesmith.build(first, target="llvm"), np.zeros(8, "bool")
    for base, limit in ((0, 3), (5, 9), (4, 100)):
        module(found, base, limit)
        np.testing.assert_array_equal(found, base + np.arange(8) < limit)
