"""Threads that cooperate, in the interpreter: barriers, exchanges, races, reductions, copies."""

import linecache
import re

import numpy as np
import pytest

from tilesmith import te
from tilesmith.ir import IRModule
from tilesmith.ir.queries import nodes
from tilesmith.lowering import schedule_to_module
from tilesmith.script import tir as T
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.stmt import AttrStmt
from tilesmith.tir.transform import LowerCrossThreadReduction

RACES = Options(check_races=True, check_undefined=True)


@T.prim_func
def reverse(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((32,), scope="shared")
    S[tx] = A[bx, tx]
    T.tvm_storage_sync("shared")
    B[bx, tx] = S[31 - tx]


@T.prim_func
def reverse_without_barrier(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.alloc_buffer((32,), scope="shared")
    S[tx] = A[bx, tx]
    B[bx, tx] = S[31 - tx]


@pytest.mark.parametrize("options", [Options(), RACES])
def test_shared_memory_and_barriers(options):
    a = np.random.rand(4, 32).astype("float32")
    b = np.zeros_like(a)
    run(reverse, a, b, options=options)
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_each_statement_ends_before_the_next_begins():
    a = np.random.rand(4, 32).astype("float32")
    b = np.zeros_like(a)
    run(reverse_without_barrier, a, b)
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_a_missing_barrier_is_a_race():
    a = np.random.rand(4, 32).astype("float32")
    with pytest.raises(ExecutionError, match=r"race: thread .*threadIdx.x=.* reads S\[\d+\]"):
        run(reverse_without_barrier, a, np.zeros_like(a), options=RACES)


def test_races_name_the_lines_of_both_accesses():
    a = np.random.rand(4, 32).astype("float32")
    with pytest.raises(ExecutionError) as caught:
        run(reverse_without_barrier, a, np.zeros_like(a), options=RACES)
    shown = str(caught.value)
    earlier = re.search(r"writes it, (.*):(\d+),", shown)
    assert earlier is not None and "B[bx, tx] = S[31 - tx]" in shown, shown
    line = linecache.getline(earlier.group(1), int(earlier.group(2)))
    assert line.strip() == "S[tx] = A[bx, tx]"


def test_blocks_race_on_global_memory():
    @T.prim_func
    def func(A: T.Buffer((1,), "int32")):
        bx = T.launch_thread("blockIdx.x", 2)
        A[0] = bx

    with pytest.raises(ExecutionError, match=r"race: .*writes A\[0\]"):
        run(func, np.zeros(1, "int32"), options=RACES)


def test_writing_the_same_value_is_no_race():
    @T.prim_func
    def func(A: T.Buffer((1,), "int32")):
        tx = T.launch_thread("threadIdx.x", 2)
        A[0] = tx // 2

    a = np.ones(1, "int32")
    run(func, a, options=RACES)
    assert a[0] == 0


def copying_to_one_place(copy, step):
    """Return a kernel whose two threads copy an element each, ``step`` apart, to one place."""

    @T.prim_func
    def stored(A: T.Buffer((4,), "float32"), B: T.Buffer((2,), "float32")):
        tx = T.launch_thread("threadIdx.x", 2)
        S = T.alloc_buffer((1,), scope="shared")
        with T.attr(0, "async_commit_queue_scope", 0):
            with T.attr(0, "async_scope", 1):
                S[0] = A[tx * step]
        with T.attr(0, "async_wait_queue_scope", 0):
            with T.attr(0, "async_wait_inflight_count", 0):
                T.tvm_storage_sync("shared")
                B[tx] = S[0]

    @T.prim_func
    def called(A: T.Buffer((4,), "float32"), B: T.Buffer((2,), "float32")):
        tx = T.launch_thread("threadIdx.x", 2)
        S = T.alloc_buffer((1,), scope="shared")
        T.ptx_cp_async("float32", S.data, 0, A.data, tx * step, 4)
        T.ptx_commit_group()
        T.ptx_wait_group(0)
        T.tvm_storage_sync("shared")
        B[tx] = S[0]

    return {"stored": stored, "called": called}[copy]


@pytest.mark.parametrize("copy", ["stored", "called"])
def test_copying_the_same_value_to_one_place_is_no_race(copy):
    b = np.zeros(2, "float32")
    run(copying_to_one_place(copy, 0), np.full(4, 7, "float32"), b, options=RACES)
    np.testing.assert_array_equal(b, [7, 7])
    with pytest.raises(ExecutionError, match="race: .* writes"):
        run(copying_to_one_place(copy, 1), np.arange(4, dtype="float32"), b, options=RACES)


@pytest.mark.parametrize("place, other", [(0, 7), (1, 3)])
def test_a_copy_that_is_not_there_yet_is_compared_with_a_store(place, other):
    """A thread copies 7 to S[0]; another one stores what S[0] held before the copy, or in S[1]."""

    @T.prim_func
    def func(A: T.Buffer((1,), "int32"), B: T.Buffer((2,), "int32")):
        tx = T.launch_thread("threadIdx.x", 2)
        S = T.alloc_buffer((2,), "int32", scope="shared")
        if tx == 1:
            S[0] = 3
        T.tvm_storage_sync("shared")
        with T.attr(0, "async_commit_queue_scope", 0):
            with T.attr(0, "async_scope", 1):
                if tx == 0:
                    S[0] = A[0]
        if tx == 1:
            S[place] = other
        with T.attr(0, "async_wait_queue_scope", 0):
            with T.attr(0, "async_wait_inflight_count", 0):
                T.tvm_storage_sync("shared")
                B[tx] = S[0]

    b = np.zeros(2, "int32")
    run(func, np.full(1, 7, "int32"), b, options=RACES)
    np.testing.assert_array_equal(b, [7, 7])
    if place == 0:
        with pytest.raises(ExecutionError, match=r"race: .*writes S\[0\]"):
            run(func, np.full(1, 6, "int32"), b, options=RACES)


def test_write_after_read_needs_a_barrier():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        tx = T.launch_thread("threadIdx.x", 8)
        B[tx] = A[7 - tx]
        A[tx] = 0

    with pytest.raises(ExecutionError, match=r"writes A\[.*reads it"):
        run(func, np.arange(8, dtype="int32"), np.zeros(8, "int32"), options=RACES)


def test_a_barrier_in_a_branch_is_an_error():
    @T.prim_func
    def func(A: T.Buffer((32,), "int32")):
        tx = T.launch_thread("threadIdx.x", 32)
        if tx < 16:
            T.tvm_storage_sync("shared")
        A[tx] = 1

    message = (
        r'only 16 of the 32 threads of a block reach the barrier T.tvm_storage_sync\("shared"\)'
    )
    with pytest.raises(ExecutionError, match=message):
        run(func, np.zeros(32, "int32"))


def test_a_barrier_in_loops_of_different_length_is_an_error():
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")):
        tx = T.launch_thread("threadIdx.x", 4)
        for i in range(tx):
            T.tvm_storage_sync("shared")
            A[tx] = i

    with pytest.raises(ExecutionError, match="only 3 of the 4 threads"):
        run(func, np.zeros(4, "int32"))


def test_barriers_of_warps():
    @T.prim_func
    def func(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), far: T.int32):
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.alloc_buffer((64,), "int32", scope="shared")
        S[tx] = A[tx]
        T.tvm_storage_sync("warp")
        B[tx] = S[T.bitwise_xor(tx, far)]

    a, b = np.arange(64, dtype="int32"), np.zeros(64, "int32")
    run(func, a, b, 5, options=RACES)
    np.testing.assert_array_equal(b, np.arange(64) ^ 5)
    with pytest.raises(ExecutionError, match="race"):
        run(func, a, b, 32, options=RACES)


def test_while_loops_and_local_memory():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.alloc_buffer((8,), "int32", scope="shared")
        x = T.alloc_buffer((1,), "int32", scope="local")
        x[0] = A[tx]
        while x[0] > 0:
            x[0] = x[0] - 3
        S[tx] = x[0]
        T.tvm_storage_sync("shared")
        B[tx] = S[(tx + 1) % 8]

    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run(func, a, b, options=RACES)
    np.testing.assert_array_equal(b, np.roll(-(-a % 3), -1))


def test_shuffles():
    @T.prim_func
    def func(A: T.Buffer((64,), "int32"), B: T.Buffer((4, 64), "int32")):
        tx = T.launch_thread("threadIdx.x", 64)
        B[0, tx] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), A[tx], 3, 32, 32)
        B[1, tx] = T.tvm_warp_shuffle_up(T.tvm_warp_activemask(), A[tx], 1, 8, 32)
        B[2, tx] = T.tvm_warp_shuffle_down(T.tvm_warp_activemask(), A[tx], 2, 16, 32)
        B[3, tx] = T.call_pure_extern(
            "int32", "__shfl_xor_sync", T.uint32(0xFFFFFFFF), A[tx], 1, 32
        )

    a, b = np.random.randint(0, 99, 64).astype("int32"), np.zeros((4, 64), "int32")
    run(func, a, b)
    lane = np.arange(64)
    np.testing.assert_array_equal(b[0], a[lane // 32 * 32 + 3])
    np.testing.assert_array_equal(b[1], np.where(lane % 8 >= 1, a[lane - 1], a))
    np.testing.assert_array_equal(b[2], np.where(lane % 16 < 14, a[(lane + 2) % 64], a))
    np.testing.assert_array_equal(b[3], a[lane ^ 1])


def test_a_scan_within_a_warp():
    @T.prim_func
    def func(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
        tx = T.launch_thread("threadIdx.x", 32)
        x = T.alloc_buffer((1,), "int32", scope="local")
        y = T.alloc_buffer((1,), "int32", scope="local")
        x[0] = A[tx]
        for i in range(5):
            y[0] = T.tvm_warp_shuffle_up(T.uint32(0xFFFFFFFF), x[0], T.shift_left(1, i), 32, 32)
            if tx >= T.shift_left(1, i):
                x[0] = x[0] + y[0]
        B[tx] = x[0]

    a, b = np.random.randint(0, 99, 32).astype("int32"), np.zeros(32, "int32")
    run(func, a, b)
    np.testing.assert_array_equal(b, np.cumsum(a))


def test_a_shuffle_from_a_thread_that_is_elsewhere():
    @T.prim_func
    def func(A: T.Buffer((32,), "int32")):
        tx = T.launch_thread("threadIdx.x", 32)
        if tx < 16:
            A[tx] = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), tx, 20, 32, 32)

    with pytest.raises(ExecutionError, match="lane 20, which is not active here"):
        run(func, np.zeros(32, "int32"))


def test_active_mask_in_a_branch():
    @T.prim_func
    def func(A: T.Buffer((32,), "uint32")):
        tx = T.launch_thread("threadIdx.x", 32)
        if tx < 4:
            A[tx] = T.tvm_warp_activemask()

    a = np.zeros(32, "uint32")
    run(func, a)
    np.testing.assert_array_equal(a, [15] * 4 + [0] * 28)


@T.prim_func
def row_sums(A: T.Buffer((6, 16), "float32"), B: T.Buffer((6,), "float32")):
    bx = T.launch_thread("blockIdx.x", 2)
    ty = T.launch_thread("threadIdx.y", 3)
    tx = T.launch_thread("threadIdx.x", 16)
    x = T.alloc_buffer((1,), scope="local")
    total = T.alloc_buffer((1,), scope="local")
    x[0] = A[bx * 3 + ty, tx]
    with T.attr(
        T.comm_reducer(lambda a, b: a + b, [T.float32(0)]),
        "reduce_scope",
        T.reinterpret("handle", T.uint64(0)),
    ):
        T.tvm_thread_allreduce(T.uint32(1), x[0], tx < 10, total[0], tx)
    B[bx * 3 + ty] = total[0]


@pytest.mark.parametrize("options", [Options(), RACES])
def test_reduction_over_threads(options):
    a = np.random.rand(6, 16).astype("float32")
    b = np.zeros(6, "float32")
    run(row_sums, a, b, options=options)
    np.testing.assert_allclose(b, a[:, :10].sum(1), rtol=1e-6)


def test_copies_of_virtual_threads_belong_to_the_thread_around():
    @T.prim_func
    def closed_outside(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        S = T.alloc_buffer((4,))
        with T.attr(0, "async_commit_queue_scope", 0):
            with T.attr(0, "async_scope", 1):
                for v in T.thread_binding(4, thread="vthread.x"):
                    S[v] = A[v]
        with T.attr(0, "async_wait_queue_scope", 0):
            with T.attr(0, "async_wait_inflight_count", 0):
                for i in range(4):
                    B[i] = S[i]

    @T.prim_func
    def closed_inside(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        S = T.alloc_buffer((4,))
        for v in T.thread_binding(4, thread="vthread.x"):
            with T.attr(0, "async_commit_queue_scope", 0):
                with T.attr(0, "async_scope", 1):
                    S[v] = A[v]
        for v in T.thread_binding(4, thread="vthread.x"):
            with T.attr(0, "async_wait_queue_scope", 0):
                with T.attr(0, "async_wait_inflight_count", 0):
                    B[v] = S[v]

    a = np.random.rand(4).astype("float32")
    for func in (closed_outside, closed_inside):
        b = np.zeros(4, "float32")
        run(func, a, b)
        np.testing.assert_array_equal(b, a)


def test_asynchronous_copies_show_when_waited_for():
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), B: T.Buffer((2, 16), "float32")):
        S = T.alloc_buffer((16,), scope="shared")
        for i in range(16):
            T.ptx_cp_async("float32", S.data, i, A.data, i, 4)
        T.ptx_commit_group()
        for i in range(16):
            B[0, i] = S[i]
        T.ptx_wait_group(0)
        for i in range(16):
            B[1, i] = S[i]

    a, b = np.random.rand(16).astype("float32"), np.zeros((2, 16), "float32")
    run(func, a, b)
    assert np.isnan(b[0]).all()
    np.testing.assert_array_equal(b[1], a)
    with pytest.raises(ExecutionError, match=r"S\[0\].*never written"):
        run(func, a, b, options=RACES)


def test_groups_of_copies():
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        S = T.alloc_buffer((16,))
        for i in range(16):
            with T.attr(0, "async_commit_queue_scope", 0):
                with T.attr(0, "async_scope", 1):
                    S[i] = A[i] + T.float32(1)
        for i in range(16):
            with T.attr(0, "async_wait_queue_scope", 0):
                with T.attr(0, "async_wait_inflight_count", 15 - i):
                    B[i] = S[i]

    a, b = np.random.rand(16).astype("float32"), np.zeros(16, "float32")
    run(func, a, b)
    np.testing.assert_array_equal(b, a + np.float32(1))


def test_threads_may_write_the_same_copy_of_what_was_never_written():
    @T.prim_func
    def func(A: T.Buffer((2,), "int32")):
        x = T.alloc_buffer((1,), "int32", scope="shared")
        y = T.alloc_buffer((1,), "int32", scope="shared")
        for v in T.thread_binding(2, thread="threadIdx.x"):
            y[0] = x[0]
            A[v] = v

    a = np.zeros(2, "int32")
    run(func, a, options=Options(check_undefined=True, check_races=True))
    assert list(a) == [0, 1]


@pytest.mark.parametrize("thread", ["threadIdx.x", "vthread.x"])
def test_memory_of_threads_that_is_written_between_two_launches(thread):
    @T.prim_func
    def func(A: T.Buffer((2,), "int32"), B: T.Buffer((2, 2), "int32")):
        x = T.alloc_buffer((2,), "int32", scope="local")
        x[0] = A[0]
        x[1] = 0
        for v in T.thread_binding(2, thread=thread):
            B[0, v] = x[0]
            x[1] = v
        x[0] = A[1]
        for v in T.thread_binding(2, thread=thread):
            B[1, v] = x[0] + x[1]

    b = np.zeros((2, 2), "int32")
    run(func, np.array([5, 7], "int32"), b)
    assert b.tolist() == [[5, 5], [7, 8]]


def test_memory_that_was_never_written():
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")):
        x = T.alloc_buffer((4,), "int32")
        for i in range(3):
            x[i] = i
        for i in range(4):
            A[i] = x[i]

    run(func, np.zeros(4, "int32"))
    with pytest.raises(ExecutionError, match=r"x\[3\] .* never written"):
        run(func, np.zeros(4, "int32"), options=Options(check_undefined=True))


@pytest.mark.parametrize("used", [3, 4])
def test_a_copy_of_what_was_never_written_harms_where_it_is_used(used):
    @T.prim_func
    def func(A: T.Buffer((4,), "int32"), n: T.int32):
        x = T.alloc_buffer((4,), "int32")
        y = T.alloc_buffer((4,), "int32")
        for i in range(3):
            x[i] = i
        for i in range(4):
            y[i] = x[i]
        for i in range(n):
            A[i] = y[i] + 1

    a = np.zeros(4, "int32")
    if used == 3:
        run(func, a, used, options=Options(check_undefined=True))
        assert list(a) == [1, 2, 3, 0]
    else:
        with pytest.raises(ExecutionError, match=r"y\[3\] .* never written"):
            run(func, a, used, options=Options(check_undefined=True))


def test_lanes_that_are_masked_later_may_be_undefined():
    @T.prim_func
    def func(A: T.Buffer((4,), "int32"), n: T.int32):
        x = T.alloc_buffer((4,), "int32")
        for i in range(3):
            x[i] = i + 1
        A.vstore([T.Ramp(0, 1, 4)], x[0:4], predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))

    a = np.zeros(4, "int32")
    run(func, a, 3, options=Options(check_undefined=True))
    assert list(a) == [1, 2, 3, 0]
    with pytest.raises(ExecutionError, match="copies what was never written to A"):
        run(func, a, 4, options=Options(check_undefined=True))


