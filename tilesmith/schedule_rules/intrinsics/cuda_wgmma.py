"""Products of four warps on Hopper GPUs: ``wgmma`` reads both operands from shared memory (sm_90a).

A tile of 64 x N results is the product of 64 x K and K x N elements of float16; it is spread over
the 128 threads of a warpgroup as ``results_of_warpgroup`` says, in a buffer in scope ``warpgroup``
of the shape (…, 128, N / 2). The tiles lie in shared memory in rows of at most 128 bytes:

    A[i, k]   K elements in a row, K = 32 or 64
    B[k, j]   64 elements in a row, one row for each k, then the next 64 columns: bring it there by
              transform_layout with lambda k, j: [j // 64, k, j % 64]
    C[i, j]   lambda i, j: [i // 64, j // N, *results_of_warpgroup(i % 64, j % N)]

The copies to shared memory carry the annotation ``permuted_layout``: InjectPermutedLayout brings
the pieces of each row into the order that the hardware reads. The buffers begin at multiples of
1024 bytes, which they do if they are the only ones of their scope and their sizes are such.
"""

from typing import Any

from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = [
    "WGMMA_COLUMNS", "WGMMA_STEPS", "get_wgmma_fill_intrin", "get_wgmma_intrin",
    "get_wgmma_intrin_group", "get_wgmma_store_intrin", "results_of_warpgroup",
]  # fmt: skip

ROWS, THREADS = 64, 128  # of results; of a warpgroup
ROW = 64  # columns of B in a row of 128 bytes
STEP = 16  # of the sum in one instruction
GROUP = 8  # rows of shared memory

WGMMA_COLUMNS = (64, 128, 192, 256)
WGMMA_STEPS = (32, 64)


