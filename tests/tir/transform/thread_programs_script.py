"""Scheduled programs for GPUs, on which the passes about threads are tried."""

from tilesmith.script import tir as T
from tilesmith.tir import Schedule


def matmul_function(m, n, k):
    @T.prim_func
    def matmul(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        C: T.Buffer((m, n), "float32"),
    ):
        T.func_attr({"global_symbol": "matmul"})
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return matmul


def fetch_together(sch, block, threads):
    """Bind the copy of a tile into shared memory to all threads of the block."""
    i, j = sch.get_loops(block)[-2:]
    fused = sch.fuse(i, j)
    _, ty, tx = sch.split(fused, [None, *threads])
    sch.bind(ty, "threadIdx.y")
    sch.bind(tx, "threadIdx.x")


def tiled_matmul(m=8, n=8, k=8, vthread=False, scope="shared", annotations=None):
    """Tiles in shared memory, fetched by all threads; results in registers."""
    sch = Schedule(matmul_function(m, n, k))
    block = sch.get_block("C")
    i, j, r = sch.get_loops(block)
    write = sch.cache_write(block, 0, "local")
    if vthread:
        bi, vi, ti = sch.split(i, [None, 2, 4])
        bj, vj, tj = sch.split(j, [None, 2, 4])
        sch.reorder(bi, bj, vi, vj, ti, tj)
        sch.bind(vi, "vthread.y")
        sch.bind(vj, "vthread.x")
    else:
        bi, ti = sch.split(i, [None, 4])
        bj, tj = sch.split(j, [None, 4])
        sch.reorder(bi, bj, ti, tj)
    sch.bind(bi, "blockIdx.y")
    sch.bind(bj, "blockIdx.x")
    sch.bind(ti, "threadIdx.y")
    sch.bind(tj, "threadIdx.x")
    ro, ri = sch.split(r, [None, 4])
    sch.reverse_compute_at(write, tj)
    for index in (0, 1):
        read = sch.cache_read(block, index, scope)
        sch.compute_at(read, ro)
        fetch_together(sch, read, (4, 4))
    sch.decompose_reduction(block, ro)
    for key, value in (annotations or {}).items():
        sch.annotate(ro, key, value)
    return sch.mod["main"]


def row_sums_function(rows, columns):
    @T.prim_func
    def rowsum(A: T.Buffer((rows, columns), "float32"), B: T.Buffer((rows,), "float32")):
        T.func_attr({"global_symbol": "rowsum"})
        for i, k in T.grid(rows, columns):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    return rowsum


def row_sums(rows=5, columns=40, threads=16, serial_outside=True):
    """Each row is summed by the threads of a block; ``columns`` need not divide."""
    sch = Schedule(row_sums_function(rows, columns))
    i, k = sch.get_loops(sch.get_block("B"))
    ko, ki = sch.split(k, [None, threads] if serial_outside else [threads, None])
    sch.bind(i, "blockIdx.x")
    sch.bind(ki if serial_outside else ko, "threadIdx.x")
    return sch.mod["main"]


