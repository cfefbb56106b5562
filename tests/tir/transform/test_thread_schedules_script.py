"""Passes over loops bound to threads, and those that bind them."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same, outputs
from tests.tir.transform.thread_programs_script import matmul_function, row_sums_function
from tilesmith.ir import assert_structural_equal
from tilesmith.schedule_rules.default_gpu_schedule import DefaultGPUSchedule
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.transform import LiftThreadBinding, ManifestSharedMemoryLocalStage


def same(before, after):
    arrays = arrays_for(before)
    assert_same(outputs(after, arrays), outputs(before, arrays))


def test_lift_thread_binding():
    @T.prim_func
    def before(A: T.Buffer((3, 4, 8), "float32"), B: T.Buffer((3, 4, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        S = T.alloc_buffer((8,), scope="shared")
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for k in range(4):
                for t0 in T.thread_binding(8, thread="threadIdx.x"):
                    S[t0] = A[bx, k, t0]
                for t1 in T.thread_binding(8, thread="threadIdx.x"):
                    B[bx, k, t1] = S[7 - t1]

    @T.prim_func
    def expected(A: T.Buffer((3, 4, 8), "float32"), B: T.Buffer((3, 4, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        S = T.alloc_buffer((8,), scope="shared")
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for k in range(4):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    S[tx] = A[bx, k, tx]
                    B[bx, k, tx] = S[7 - tx]

    after = apply(before, LiftThreadBinding())
    assert_structural_equal(after, expected)
    same(before, after)


def test_loops_of_different_extents_are_not_joined():
    @T.prim_func(check_well_formed=False)
    def func(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for t0 in T.thread_binding(8, thread="threadIdx.x"):
                A[t0] = T.float32(1)
            for t1 in T.thread_binding(4, thread="threadIdx.x"):
                A[t1 + bx] = T.float32(2)

    assert_structural_equal(apply(func, LiftThreadBinding()), func)


def staged(annotation):
    @T.prim_func
    def func(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("all"):
                T.reads(A[0:4, 0:8])
                T.writes(B[0:4, 0:8])
                S = T.alloc_buffer((4, 8), scope="shared")
                for i in range(4):
                    with T.block("load"):
                        T.reads(A[i, tx])
                        T.writes(S[i, tx])
                        T.block_attr({annotation: 1})
                        S[i, tx] = A[i, tx] * T.float32(2)
                for i in range(4):
                    with T.block("use"):
                        T.reads(S[i, 7 - tx])
                        T.writes(B[i, tx])
                        B[i, tx] = S[i, 7 - tx]

    return func


def test_manifest_shared_memory_local_stage():
    func = staged("tir.manifest_shared_memory_local_stage")
    after = apply(func, ManifestSharedMemoryLocalStage())
    text = str(after)
    assert 'S_local = T.alloc_buffer((4,), scope="local")' in text.replace('"float32", ', "")
    assert "S_local[i] = A[i, tx] * T.float32(2.0)" in text
    assert "S[i, tx] = S_local[i]" in text
    same(func, after)
    other = staged("something_else")
    assert_structural_equal(apply(other, ManifestSharedMemoryLocalStage()), other)


def test_staging_needs_opaque_blocks():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            with T.block("b"):
                v = T.axis.spatial(8, i)
                T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                B[v] = A[v]

    with pytest.raises(UnsupportedError, match="must be opaque"):
        apply(func, ManifestSharedMemoryLocalStage())


@T.prim_func
def two_blocks(A: T.Buffer((5, 7), "float32"), B: T.Buffer((5, 7), "float32")):
    T.func_attr({"global_symbol": "main"})
    C = T.alloc_buffer((5, 7))
    for i, j in T.grid(5, 7):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(5, 7):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[4 - vi, vj]


FUNCTIONS = {
    "two_blocks": lambda: two_blocks,
    "matmul": lambda: matmul_function(5, 6, 7),
    "row_sums": lambda: row_sums_function(9, 11),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_default_gpu_schedule(name):
    func = FUNCTIONS[name]()
    with Target("cuda"):
        after = apply(func, DefaultGPUSchedule())
    assert 'thread="blockIdx.x"' in str(after) and 'thread="threadIdx.x"' in str(after)
    same(func, after)
    with Target("cuda"):
        assert_structural_equal(apply(after, DefaultGPUSchedule()), after)
    with Target("llvm"):
        assert_structural_equal(apply(func, DefaultGPUSchedule()), func)


def test_a_reduction_to_one_number_gets_one_thread():
    @T.prim_func
    def func(A: T.Buffer((9,), "float32"), B: T.Buffer((1,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for k in range(9):
            with T.block("sum"):
                v = T.axis.reduce(9, k)
                with T.init():
                    B[0] = T.float32(0)
                B[0] = B[0] + A[v]

    with Target("cuda"):
        after = apply(func, DefaultGPUSchedule())
    same(func, after)
    assert np.isfinite(outputs(after, arrays_for(func))[1]).all()