def results_of_warpgroup(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of a result in row i of 64 and column j."""
    return i // 16 * 32 + i % 8 * 4 + j % 8 // 2, j // 8 * 4 + i % 16 // 8 * 2 + j % 2


def _result(thread: Any, pair: Any) -> tuple[Any, Any]:
    """Return row and first column of a thread's pair of neighbouring results."""
    row = thread // 32 * 16 + thread % 32 // 4 + pair % 2 * 8
    return row, pair // 2 * 8 + thread % 4 * 2


def _check(columns: int, steps: int = WGMMA_STEPS[0]) -> None:
    if columns not in WGMMA_COLUMNS or steps not in WGMMA_STEPS:
        raise ScheduleError(
            f"there is no tensor intrinsic for {columns} columns and {steps} steps of wgmma",
            notes=(f"columns: {WGMMA_COLUMNS}; steps: {WGMMA_STEPS}",),
        )


def get_wgmma_intrin(
    columns: int, steps: int, scope: str = "shared.dyn"
) -> tuple[PrimFunc, PrimFunc]:
    """Define ``C += A @ B`` of a warpgroup: float16 tiles in shared memory, float32 sums.

    The products are begun one after the other; the threads wait for all of them at the end.
    """
    _check(columns, steps)
    local = columns // 2

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (ROWS, steps), "float16", align=64, offset_factor=steps, scope=scope)
        B = T.match_buffer(
            b, (columns // ROW, steps, ROW), "float16", align=64, offset_factor=ROW,
            scope=scope,
        )  # fmt: skip
        C = T.match_buffer(
            c, (THREADS, local), "float32", align=64, offset_factor=local, scope="warpgroup"
        )
        with T.block("root"):
            T.reads(
                C[0:THREADS, 0:local], A[0:ROWS, 0:steps], B[0 : columns // ROW, 0:steps, 0:ROW]
            )
            T.writes(C[0:THREADS, 0:local])
            for i, j, k in T.grid(ROWS, columns, steps):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    thread, place = T.meta_var(results_of_warpgroup(vi, vj))
                    T.reads(C[thread, place], A[vi, vk], B[vj // ROW, vk, vj % ROW])
                    T.writes(C[thread, place])
                    C[thread, place] = C[thread, place] + T.cast(A[vi, vk], "float32") * T.cast(
                        B[vj // ROW, vk, vj % ROW], "float32"
                    )

    return desc, _wgmma_impl(columns, steps, scope)


def _wgmma_impl(columns: int, steps: int, scope: str) -> PrimFunc:
    local, shape = columns // 2, f"m64n{columns}k{STEP}"
    width = 2 * steps  # bytes of a row of A
    layout_a, layout_b = f"k:rows{width}", f"mn:rows{2 * ROW}"

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        a0, b0 = T.int32(), T.int32()
        A = T.match_buffer(
            a, (ROWS, steps), "float16", align=64, offset_factor=steps, scope=scope,
            strides=[a0, 1],
        )  # fmt: skip
        B = T.match_buffer(
            b, (columns // ROW, steps, ROW), "float16", align=64, offset_factor=ROW,
            scope=scope, strides=[b0, ROW, 1],
        )  # fmt: skip
        C = T.match_buffer(
            c, (THREADS, local), "float32", align=64, offset_factor=local, scope="warpgroup"
        )
        with T.block("root"):
            T.reads(
                C[0:THREADS, 0:local], A[0:ROWS, 0:steps], B[0 : columns // ROW, 0:steps, 0:ROW]
            )
            T.writes(C[0:THREADS, 0:local])
            for tx in T.thread_binding(THREADS, thread="threadIdx.x"):
                T.evaluate(T.ptx_wgmma_fence())
                for step in T.unroll(steps // STEP):
                    T.evaluate(
                        T.ptx_wgmma(
                            "float32", shape, "fp16", "fp16", "fp32",
                            A.access_ptr("r"), step * STEP, layout_a, 16, a0 * (2 * GROUP),
                            B.access_ptr("r"), step * STEP * ROW, layout_b,
                            b0 * 2, 2 * ROW * GROUP,
                            C.data, C.elem_offset + tx * local, True,
                        )
                    )  # fmt: skip
                T.evaluate(T.ptx_wgmma_commit_group())
                T.evaluate(T.ptx_wgmma_wait_group(0))

    made: PrimFunc = impl
    return made


def get_wgmma_fill_intrin(columns: int) -> tuple[PrimFunc, PrimFunc]:
    """Define the fill of a warpgroup's tile with zeros."""
    _check(columns)
    local = columns // 2

    @T.prim_func(private=True)
    def desc(c: T.handle):
        C = T.match_buffer(
            c, (THREADS, local), "float32", align=64, offset_factor=local, scope="warpgroup"
        )
        with T.block("root"):
            T.reads()
            T.writes(C[0:THREADS, 0:local])
            for i, j in T.grid(ROWS, columns):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, place = T.meta_var(results_of_warpgroup(vi, vj))
                    T.reads()
                    T.writes(C[thread, place])
                    C[thread, place] = T.float32(0)

    @T.prim_func(private=True)
    def impl(c: T.handle):
        C = T.match_buffer(
            c, (THREADS, local), "float32", align=64, offset_factor=local, scope="warpgroup"
        )
        with T.block("root"):
            T.reads()
            T.writes(C[0:THREADS, 0:local])
            for tx in T.thread_binding(THREADS, thread="threadIdx.x"):
                T.evaluate(T.mma_fill("float32", local, C.data, C.elem_offset + tx * local))

    return desc, impl


def get_wgmma_store_intrin(columns: int, scope: str = "global") -> tuple[PrimFunc, PrimFunc]:
    """Define the store of a warpgroup's tile: each thread stores pairs of neighbours."""
    _check(columns)
    local = columns // 2

    @T.prim_func(private=True)
    def desc(c: T.handle, d: T.handle):
        C = T.match_buffer(
            c, (THREADS, local), "float32", align=64, offset_factor=local, scope="warpgroup"
        )
        D = T.match_buffer(d, (ROWS, columns), "float32", align=64, offset_factor=1, scope=scope)
        with T.block("root"):
            T.reads(C[0:THREADS, 0:local])
            T.writes(D[0:ROWS, 0:columns])
            for i, j in T.grid(ROWS, columns):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, place = T.meta_var(results_of_warpgroup(vi, vj))
                    T.reads(C[thread, place])
                    T.writes(D[vi, vj])
                    D[vi, vj] = C[thread, place]

    @T.prim_func(private=True)
    def impl(c: T.handle, d: T.handle):
        s0 = T.int32()
        C = T.match_buffer(
            c, (THREADS, local), "float32", align=64, offset_factor=local, scope="warpgroup"
        )
        D = T.match_buffer(
            d, (ROWS, columns), "float32", align=64, offset_factor=1, scope=scope, strides=[s0, 1]
        )
        with T.block("root"):
            T.reads(C[0:THREADS, 0:local])
            T.writes(D[0:ROWS, 0:columns])
            for tx in T.thread_binding(THREADS, thread="threadIdx.x"):
                for pair in range(local // 2):
                    i, j = T.meta_var(_result(tx, pair))
                    for v in T.vectorized(2):
                        D[i, j + v] = C[tx, pair * 2 + v]

    return desc, impl


# --- public names --------------------------------------------------------------------


def _define_all() -> None:
    for columns in WGMMA_COLUMNS:
        TensorIntrin.register(f"wgmma_fill_64x{columns}_f32", *get_wgmma_fill_intrin(columns))
        TensorIntrin.register(
            f"wgmma_store_64x{columns}_f32_global", *get_wgmma_store_intrin(columns)
        )
        for steps in WGMMA_STEPS:
            for scope, suffix in (("shared", ""), ("shared.dyn", "_dyn")):
                TensorIntrin.register(
                    f"wgmma_64x{columns}x{steps}_f16f16f32{suffix}",
                    *get_wgmma_intrin(columns, steps, scope),
                )


_define_all()


def get_wgmma_intrin_group(columns: int, steps: int, scope: str = "shared.dyn") -> dict[str, str]:
    """Return the names of a matching set of intrinsics: init, compute, store."""
    _check(columns, steps)
    if scope not in ("shared", "shared.dyn"):
        raise ScheduleError(f"wgmma reads from shared or shared.dyn, got '{scope}'")
    suffix = "_dyn" if scope == "shared.dyn" else ""
    return {
        "init": f"wgmma_fill_64x{columns}_f32",
        "compute": f"wgmma_64x{columns}x{steps}_f16f16f32{suffix}",
        "store": f"wgmma_store_64x{columns}_f32_global",
    }
