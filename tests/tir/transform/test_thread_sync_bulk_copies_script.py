"""ThreadSync leaves bulk copies, and only those, to the barriers in shared memory."""

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.gpu_products import on_threads
from tests.codegen.gpu_tensor_copies_script import product_by_tensor_maps
from tests.tir.warp_roles_script import arrays_of_tiles, by_tensor_maps, in_one_loop
from tilesmith.ir import IRModule
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir.interpreter import run
from tilesmith.tir.interpreter.lockstep import run_kernels

BARRIER = 'T.tvm_storage_sync("shared")'


def synchronised(func):
    module = IRModule({"main": func.with_attr("target", Target("cuda -arch=sm_90a"))})
    return ts.tir.transform.ThreadSync("shared")(module)["main"]


@pytest.mark.parametrize(("make", "turns"), [
    (lambda: in_one_loop(4, lag=0), 4), (lambda: in_one_loop(5, lag=2), 5),
    (lambda: by_tensor_maps(2, 5), 5), (lambda: by_tensor_maps(3, 7, warps=4), 7),
])  # fmt: skip
def test_nothing_is_added_to_roles_and_they_end(make, turns):
    """A barrier of the block in their loops would wait for threads that are turns behind."""
    func = make()
    found = synchronised(func)
    assert found.script().count(BARRIER) == func.script().count(BARRIER) == 1
    arrays, expected = arrays_of_tiles(turns)
    run(found, *arrays)
    np.testing.assert_array_equal(arrays[-1], expected)


@pytest.mark.parametrize("make", [
    lambda: in_one_loop(5, lag=2), lambda: product_by_tensor_maps(64, 64, 256),
])  # fmt: skip
def test_the_source_of_a_copy_is_read_only(make):
    """The passes for global memory add no barrier: the first thread waits in its branch for others,
    which would wait at that barrier for the first thread.
    """
    func = make()
    found = on_threads(IRModule({"main": func}), "cuda -arch=sm_90a")["main"]
    assert found.script().count(BARRIER) == func.script().count(BARRIER)


@pytest.mark.parametrize(("make", "turns"), [
    (lambda: in_one_loop(5, lag=2), 5), (lambda: by_tensor_maps(2, 5), 5),
])  # fmt: skip
def test_roles_end_behind_all_passes(make, turns):
    func = on_threads(IRModule({"main": make()}), "cuda -arch=sm_90a")["main"]
    arrays, expected = arrays_of_tiles(turns)
    assert run_kernels(func, arrays).findings == ()
    np.testing.assert_array_equal(arrays[-1], expected)


@T.prim_func
def one_stage(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.decl_buffer((64,), "float32", scope="shared")
    T.create_barriers(1)
    if tx == 0:
        T.ptx_init_barrier_thread_count(0, 1)
    T.tvm_storage_sync("shared")
    for turn in range(4):
        if tx == 0:
            T.ptx_arrive_barrier_expect_tx(0, 256)
            T.ptx_cp_async_bulk("float32", S.data, 0, A.data, turn * 64, 256, 0)
        T.ptx_wait_barrier(0)
        B[turn, tx] = S[63 - tx]


def test_a_copy_that_waits_for_nobody_has_a_barrier_before_it():
    """All have waited for the copy before they read; nobody says to the next one that they have
    read.
    """
    lines = [line.strip() for line in synchronised(one_stage).script().splitlines()]
    places = [number for number, line in enumerate(lines) if line == BARRIER]
    assert len(places) == 2 and lines[places[1] - 1] == "for turn in range(4):"
    arrays = [np.arange(256, dtype="float32").reshape(4, 64), np.zeros((4, 64), "float32")]
    run(synchronised(one_stage), *arrays)
    np.testing.assert_array_equal(arrays[1], arrays[0][:, ::-1])


def test_stores_are_ordered_by_barriers_of_the_block():
    """To wait for a copy says nothing about what other threads have stored."""

    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.decl_buffer((64,), "float32", scope="shared")
        R = T.decl_buffer((64,), "float32", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
        T.tvm_storage_sync("shared")
        R[tx] = A[tx]
        if tx == 0:
            T.ptx_arrive_barrier_expect_tx(0, 256)
            T.ptx_cp_async_bulk("float32", S.data, 0, A.data, 0, 256, 0)
        T.ptx_wait_barrier(0)
        B[tx] = S[tx] + R[63 - tx]

    lines = [line.strip() for line in synchronised(main).script().splitlines()]
    assert lines.count(BARRIER) == 2 and lines[-2] == BARRIER and lines[-1].startswith("B[tx] =")


def test_only_who_has_waited_needs_no_barrier():
    """The first thread waits for the copy; the others read what they may not see yet."""

    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.decl_buffer((64,), "float32", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
            T.ptx_arrive_barrier_expect_tx(0, 256)
            T.ptx_cp_async_bulk("float32", S.data, 0, A.data, 0, 256, 0)
            T.ptx_wait_barrier(0)
        B[tx] = S[tx]

    lines = [line.strip() for line in synchronised(main).script().splitlines()]
    assert lines.count(BARRIER) == 1 and lines[-2] == BARRIER
