"""Intrinsics of CPUs: description and implementation agree, in the interpreter and by LLVM."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.harness import HOST
from tests.schedule_rules.intrinsics.instructions import instructions
from tilesmith import tir
from tilesmith.ir import assert_structural_equal
from tilesmith.schedule_rules.intrinsics import arm_cpu, x86
from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.interpreter import run

FLAGS = set()
try:
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("flags"):
                FLAGS = set(line.split())
                break
except OSError:
    pass

X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="
ARM = "llvm -mtriple=aarch64-linux-gnu -mattr="
# name -> (target, instruction in its code, what /proc/cpuinfo says of a machine that has it)
CPU = {
    "dot_16x4_vnni": (X86 + "cascadelake", "vpdpbusd", "avx512_vnni"),
    "dot_16x4_avx512": (X86 + "skylake-avx512", "vpmaddwd", "avx512bw"),
    "dot_8x4_avxvnni": (X86 + "alderlake", "vpdpbusd", "avx_vnni"),
    "dot_8x4_avx2": (X86 + "haswell", "vpmaddwd", "avx2"),
    "dot_16x2_avx512bf16": (X86 + "cooperlake", "vdpbf16ps", "avx512_bf16"),
    "amx_16x16x64_u8i8i32": (X86 + "sapphirerapids", "tdpbusd", "amx_int8"),
    "amx_16x16x64_i8i8i32": (X86 + "sapphirerapids", "tdpbssd", "amx_int8"),
    "amx_16x16x32_bf16bf16f32": (X86 + "sapphirerapids", "tdpbf16ps", "amx_bf16"),
    "dot_4x4_i8i8s32_neon": (ARM + "+neon", "smull", "asimd"),
    "dot_4x4_i8i8s32_sdot": (ARM + "+neon,+dotprod", "sdot", "asimddp"),
    "dot_4x4_u8u8u32_udot": (ARM + "+neon,+dotprod", "udot", "asimddp"),
    "dot_4x4_u8u8i32_hdot": (ARM + "+neon,+dotprod", "udot", "asimddp"),
    "mma_2x2x8_i8i8i32_smmla": (ARM + "+neon,+i8mm", "smmla", "i8mm"),
    "mma_2x2x8_u8u8u32_ummla": (ARM + "+neon,+i8mm", "ummla", "i8mm"),
    "mma_2x2x8_u8i8i32_usmmla": (ARM + "+neon,+i8mm", "usmmla", "i8mm"),
    "mla_4x4x4_f32_neon": (ARM + "+neon", "fmla", "fma"),
    "mla_8x8x8_f16_neon": (ARM + "+neon,+fullfp16", "fmla", "f16c"),
}


def random_arrays(function, seed=0):
    """Values over the whole range of the small integers, so that nothing may saturate."""
    random = np.random.default_rng(seed)
    arrays = []
    for param in function.params:
        buffer = function.buffer_map[param]
        shape = [int(size) for size in buffer.shape]
        kind = str(buffer.dtype)
        if "int" in kind:
            limits = np.iinfo(kind)
            low, high = (limits.min, limits.max) if limits.bits == 8 else (0, 1000)
            array = random.integers(low, high, shape, endpoint=True)
            if limits.bits == 8 and seed == 1:  # the largest products
                array = np.full(shape, limits.min if limits.min < 0 else limits.max)
        else:
            array = random.integers(-8, 8, shape) / 4  # exact in every order
        arrays.append(array.astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind))
    return arrays


def described(name, arrays):
    copies = [array.copy() for array in arrays]
    run(tir.TensorIntrin.get(name).desc, *copies)
    return copies[-1]


@pytest.mark.parametrize("name", CPU)
@pytest.mark.parametrize("seed", [0, 1])
def test_in_the_interpreter(name, seed):
    intrin = tir.TensorIntrin.get(name)
    arrays = random_arrays(intrin.desc, seed)
    copies = [array.copy() for array in arrays]
    run(intrin.impl, *copies, externs=instructions())
    np.testing.assert_array_equal(copies[-1], described(name, arrays))
    assert not np.array_equal(copies[-1], arrays[-1])


@pytest.mark.parametrize("name", CPU)
@pytest.mark.parametrize("seed", [0, 1])
def test_on_this_machine(name, seed):
    flag = CPU[name][2]
    if flag not in FLAGS:
        pytest.skip(f"this CPU has no {flag}")
    intrin = tir.TensorIntrin.get(name)
    arrays = random_arrays(intrin.desc, seed)
    built = ts.build(intrin.impl.with_attr("global_symbol", "main"), target=HOST)
    tensors = [ts.nd.array(array) for array in arrays]
    built["main"](*tensors)
    np.testing.assert_array_equal(tensors[-1].numpy(), described(name, arrays))


@pytest.mark.parametrize("name", CPU)
def test_machine_code(name):
    """LLVM makes the instruction of it. Code for other machines is made in another process."""
    target, instruction, _ = CPU[name]
    impl = tir.TensorIntrin.get(name).impl.with_attr("global_symbol", "main")
    built = ts.build(impl, target=ts.target.Target(target))
    assert instruction in built.get_source("asm")
    assert ("__tilesmith_uses_amx" in built.get_source("ll")) == name.startswith("amx_")


# --- whole programs -------------------------------------------------------------------------------


def product(rows, columns, depth, lanes, group, a_dtype, b_dtype, c_dtype):
    """``A @ W.T`` with the weights packed: ``W[j // lanes, k // group, j % lanes, k % group]``."""

    @T.prim_func
    def main(a: T.handle, w: T.handle, c: T.handle):
        A = T.match_buffer(a, (rows, depth), a_dtype)
        W = T.match_buffer(w, (columns // lanes, depth // group, lanes, group), b_dtype)
        C = T.match_buffer(c, (rows, columns), c_dtype)
        for i, j, k in T.grid(rows, columns, depth):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c_dtype, T.float32(0)) if c_dtype != "int32" else T.int32(0)
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c_dtype) * T.cast(
                    W[vj // lanes, vk // group, vj % lanes, vk % group], c_dtype
                )

    return main


def unpacked(weights):
    blocks, groups, lanes, group = weights.shape
    return weights.transpose(0, 2, 1, 3).reshape(blocks * lanes, groups * group)


PRODUCTS = {
    "dot_16x4_vnni": (16, 4, "uint8", "int8", "int32"),
    "dot_16x4_avx512": (16, 4, "uint8", "int8", "int32"),
    "dot_8x4_avxvnni": (8, 4, "uint8", "int8", "int32"),
    "dot_8x4_avx2": (8, 4, "uint8", "int8", "int32"),
    "dot_16x2_avx512bf16": (16, 2, "bfloat16", "bfloat16", "float32"),
}


def tensorized_product(name, rows=5, blocks=3, depth=24):
    lanes, group, a_dtype, b_dtype, c_dtype = PRODUCTS[name]
    program = product(rows, blocks * lanes, depth, lanes, group, a_dtype, b_dtype, c_dtype)
    sch = tir.Schedule(program, debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, lanes])
    k0, k1 = sch.split(k, [None, group])
    sch.reorder(j0, i, k0, j1, k1)
    sch.decompose_reduction(block, k0)
    sch.tensorize(j1, name)
    return program, sch


@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name):
    program, sch = tensorized_product(name)
    arrays = random_arrays(program)
    arrays[2][:] = 0
    wide = "float64" if program.buffer_map[program.params[2]].dtype.is_float else "int64"
    expected = arrays[0].astype(wide) @ unpacked(arrays[1]).astype(wide).T
    check_run(sch.mod, arrays, expected, name)


