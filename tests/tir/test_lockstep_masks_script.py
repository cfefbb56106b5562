"""Vectors under a predicate and barriers in shared memory: in lockstep as thread by thread."""

import numpy as np
import pytest

from tests.codegen.gpu_instructions_script import barriers, bulk_copies
from tilesmith.lowering.gpu_checks import run_checks
from tilesmith.script import tir as T
from tilesmith.support.errors import ExecutionError, OutOfBoundsError
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.interpreter.lockstep import run_kernels


@T.prim_func
def tail(A: T.Buffer((50,), "float32"), B: T.Buffer((50,), "float32")):
    tx = T.launch_thread("threadIdx.x", 16)
    S = T.decl_buffer((64,), scope="shared")
    x = T.decl_buffer((4,), scope="local")
    mask = T.get_active_lane_mask("uint1x4", tx * 4, 50)
    x[T.Ramp(0, 1, 4)] = A.vload([T.Ramp(tx * 4, 1, 4)], predicate=mask)
    S[T.Ramp(tx * 4, 1, 4)] = x[T.Ramp(0, 1, 4)] * T.Broadcast(T.float32(2), 4)
    T.tvm_storage_sync("shared")
    B.vstore([T.Ramp(tx * 4, 1, 4)], S[T.Ramp(60 - tx * 4, 1, 4)], predicate=mask)


