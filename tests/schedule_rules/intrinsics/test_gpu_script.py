"""Intrinsics of GPUs: there is none here, so the interpreter stands in for their instructions."""

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.harness import HOST
from tests.schedule_rules.intrinsics.instructions import Fragments, instructions
from tests.schedule_rules.intrinsics.test_cpu_script import random_arrays
from tilesmith import tir
from tilesmith.runtime.dtype import DataType
from tilesmith.schedule_rules.intrinsics import cuda, dot_product_common, rocm
from tilesmith.script import tir as T
from tilesmith.tir.interpreter import run
from tilesmith.tir.interpreter.operators import OPERATORS
from tilesmith.tir.schedule import ScheduleError

# --- four bytes -----------------------------------------------------------------------------------

BYTES = {
    "dp4a": ("int8", "int8", "int32"),
    "dp4a_s8s8s32": ("int8", "int8", "int32"),
    "dp4a_u8s8s32": ("uint8", "int8", "int32"),
    "dp4a_s8u8s32": ("int8", "uint8", "int32"),
    "dp4a_u8u8u32": ("uint8", "uint8", "uint32"),
    "sdot4": ("int8", "int8", "int32"),
}


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("seed", [0, 1])
def test_dot_of_four_bytes(name, seed):
    intrin = tir.TensorIntrin.get(name)
    arrays = random_arrays(intrin.desc, seed)
    expected, copies = [[array.copy() for array in arrays] for _ in range(2)]
    run(intrin.desc, *expected)
    run(intrin.impl, *copies, externs=instructions())
    np.testing.assert_array_equal(copies[2], expected[2])
    if name == "sdot4":
        return
    # The operator is known to LLVM's back end for CPUs as well.
    built = ts.build(intrin.impl.with_attr("global_symbol", "main"), target=HOST)
    tensors = [ts.nd.array(array) for array in arrays]
    built["main"](*tensors)
    np.testing.assert_array_equal(tensors[2].numpy(), expected[2])


@pytest.mark.parametrize("name", BYTES)
def test_product_by_four_bytes(name):
    a_dtype, b_dtype, c_dtype = BYTES[name]

    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (6, 16), a_dtype)
        B = T.match_buffer(b, (5, 16), b_dtype)
        C = T.match_buffer(c, (6, 5), c_dtype)
        for i, j, k in T.grid(6, 5, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(c_dtype, 0) if c_dtype != "int32" else T.int32(0)
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], c_dtype) * T.cast(B[vj, vk], c_dtype)

    sch = tir.Schedule(main, debug_mask="all")
    block = sch.get_block("C")
    sch.cache_read(block, 0, "shared")
    sch.cache_read(block, 1, "shared")
    sch.cache_write(block, 0, "local")
    k0, k1 = sch.split(sch.get_loops(block)[2], [None, 4])
    sch.decompose_reduction(block, k0)
    sch.tensorize(k1, name)
    arrays = random_arrays(main)
    expected = [array.copy() for array in arrays]
    run(main, *expected)
    run(sch.mod["main"], *arrays, externs=instructions())
    np.testing.assert_array_equal(arrays[2], expected[2])


def test_names_of_four_bytes():
    assert dot_product_common.get_dp4a_intrin("uint8", "int8", "int32") == "dp4a_u8s8s32"
    assert dot_product_common.DP4A_S8S8S32_INTRIN == "dp4a_s8s8s32"
    assert rocm.AMDGPU_SDOT4_INTRIN == "sdot4"


# --- wmma -----------------------------------------------------------------------------------------


def product(m, n, k, in_dtype, out_dtype, transposed):
    def right(buffer, vk, vj):
        return buffer[vj, vk] if transposed else buffer[vk, vj]

    def wide(value):
        return value if in_dtype == out_dtype else T.cast(value, out_dtype)

    zero = T.int32(0) if out_dtype == "int32" else T.FloatImm(out_dtype, 0.0)

    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (m, k), in_dtype)
        B = T.match_buffer(b, (n, k) if transposed else (k, n), in_dtype)
        C = T.match_buffer(c, (m, n), out_dtype)
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = zero
                C[vi, vj] = C[vi, vj] + wide(A[vi, vk]) * wide(right(B, vk, vj))

    return main


def tile_of(sch, block, rows=16, columns=16):
    """The two innermost loops of a copy in tiles."""
    i, j = sch.get_loops(block)[-2:]
    (i0, i1), (j0, j1) = sch.split(i, [None, rows]), sch.split(j, [None, columns])
    sch.reorder(i0, j0, i1, j1)
    return i1