@pytest.mark.parametrize("name, lanes", [("dot_16x4_vnni", 16), ("dot_8x4_avx2", 8)])
def test_plain_weights_are_packed_by_transform_layout(name, lanes):
    """The way of a user: a plain product, padded, its weights in the layout of the instruction."""

    @T.prim_func
    def main(
        A: T.Buffer((7, 30), "uint8"), W: T.Buffer((21, 30), "int8"), C: T.Buffer((7, 21), "int32")
    ):
        for i, j, k in T.grid(7, 21, 30):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(W[vj, vk], "int32")

    sch = tir.Schedule(main, debug_mask="all")
    block = sch.get_block("C")
    sch.pad_einsum(block, [1, lanes, 4])
    sch.transform_layout(block, "W_pad", lambda j, k: [j // lanes, k // 4, j % lanes, k % 4])
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, lanes])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(j0, i, k0, j1, k1)
    sch.decompose_reduction(block, k0)
    sch.tensorize(j1, name)
    arrays = random_arrays(main)
    expected = arrays[0].astype("int64") @ arrays[1].astype("int64").T
    check_run(sch.mod, arrays, expected, name)


def check_run(mod, arrays, expected, name):
    """The interpreter gives the expected result, and LLVM's code where this CPU can run it."""
    copies = [array.copy() for array in arrays]
    run(mod["main"], *copies, externs=instructions())
    np.testing.assert_array_equal(copies[-1], expected)
    if CPU[name][2] in FLAGS:
        built = ts.build(mod, target=HOST)
        tensors = [ts.nd.array(array) for array in arrays]
        built["main"](*tensors)
        np.testing.assert_array_equal(tensors[-1].numpy(), expected)


