"""DelayWarpgroupWaits; and places of threads that ThreadSync compares one by one."""

import pytest

from tests.tir.transform.harness import apply
from tilesmith.script import tir as T
from tilesmith.tir.transform import DelayWarpgroupWaits, ThreadSync


@T.prim_func
def waits_then_copies(A: T.Buffer((256,), "float16")):
    S = T.decl_buffer((256,), "float16", scope="shared.dyn")
    T.ptx_wgmma_commit_group()
    T.ptx_wgmma_wait_group(0)
    for i in range(4):
        T.ptx_cp_async("float16", S.data, i * 8, A.data, i * 8, 16)
    T.ptx_commit_group()
    T.ptx_wait_group(1)


@T.prim_func
def waits_then_barrier(A: T.Buffer((256,), "float16")):
    S = T.decl_buffer((256,), "float16", scope="shared.dyn")
    T.ptx_wgmma_commit_group()
    T.ptx_wgmma_wait_group(0)
    T.tvm_storage_sync("shared")
    T.ptx_cp_async("float16", S.data, 0, A.data, 0, 16)


@T.prim_func
def waits_in_an_attribute(A: T.Buffer((256,), "float16")):
    S = T.decl_buffer((256,), "float16", scope="shared.dyn")
    with T.attr(0, "async_wait_queue_scope", 0):
        T.attr(0, "async_wait_inflight_count", 1)
        T.ptx_wgmma_commit_group()
        T.ptx_wgmma_wait_group(0)
    with T.attr(0, "async_commit_queue_scope", 0):
        T.ptx_cp_async("float16", S.data, 0, A.data, 0, 16)


@T.prim_func
def waits_then_store(A: T.Buffer((256,), "float16")):
    c = T.decl_buffer((8,), "float16", scope="local")
    T.ptx_wgmma_wait_group(0)
    A[0] = c[0]


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (waits_then_copies, ["commit", "copy", "commit", "wgmma_wait", "ptx_wait_group"]),
        (waits_then_barrier, ["commit", "wgmma_wait", "sync", "copy"]),
        (waits_in_an_attribute, ["commit", "copy", "wgmma_wait"]),
        (waits_then_store, ["wgmma_wait", "store"]),
    ],
)
def test_order(func, expected):
    shown = {
        "wgmma_wait_group": "wgmma_wait", "ptx_wait_group": "ptx_wait_group", "cp_async": "copy",
        "commit_group": "commit", "storage_sync": "sync", "A[0]": "store",
    }  # fmt: skip
    lines = apply(func, DelayWarpgroupWaits()).script().splitlines()
    found = [next((word for key, word in shown.items() if key in line), None) for line in lines]
    assert [word for word in found if word is not None] == expected


def permuted(distance):
    """Each thread stores eight elements of a permuted row, then the next ``distance`` rows."""

    @T.prim_func
    def main(A: T.Buffer((4096,), "float16")):
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.decl_buffer((4096,), "float16", scope="shared")
        for i in range(4):
            row = T.meta_var(i * distance + tx // 8)
            S[T.Ramp(row * 64 + T.bitwise_xor(tx % 8, row % 8) * 8, 1, 8)] = A[T.Ramp(tx * 8, 1, 8)]

    return main


@pytest.mark.parametrize(("distance", "barriers"), [(8, 0), (7, 1)])
def test_permuted_rows(distance, barriers):
    """Rows that only one thread writes need no barrier from one iteration to the next."""
    after = apply(permuted(distance), ThreadSync("shared")).script()
    assert after.count("tvm_storage_sync") == barriers
