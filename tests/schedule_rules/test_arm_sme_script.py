"""Tensor intrinsics of Arm's Scalable Matrix Extension: matching, assembly, results in QEMU.

No machine here has SME. The assembly is checked everywhere; results are where `qemu-aarch64` and a
C compiler for AArch64 (`ziglang`) are found.
"""

import re

import numpy as np
import pytest

import tilesmith
from tests.codegen.emulated import Program, needs
from tilesmith.schedule_rules.intrinsics import arm_cpu
from tilesmith.script import tir as T
from tilesmith.support.errors import CodegenError, ScheduleError, UnsupportedError
from tilesmith.tir import Schedule, TensorIntrin
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.schedule.primitives.tensorize_limits import LIMITS

TARGET = "llvm -mtriple=aarch64-linux-gnu -mattr=+sme"
WITH_SVE = "llvm -mtriple=aarch64-linux-gnu -mattr=+sme,+sve"
GEMM = arm_cpu.get_sme_gemm_interleaved_mopa_2svlx2svl_intrin


def product(rows, columns, depth, dtype):
    @T.prim_func
    def f(
        A: T.Buffer((depth, rows), dtype),
        B: T.Buffer((depth, columns), dtype),
        C: T.Buffer((rows, columns), "float32"),
    ):
        T.func_attr({"global_symbol": "f", "tir.noalias": True})
        for i, j, k in T.grid(rows, columns, depth):
            with T.block("gemm"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + T.cast(A[vk, vi], "float32") * T.cast(B[vk, vj], "float32")

    return f


def tiled(rows, columns, depth, dtype, steps=None):
    """Split a product into tiles; return the schedule, the init's and the update's inner loops."""
    sch = Schedule(product(rows, columns, depth, dtype))
    block = sch.get_block("gemm")
    i, j, k = sch.get_loops(block)
    size = 8 * T.vscale()
    io, ii = sch.split(i, [None, size], disable_predication=True)
    jo, ji = sch.split(j, [None, size], disable_predication=True)
    ko, ki = sch.split(k, [None, steps or depth], disable_predication=True)
    sch.reorder(io, jo, ko, ii, ji, ki)
    init = sch.decompose_reduction(block, ko)
    return sch, sch.get_loops(init)[-2], ii


def tensorized(rows, columns, depth, dtype, steps=None):
    sch, init, update = tiled(rows, columns, depth, dtype, steps)
    sch.tensorize(init, arm_cpu.ARM_SME_INIT)
    sch.tensorize(update, TensorIntrin(*GEMM(rows, steps or depth, dtype)))
    return sch


def transposed(rows, columns, dtype):
    @T.prim_func
    def f(A: T.Buffer((rows, columns), dtype), A_t: T.Buffer((columns, rows), dtype)):
        T.func_attr({"global_symbol": "f", "tir.noalias": True})
        for k, m in T.grid(columns, rows):
            with T.block("transpose"):
                v_m, v_k = T.axis.remap("SS", [m, k])
                A_t[v_k, v_m] = A[v_m, v_k]

    sch = Schedule(f)
    k, m = sch.get_loops(sch.get_block("transpose"))
    width, height = (8, 8) if dtype == "float32" else (8, 16)
    ko, ki = sch.split(k, [None, width * T.vscale()], disable_predication=True)
    mo, mi = sch.split(m, [None, height * T.vscale()], disable_predication=True)
    sch.reorder(ko, mo, ki, mi)
    sch.tensorize(ki, arm_cpu.get_transpose_interleave_intrin_name(dtype, "float32", columns, rows))
    return sch


def assembly(sch, target=TARGET):
    return tilesmith.build(sch.mod, target=target).get_source("asm")


# -- names


def test_names():
    name = arm_cpu.get_transpose_interleave_intrin_name("float32", "float32", 51, 30)
    assert name == "sme_2svlx2svl_fp32_transpose_interleave_51_30"
    first = TensorIntrin.get(name)
    assert arm_cpu.get_transpose_interleave_intrin_name("float32", "float32", 51, 30) == name
    assert TensorIntrin.get(name) is first
    halves = arm_cpu.get_transpose_interleave_intrin_name("float16", "float32", 51, 30)
    assert halves == arm_cpu.ARM_SME_BLOCK2_2SVLx1SVL_FP16_TRANSPOSE_INTERLEAVE
    assert TensorIntrin.get(halves) and TensorIntrin.get("sme_init")


@pytest.mark.parametrize("dtypes", [("float16", "float16"), ("int8", "int32")])
def test_other_types_are_refused(dtypes):
    with pytest.raises(UnsupportedError, match="no transpose for matrix products of"):
        arm_cpu.get_transpose_interleave_intrin_name(*dtypes, 8, 8)
    with pytest.raises(UnsupportedError, match="no matrix product of int8"):
        GEMM(8, 8, "int8")


# -- what the descriptions say, and what tensorize makes of sizes


@pytest.mark.parametrize("vscale", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_descriptions(vscale, dtype):
    size, random, options = 8 * vscale, np.random.default_rng(0), Options(vscale=vscale)
    a, b = (random.random((5, size)).astype(dtype) for _ in range(2))
    c = random.random((size, size)).astype("float32")
    expected = c + a.T.astype("float32") @ b.astype("float32")
    run(GEMM(size, 5, dtype)[0], a, b, c, options=options)
    np.testing.assert_allclose(c, expected, rtol=1e-5)
    run(arm_cpu.get_sme_init_intrin()[0], c, options=options)
    assert not c.any()
    if dtype == "float32":
        desc = arm_cpu.get_sme_transpose_interleave_2svlx2svl_fp32_intrin(size, size)[0]
        source = random.random((size, size)).astype(dtype)
    else:
        desc = arm_cpu.get_sme_transpose_interleave_block2_2svl_fp16_intrin()[0]
        source = random.random((2 * size, size)).astype(dtype)
    result = np.zeros(source.shape[::-1], dtype)
    run(desc, source, result, options=options)
    np.testing.assert_array_equal(result, source.T)


def test_sizes_are_narrowed_where_a_tile_may_end_outside():
    text = tensorized(30, 32 * T.vscale(), 51, "float32").mod.script()
    assert "rows: T.int32 = T.max(T.min(8 * T.vscale(), 30 - " in text
    assert len(re.findall(r"columns: T.int32 = 8 \* T.vscale\(\)\n", text)) == 2
    assert "steps: T.int32 = 51\n" in text
    text = tensorized(30, 45, 51, "float32", steps=20).mod.script()
    assert re.search(r"steps: T.int32 = T.max\(T.min\(20, 51 - \w+ \* 20\), 0\)\n", text)


@pytest.mark.parametrize(
    "limits, message",
    [
        ({"columns": (("C", 1),)}, "limits columns, which its root block does not bind"),
        ({"rows": (("D", 0),)}, "axis 0 of 'D' limits 'rows'"),
        ({"rows": (("C", 2),)}, "axis 2 of 'C' limits 'rows'"),
    ],
)
def test_limits_that_mean_nothing_are_refused(limits, message):
    @T.prim_func(private=True)
    def without(c: T.handle):
        T.func_attr({LIMITS: limits})
        C = T.match_buffer(c, (8 * T.vscale(), 8 * T.vscale()), "float32", offset_factor=1)
        with T.block("root"):
            T.writes(C[0 : 8 * T.vscale(), 0 : 8 * T.vscale()])
            rows: T.int32 = 8 * T.vscale()
            C[0, 0] = T.Cast("float32", rows)

    sch, init, _ = tiled(30, 45, 51, "float32")
    with pytest.raises(ScheduleError, match=message):
        sch.tensorize(init, TensorIntrin(arm_cpu.get_sme_init_intrin()[0], without))


# -- assembly


@pytest.mark.parametrize("target", [TARGET, WITH_SVE])
@pytest.mark.parametrize(
    "make, words",
    [
        (
            lambda: tensorized(30, 45, 51, "float32"),
            (r"zero\s*{za}", r"fmopa\s*za3\.s, p\d/m, p\d/m, z\d+\.s, z\d+\.s", r"ld1w\s*{za0h"),
        ),
        (
            lambda: tensorized(30, 45, 51, "float16"),
            (r"zip1\s*z\d+\.h", r"fmopa\s*za3\.s, p\d/m, p\d/m, z\d+\.h, z\d+\.h", r"st1w\s*{za3h"),
        ),
        (lambda: transposed(30, 51, "float32"), (r"ld1w\s*{za2h\.s", r"st1w\s*{za2v\.s")),
        (lambda: transposed(30, 51, "float16"), (r"ld1h\s*{za1h\.h", r"st1h\s*{za1v\.h")),
    ],
)
def test_assembly(make, words, target):
    text = assembly(make(), target)
    for word in (*words, r"smstart\s*sm", r"smstart\s*za", r"smstop\s*sm", r"smstop\s*za"):
        assert re.search(word, text), word


def heads(sch, target=TARGET):
    """Return the head of each function that is written, by its name."""
    text = tilesmith.build(sch.mod, target=target).get_source("ll")
    return {head[2]: head[0] for head in re.finditer(r"define ([^\n]*)@([\w.]+)\([^\n]*", text)}


def test_parts_of_parallel_loops_agree_on_the_length_of_vectors():
    sch = tensorized(30, 45, 51, "float32")
    sch.parallel(sch.get_loops(sch.get_block("gemm_update_o"))[0])
    found = heads(sch, WITH_SVE)
    body = found["f.parallel.1.body"]
    assert '"aarch64_pstate_sm_body" "aarch64_new_za"' in body
    # the number of tiles depends on the length in streaming mode, not on that of SVE
    assert '"aarch64_pstate_sm_body"' in found["f"] and "new_za" not in found["f"]
    assert "aarch64" not in found["f.parallel.1"] and "aarch64" not in found["__tvm_ffi_f"]


@T.prim_func
def copied(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "copied", "tir.noalias": True})
    lanes = T.meta_var(T.Ramp(0, 1, 4 * T.vscale()))
    inside = T.get_active_lane_mask("boolxvscalex4", 0, n)
    B.vstore([lanes], A.vload([lanes], predicate=inside), predicate=inside)


def test_scalable_vectors_without_sve_are_those_of_streaming_mode():
    """LLVM ended with "Scalarization of scalable vectors is not supported"."""
    text = tilesmith.build(copied, target=TARGET).get_source("asm")
    assert re.search(r"smstart\s*sm", text) and "smstart\tza" not in text
    text = tilesmith.build(copied, target=WITH_SVE).get_source("asm")
    assert "ld1w" in text and "smstart" not in text


def test_refusals():
    sch = tensorized(30, 45, 51, "float32")
    with pytest.raises(CodegenError, match=r"(?s)Scalable Matrix Extension.*\+sme"):
        assembly(sch, "llvm -mtriple=aarch64-linux-gnu -mattr=+sve")

    @T.prim_func
    def strided(A: T.Buffer((1024,), "int32"), B: T.Buffer((1024,), "int32")):
        T.func_attr({"global_symbol": "strided", "tir.noalias": True})
        B[T.Ramp(0, 1, 4 * T.vscale())] = A[T.Ramp(3, 5, 4 * T.vscale())]

    with pytest.raises(CodegenError, match=r"(?s)streaming mode of SME.*stride of 1"):
        tilesmith.build(strided, target=TARGET)
    assert "ld1w" in tilesmith.build(strided, target=WITH_SVE).get_source("asm")


# -- results


def run_in_qemu(folder, sch, arrays, vector_bytes):
    """Run a kernel on an emulated CPU with SME; return the arrays as it leaves them."""
    program = Program(folder, "aarch64", lambda: tilesmith.build(sch.mod, target=TARGET), ["f"])
    return program.run("f", arrays, f"max,sme-default-vector-length={vector_bytes}")


in_qemu = needs("aarch64")
LENGTHS = (16, 32, 64, 128, 256)


@in_qemu
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "shape, steps", [((30, 45, 51), None), ((64, 96, 40), 20), ((33, 9, 7), 4)]
)
def test_products_in_qemu(tmp_path, dtype, shape, steps):
    rows, columns, depth = shape
    sch, random = tensorized(*shape, dtype, steps), np.random.default_rng(0)
    a = random.standard_normal((depth, rows)).astype(dtype)
    b = random.standard_normal((depth, columns)).astype(dtype)
    c = np.full((rows, columns), np.nan, "float32")
    for length in LENGTHS:
        *_, got = run_in_qemu(tmp_path, sch, (a, b, c), length)
        expected = a.T.astype("float32") @ b.astype("float32")
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4, err_msg=str(length))


@in_qemu
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(30, 51), (128, 256), (17, 33)])
def test_transposes_in_qemu(tmp_path, dtype, shape):
    sch = transposed(*shape, dtype)
    a = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for length in LENGTHS:
        _, got = run_in_qemu(tmp_path, sch, (a, np.full(shape[::-1], np.nan, dtype)), length)
        np.testing.assert_array_equal(got, a.T, err_msg=str(length))