@T.prim_func
def broadcast_value(A: T.Buffer((4,), "float32"), B: T.Buffer((8, 8), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    B.vstore(
        [tx, T.Ramp(0, 2, 4)],
        A.vload([T.Ramp(3, -1, 4)], predicate=T.Broadcast(T.bool(True), 4)),
        predicate=T.Ramp(0, 1, 4) < T.Broadcast(tx, 4),
    )


@T.prim_func
def in_a_branch(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    tx = T.launch_thread("threadIdx.x", 16)
    if tx % 3 == 1:
        B.vstore(
            [T.Ramp(0, 16, 4) + T.Broadcast(tx, 4)],
            A[T.Ramp(tx * 4, 1, 4)] + T.Broadcast(tx, 4),
            predicate=T.Ramp(tx, 1, 4) < T.Broadcast(12, 4),
        )


@T.prim_func
def in_background(A: T.Buffer((50,), "float32"), B: T.Buffer((50,), "float32")):
    tx = T.launch_thread("threadIdx.x", 16)
    S = T.decl_buffer((64,), scope="shared")
    mask = T.get_active_lane_mask("uint1x4", tx * 4, 50)
    with T.attr(0, "async_commit_queue_scope", 0):
        T.attr(0, "async_scope", 1)
        S.vstore(
            [T.Ramp(tx * 4, 1, 4)],
            A.vload([T.Ramp(tx * 4, 1, 4)], predicate=mask),
            predicate=mask,
        )
    with T.attr(0, "async_wait_queue_scope", 0):
        T.attr(0, "async_wait_inflight_count", 0)
        B.vstore(
            [T.Ramp(tx * 4, 1, 4)],
            S.vload([T.Ramp(tx * 4, 1, 4)], predicate=mask),
            predicate=mask,
        )


@T.prim_func
def mask_too_wide(A: T.Buffer((50,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 16)
    mask = T.get_active_lane_mask("uint1x4", tx * 4, 52)
    B[T.Ramp(tx * 4, 1, 4)] = A.vload([T.Ramp(tx * 4, 1, 4)], predicate=mask)


@T.prim_func
def store_mask_too_wide(A: T.Buffer((64,), "float32"), B: T.Buffer((50,), "float32")):
    tx = T.launch_thread("threadIdx.x", 16)
    mask = T.get_active_lane_mask("uint1x4", tx * 4, 51)
    B.vstore([T.Ramp(tx * 4, 1, 4)], A[T.Ramp(tx * 4, 1, 4)], predicate=mask)


@T.prim_func
def masked_race(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 16)
    S = T.decl_buffer((64,), scope="shared")
    S[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
    B.vstore(
        [T.Ramp(tx * 4, 1, 4)],
        S.vload([T.Ramp(60 - tx * 4, 1, 4)], predicate=T.get_active_lane_mask("uint1x4", tx, 7)),
        predicate=T.get_active_lane_mask("uint1x4", tx, 9),
    )


@T.prim_func
def masked_lanes_meet(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 16)
    S = T.decl_buffer((68,), scope="shared")
    S.vstore(
        [T.Ramp(tx * 4, 1, 8)],
        T.Broadcast(A[tx], 8),
        predicate=T.get_active_lane_mask("uint1x8", 0, 5),
    )
    T.tvm_storage_sync("shared")
    B[tx] = S[tx * 4]


@T.prim_func
def masked_undefined(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 16)
    S = T.decl_buffer((64,), scope="shared")
    mask = T.get_active_lane_mask("uint1x4", tx * 4, 50)
    S.vstore([T.Ramp(tx * 4, 1, 4)], A[T.Ramp(tx * 4, 1, 4)], predicate=mask)
    T.tvm_storage_sync("shared")
    B.vstore(
        [T.Ramp(tx * 4, 1, 4)],
        S.vload([T.Ramp(tx * 4, 1, 4)], predicate=T.get_active_lane_mask("uint1x4", tx * 4, 51)),
        predicate=mask,
    )


@T.prim_func
def too_few_arrive(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    T.create_barriers(1)
    if tx == 0:
        T.ptx_init_barrier_thread_count(0, 64)
    T.tvm_storage_sync("shared")
    if tx < 63:
        T.ptx_arrive_barrier(0)
    T.ptx_wait_barrier(0)
    B[tx] = A[tx]


@T.prim_func
def never_set_up(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    T.create_barriers(2)
    if tx == 0:
        T.ptx_init_barrier_thread_count(0, 64)
    T.tvm_storage_sync("shared")
    T.ptx_arrive_barrier(1)
    B[tx] = A[tx]


@T.prim_func
def read_before_the_wait(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.decl_buffer((64,), scope="shared")
    T.create_barriers(1)
    if tx == 0:
        T.ptx_init_barrier_thread_count(0, 64)
    T.tvm_storage_sync("shared")
    T.ptx_cp_async("float32", S.data, tx, A.data, tx, 4)
    T.ptx_cp_async_barrier(0)
    T.ptx_arrive_barrier(0)
    B[tx] = S[tx] + T.float32(1)
    T.ptx_wait_barrier(0)


@T.prim_func
def overwritten_too_early(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.decl_buffer((64,), scope="shared")
    T.create_barriers(1)
    if tx == 0:
        T.ptx_init_barrier_thread_count(0, 64)
    T.tvm_storage_sync("shared")
    for turn in range(2):
        T.ptx_cp_async("float32", S.data, tx, A.data, turn * 64 + tx, 4)
        T.ptx_cp_async_barrier(0)
        T.ptx_arrive_barrier(0)
        T.ptx_wait_barrier(0)
        B[turn * 64 + tx] = S[63 - tx] + T.float32(1)


@T.prim_func
def only_the_others_wait(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.decl_buffer((64,), scope="shared")
    T.create_barriers(1)
    if tx == 0:
        T.ptx_init_barrier_thread_count(0, 32)
    T.tvm_storage_sync("shared")
    if tx < 32:
        for i in range(2):
            T.ptx_cp_async("float32", S.data, tx * 2 + i, A.data, tx * 2 + i, 4)
        T.ptx_cp_async_barrier(0)
        T.ptx_arrive_barrier(0)
    else:
        T.ptx_wait_barrier(0)
        for i in range(2):
            B[(tx - 32) * 2 + i] = S[(63 - tx) * 2 + i]


CORRECT = [tail, broadcast_value, in_a_branch, in_background, barriers(), bulk_copies(),
           only_the_others_wait]  # fmt: skip
FAULTS = [
    (mask_too_wide, "out of bounds", "A.vload("),
    (store_mask_too_wide, "out of bounds", "B.vstore("),
    (masked_race, "race", "B.vstore("),
    (masked_lanes_meet, "race", "S.vstore("),
    (masked_undefined, "undefined read", "B.vstore("),
    (too_few_arrive, "endless wait", "T.ptx_wait_barrier(0)"),
    (never_set_up, "endless wait", "T.ptx_arrive_barrier(1)"),
    (read_before_the_wait, "missing wait", "B[tx] = S[tx]"),
    (overwritten_too_early, "race", "T.ptx_cp_async("),
]
MESSAGES = {
    "out of bounds": "out of bounds|outside", "race": "race", "endless wait": "barrier",
    "undefined read": "never written", "missing wait": "never written",
}  # fmt: skip
CHECKED = Options(check_races=True, check_undefined=True)


def arrays_of(func):
    shapes = [tuple(int(size) for size in one.shape) for one in func.buffer_map.values()]
    kinds = [str(one.dtype) for one in func.buffer_map.values()]
    first, *others = [
        np.arange(1, np.prod(shape) + 1, dtype=kind).reshape(shape)
        for shape, kind in zip(shapes, kinds)
    ]
    return [first, *[np.zeros_like(one) for one in others]]


@pytest.mark.parametrize("func", CORRECT)
def test_both_ways_give_the_same(func):
    results = arrays_of(func), arrays_of(func), arrays_of(func)
    assert run_kernels(func, results[0]).findings == ()
    run(func, *results[1], options=CHECKED)
    run(func, *results[2])
    for one, other, plain in zip(*results):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, plain)
    assert results[0][1].any()


@pytest.mark.parametrize(
    "func, kind, line", FAULTS, ids=[one[0].attrs["global_symbol"] for one in FAULTS]
)
def test_both_ways_find_the_same(func, kind, line):
    result, notes = run_checks(func, "main", arrays_of(func))
    assert notes == []  # nothing was left to the threads one by one
    assert {one.kind for one in result.findings} == {kind}
    shown = [str(one.span) for one in result.findings]
    shown += [str(one.other.span) for one in result.findings if one.other is not None]
    assert any(line in text for text in shown), shown
    with pytest.raises((ExecutionError, OutOfBoundsError), match=MESSAGES[kind]):
        run(func, *arrays_of(func), options=CHECKED)
