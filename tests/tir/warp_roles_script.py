"""Kernels whose warps have different roles, for tests: some bring tiles to shared memory, others
compute with them, and barriers in shared memory say which tiles are full and which are empty again.
"""

import numpy as np

from tilesmith.script import tir as T

TILE = 128  # elements


def by_tensor_maps(stages=2, turns=5, warps=2):
    """One thread of the first warp brings a tile each turn; the other warps read it."""
    size, nbytes, readers = stages * TILE, 4 * TILE, 32 * warps

    @T.prim_func
    def main(A: T.Buffer((turns, TILE), "float32"), B: T.Buffer((turns, TILE), "float32")):
        tx = T.launch_thread("threadIdx.x", 32 + readers)
        S = T.decl_buffer((size,), "float32", scope="shared")
        T.create_barriers(2 * stages)
        if tx == 0:
            for stage in range(stages):
                T.ptx_init_barrier_thread_count(stage, 1)
                T.ptx_init_barrier_thread_count(stages + stage, readers)
        T.tvm_storage_sync("shared")
        if tx < 32:
            if tx == 0:
                for turn in range(turns):
                    if turn >= stages:
                        T.ptx_wait_barrier(stages + turn % stages)
                    T.ptx_arrive_barrier_expect_tx(turn % stages, nbytes)
                    T.ptx_cp_async_bulk_tensor(
                        "float32", S.data, turn % stages * TILE, A.data, (turns, TILE),
                        (1, TILE), (turn, 0), turn % stages,
                    )  # fmt: skip
        else:
            for turn in range(turns):
                T.ptx_wait_barrier(turn % stages)
                for i in range(TILE // readers):
                    at = T.meta_var(i * readers + tx - 32)
                    B[turn, at] = S[turn % stages * TILE + TILE - 1 - at] * T.float32(2)
                T.ptx_arrive_barrier(stages + turn % stages)

    return main


def by_copies(stages=3, turns=7, warps=2):
    """The threads of the first warp copy 16 bytes each (``cp.async``); the roles are two branches,
    one behind the other, and all threads meet behind them. Memory is allocated between the two."""
    size, readers = stages * TILE, 32 * warps

    @T.prim_func
    def main(A: T.Buffer((turns, TILE), "float32"), B: T.Buffer((turns, TILE), "float32")):
        tx = T.launch_thread("threadIdx.x", 32 + readers)
        S = T.decl_buffer((size,), "float32", scope="shared")
        T.create_barriers(2 * stages)
        if tx == 0:
            for stage in range(stages):
                T.ptx_init_barrier_thread_count(stage, 32)
                T.ptx_init_barrier_thread_count(stages + stage, readers)
        T.tvm_storage_sync("shared")
        if tx < 32:
            for turn in range(turns):
                if turn >= stages:
                    T.ptx_wait_barrier(stages + turn % stages)
                T.ptx_cp_async(
                    "float32", S.data, turn % stages * TILE + tx * 4, A.data,
                    turn * TILE + tx * 4, 16,
                )  # fmt: skip
                T.ptx_cp_async_barrier(turn % stages)
                T.ptx_arrive_barrier(turn % stages)
        R = T.decl_buffer((32 + readers,), "float32", scope="shared")
        mine = T.decl_buffer((1,), "float32", scope="local")
        mine[0] = T.Cast("float32", tx)
        R[tx] = mine[0]
        if tx >= 32:
            for turn in range(turns):
                T.ptx_wait_barrier(turn % stages)
                for i in range(TILE // readers):
                    at = T.meta_var(i * readers + tx - 32)
                    B[turn, at] = S[turn % stages * TILE + TILE - 1 - at] * T.float32(2)
                T.ptx_arrive_barrier(stages + turn % stages)
        T.tvm_storage_sync("shared")
        if tx >= readers:
            at = T.meta_var(tx - readers)
            B[0, at] = B[0, at] + R[31 + readers - at] + mine[0]

    return main


def by_stores(stages=2, turns=5, warps=2):
    """The first warp stores what it computes; nothing is copied in the background."""
    size, readers = stages * TILE, 32 * warps

    @T.prim_func
    def main(A: T.Buffer((turns, TILE), "float32"), B: T.Buffer((turns, TILE), "float32")):
        tx = T.launch_thread("threadIdx.x", 32 + readers)
        S = T.decl_buffer((size,), "float32", scope="shared")
        T.create_barriers(2 * stages)
        if tx == 0:
            for stage in range(stages):
                T.ptx_init_barrier_thread_count(stage, 32)
                T.ptx_init_barrier_thread_count(stages + stage, readers)
        T.tvm_storage_sync("shared")
        if tx < 32:
            for turn in range(turns):
                if turn >= stages:
                    T.ptx_wait_barrier(stages + turn % stages)
                for i in range(TILE // 32):
                    S[turn % stages * TILE + i * 32 + tx] = A[turn, i * 32 + tx] * T.float32(2)
                T.ptx_arrive_barrier(turn % stages)
        else:
            for turn in range(turns):
                T.ptx_wait_barrier(turn % stages)
                for i in range(TILE // readers):
                    at = T.meta_var(i * readers + tx - 32)
                    B[turn, at] = S[turn % stages * TILE + TILE - 1 - at]
                T.ptx_arrive_barrier(stages + turn % stages)

    return main


def in_one_loop(turns=5, lag=2):
    """Both roles in one loop, and the first thread's are others than those of its warp. Tiles are
    read some turns after they came to the only place that there is, so the first thread is turns
    behind the others at times."""
    last = turns + lag

    @T.prim_func
    def main(A: T.Buffer((turns, TILE), "float32"), B: T.Buffer((turns, TILE), "float32")):
        tx = T.launch_thread("threadIdx.x", 33)
        S = T.decl_buffer((TILE,), "float32", scope="shared")
        T.create_barriers(2)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
            T.ptx_init_barrier_thread_count(1, 32)
        T.tvm_storage_sync("shared")
        for turn in range(last):
            if tx == 0 and turn < turns:
                if turn >= 1:
                    T.ptx_wait_barrier(1)
                T.ptx_arrive_barrier_expect_tx(0, 512)
                T.ptx_cp_async_bulk("float32", S.data, 0, A.data, turn * TILE, 512, 0)
            if tx > 0 and turn >= lag:
                T.ptx_wait_barrier(0)
                for i in range(4):
                    at = T.meta_var(i * 32 + tx - 1)
                    B[turn - lag, at] = S[TILE - 1 - at] * T.float32(2)
                T.ptx_arrive_barrier(1)

    return main


def product(rows, columns, depth, stages=2, elected=False):
    """``C = A @ B.T`` in tiles of 64 x 64: a warp of its own brings tiles, a warpgroup multiplies.

    ``elected``: one thread of the warpgroup says that a tile is empty, else all of them.
    """
    steps, tile, arriving = depth // 64, 64 * 64, 1 if elected else 128
    speaks = (lambda tx: tx == 0) if elected else (lambda tx: tx < 128)

    @T.prim_func
    def main(
        A: T.Buffer((rows, depth), "float16"),
        B: T.Buffer((columns, depth), "float16"),
        C: T.Buffer((rows, columns), "float32"),
    ):
        by = T.launch_thread("blockIdx.y", rows // 64)
        bx = T.launch_thread("blockIdx.x", columns // 64)
        tx = T.launch_thread("threadIdx.x", 160)
        a = T.decl_buffer((stages * tile,), "float16", scope="shared.dyn")
        b = T.decl_buffer((stages * tile,), "float16", scope="shared.dyn")
        c = T.decl_buffer((32,), "float32", scope="local")
        T.create_barriers(2 * stages)
        if tx == 0:
            for stage in range(stages):
                T.ptx_init_barrier_thread_count(stage, 1)
                T.ptx_init_barrier_thread_count(stages + stage, arriving)
        T.tvm_storage_sync("shared")
        if tx >= 128:
            if tx == 128:
                for turn in range(steps):
                    if turn >= stages:
                        T.ptx_wait_barrier(stages + turn % stages)
                    T.ptx_arrive_barrier_expect_tx(turn % stages, 4 * tile)
                    T.ptx_cp_async_bulk_tensor(
                        "float16", a.data, turn % stages * tile, A.data, (rows, depth), (64, 64),
                        (by * 64, turn * 64), turn % stages, 128,
                    )  # fmt: skip
                    T.ptx_cp_async_bulk_tensor(
                        "float16", b.data, turn % stages * tile, B.data, (columns, depth),
                        (64, 64), (bx * 64, turn * 64), turn % stages, 128,
                    )  # fmt: skip
        else:
            for i in range(32):
                c[i] = T.float32(0)
            for turn in range(steps):
                T.ptx_wait_barrier(turn % stages)
                T.ptx_wgmma_fence()
                for k in T.unroll(4):
                    T.ptx_wgmma(
                        "float32", "m64n64k16", "fp16", "fp16", "fp32",
                        a.data, turn % stages * tile + k * 16, "k:128", 16, 1024,
                        b.data, turn % stages * tile + k * 16, "k:128", 16, 1024,
                        c.data, 0, True,
                    )  # fmt: skip
                T.ptx_wgmma_commit_group()
                T.ptx_wgmma_wait_group(0)
                if speaks(tx):
                    T.ptx_arrive_barrier(stages + turn % stages)
            for i in range(32):
                row = T.meta_var(by * 64 + tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8)
                column = T.meta_var(bx * 64 + i // 4 * 8 + tx % 4 * 2 + i % 2)
                C[row, column] = c[i]

    return main


def arrays_of_tiles(turns):
    """Return arguments of a kernel that reads tiles, and what the last one is afterwards."""
    a = np.arange(1, turns * TILE + 1, dtype="float32").reshape(turns, TILE)
    return [a, np.zeros_like(a)], a[:, ::-1] * 2


def arrays_of_product(rows, columns, depth):
    """Return arguments of a product, and what the last one is afterwards."""
    random = np.random.default_rng(0)
    a, b = [random.integers(-2, 3, (n, depth)).astype("float16") for n in (rows, columns)]
    c = np.full((rows, columns), np.nan, "float32")
    return [a, b, c], a.astype("float32") @ b.astype("float32").T