@T.prim_func
def convolution(
    X: T.Buffer((6, 7, 8), "uint8"),
    W: T.Buffer((2, 3, 3, 2, 16, 4), "int8"),
    Y: T.Buffer((4, 5, 32), "int32"),
):
    T.func_attr({"global_symbol": "main"})
    for h, w, o, r, s, c in T.grid(4, 5, 32, 3, 3, 8):
        with T.block("Y"):
            vh, vw, vo, vr, vs, vc = T.axis.remap("SSSRRR", [h, w, o, r, s, c])
            with T.init():
                Y[vh, vw, vo] = 0
            Y[vh, vw, vo] = Y[vh, vw, vo] + T.cast(X[vh + vr, vw + vs, vc], "int32") * T.cast(
                W[vo // 16, vr, vs, vc // 4, vo % 16, vc % 4], "int32"
            )


@pytest.mark.parametrize("name", ["dot_16x4_vnni", "dot_16x4_avx512"])
def test_convolution(name):
    sch = tir.Schedule(convolution, debug_mask="all")
    block = sch.get_block("Y")
    h, w, o, r, s, c = sch.get_loops(block)
    o0, o1 = sch.split(o, [None, 16])
    c0, c1 = sch.split(c, [None, 4])
    sch.reorder(o0, h, w, r, s, c0, o1, c1)
    sch.decompose_reduction(block, r)
    sch.tensorize(o1, name)
    arrays = random_arrays(convolution)
    expected = [array.copy() for array in arrays]
    run(convolution, *expected)
    check_run(sch.mod, arrays, expected[2], name)


def test_amx_tiles():
    """Tiles of a larger product; the interpreter has the tile registers."""

    @T.prim_func
    def main(
        A: T.Buffer((32, 128), "uint8"),
        W: T.Buffer((32, 32, 4), "int8"),
        C: T.Buffer((32, 32), "int32"),
    ):
        for i, j, k in T.grid(32, 32, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(
                    W[vk // 4, vj, vk % 4], "int32"
                )

    sch = tir.Schedule(main, debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i0, i1), (j0, j1) = sch.split(i, [None, 16]), sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 64])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    sch.decompose_reduction(block, k0)
    sch.tensorize(i1, "amx_16x16x64_u8i8i32")
    arrays = random_arrays(main)
    run(sch.mod["main"], *arrays, externs=instructions())
    weights = arrays[1].transpose(0, 2, 1).reshape(128, 32).astype("int64")
    np.testing.assert_array_equal(arrays[2], arrays[0].astype("int64") @ weights)
    target = ts.target.Target(X86 + "sapphirerapids")
    assert "tdpbusd" in ts.build(sch.mod, target=target).get_source("asm")


@pytest.mark.parametrize(
    "name", ["mma_2x2x8_i8i8i32_smmla", "mma_2x2x8_u8i8i32_usmmla", "mla_4x4x4_f32_neon"]
)
def test_small_tiles_of_arm(name):
    desc = tir.TensorIntrin.get(name).desc
    a, b, c = [desc.buffer_map[param] for param in desc.params]
    m, depth, n = int(a.shape[0]), int(a.shape[1]), int(c.shape[1])
    transposed = "mma" in name

    @T.prim_func
    def main(x: T.handle, y: T.handle, z: T.handle):
        A = T.match_buffer(x, (2 * m, 3 * depth), a.dtype)
        B = T.match_buffer(y, (2 * n, 3 * depth) if transposed else (3 * depth, 2 * n), b.dtype)
        C = T.match_buffer(z, (2 * m, 2 * n), c.dtype)
        for i, j, k in T.grid(2 * m, 2 * n, 3 * depth):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                right = T.meta_var(B[vj, vk] if transposed else B[vk, vj])
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c.dtype) * T.cast(right, c.dtype)

    sch = tir.Schedule(main, debug_mask="all")
    loops = sch.get_loops(sch.get_block("C"))
    outer, inner = zip(*[sch.split(one, [None, f]) for one, f in zip(loops, (m, n, depth))])
    sch.reorder(*outer, *inner)
    sch.tensorize(inner[0], name)
    arrays = random_arrays(main)
    expected = [array.copy() for array in arrays]
    run(main, *expected)
    run(sch.mod["main"], *arrays, externs=instructions())
    np.testing.assert_array_equal(arrays[2], expected[2])
    built = ts.build(sch.mod, target=ts.target.Target(CPU[name][0]))
    assert CPU[name][1] in built.get_source("asm")