def scheduled_product(m, n, k, in_dtype, out_dtype, transposed, store_scope="global"):
    program = product(m, n, k, in_dtype, out_dtype, transposed)
    names = cuda.get_wmma_intrin_group("shared", store_scope, in_dtype, out_dtype, transposed)
    rows, columns, depth = (8, 8, 32) if in_dtype == "int4" else (16, 16, 16)
    right = (columns, depth) if transposed else (depth, columns)
    sch = tir.Schedule(program, debug_mask="all")
    block = sch.get_block("C")
    split = [
        sch.split(loop, [None, size])
        for loop, size in zip(sch.get_loops(block), (rows, columns, depth))
    ]
    sch.reorder(*[outer for outer, _ in split], *[inner for _, inner in split])
    loads = []
    for index, scope in ((0, "wmma.matrix_a"), (1, "wmma.matrix_b")):
        sch.cache_read(block, index, "shared")
        loads.append(sch.cache_read(block, index, scope))
    store = sch.cache_write(block, 0, "wmma.accumulator")
    init = sch.decompose_reduction(block, split[2][0])
    tiles = {"load_a": (rows, depth), "load_b": right, "store": (rows, columns)}
    for copy, (key, tile) in zip((*loads, store), tiles.items()):
        sch.tensorize(tile_of(sch, copy, *tile), names[key])
    sch.tensorize(split[0][1], names["compute"])
    sch.tensorize(sch.get_loops(init)[-2], names["init"])
    return program, sch


@pytest.mark.parametrize(
    "in_dtype, out_dtype, transposed",
    [
        ("float16", "float32", False), ("float16", "float32", True), ("float16", "float16", False),
        ("float16", "float16", True), ("int8", "int32", False), ("int8", "int32", True),
        ("int4", "int32", True),
    ],
)  # fmt: skip
def test_product_by_fragments(in_dtype, out_dtype, transposed, monkeypatch):
    program, sch = scheduled_product(32, 48, 64, in_dtype, out_dtype, transposed)
    text = sch.mod["main"].script()
    for operator in ("tvm_load_matrix_sync", "tvm_mma_sync", "tvm_fill_fragment"):
        assert operator in text
    for name, meaning in Fragments().operators(in_dtype, out_dtype).items():
        monkeypatch.setitem(OPERATORS, name, meaning)
    random = np.random.default_rng(0)
    arrays = [
        random.integers(-2, 2, [int(size) for size in program.buffer_map[param].shape]).astype(
            DataType(kind).numpy()
        )
        for param, kind in zip(program.params, (in_dtype, in_dtype, out_dtype))
    ]
    expected = [array.copy() for array in arrays]
    run(program, *expected)
    run(sch.mod["main"], *arrays)
    np.testing.assert_array_equal(arrays[2], expected[2])


def test_a_transposed_tile_is_loaded_by_columns(monkeypatch):
    """``wmma_load_..._trans``: the tile is described as it lies in memory."""
    intrin = tir.TensorIntrin.get(cuda.WMMA_LOAD_16x16x16_F16_B_TRANS_INTRIN)
    assert '"col_major"' in intrin.impl.script()
    plain = tir.TensorIntrin.get(cuda.WMMA_LOAD_16x16x16_F16_B_INTRIN)
    assert '"row_major"' in plain.impl.script()


def test_groups_of_names():
    group = cuda.get_wmma_intrin_group("shared.dyn", "shared", "float16", "float32", True)
    assert group == {
        "init": cuda.WMMA_FILL_16x16x16_F32_INTRIN,
        "load_a": cuda.WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN,
        "load_b": cuda.WMMA_LOAD_16x16x16_F16_B_TRANS_DYN_INTRIN,
        "compute": cuda.WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN,
        "store": cuda.WMMA_STORE_16x16x16_F32_SHARED_INTRIN,
    }
    with pytest.raises(ScheduleError, match="no wmma for float64 and float32"):
        cuda.get_wmma_intrin_group("shared", "global", "float64", "float32", False)
    with pytest.raises(ScheduleError, match="int4 needs B transposed"):
        cuda.get_wmma_intrin_group("shared", "global", "int4", "int32", False)


def test_all_names_of_the_module_are_registered():
    for module in (cuda, dot_product_common, rocm):
        for constant in dir(module):
            if constant.endswith("_INTRIN"):
                intrin = tir.TensorIntrin.get(getattr(module, constant))
                assert isinstance(intrin, tir.TensorIntrin)
