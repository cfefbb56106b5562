"""OrderGlobalMemory: barriers where the threads of a block exchange values in global memory."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same, module
from tilesmith.ir import Call, Range, Var
from tilesmith.ir.queries import is_call, nodes
from tilesmith.lowering.pipelines import device_passes, lower_passes
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import floordiv, floormod
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import FlattenBuffer, OrderGlobalMemory
from tilesmith.tir.transform.threads.thread_places import PlaceProver

CHECKED = Options(check_races=True, check_undefined=True)
SIDE_BY_SIDE = Options(check_undefined=True)  # each statement for all threads, then the next one


def barriers(func):
    return sum(is_call(call, "tir.tvm_storage_sync") for call in nodes(func.body, Call))


@T.prim_func
def through_an_intermediate(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    T.func_attr({"global_symbol": "main"})
    M = T.alloc_buffer((128,))
    for bx in T.thread_binding(4, "blockIdx.x"):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.block("make"):
                v = T.axis.spatial(128, bx * 32 + tx)
                M[v] = A[v] * 2.0
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.block("use"):
                v = T.axis.spatial(128, bx * 32 + tx)
                B[v] = M[v // 32 * 32 + (31 - v % 32)]


@T.prim_func
def through_a_result(
    A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for bx in T.thread_binding(2, "blockIdx.x"):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.block("make"):
                i = T.axis.spatial(8, bx * 4 + tx // 8)
                j = T.axis.spatial(8, tx % 8)
                B[i, j] = A[i, j] + 1.0
        for tx in T.thread_binding(32, "threadIdx.x"):
            for k in range(8):
                with T.block("use"):
                    i = T.axis.spatial(8, bx * 4 + tx)
                    r = T.axis.reduce(8, k)
                    T.where(tx < 4)
                    with T.init():
                        C[i] = T.float32(0)
                    C[i] = C[i] + B[i, r]


@T.prim_func
def updated_outside_of_some_threads(
    A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")
):
    """Without a loop over threadIdx.y the sums would be run by all threads along it."""
    T.func_attr({"global_symbol": "main"})
    for bx in T.thread_binding(2, "blockIdx.x"):
        for tx in T.thread_binding(4, "threadIdx.x"):
            for ty in T.thread_binding(8, "threadIdx.y"):
                with T.block("make"):
                    i = T.axis.spatial(8, bx * 4 + tx)
                    j = T.axis.spatial(8, ty)
                    B[i, j] = A[i, j] + 1.0
        for tx in T.thread_binding(4, "threadIdx.x"):
            for k in range(8):
                with T.block("use"):
                    i = T.axis.spatial(8, bx * 4 + tx)
                    r = T.axis.reduce(8, k)
                    with T.init():
                        C[i] = T.float32(0)
                    C[i] = C[i] + B[i, r]


@pytest.mark.parametrize(
    "func", [through_an_intermediate, through_a_result, updated_outside_of_some_threads]
)
@pytest.mark.parametrize("target", ["nvptx", "opencl"])
def test_devices_order_what_threads_of_a_block_exchange(func, target):
    arrays = arrays_for(func)
    want = [array.copy() for array in arrays]
    run(func, *want)
    mod = module(func)
    for step in [*lower_passes(on_threads=True), *device_passes(Target(target, host="llvm"))]:
        mod = step(mod)
        if step.info.name == "tir.ThreadSync":
            got = [array.copy() for array in arrays]
            run(mod, *got, entry="main", options=CHECKED)
            assert_same(got, want)
            assert barriers(mod["main"]) == 1


def kernel(write, read, loop=1, size=128):
    """Threads that write ``M[write]``, then read ``M[read]``, in each of some iterations."""

    @T.prim_func
    def func(
        A: T.Buffer((8, 16), "int32"), M: T.Buffer((size,), "int32"), B: T.Buffer((8, 16), "int32")
    ):
        T.func_attr({"global_symbol": "main"})
        bx = T.launch_thread("blockIdx.x", 2)
        ty = T.launch_thread("threadIdx.y", 2)
        tx = T.launch_thread("threadIdx.x", 4)
        for k in range(loop):
            M[write(bx, ty, tx, k)] = A[k, bx * 8 + ty * 4 + tx]
            B[k, bx * 8 + ty * 4 + tx] = M[read(bx, ty, tx, k)]

    return func


def ordered(func, count):
    """Check the number of barriers, and the results without a race."""
    after = apply(apply(func, FlattenBuffer()), OrderGlobalMemory())
    assert barriers(after) == count, after
    arrays = arrays_for(func)
    want, got = [array.copy() for array in arrays], [array.copy() for array in arrays]
    run(func, *want, options=SIDE_BY_SIDE)
    run(after, *got, options=CHECKED)
    assert_same(got, want)


def thread(b, y, x):
    return b * 8 + y * 4 + x


OWN = {
    "linear": lambda b, y, x, k: thread(b, y, x),
    "digits": lambda b, y, x, k: thread(b, y, x) // 5 * 7 + thread(b, y, x) % 5,
    "digits of a digit": lambda b, y, x, k: b * 32 + x // 2 * 8 + y * 4 + x % 2,
    "with a loop": lambda b, y, x, k: b * 64 + (k * 8 + thread(0, y, x)) // 3 * 4
    + (k * 8 + thread(0, y, x)) % 3,
}  # fmt: skip


@pytest.mark.parametrize("place", OWN.values(), ids=OWN)
@pytest.mark.parametrize("loop", [1, 3])
def test_no_barrier_where_threads_stay_with_their_elements(place, loop):
    ordered(kernel(place, place, loop), 0)


EXCHANGED = {
    "the other row": (lambda b, y, x, k: thread(b, 1 - y, x), 2),
    "mirrored": (lambda b, y, x, k: b * 8 + 7 - thread(0, y, x), 2),
    "digits swapped": (lambda b, y, x, k: b * 8 + x * 2 + y, 2),
}


@pytest.mark.parametrize("read, count", EXCHANGED.values(), ids=EXCHANGED)
@pytest.mark.parametrize("loop", [1, 3])
def test_barriers_where_threads_of_a_block_meet(read, count, loop):
    ordered(kernel(lambda b, y, x, k: thread(b, y, x), read, loop), count if loop > 1 else 1)


def test_updates_in_place_belong_to_a_thread():
    """Two threads that updated one element at once would race in a single statement."""

    @T.prim_func
    def func(
        P: T.Buffer((16,), "int32"), A: T.Buffer((16, 3), "int32"), B: T.Buffer((16,), "int32")
    ):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 16)
        B[P[tx]] = 0
        for k in range(3):
            B[P[tx]] = B[P[tx]] + A[tx, k]

    after = apply(apply(func, FlattenBuffer()), OrderGlobalMemory())
    assert barriers(after) == 0
    order, b = np.arange(16, dtype="int32")[::-1].copy(), np.zeros(16, "int32")
    a = np.ones((16, 3), "int32")
    run(after, order, a, b, options=CHECKED)
    np.testing.assert_array_equal(b, 3)


def test_symbolic_rows_belong_to_a_thread():
    @T.prim_func
    def func(a: T.handle, n: T.int32):
        T.func_attr({"global_symbol": "main"})
        A = T.match_buffer(a, (8, n), "int32")
        bx = T.launch_thread("blockIdx.x", 2)
        tx = T.launch_thread("threadIdx.x", 4)
        for i in range(n):
            A[bx * 4 + tx, i] = i
        for i in range(n):
            A[bx * 4 + tx, i] = A[bx * 4 + tx, n - 1 - i] + 1

    after = apply(apply(func, FlattenBuffer()), OrderGlobalMemory())
    assert barriers(after) == 0


def test_atomic_additions_wait_for_the_first_values_only():
    @T.prim_func
    def func(A: T.Buffer((16,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 16)
        if tx < 4:
            B[tx] = 0
        for k in range(2):
            T.call_intrin("int32", "tir.atomic_add", T.address_of(B[(tx + k) % 4]), A[tx])
        C[tx] = B[tx % 4]

    after = apply(func, OrderGlobalMemory())
    text = str(after)
    assert barriers(after) == 2
    assert "storage_sync" not in text[text.index("for k") : text.index("atomic_add")]


def test_conditions_that_leave_one_thread():
    @T.prim_func
    def func(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "main"})
        ty = T.launch_thread("threadIdx.y", 4)
        tx = T.launch_thread("threadIdx.x", 4)
        for k in range(4):
            if ty == 0:
                B[tx] = A[k * 4 + tx]
            if ty == 0:
                A[k * 4 + tx] = B[tx] + 1
        A[ty * 4 + tx] = B[tx]

    assert barriers(apply(func, OrderGlobalMemory())) == 1


def test_iterators_follow_from_their_digits():
    t, i, n = Var("t", "int32"), Var("i", "int32"), Var("n", "int32")
    loops = ((i, Range(0, 7)),)

    def tells(place, loops=loops, reach=0):
        return PlaceProver().tells_threads((place, loops), (place, loops), {t: 32}, reach)

    fused = i * 32 + t
    assert tells(floordiv(fused, 14) * 196 + floormod(fused, 14) * 14)
    assert not tells(floordiv(fused, 14) * 13 + floormod(fused, 14))
    assert tells(t * n + i, ((i, Range(0, n)),))
    assert not tells(t * n + i, ((i, Range(0, n + 1)),))
    assert tells(t + i * 64) and not tells(t + i) and not tells(floordiv(t, 8) * 64)
    assert tells(t * 4, reach=3) and not tells(t * 4, reach=4)


BETWEEN_BLOCKS = {
    "mirrored": (lambda b, y, x, k: 15 - thread(b, y, x), True),
    "next block": (lambda b, y, x, k: (thread(b, y, x) + 8) % 16, True),
    "next thread": (lambda b, y, x, k: (thread(b, y, x) + 1) % 16, True),
    "own block": (lambda b, y, x, k: b * 8 + 7 - thread(0, y, x), False),
    "what nobody writes": (lambda b, y, x, k: thread(b, y, x) + 16, False),
}


@pytest.mark.parametrize("read, refused", BETWEEN_BLOCKS.values(), ids=BETWEEN_BLOCKS)
def test_blocks_that_exchange_values(read, refused):
    func = apply(kernel(lambda b, y, x, k: thread(b, y, x), read), FlattenBuffer())
    if not refused:
        apply(func, OrderGlobalMemory())
        return
    with pytest.raises(UnsupportedError, match="blocks .* exchange values through 'M'.*which only"):
        apply(func, OrderGlobalMemory())


def test_blocks_that_may_exchange_values_are_not_refused():
    """Guards, choices, equal work in all blocks, places that nobody knows."""

    @T.prim_func
    def func(
        P: T.Buffer((16,), "int32"), M: T.Buffer((16,), "int32"), N: T.Buffer((8,), "int32"),
        B: T.Buffer((16,), "int32"),
    ):  # fmt: skip
        T.func_attr({"global_symbol": "main"})
        bx = T.launch_thread("blockIdx.x", 2)
        tx = T.launch_thread("threadIdx.x", 8)
        N[tx] = P[tx]
        M[bx * 8 + tx] = N[7 - tx]
        B[bx * 8 + tx] = M[P[bx * 8 + tx]]
        if bx * 8 + tx < 8:
            B[bx * 8 + tx] = B[bx * 8 + tx] + M[bx * 8 + tx]
        if bx < 1:
            B[tx] = M[7 - tx - bx * 8]
        B[bx * 8 + tx] = T.if_then_else(bx == 0, M[tx], 0)

    apply(func, OrderGlobalMemory())
