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
