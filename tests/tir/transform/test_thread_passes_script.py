"""Passes about threads: what they make of small programs, what they refuse."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same
from tests.tir.transform.thread_programs_script import row_sums
from tilesmith.ir import assert_structural_equal, post_order_visit
from tilesmith.ir.transform import PassContext
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import Block, transform
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import (
    InjectVirtualThread,
    LowerCrossThreadReduction,
    LowerThreadAllreduce,
    LowerWarpMemory,
    ThreadSync,
    UnifyThreadBinding,
)

CHECKED = Options(check_races=True, check_undefined=True)
CUDA = Target("cuda", host="llvm")


def results(func, arrays, options=CHECKED):
    copies = [array.copy() for array in arrays]
    run(func, *copies, options=options)
    return copies


def same(before, after, options=CHECKED):
    arrays = arrays_for(before)
    assert_same(results(after, arrays, options), results(before, arrays, Options()))


def syncs(func, scope="shared"):
    return str(apply(func, ThreadSync(scope))).count("storage_sync")


# UnifyThreadBinding


def test_unify_thread_binding():
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        C = T.alloc_buffer((4, 8))
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for j in T.thread_binding(8, thread="threadIdx.x"):
                C[i, j] = A[i, j]
            for j in T.thread_binding(8, thread="threadIdx.x"):
                B[i, j] = C[i, j]

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        C = T.alloc_buffer((4, 8))
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                C[bx, tx] = A[bx, tx]
                B[bx, tx] = C[bx, tx]

    after = apply(before, UnifyThreadBinding())
    assert_structural_equal(after, expected)
    same(before, after, Options())


def test_unify_keeps_old_virtual_threads_apart():
    @T.prim_func
    def func(A: T.Buffer((2, 2, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        for x in T.thread_binding(4, thread="threadIdx.x"):
            for i in T.thread_binding(2, thread="vthread"):
                for j in T.thread_binding(2, thread="vthread"):
                    A[i, j, x] = T.float32(1)

    after = apply(func, UnifyThreadBinding())
    assert str(after).count('thread="vthread"') == 2


def test_unify_needs_equal_extents():
    @T.prim_func(check_well_formed=False)
    def func(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for _ in T.thread_binding(2, thread="blockIdx.x"):
            for j in T.thread_binding(8, thread="threadIdx.x"):
                A[j] = T.float32(0)
            for j in T.thread_binding(4, thread="threadIdx.x"):
                A[j] = T.float32(1)

    with pytest.raises(UnsupportedError, match="threadIdx.x have different extents: 8 and 4"):
        apply(func, UnifyThreadBinding())


# LowerCrossThreadReduction


def test_cross_thread_reduction():
    before = row_sums(5, 40, 16)
    after = apply(before, LowerCrossThreadReduction())
    text = str(after)
    assert "T.where(ko * 16" not in text.split("B_write_back")[1]
    assert "tvm_thread_allreduce(T.uint32(1), in_thread_B[0], T.bool(True)" in text
    same(before, after, Options())


def test_buffers_of_a_reduction_over_threads():
    """Both in registers with a stride; what a thread has summed up is no region that it reads."""
    root = apply(row_sums(5, 40, 16), LowerCrossThreadReduction()).body.block
    assert [(buffer.name, str(buffer.strides[0])) for buffer in root.alloc_buffers] == [
        ("cross_thread_B", "1"),
        ("in_thread_B", "1"),
    ]
    blocks = []
    post_order_visit(root, lambda node: blocks.append(node) if isinstance(node, Block) else None)
    (summing,) = [block for block in blocks if block.name_hint == "B_in_thread"]
    assert [region.buffer.name for region in summing.reads] == ["A"]
    assert [region.buffer.name for region in summing.writes] == ["in_thread_B"]


def test_cross_thread_reduction_without_a_serial_part():
    after = apply(row_sums(5, 16, 16), LowerCrossThreadReduction())
    assert "in_thread" not in str(after)


def test_blocks_behind_a_reduction_are_run_by_the_thread_that_knows_it():
    """No other thread may read what one thread has written without waiting for it."""

    @T.prim_func
    def func(A: T.Buffer((5, 40), "float32"), C: T.Buffer((5, 3), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((5,))
        D = T.alloc_buffer((5, 3))
        for i in T.thread_binding(5, thread="blockIdx.x"):
            for ko in range(3):
                for ki in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("B"):
                        vi = T.axis.spatial(5, i)
                        vk = T.axis.reduce(40, ko * 16 + ki)
                        T.where(ko * 16 + ki < 40)
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]
            for j in range(3):
                with T.block("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = B[vi] * T.Cast("float32", vj)
            for j in range(3):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = D[vi, 2 - vj] + T.float32(1)

    after = apply(func, LowerCrossThreadReduction())
    assert str(after).count("T.where(tx == 0)") == 2
    same(func, apply(after, UnifyThreadBinding()), CHECKED)


def test_results_in_registers_are_written_by_each_thread():
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        S = T.alloc_buffer((1,), scope="local")
        for _ in T.thread_binding(1, thread="blockIdx.x"):
            for j in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("sum"):
                    v = T.axis.reduce(16, j)
                    with T.init():
                        S[0] = T.float32(3)
                    S[0] = S[0] + A[v]
            for j in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("out"):
                    v = T.axis.spatial(16, j)
                    B[v] = A[v] / S[0]

    after = apply(func, LowerCrossThreadReduction())
    assert "j == 0" not in str(after)
    # What init sets is added once, not once for each thread.
    assert "T.float32(3.0) + cross_thread_S[0]" in str(after)
    same(func, after, Options())


def test_reductions_with_other_statements_in_between():
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
        T.func_attr({"global_symbol": "main"})
        C = T.alloc_buffer((16,))
        for j in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("copy"):
                v = T.axis.spatial(16, j)
                C[v] = A[v]
            with T.block("sum"):
                v = T.axis.reduce(16, j)
                with T.init():
                    B[0] = T.float32(0)
                B[0] = B[0] + C[v]

    same(func, apply(func, LowerCrossThreadReduction()), Options())


def test_reductions_whose_partial_results_are_used():
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
        T.func_attr({"global_symbol": "main"})
        C = T.alloc_buffer((16,))
        for j in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("sum"):
                v = T.axis.reduce(16, j)
                with T.init():
                    B[0] = T.float32(0)
                B[0] = B[0] + A[v]
            with T.block("scan"):
                v = T.axis.spatial(16, j)
                C[v] = B[0]

    with pytest.raises(UnsupportedError, match="'sum' reduces over 'j'.*need the result in betw"):
        apply(func, LowerCrossThreadReduction())


# InjectVirtualThread


def test_inject_virtual_thread():
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        vx = T.env_thread("vthread")
        with T.attr(vx, "virtual_thread", 2):
            x = T.decl_buffer((1,), scope="local")
            y = T.decl_buffer((1,), scope="local")
            for i in range(8):
                y[0] = A[i]
                x[0] = y[0] + A[vx * 8 + i]
                B[vx * 8 + i] = x[0]

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        x = T.decl_buffer((2,), scope="local")
        y = T.decl_buffer((1,), scope="local")
        for i in range(8):
            y[0] = A[i]
            x[0] = y[0] + A[i]
            x[1] = y[0] + A[i + 8]
            B[i] = x[0]
            B[i + 8] = x[1]

    after = apply(before, InjectVirtualThread(), transform.Simplify())
    assert_structural_equal(after, expected)
    same(before, after)


@pytest.mark.parametrize("count", [2, 3, 20])
def test_virtual_threads_in_branches_loops_and_lets(count):
    @T.prim_func
    def func(A: T.Buffer((count * 8,), "int32"), B: T.Buffer((count * 8,), "int32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 4)
        vx = T.env_thread("vthread")
        with T.attr(vx, "virtual_thread", count):
            x = T.decl_buffer((2,), "int32", scope="local")
            x[0] = 0
            x[1] = 0
            for i in range(vx + 1):
                x[i % 2] = x[i % 2] + A[vx * 8 + i % 8]
            if vx % 2 == 0:
                x[0] = x[0] + x[1]
            for i in range(2):
                B[vx * 8 + tx * 2 + i] = x[0] + tx

    after = apply(func, InjectVirtualThread())
    assert "virtual_thread" not in str(after)
    same(func, after)


def test_branches_of_virtual_threads_are_copied_loops_are_not():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        v = T.launch_thread("vthread", 2)
        if v < n:
            B[v] = A[v]
        for i in range(v + 1):
            B[i + 4] = A[v]

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        if 0 < n:
            B[0] = A[0]
        if 1 < n:
            B[1] = A[1]
        for v in range(2):
            for i in range(v + 1):
                B[i + 4] = A[v]

    assert_structural_equal(apply(before, InjectVirtualThread()), expected)


def test_virtual_threads_with_lets():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        T.func_attr({"global_symbol": "main"})
        vx = T.env_thread("vthread")
        with T.attr(vx, "virtual_thread", 4):
            y: T.int32 = A[vx] * 2
            for i in range(2):
                B[vx * 2 + i] = y + i

    same(func, apply(func, InjectVirtualThread()))


def test_virtual_threads_do_not_reach_a_barrier_apart():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32")):
        T.func_attr({"global_symbol": "main"})
        vx = T.env_thread("vthread")
        with T.attr(vx, "virtual_thread", 2):
            if vx == 0:
                T.tvm_storage_sync("shared")
                A[vx] = 1

    with pytest.raises(UnsupportedError, match="would not reach a barrier together"):
        apply(func, InjectVirtualThread())


# ThreadSync


def test_thread_sync():
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 32)
        S = T.decl_buffer((32,), scope="shared")
        S[tx] = A[tx]
        B[tx] = S[31 - tx]

    @T.prim_func
    def expected(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 32)
        S = T.decl_buffer((32,), scope="shared")
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S[31 - tx]

    after = apply(before, ThreadSync("shared"))
    assert_structural_equal(after, expected)
    assert_structural_equal(apply(after, ThreadSync("shared")), expected)  # not twice
    same(before, after)


def exchange(write, read, threads=(4, 8), loop=1, size=64):
    """A program whose threads write and read shared memory at given places, ``loop`` times."""
    ny, nx = threads

    @T.prim_func
    def func(A: T.Buffer((loop, ny, nx), "int32"), B: T.Buffer((loop, ny, nx), "int32")):
        T.func_attr({"global_symbol": "main"})
        ty = T.launch_thread("threadIdx.y", ny)
        tx = T.launch_thread("threadIdx.x", nx)
        S = T.decl_buffer((size,), "int32", scope="shared")
        for k in range(loop):
            S[write(ty, tx, k)] = A[k, ty, tx]
            B[k, ty, tx] = S[read(ty, tx, k)]

    return func


@pytest.mark.parametrize(
    "write, read, loop, count",
    [
        (lambda ty, tx, k: ty * 8 + tx, lambda ty, tx, k: ty * 8 + tx, 3, 0),  # its own element
        (lambda ty, tx, k: ty + tx * 4, lambda ty, tx, k: ty + tx * 4, 3, 0),
        (lambda ty, tx, k: ty * 8 + tx, lambda ty, tx, k: tx * 4 + ty, 1, 1),
        (lambda ty, tx, k: ty * 8 + tx, lambda ty, tx, k: ty * 8 + (7 - tx), 1, 1),
        (lambda ty, tx, k: ty * 8 + tx, lambda ty, tx, k: ty * 8 + (7 - tx), 3, 2),
        # two versions: one barrier in each iteration is enough
        (lambda ty, tx, k: k % 2 * 32 + ty * 8 + tx, lambda ty, tx, k: k % 2 * 32 + tx, 4, 1),
        (lambda ty, tx, k: ty * 9 + tx, lambda ty, tx, k: ty * 9 + tx, 2, 0),  # with padding
    ],
)
def test_barriers_where_threads_meet(write, read, loop, count):
    func = exchange(write, read, loop=loop)
    after = apply(func, ThreadSync("shared"))
    assert str(after).count("storage_sync") == count
    same(func, after)


def test_no_barrier_between_versions_that_lie_apart():
    @T.prim_func
    def func(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.decl_buffer((16,), scope="shared")
        S[tx] = A[0, tx]
        for k in range(4):
            S[(k + 1) % 2 * 8 + tx] = A[k + 1, tx]
            B[k, tx] = S[k % 2 * 8 + 7 - tx]

    after = apply(func, ThreadSync("shared"))
    same(func, after)
    # One before the loop or at its head, none between the two statements.
    body = str(after).split("for k in range(4):")[1]
    between = body.split("A[k + 1, tx]")[1].split("B[k, tx]")[0]
    assert "storage_sync" not in between
    assert syncs(func) == 1


def test_vectors_of_shared_memory():
    @T.prim_func
    def func(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.decl_buffer((32,), scope="shared")
        S[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
        B[T.Ramp(tx * 4, 1, 4)] = S[T.Ramp(tx * 4, 1, 4)]
        S[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(28 - tx * 4, 1, 4)]
        B[T.Ramp(tx * 4, 1, 4)] = S[T.Ramp(tx * 2, 1, 4)]

    after = apply(func, ThreadSync("shared"))
    assert str(after).count("storage_sync") == 1
    same(func, after)


def test_a_barrier_leaves_loops_that_do_not_need_it():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((4, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.decl_buffer((8,), scope="shared")
        S[tx] = A[tx]
        for k in range(4):
            B[k, tx] = S[(tx + k) % 8]

    after = apply(func, ThreadSync("shared"))
    assert "storage_sync" in str(after).split("for k")[0]
    assert syncs(func) == 1
    same(func, after)


def test_no_barrier_in_a_branch_of_some_threads():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.decl_buffer((8,), scope="shared")
        if tx < 4:
            S[tx] = A[tx]
            A[tx] = S[3 - tx]

    with pytest.raises(UnsupportedError, match="branch or loop that not all of them take"):
        apply(func, ThreadSync("shared"))


def test_a_barrier_in_a_branch_of_all_threads():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.decl_buffer((8,), scope="shared")
        if n > 3:
            S[tx] = A[tx]
            A[tx] = S[7 - tx]

    after = apply(func, ThreadSync("shared"))
    a = np.arange(8, dtype="float32")
    run(after, a, 4, options=CHECKED)
    np.testing.assert_array_equal(a, np.arange(8)[::-1])


def test_barriers_of_the_whole_grid():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        bx = T.launch_thread("blockIdx.x", 2)
        tx = T.launch_thread("threadIdx.x", 4)
        A[bx * 4 + tx] = T.Cast("float32", bx + tx)
        B[bx * 4 + tx] = A[7 - bx * 4 - tx]

    assert_structural_equal(apply(func, ThreadSync("global")), func)
    with PassContext(config={"tir.detect_global_barrier": True}):
        after = apply(func, ThreadSync("global"))
    assert '"tir.tvm_storage_sync", "global", bx == 0 and tx == 0, 2' in str(after)
    a, b = np.zeros(8, "float32"), np.zeros(8, "float32")
    run(after, a, b, options=CHECKED)
    np.testing.assert_array_equal(b, a[::-1])


# LowerThreadAllreduce


def allreduce(ny, nx, over="x", dtype="float32", kind="sum"):
    """``B[group] = A[...]`` reduced over one axis of threads, or over both."""

    @T.prim_func
    def func(A: T.Buffer((ny, nx), dtype), B: T.Buffer((ny, nx), dtype)):
        T.func_attr({"global_symbol": "main"})
        ty = T.launch_thread("threadIdx.y", ny)
        tx = T.launch_thread("threadIdx.x", nx)
        total = T.decl_buffer((1,), dtype, scope="local")
        reducer = T.meta_var(REDUCERS[kind](dtype))
        axes = T.meta_var({"x": (tx,), "y": (ty,), "xy": (tx, ty)}[over])
        with T.attr(reducer, "reduce_scope", T.reinterpret("handle", T.uint64(0))):
            T.tvm_thread_allreduce(T.uint32(1), A[ty, tx], tx != 3, total[0], *axes)
        B[ty, tx] = total[0]

    return func


REDUCERS = {
    "sum": lambda dtype: T.comm_reducer(lambda x, y: x + y, [T.Cast(dtype, 0)]),
    "max": lambda dtype: T.comm_reducer(lambda x, y: T.max(x, y), [T.Cast(dtype, -1)]),
}


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize(
    "shape, over, dtype, kind",
    [
        ((1, 32), "x", "float32", "sum"),
        ((3, 8), "x", "int32", "max"),
        ((2, 64), "x", "float32", "sum"),
        ((1, 96), "x", "int32", "sum"),
        ((2, 10), "x", "int32", "sum"),
        ((4, 8), "y", "int32", "sum"),
        ((4, 16), "xy", "int32", "sum"),
        ((3, 7), "xy", "int32", "max"),
        ((2, 32), "x", "float16", "max"),
    ],
)
def test_lower_thread_allreduce(target, shape, over, dtype, kind):
    func = allreduce(*shape, over, dtype, kind)
    after = apply(func, transform.BindTarget(Target(target, host="llvm")), LowerThreadAllreduce())
    assert "allreduce" not in str(after)
    in_warps = over == "x" and shape[1] & (shape[1] - 1) == 0 or shape[1] == 96 or over == "xy"
    in_warps = in_warps and target == "cuda" and dtype != "float16" and shape != (3, 7)
    assert ("tvm_warp_shuffle" in str(after)) == in_warps
    same(func, after)


# LowerWarpMemory


@pytest.mark.parametrize("threads, step, parts", [(32, 1, 1), (32, 2, 1), (8, 1, 2), (16, 4, 3)])
def test_lower_warp_memory(threads, step, parts):
    size = threads * step * parts

    @T.prim_func
    def func(A: T.Buffer((size,), "float32"), B: T.Buffer((threads, size), "float32")):
        T.func_attr({"global_symbol": "main", "target": T.target("cuda")})
        tx = T.launch_thread("threadIdx.x", threads)
        W = T.decl_buffer((size,), scope="warp")
        for i, j in T.grid(parts, step):
            W[i * (threads * step) + tx * step + j] = A[i * (threads * step) + tx * step + j]
        for i in range(size):
            B[tx, i] = W[i] + W[tx * step]

    after = apply(func, LowerWarpMemory())
    assert '"warp"' not in str(after)
    assert str(after).count("tvm_warp_shuffle") == 1  # its own element needs no exchange
    arrays = arrays_for(func)
    assert_same(results(after, arrays), results(func, arrays, Options()))


def test_warp_memory_that_cannot_be_exchanged():
    @T.prim_func
    def func(A: T.Buffer((32,), "float32")):
        T.func_attr({"global_symbol": "main", "target": T.target("cuda")})
        tx = T.launch_thread("threadIdx.x", 32)
        W = T.decl_buffer((64,), scope="warp")
        W[tx] = A[tx]
        W[tx + 32] = A[31 - tx]
        A[tx] = W[tx * 2]

    with pytest.raises(UnsupportedError, match="which register is read differs"):
        apply(func, LowerWarpMemory())


def test_a_reduction_over_threads_starts_from_what_it_reads():
    """The start counts once, and the block that stores the result reads it."""

    @T.prim_func
    def func(A: T.Buffer((5, 16), "float32"), S: T.Buffer((5, 3), "float32"), B: T.Buffer((5,))):
        T.func_attr({"global_symbol": "main"})
        for i in T.thread_binding(5, thread="blockIdx.x"):
            for k in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = S[vi, 2]
                    B[vi] = B[vi] + A[vi, vk]

    after = apply(func, LowerCrossThreadReduction())
    assert "T.reads(S[vi, 2], cross_thread_B[0])" in str(after)
    arrays = arrays_for(func)
    assert_same(results(after, arrays), results(func, arrays, Options()))


def exchange_of_lanes(value):
    """Each lane's neighbour, or 0, in three ways: ``value`` says how."""

    @T.prim_func
    def func(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main", "target": T.target("cuda")})
        tx = T.launch_thread("threadIdx.x", 32)
        W = T.decl_buffer((32,), scope="warp")
        W[tx] = A[tx]
        value(B, W, n, tx)

    return func


@T.macro(hygienic=False)
def in_a_branch(B, W, n, tx):
    if tx < 20:
        B[tx] = W[(tx + 1) % 32]


@T.macro(hygienic=False)
def in_an_expression(B, W, n, tx):
    B[tx] = T.if_then_else(tx < 20, W[(tx + 1) % 32], T.float32(0))


@T.macro(hygienic=False)
def in_a_loop_of_different_length(B, W, n, tx):
    for i in range(tx):
        B[tx] = W[(tx + i) % 32]


@T.macro(hygienic=False)
def in_a_common_branch(B, W, n, tx):
    if n < 20:
        for i in range(n):
            B[tx] = W[(tx + i) % 32]


@pytest.mark.parametrize("value", [in_a_branch, in_an_expression, in_a_loop_of_different_length])
def test_lanes_that_exchange_all_take_part(value):
    """A lane that does not take part has nothing to give."""
    with pytest.raises(UnsupportedError, match="under a condition that may differ"):
        apply(exchange_of_lanes(value), LowerWarpMemory())


def test_lanes_exchange_under_a_common_condition():
    func = exchange_of_lanes(in_a_common_branch)
    after = apply(func, LowerWarpMemory())
    assert "tvm_warp_shuffle" in str(after)


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_a_result_is_used_outside_of_the_threads_of_its_reduction(scope):
    """The first block moves the result on, the second one leaves the kernel with it."""

    @T.prim_func
    def func(A: T.Buffer((5, 16), "float32"), C: T.Buffer((5, 2), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((5,), scope=scope)
        D = T.alloc_buffer((5,), scope=scope)
        for i in T.thread_binding(5, thread="blockIdx.x"):
            for k in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]
            with T.block("D"):
                vi = T.axis.spatial(5, i)
                D[vi] = B[vi] * T.float32(2)
            for j in range(2):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = D[vi] + T.Cast("float32", vj)

    after = apply(func, LowerCrossThreadReduction())
    # only values in registers are moved by each thread
    assert str(after).count("T.where(tx == 0)") == (1 if scope == "local" else 2)
    same(func, apply(after, UnifyThreadBinding()), CHECKED)


def test_results_in_registers_and_in_memory_of_one_reduction():
    """All threads get the number in registers; the first one writes the largest value."""

    @T.prim_func
    def func(
        A: T.Buffer((16,), "float32"), best: T.Buffer((1,), "float32"), C: T.Buffer((16,), "int32")
    ):
        T.func_attr({"global_symbol": "main"})
        where = T.alloc_buffer((1,), "int32", scope="local")
        for _ in T.thread_binding(1, thread="blockIdx.x"):
            for k in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("argmax"):
                    vk = T.axis.reduce(16, k)
                    with T.init():
                        where[0] = -1
                        best[0] = T.min_value("float32")
                    number: T.int32 = T.Select(best[0] >= A[vk], where[0], vk)
                    value: T.float32 = T.Select(best[0] >= A[vk], best[0], A[vk])
                    where[0] = number
                    best[0] = value
            for k in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("C"):
                    vk = T.axis.spatial(16, k)
                    C[vk] = where[0] + vk

    after = apply(func, LowerCrossThreadReduction())
    same(func, apply(after, UnifyThreadBinding()), CHECKED)
