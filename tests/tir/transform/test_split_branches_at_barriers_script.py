"""SplitBranchesAtBarriers: barriers of branches that all threads take stand outside of them."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply
from tilesmith.ir import assert_structural_equal
from tilesmith.lowering.pipelines import device_passes
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir.interpreter.lockstep import run_kernels
from tilesmith.tir.transform import SplitBranchesAtBarriers


@T.prim_func
def branch(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    S = T.decl_buffer((8,), scope="shared")
    if n > 4:
        if n > 5:
            S[tx] = A[tx]
            T.tvm_storage_sync("shared")
        B[tx] = S[7 - tx]
    else:
        T.tvm_storage_sync("shared")
        B[tx] = A[tx]


@T.prim_func
def branch_split(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    S = T.decl_buffer((8,), scope="shared")
    if n > 4:
        if n > 5:
            S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    if n > 4:
        B[tx] = S[7 - tx]
    T.tvm_storage_sync("shared")
    if not n > 4:
        B[tx] = A[tx]


@T.prim_func
def wait(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    S = T.decl_buffer((8,), scope="shared")
    S[tx] = A[tx]
    if n > 4:
        with T.attr(0, "async_wait_queue_scope", 0):
            T.attr(0, "async_wait_inflight_count", 0)
            T.tvm_storage_sync("shared")
            B[tx] = S[7 - tx]


@T.prim_func
def wait_split(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    S = T.decl_buffer((8,), scope="shared")
    S[tx] = A[tx]
    with T.attr(0, "async_wait_queue_scope", 0):
        T.attr(0, "async_wait_inflight_count", 0)
        T.tvm_storage_sync("shared")
    if n > 4:
        B[tx] = S[7 - tx]


@T.prim_func
def reads_memory(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    if A[0] > T.float32(n):
        T.tvm_storage_sync("shared")
        B[tx] = A[tx]


@T.prim_func
def of_a_warp(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    if tx < n:
        T.tvm_storage_sync("warp")
        B[tx] = A[tx]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (branch, branch_split), (wait, wait_split), (reads_memory, reads_memory),
        (of_a_warp, of_a_warp),
    ],
)  # fmt: skip
def test_split(before, after):
    found = apply(before, SplitBranchesAtBarriers())
    assert_structural_equal(found.body, after.body, map_free_vars=True)
    for n in (3, 5, 6):
        results = []
        for func in (before, found):
            given = [np.arange(8, dtype="float32"), np.zeros(8, "float32"), n]
            run_kernels(func, given)
            results.append(given[1])
        np.testing.assert_array_equal(*results)


def test_it_is_for_opencl_alone():
    for kind, expected in (("opencl", True), ("cuda", False), ("nvptx", False)):
        names = [one.info.name for one in device_passes(Target(kind, host="llvm"))]
        assert ("tir.SplitBranchesAtBarriers" in names) is expected
