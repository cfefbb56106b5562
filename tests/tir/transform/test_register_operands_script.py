"""Registers of matrix units in passes: memory of a warp, barriers, places of allocations."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.interpreter import run
from tilesmith.tir.register_operands import register_operands
from tilesmith.tir.transform import (
    LowerWarpMemory,
    MergeDynamicSharedMemoryAllocations,
    PlanAndUpdateBufferAllocationLocation,
    ThreadSync,
)


def product_in_warp_memory(step=8):
    @T.prim_func
    def func(A: T.Buffer((512,), "float16"), C: T.Buffer((16, 16), "float32")):
        T.func_attr({"global_symbol": "main", "target": T.target("cuda -arch=sm_80")})
        ty = T.launch_thread("threadIdx.y", 1)
        tx = T.launch_thread("threadIdx.x", 32)
        S = T.decl_buffer((512,), "float16", scope="shared")
        a = T.decl_buffer((512,), "float16", scope="warp")
        b = T.decl_buffer((256,), "float16", scope="warp")
        c = T.decl_buffer((256,), "float32", scope="warp")
        for i in range(16):
            S[i * 32 + tx] = A[i * 32 + tx + ty]
        T.mma_fill("float32", 8, c.data, tx * step)
        T.tvm_storage_sync("shared")
        T.ptx_ldmatrix("float16", False, 4, ".b16", a.data, 256 + tx * 8, S.data, tx * 8)
        T.ptx_ldmatrix("float16", False, 4, ".b16", b.data, tx * 8, S.data, tx * 8 + 256)
        for half in range(2):
            T.ptx_mma(
                "float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a.data, 256 + tx * 8,
                b.data, tx * 8 + half * 4, c.data, tx * 8 + half * 4, False,
            )  # fmt: skip
        T.mma_store(
            "float32", 16, 16, T.tvm_access_ptr(T.type_annotation("float32"), C.data, 0, 256, 2),
            c.data, tx * 8, 16,
        )  # fmt: skip

    return func


def test_warp_memory_of_instructions_becomes_registers():
    func = product_in_warp_memory()
    after = apply(func, LowerWarpMemory())
    text = str(after)
    assert '"warp"' not in text and "shuffle" not in text
    assert "a.data, 8, b.data, half * 4, c.data, half * 4" in text
    assert 'a = T.decl_buffer((16,), "float16", scope="local")' in text
    random = np.random.default_rng(0)
    a = random.integers(-2, 3, 512).astype("float16")
    got, expected = np.zeros((16, 16), "float32"), np.zeros((16, 16), "float32")
    run(func, a, expected)
    run(after, a, got)
    np.testing.assert_array_equal(got, expected)
    assert expected.any()


def test_instructions_take_registers_of_their_thread():
    with pytest.raises(UnsupportedError, match="a thread must write at a constant times"):
        apply(product_in_warp_memory(4), LowerWarpMemory())


def test_no_barriers_between_registers_of_a_warp():
    """A warp has memory of its own, whichever other axes of threads there are."""
    func = product_in_warp_memory()
    assert str(apply(func, ThreadSync("warp"))).count('tvm_storage_sync("warp")') == 0
    assert str(apply(func, ThreadSync("shared"))).count('tvm_storage_sync("shared")') == 1


def test_axes_that_are_launched_again():
    """Threads of the second launch are those of the first one: each finds what it has written."""

    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), shift: T.int32):
        T.func_attr({"global_symbol": "main"})
        T.launch_thread("blockIdx.x", 1)
        S = T.decl_buffer((64,), scope="shared")
        for i in range(2):
            with T.launch_thread("threadIdx.x", 32) as tx:
                S[i * 32 + tx] = A[i * 32 + tx]
        for i in range(2):
            with T.launch_thread("threadIdx.x", 32) as ty:
                B[i * 32 + ty] = S[i * 32 + ty]

    assert "tvm_storage_sync" not in str(apply(func, ThreadSync("shared")))


def test_fragments_that_a_reduction_reads_stay_in_its_loop():
    @T.prim_func
    def func(A: T.Buffer((4, 16, 16), "float16"), C: T.Buffer((16, 16), "float32")):
        with T.block("root"):
            a = T.alloc_buffer((4, 16, 16), "float16", scope="wmma.matrix_a")
            c = T.alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
            for k in range(4):
                with T.block("load"):
                    vk = T.axis.spatial(4, k)
                    T.reads(A[vk, 0:16, 0:16])
                    T.writes(a[vk, 0:16, 0:16])
                    F = T.match_buffer(a[vk, 0:16, 0:16], (16, 16), "float16", offset_factor=256,
                                       scope="wmma.matrix_a")  # fmt: skip
                    T.evaluate(T.tvm_load_matrix_sync(
                        F.data, 16, 16, 16, F.elem_offset // 256, T.address_of(A[vk, 0, 0]), 16,
                        "row_major",
                    ))  # fmt: skip
                with T.block("update"):
                    vk = T.axis.reduce(4, k)
                    T.reads(a[vk, 0:16, 0:16], c[0:16, 0:16])
                    T.writes(c[0:16, 0:16])
                    F = T.match_buffer(a[vk, 0:16, 0:16], (16, 16), "float16", offset_factor=256,
                                       scope="wmma.matrix_a")  # fmt: skip
                    D = T.match_buffer(c[0:16, 0:16], (16, 16), "float32", offset_factor=256,
                                       scope="wmma.accumulator")  # fmt: skip
                    T.evaluate(T.tvm_mma_sync(D.data, 0, F.data, 0, F.data, 0, D.data, 0))
            with T.block("store"):
                T.reads(c[0:16, 0:16])
                T.writes(C[0:16, 0:16])
                T.evaluate(T.tvm_store_matrix_sync(
                    c.data, 16, 16, 16, 0, T.address_of(C[0, 0]), 16, "row_major"
                ))  # fmt: skip

    lines = str(apply(func, PlanAndUpdateBufferAllocationLocation())).splitlines()
    (outside,) = [n for n, line in enumerate(lines) if "c = T.alloc_buffer(" in line]
    (inside,) = [n for n, line in enumerate(lines) if "a = T.alloc_buffer(" in line]
    (loop,) = [n for n, line in enumerate(lines) if "for k in range(4)" in line]
    assert outside < loop < inside


def test_merged_memory_keeps_vectors():
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 16)
        S = T.decl_buffer((64,), scope="shared.dyn")
        R = T.decl_buffer((64,), scope="shared.dyn")
        S[tx * 4 : tx * 4 + 4] = A[tx * 4 : tx * 4 + 4]
        R[tx * 4 : tx * 4 + 4] = B[tx * 4 : tx * 4 + 4]
        A[tx * 4 : tx * 4 + 4] = R[tx * 4 : tx * 4 + 4]
        B[tx * 4 : tx * 4 + 4] = S[tx * 4 : tx * 4 + 4]

    text = str(apply(func, MergeDynamicSharedMemoryAllocations()))
    assert "[tx * 4 + 64:tx * 4 + 64 + 4]" in text and "T.Broadcast(" not in text


def test_operands():
    calls = {
        T.mma_fill("float32", 8, T.Var("c", "handle"), 0): [(1, 8, False, True)],
        T.ptx_ldmatrix(
            "int8", False, 2, ".b16", T.Var("a", "handle"), 0, T.Var("s", "handle"), 0
        ): [(3, 8, False, True)],
        T.tvm_storage_sync("shared"): [],
    }
    for call, operands in calls.items():
        assert list(register_operands(call)) == operands