@pytest.mark.parametrize("name", ["dot_16x4_vnni", "dot_16x4_avx512", "dot_4x4_i8i8s32_sdot"])
def test_rows_that_are_not_beside_each_other(name):
    """Weights in their plain layout: each row's four bytes are somewhere else."""
    a_dtype = "int8" if "sdot" in name else "uint8"
    lanes = 4 if "sdot" in name else 16

    @T.prim_func
    def main(a: T.handle, W: T.Buffer((32, 24), "int8"), C: T.Buffer((5, 32), "int32")):
        A = T.match_buffer(a, (5, 24), a_dtype)
        for i, j, k in T.grid(5, 32, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(W[vj, vk], "int32")

    sch = tir.Schedule(main, debug_mask="all")
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1 = sch.split(j, [None, lanes])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.tensorize(j1, name)
    arrays = random_arrays(main)
    expected = [array.copy() for array in arrays]
    run(main, *expected)
    check_run(sch.mod, arrays, expected[2], name)


@pytest.mark.parametrize(
    "name, functions",
    [
        (x86.VNNI_DOT_16x4_INTRIN,
         (x86.dot_product_16x4_u8i8i32_desc, x86.dot_product_16x4_u8i8i32_vnni)),
        (x86.AVX512_DOT_16x4_INTRIN,
         (x86.dot_product_16x4_u8i8i32_desc, x86.dot_product_16x4_u8i8i32_avx512)),
        (arm_cpu.ARM_DOT_4x4_i8_NEON_INTRIN,
         (arm_cpu.neon_4x4_i8i8i32_desc, arm_cpu.neon_4x4_i8i8i32_impl)),
        (arm_cpu.ARM_DOT_4x4_i8_SDOT_INTRIN, arm_cpu.get_dotprod_intrin("int8", "int32")),
        (arm_cpu.ARM_DOT_4x4_u8_UDOT_INTRIN, arm_cpu.get_dotprod_intrin("uint8", "uint32")),
        (arm_cpu.ARM_DOT_4x4_u8_HDOT_INTRIN, arm_cpu.get_dotprod_intrin("uint8", "int32")),
    ],
)  # fmt: skip
def test_functions_of_intrinsics(name, functions):
    intrin = tir.TensorIntrin.get(name)
    for ours, registered in zip(functions, (intrin.desc, intrin.impl)):
        assert_structural_equal(ours, registered)


def test_dot_products_that_arm_lacks():
    with pytest.raises(ScheduleError, match="no dot product of int8 with sums in int8"):
        arm_cpu.get_dotprod_intrin("int8", "int8")


def test_a_name_loads_the_intrinsics_of_its_machine_only():
    """Each module costs time to parse; names that tell nothing load them all."""
    program = (
        "import sys; from tilesmith import tir\n"
        "package = 'tilesmith.schedule_rules.intrinsics.'\n"
        "tir.TensorIntrin.get('dot_16x4_vnni')\n"
        "assert package + 'x86' in sys.modules and package + 'cuda' not in sys.modules\n"
        "tir.TensorIntrin.get('dot_4x4_i8i8s32_sdot')\n"
        "assert package + 'arm_cpu' in sys.modules\n"
        "assert tir.TensorIntrin.get('dot_of_nothing', allow_missing=True) is None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=os.getcwd())