def row_sums_rfactor(rows=3, columns=48, threads=8):
    """Partial sums by rfactor, combined by the threads that made them."""
    sch = Schedule(row_sums_function(rows, columns))
    _, k = sch.get_loops(sch.get_block("B"))
    _, ki = sch.split(k, [None, threads])
    partial = sch.rfactor(ki, 0)
    total = sch.get_block("B")
    i, inner = sch.get_loops(total)
    sch.bind(i, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    sch.compute_at(partial, inner)
    sch.set_scope(partial, 0, "local")
    return sch.mod["main"]


def softmax(rows=3, columns=24, threads=8):
    """Two reductions over threads and what is made of them, in one kernel."""

    @T.prim_func
    def func(A: T.Buffer((rows, columns), "float32"), B: T.Buffer((rows, columns), "float32")):
        T.func_attr({"global_symbol": "softmax"})
        M = T.alloc_buffer((rows,), scope="shared")
        S = T.alloc_buffer((rows,), scope="shared")
        for i in T.thread_binding(rows, thread="blockIdx.x"):
            for ko in range(columns // threads):
                for t0 in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("max"):
                        vi = T.axis.spatial(rows, i)
                        vk = T.axis.reduce(columns, ko * threads + t0)
                        with T.init():
                            M[vi] = T.min_value("float32")
                        M[vi] = T.max(M[vi], A[vi, vk])
            for ko in range(columns // threads):
                for t1 in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("sum"):
                        vi = T.axis.spatial(rows, i)
                        vk = T.axis.reduce(columns, ko * threads + t1)
                        with T.init():
                            S[vi] = T.float32(0)
                        S[vi] = S[vi] + T.exp(A[vi, vk] - M[vi])
            for ko in range(columns // threads):
                for t2 in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("out"):
                        vi = T.axis.spatial(rows, i)
                        vk = T.axis.spatial(columns, ko * threads + t2)
                        B[vi, vk] = T.exp(A[vi, vk] - M[vi]) / S[vi]

    return func


def argmax(rows=4, columns=20, threads=8):
    """A reduction of pairs."""
    blocks = -(-columns // threads)

    @T.prim_func
    def func(
        A: T.Buffer((rows, columns), "float32"),
        P: T.Buffer((rows,), "int32"),
        V: T.Buffer((rows,), "float32"),
    ):
        T.func_attr({"global_symbol": "argmax"})
        for i in T.thread_binding(rows, thread="blockIdx.x"):
            for ko in range(blocks):
                for t in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("best"):
                        vi = T.axis.spatial(rows, i)
                        vk = T.axis.reduce(columns, ko * threads + t)
                        T.where(ko * threads + t < columns)
                        with T.init():
                            P[vi] = -1
                            V[vi] = T.min_value("float32")
                        v0: T.int32 = T.Select(V[vi] >= A[vi, vk], P[vi], vk)
                        v1: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
                        P[vi] = v0
                        V[vi] = v1

    return func


def stencil(rows=2, columns=32, threads=8):
    """A row in shared memory, of which each thread reads its neighbours' parts."""

    @T.prim_func
    def func(A: T.Buffer((rows, columns), "float32"), B: T.Buffer((rows, columns), "float32")):
        T.func_attr({"global_symbol": "stencil"})
        S = T.alloc_buffer((columns,), scope="shared")
        for i in T.thread_binding(rows, thread="blockIdx.x"):
            for ko in range(columns // threads):
                for t0 in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("load"):
                        vi = T.axis.spatial(rows, i)
                        vk = T.axis.spatial(columns, ko * threads + t0)
                        S[vk] = A[vi, vk]
            for ko in range(columns // threads):
                for t1 in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("out"):
                        vi = T.axis.spatial(rows, i)
                        vk = T.axis.spatial(columns, ko * threads + t1)
                        B[vi, vk] = S[T.max(vk - 1, 0)] + S[vk] + S[T.min(vk + 1, columns - 1)]

    return func


PROGRAMS = {
    "matmul": tiled_matmul,
    "matmul_vthread": lambda: tiled_matmul(vthread=True),
    "matmul_dynamic": lambda: tiled_matmul(scope="shared.dyn"),
    "matmul_pipelined": lambda: tiled_matmul(
        annotations={
            "software_pipeline_stage": [0, 0, 1],
            "software_pipeline_order": [0, 1, 2],
        },
    ),
    "matmul_async": lambda: tiled_matmul(
        k=16,
        annotations={
            "software_pipeline_stage": [0, 0, 2],
            "software_pipeline_order": [0, 1, 2],
            "software_pipeline_async_stages": [0],
        },
    ),
    "matmul_async_apart": lambda: tiled_matmul(
        k=16,
        scope="shared.dyn",
        annotations={
            "software_pipeline_stage": [0, 1, 3],
            "software_pipeline_order": [2, 0, 1],
            "software_pipeline_async_stages": [0, 1],
        },
    ),
    "row_sums": row_sums,
    "row_sums_odd": lambda: row_sums(3, 37, 8),
    "row_sums_direct": lambda: row_sums(5, 16, 16),
    "row_sums_outer": lambda: row_sums(4, 40, 8, serial_outside=False),
    "row_sums_rfactor": row_sums_rfactor,
    "softmax": softmax,
    "argmax": argmax,
    "stencil": stencil,
}