def test_virtual_threads():
    @T.prim_func
    def func(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
        tx = T.launch_thread("threadIdx.x", 8)
        vx = T.env_thread("vthread", "int32")
        S = T.alloc_buffer((32,), "int32", scope="shared")
        with T.attr(vx, "virtual_thread", 4):
            S[vx * 8 + tx] = A[vx * 8 + tx]
            T.tvm_storage_sync("shared")
            B[vx * 8 + tx] = S[31 - vx * 8 - tx]

    a, b = np.arange(32, dtype="int32"), np.zeros(32, "int32")
    run(func, a, b, options=RACES)
    np.testing.assert_array_equal(b, a[::-1])


def test_virtual_threads_of_one_name_are_axes_of_their_own():
    """Found by checked mode: classic schedules bind several loops to "vthread"."""
    threads = [te.thread_axis((0, 2), "vthread") for _ in range(2)]
    A = te.placeholder((4, 6), name="A", dtype="int32")
    B = te.compute((4, 6), lambda i, j: A[i, j] * 2, name="B")
    schedule = te.create_schedule(B.op)
    for axis, thread in zip(B.op.axis, threads):
        outer, _ = schedule[B].split(axis, nparts=2)
        schedule[B].bind(outer, thread)
    (func,) = schedule_to_module(schedule, [A, B]).functions.values()
    assert [loop.node.thread_tag for loop in nodes(func, AttrStmt)] == ["vthread", "vthread"]
    a, b = np.arange(24, dtype="int32").reshape(4, 6), np.zeros((4, 6), "int32")
    run(func, a, b, options=RACES)
    np.testing.assert_array_equal(b, a * 2)


def test_thread_loops_over_one_axis_are_one_launch():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        S = T.alloc_buffer((8,), "int32", scope="shared")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            for ty in T.thread_binding(8, thread="threadIdx.x"):
                S[ty] = A[ty]
            T.tvm_storage_sync("shared")
            B[tx] = S[7 - tx]

    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run(func, a, b, options=RACES)
    np.testing.assert_array_equal(b, a[::-1])


def test_registers_live_from_one_loop_over_threads_to_the_next():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        x = T.alloc_buffer((1,), "int32", scope="local")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            x[0] = A[tx]
        for ty in T.thread_binding(8, thread="threadIdx.x"):
            B[ty] = x[0]

    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run(func, a, b)
    np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("barrier", [False, True])
def test_threads_do_not_return(barrier):
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")):
        tx = T.launch_thread("threadIdx.x", 4)
        if barrier:
            T.tvm_storage_sync("shared")
        if tx == 2:
            T.evaluate(T.ret(0))
        A[tx] = 1

    with pytest.raises(UnsupportedError, match="a thread of a kernel cannot leave"):
        run(func, np.zeros(4, "int32"))


def test_a_kernel_beside_a_reduction_that_may_have_no_iterations():
    """The second reduction is completed for the case that ``n`` is 0; threads of the first one
    exchange values.
    """

    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), b: T.handle, C: T.Buffer((2,), "float32")):
        n = T.int32()
        B = T.match_buffer(b, (2, n), "float32")
        S = T.alloc_buffer((1,), scope="local")
        for _ in T.thread_binding(1, thread="blockIdx.x"):
            for k in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("sum"):
                    v = T.axis.reduce(16, k)
                    with T.init():
                        S[0] = T.float32(0)
                    S[0] = S[0] + A[v]
        for i, j in T.grid(2, n):
            with T.block("rows"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi, vj]

    lowered = LowerCrossThreadReduction()(IRModule({"main": func}))
    for size in (0, 3):
        result = np.ones(2, "float32")
        run(lowered, np.ones(16, "float32"), np.ones((2, size), "float32"), result)
        np.testing.assert_array_equal(result, np.full(2, size))
