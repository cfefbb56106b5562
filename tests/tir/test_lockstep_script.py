"""Kernels in lockstep: planted faults are found, correct kernels have none and compute the same."""

import numpy as np
import pytest

from tilesmith.script import tir as T
from tilesmith.support.errors import ExecutionError, OutOfBoundsError, UnsupportedError
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.interpreter.lockstep import LockstepOptions, Observer, run_kernels
from tilesmith.tir.interpreter.lockstep.counters import KernelCounters, bank_cost, sector_cost


@T.prim_func
def reverse(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((64,), scope="shared")
    S[tx] = A[bx, tx]
    T.tvm_storage_sync("shared")
    B[bx, tx] = S[63 - tx]


@T.prim_func
def no_barrier(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((64,), scope="shared")
    S[tx] = A[tx]
    B[tx] = S[63 - tx]


@T.prim_func
def no_barrier_behind(A: T.Buffer((2, 64), "float32"), B: T.Buffer((2, 64), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((64,), scope="shared")
    for i in range(2):
        S[tx] = A[i, tx]
        T.tvm_storage_sync("shared")
        B[i, tx] = S[63 - tx]


@T.prim_func
def blocks_meet(A: T.Buffer((64,), "float32")):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    A[bx * 32 + tx] = A[(bx * 32 + tx + 32) % 64]


@T.prim_func
def blocks_write_one_place(A: T.Buffer((1,), "int32")):
    bx = T.launch_thread("blockIdx.x", 2)
    A[0] = bx


@T.prim_func
def blocks_read_later(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    B[bx * 32 + tx] = A[63 - bx * 32 - tx]
    T.tvm_storage_sync("shared")
    A[bx * 32 + tx] = T.float32(0)


@T.prim_func
def barrier_in_a_branch(A: T.Buffer((64,), "int32")):
    tx = T.launch_thread("threadIdx.x", 64)
    if tx < 40:
        T.tvm_storage_sync("shared")
    A[tx] = 1


@T.prim_func
def barrier_in_uneven_loops(A: T.Buffer((4,), "int32")):
    tx = T.launch_thread("threadIdx.x", 4)
    for i in range(tx):
        T.tvm_storage_sync("shared")
        A[tx] = i


@T.prim_func
def tail_without_guard(A: T.Buffer((50,), "float32"), B: T.Buffer((50,), "float32")):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    B[bx * 32 + tx] = A[bx * 32 + tx]


@T.prim_func
def never_written(A: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((64,), scope="shared")
    if tx < 63:
        S[tx] = T.float32(1)
    T.tvm_storage_sync("shared")
    A[tx] = S[tx] + T.float32(1)


@T.prim_func
def register_never_written(A: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    x = T.alloc_buffer((2,), scope="local")
    x[0] = A[tx]
    A[tx] = x[0] + x[1]


@T.prim_func
def no_wait(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.allocate([32], "float32", "shared")
    T.evaluate(T.ptx_cp_async("float32", S, tx, A.data, tx, 4))
    T.evaluate(T.ptx_commit_group(dtype=""))
    s = T.decl_buffer((32,), data=S)
    B[tx] = s[tx] + T.float32(1)


@T.prim_func
def wait_without_barrier(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.allocate([32], "float32", "shared")
    T.evaluate(T.ptx_cp_async("float32", S, tx, A.data, tx, 4))
    T.evaluate(T.ptx_commit_group(dtype=""))
    T.evaluate(T.ptx_wait_group(0, dtype=""))
    s = T.decl_buffer((32,), data=S)
    B[tx] = s[31 - tx] + T.float32(1)


@T.prim_func
def copies_of_one_place_differ(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((4,), scope="shared")
    with T.attr(0, "async_commit_queue_scope", 0):
        with T.attr(0, "async_scope", 1):
            S[tx % 4] = A[tx]
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 0):
            T.tvm_storage_sync("shared")
            B[tx] = S[3 - tx % 4]


@T.prim_func
def stores_what_a_copy_replaces(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((32,), scope="shared")
    S[tx] = T.float32(3)
    T.tvm_storage_sync("shared")
    T.ptx_cp_async("float32", S.data, tx, A.data, tx, 4)
    T.ptx_commit_group()
    S[31 - tx] = T.float32(3)
    T.ptx_wait_group(0)
    T.tvm_storage_sync("shared")
    B[tx] = S[tx]


@T.prim_func
def small_mask(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    B[tx] = T.tvm_warp_shuffle_down(T.uint32(255), A[tx], 4, 32, 32)


@T.prim_func
def shuffle_in_a_branch(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    if tx < 16:
        B[tx] = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), A[tx], 20, 32, 32)


@T.prim_func
def counts_before_the_barrier(A: T.Buffer((64,), "int32"), B: T.Buffer((8,), "int32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((8,), "int32", scope="shared")
    if tx < 8:
        S[tx] = 0
    T.evaluate(T.call_intrin("int32", "tir.atomic_add", T.address_of(S[A[tx] % 8]), 1))
    T.tvm_storage_sync("shared")
    if tx < 8:
        B[tx] = S[tx]


@T.prim_func
def reads_while_others_count(A: T.Buffer((64,), "int32"), B: T.Buffer((8,), "int32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((8,), "int32", scope="shared")
    if tx < 8:
        S[tx] = 0
    T.tvm_storage_sync("shared")
    T.evaluate(T.call_intrin("int32", "tir.atomic_add", T.address_of(S[A[tx] % 8]), 1))
    if tx < 8:
        B[tx] = S[tx]


@T.prim_func
def counts_from_nothing(A: T.Buffer((64,), "int32"), B: T.Buffer((8,), "int32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((8,), "int32", scope="shared")
    T.evaluate(T.call_intrin("int32", "tir.atomic_add", T.address_of(S[A[tx] % 8]), 1))
    T.tvm_storage_sync("shared")
    if tx < 8:
        B[tx] = S[tx]


@T.prim_func
def blocks_count_and_read(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")):
    bx = T.launch_thread("blockIdx.x", 2)
    T.evaluate(T.call_intrin("int32", "tir.atomic_add", T.address_of(A[0]), 1))
    B[bx] = A[0]


FAULTS = [
    (no_barrier, "race", "S[tx] = A[tx]"),
    (no_barrier_behind, "race", "S[tx] = A[i, tx]"),
    (blocks_meet, "race across blocks", "A[bx * 32 + tx] ="),
    (blocks_write_one_place, "race across blocks", "A[0] = bx"),
    (blocks_read_later, "race across blocks", "A[bx * 32 + tx] = T.float32(0)"),
    (barrier_in_a_branch, "divergent barrier", "T.tvm_storage_sync"),
    (barrier_in_uneven_loops, "divergent barrier", "T.tvm_storage_sync"),
    (tail_without_guard, "out of bounds", "B[bx * 32 + tx] = A"),
    (never_written, "undefined read", "A[tx] = S[tx]"),
    (register_never_written, "undefined read", "A[tx] = x[0]"),
    (no_wait, "missing wait", "B[tx] = s[tx]"),
    (wait_without_barrier, "race", "B[tx] = s[31 - tx]"),
    (copies_of_one_place_differ, "race", "S[tx % 4] = A[tx]"),
    (stores_what_a_copy_replaces, "race", "S[31 - tx] ="),
    (small_mask, "shuffle mask", "T.tvm_warp_shuffle_down"),
    (shuffle_in_a_branch, "shuffle mask", "T.tvm_warp_shuffle("),
    (counts_before_the_barrier, "race", "S[tx] = 0"),
    (reads_while_others_count, "race", "B[tx] = S[tx]"),
    (counts_from_nothing, "undefined read", "atomic_add"),
    (blocks_count_and_read, "race across blocks", "B[bx] = A[0]"),
]


def arrays_of(func):
    return [
        np.arange(np.prod([int(s) for s in b.shape])).reshape([int(s) for s in b.shape])
        .astype(str(b.dtype)) for b in func.buffer_map.values()
    ]  # fmt: skip


@pytest.mark.parametrize(
    "func, kind, line", FAULTS, ids=[one[0].attrs["global_symbol"] for one in FAULTS]
)
def test_planted_faults_are_found_with_the_users_line(func, kind, line):
    found = run_kernels(func, arrays_of(func)).findings
    kinds = {one.kind for one in found}
    assert kinds == {kind}
    shown = [str(one.span) for one in found]
    # A race is between two lines: the one that is found second is named first.
    shown += [str(one.other.span) for one in found if one.other is not None]
    assert any(line in text for text in shown), shown
    assert all(one.advice and one.kernel.endswith("_kernel") for one in found)


@pytest.mark.parametrize("func, kind", [(f, k) for f, k, _ in FAULTS[:1] + FAULTS[5:8]])
def test_the_first_finding_is_raised_as_a_typed_error(func, kind):
    wanted = OutOfBoundsError if kind == "out of bounds" else ExecutionError
    with pytest.raises(wanted, match=kind) as caught:
        run_kernels(func, arrays_of(func), LockstepOptions(raise_first=True))
    assert "in the kernel" in str(caught.value) and "test_lockstep_script.py" in str(caught.value)


ATOMIC_FAULTS = [(func, kind) for func, kind, _ in FAULTS if "atomic_add" in func.script()]


@pytest.mark.parametrize(
    "func, kind", ATOMIC_FAULTS, ids=[one[0].attrs["global_symbol"] for one in ATOMIC_FAULTS]
)
def test_atomic_operations_thread_by_thread(func, kind):
    wanted = "never written" if kind == "undefined read" else "race: .*adds to"
    with pytest.raises(ExecutionError, match=wanted) as caught:
        run(func, *arrays_of(func), options=Options(check_races=True, check_undefined=True))
    assert "test_lockstep_script.py" in str(caught.value)


def test_a_race_names_both_threads():
    (found,) = run_kernels(no_barrier, arrays_of(no_barrier)).findings
    assert "threadIdx=(0, 0, 0)" in found.message and "threadIdx=(63, 0, 0)" in found.message
    assert "reads S[63] (shared)" in found.message


def test_a_race_across_blocks_names_the_block():
    (found,) = run_kernels(blocks_write_one_place, arrays_of(blocks_write_one_place)).findings
    assert "blockIdx=(1, 0, 0)" in found.message and "the block (0, 0, 0)" in found.message


@T.prim_func
def warps_wait(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((64,), scope="shared")
    S[tx] = A[tx]
    T.tvm_storage_sync("warp")
    B[tx] = S[T.bitwise_xor(tx, 5)]


@T.prim_func
def guarded_tail(A: T.Buffer((50,), "float32"), B: T.Buffer((50,), "float32")):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    if bx * 32 + tx < 50:
        B[bx * 32 + tx] = T.if_then_else(tx > 3, A[bx * 32 + tx - 4], T.float32(0)) * T.float32(2)


@T.prim_func
def sum_by_shuffles(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4,), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 32)
    x = T.alloc_buffer((1,), scope="local")
    x[0] = A[bx, tx]
    for step in range(5):
        x[0] = x[0] + T.tvm_warp_shuffle_down(
            T.uint32(0xFFFFFFFF), x[0], T.shift_right(16, step), 32, 32
        )
    if tx == 0:
        B[bx] = x[0]


@T.prim_func
def atomics(A: T.Buffer((64,), "int32"), B: T.Buffer((4,), "int32")):
    tx = T.launch_thread("threadIdx.x", 64)
    T.evaluate(T.call_intrin("int32", "tir.atomic_add", T.address_of(B[A[tx] % 4]), 1))


@T.prim_func
def waits_for_copies(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.allocate([64], "float32", "shared")
    s = T.decl_buffer((64,), data=S)
    T.evaluate(T.ptx_cp_async("float32", S, tx, A.data, tx, 4))
    T.evaluate(T.ptx_commit_group(dtype=""))
    for i in range(4):
        T.tvm_storage_sync("shared")
        if i < 3:
            T.evaluate(
                T.ptx_cp_async("float32", S, (i + 1) % 2 * 32 + tx, A.data, (i + 1) * 32 + tx, 4)
            )
        T.evaluate(T.ptx_commit_group(dtype=""))
        T.evaluate(T.ptx_wait_group(1, dtype=""))
        T.tvm_storage_sync("shared")
        B[i, tx] = s[i % 2 * 32 + 31 - tx]


@T.prim_func
def threads_copy_one_place(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((4,), scope="shared")
    with T.attr(0, "async_commit_queue_scope", 0):
        with T.attr(0, "async_scope", 1):
            S[tx % 4] = A[tx % 4]
    with T.attr(0, "async_wait_queue_scope", 0):
        with T.attr(0, "async_wait_inflight_count", 0):
            T.tvm_storage_sync("shared")
    T.ptx_cp_async("float32", S.data, tx % 4, A.data, tx % 4, 4)
    T.ptx_commit_group()
    T.ptx_wait_group(0)
    T.tvm_storage_sync("shared")
    B[tx] = S[3 - tx % 4]


@T.prim_func
def odd_types(
    A: T.Buffer((32,), "float16"), B: T.Buffer((32,), "int8"), C: T.Buffer((32,), "int32")
):
    tx = T.launch_thread("threadIdx.x", 32)
    v: T.int32 = T.Cast("int32", A[tx]) - 7
    C[tx] = T.truncdiv(v, 3) * 100 + T.floormod(v, 4) + T.Cast("int32", T.max(B[tx], T.int8(4)))
    for i in range(tx % 3):
        C[tx] = C[tx] + i * v
    while C[tx] > 1000:
        C[tx] = C[tx] - 100


@T.prim_func
def vectors(A: T.Buffer((32, 4), "float32"), B: T.Buffer((128,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    x = T.alloc_buffer((4,), scope="local")
    x[T.Ramp(0, 1, 4)] = A[tx, T.Ramp(0, 1, 4)] * T.Broadcast(T.Cast("float32", tx), 4)
    B[T.Ramp(tx * 4, 1, 4)] = x[T.Ramp(0, 1, 4)] + T.Broadcast(T.float32(1), 4)


@T.prim_func
def histogram(A: T.Buffer((64,), "int32"), B: T.Buffer((8,), "int32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((8,), "int32", scope="shared")
    if tx < 8:
        S[tx] = 0
    T.tvm_storage_sync("shared")
    T.evaluate(T.call_intrin("int32", "tir.atomic_add", T.address_of(S[A[tx] % 8]), 1))
    T.tvm_storage_sync("shared")
    if tx < 8:
        B[tx] = S[tx]


CORRECT = [reverse, histogram, warps_wait, guarded_tail, sum_by_shuffles, atomics, waits_for_copies,
           threads_copy_one_place, odd_types, vectors]  # fmt: skip


@pytest.mark.parametrize("func", CORRECT, ids=[one.attrs["global_symbol"] for one in CORRECT])
def test_correct_kernels_have_no_findings_and_compute_what_the_interpreter_computes(func):
    ours, theirs = arrays_of(func), arrays_of(func)
    result = run_kernels(func, ours)
    assert result.findings == () and result.cut == ()
    run(func, *theirs, options=Options(check_races=True, check_undefined=True))
    for one, other in zip(ours, theirs):
        np.testing.assert_array_equal(one, other)


def test_what_has_no_rule_is_refused():
    @T.prim_func
    def grid(A: T.Buffer((2,), "int32")):
        bx = T.launch_thread("blockIdx.x", 2)
        T.tvm_storage_sync("global")
        A[bx] = 1

    with pytest.raises(UnsupportedError, match="no barrier of the grid"):
        run_kernels(grid, arrays_of(grid))


# What accesses cost, by hand.

LANES = np.arange(32)


@pytest.mark.parametrize(
    "addresses, nbytes, wavefronts, ideal, degree",
    [
        (LANES * 4, 4, 1, 1, 1),
        (LANES * 128, 4, 32, 1, 32),  # a column of rows of 32 words: one bank
        (LANES * 132, 4, 1, 1, 1),  # rows padded by one word
        (LANES * 8, 4, 2, 1, 2),
        (LANES * 0, 4, 1, 1, 1),  # all read one word
        (LANES // 2 * 128, 4, 16, 1, 16),  # pairs read one word
        (LANES, 1, 1, 1, 1),
        (LANES * 2, 2, 1, 1, 1),
        (LANES * 8, 8, 2, 2, 1),  # two half warps
        (LANES * 16, 16, 4, 4, 1),  # four quarter warps
        (LANES * 32, 16, 8, 4, 2),
        (LANES * 128, 16, 32, 4, 8),
    ],
)
def test_banks(addresses, nbytes, wavefronts, ideal, degree):
    assert bank_cost(LANES, addresses, nbytes) == (1, wavefronts, ideal, degree)


@pytest.mark.parametrize(
    "addresses, nbytes, sectors, ideal, useful",
    [
        (LANES * 4, 4, 4, 4, 128),
        (LANES * 4 + 4, 4, 5, 4, 128),  # begins within a sector
        (LANES * 32, 4, 32, 4, 128),
        (LANES * 4096, 4, 32, 4, 128),
        (LANES * 0, 4, 1, 1, 4),
        (LANES * 16, 16, 16, 16, 512),
        (LANES * 2, 2, 2, 2, 64),
        (LANES // 8 * 4096, 4, 4, 1, 16),
    ],
)
def test_sectors(addresses, nbytes, sectors, ideal, useful):
    assert sector_cost(LANES, addresses, nbytes) == (1, sectors, ideal, useful)


def test_warps_are_served_apart():
    threads = np.arange(64)
    assert sector_cost(threads, threads * 0, 4) == (2, 2, 2, 8)
    assert bank_cost(threads, threads * 128, 4) == (2, 64, 2, 32)


# Observers, blocks, loops that are cut.


class Recorder(Observer):
    def __init__(self):
        self.seen = []
        self.blocks = []

    def accessed(self, access):
        self.seen.append(access)

    def block_started(self, block):
        self.blocks.append(block)


def test_observers_see_accesses_by_thread():
    recorder = Recorder()
    run_kernels(reverse, arrays_of(reverse), observers=[recorder])
    assert recorder.blocks == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]
    kinds = [(one.site.name, one.space, one.writes, one.nbytes) for one in recorder.seen[:4]]
    assert kinds == [
        ("A", "global", False, 4), ("S", "shared", True, 4), ("S", "shared", False, 4),
        ("B", "global", True, 4),
    ]  # fmt: skip
    np.testing.assert_array_equal(recorder.seen[2].addresses, 4 * (63 - np.arange(64)))
    assert recorder.seen[4].addresses[0] == 256


@T.prim_func
def many(A: T.Buffer((1000, 32), "float32"), B: T.Buffer((1000, 32), "float32")):
    bx = T.launch_thread("blockIdx.x", 1000)
    tx = T.launch_thread("threadIdx.x", 32)
    for i in range(64):
        B[bx, tx] = A[bx, tx] + T.Cast("float32", i)


def test_of_a_large_grid_some_blocks_are_run_and_long_loops_are_cut():
    counters = KernelCounters()
    options = LockstepOptions(blocks=4, statements=20)
    result = run_kernels(many, arrays_of(many), options, [counters])
    (launch,) = result.launches
    assert launch.grid == (1000, 1, 1) and launch.blocks_run[0] == (0, 0, 0)
    assert launch.blocks_run[-1] == (999, 0, 0) and len(launch.blocks_run) == 4
    assert result.cut == ("many_kernel",) and result.findings == ()
    (kernel,) = counters.kernels
    assert {one.instructions for one in kernel.accesses.values()} == {4 * 64.0}
    assert kernel.operations == {"float32": 4 * 64 * 32.0}


def test_branches_that_split_warps_are_counted():
    @T.prim_func
    def func(A: T.Buffer((64,), "int32")):
        tx = T.launch_thread("threadIdx.x", 64)
        if tx < 48:
            A[tx] = 1
        if tx < 32:
            A[tx] = 2

    counters = KernelCounters()
    run_kernels(func, arrays_of(func), observers=[counters])
    split = [(one.warps, one.divergent) for one in counters.kernels[0].branches.values()]
    assert split == [(2, 1), (2, 0)]


def test_loads_that_stay_in_registers_are_told_apart():
    @T.prim_func
    def func(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        tx = T.launch_thread("threadIdx.x", 32)
        for _ in range(8):
            B[tx] = A[tx] + T.float32(1)
        T.tvm_storage_sync("shared")
        B[tx] = A[tx]

    counters = KernelCounters()
    run_kernels(func, arrays_of(func), observers=[counters])
    loads = [one for one in counters.kernels[0].accesses.values() if one.site.kind == "read"]
    assert [(one.transactions, one.needed) for one in loads] == [(32, 4), (4, 4)]
