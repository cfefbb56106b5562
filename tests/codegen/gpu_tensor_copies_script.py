"""Kernels that copy boxes of tensors in the background (tensor maps), for tests: interpreted,
compiled, run on devices.
"""

from dataclasses import dataclass

import numpy as np

from tilesmith.runtime.dtype import DataType
from tilesmith.script import tir as T


@dataclass(frozen=True)
class Box:
    """A tensor, the box of it that is copied, and the place of the box in each turn.

    ``pitch``: elements from a row to the next, where that is not the size of the last axis.
    """

    sizes: tuple
    box: tuple
    places: tuple
    dtype: str = "float32"
    swizzle: int = 0
    pitch: int = 0
    scope: str = "shared"

    @property
    def shape(self):
        """The shape of the memory: gaps are elements that do not belong to the tensor."""
        return (*self.sizes[:-1], self.pitch or self.sizes[-1])


CASES = {
    "1d": Box((100,), (32,), ((0,), (80,), (-8,))),
    "2d": Box((40, 64), (8, 16), ((8, 16), (36, 56), (-3, 0), (40, 0))),
    "2d, bytes": Box((9, 48), (4, 32), ((0, 16), (7, 24)), "int8"),
    "2d, gaps": Box((9, 6), (4, 6), ((2, 0), (7, -1)), "float64", pitch=8),
    "3d": Box((5, 7, 16), (2, 3, 8), ((1, 2, 4), (4, 5, 12), (-1, -1, -1))),
    "4d": Box((3, 2, 5, 8), (2, 2, 2, 4), ((1, 0, 3, 4), (2, 1, 4, 0))),
    "5d": Box((2, 3, 2, 5, 4), (1, 2, 2, 2, 4), ((0, 1, 0, 3, 0), (1, 2, 1, 4, 0))),
    "32 bytes permuted": Box((40, 24), (16, 8), ((8, 16), (32, 16)), swizzle=32),
    "64 bytes permuted": Box((40, 64), (16, 32), ((3, 16), (30, 40)), "float16", 64),
    "128 bytes permuted": Box((40, 128), (16, 64), ((3, 64), (30, 72)), "bfloat16", 128),
    "3d, permuted": Box((3, 20, 32), (2, 8, 32), ((1, 4, 0), (2, 15, 8)), swizzle=128),
    "dynamic memory": Box((40, 64), (8, 64), ((8, 0), (36, 8)), "float16", 128, scope="shared.dyn"),
}


def copy_of(case):
    """One thread copies a box, all threads store it as it lies in shared memory."""
    count, turns, rank = int(np.prod(case.box)), len(case.places), len(case.box)
    nbytes = count * DataType(case.dtype).nbytes
    sizes, box, shape, scope = case.sizes, case.box, case.shape, case.scope
    dtype, swizzle = case.dtype, case.swizzle
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(rank)]

    @T.prim_func
    def main(
        A: T.Buffer(shape, dtype),
        P: T.Buffer((turns, rank), "int32"),
        B: T.Buffer((turns, count), dtype),
    ):
        tx = T.launch_thread("threadIdx.x", 32)
        other = T.decl_buffer((4,), dtype, scope=scope)
        S = T.decl_buffer((count,), dtype, scope=scope)
        if tx < 4:
            other[tx] = T.Cast(dtype, tx)
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
        T.tvm_storage_sync("shared")
        for turn in range(turns):
            if tx == 0:
                T.ptx_arrive_barrier_expect_tx(0, nbytes)
                T.ptx_cp_async_bulk_tensor(
                    dtype, S.data, 0, A.data, sizes, box,
                    [P[turn, axis] for axis in range(rank)], 0, swizzle, strides,
                )  # fmt: skip
            T.ptx_wait_barrier(0)
            for i in range((count + 31) // 32):
                if i * 32 + tx < count:
                    B[turn, i * 32 + tx] = S[i * 32 + tx] + other[0]
            T.tvm_storage_sync("shared")

    return main


def arrays_of(case):
    """Return arguments, and the boxes that have to arrive."""
    random = np.random.default_rng(0)
    kind = DataType(case.dtype).numpy()
    a = random.integers(-9, 10, case.shape).astype(kind)
    places = np.array(case.places, "int32")
    b = np.full((len(places), int(np.prod(case.box))), 99).astype(kind)
    return [a, places, b], np.stack([_arrived(case, a, place) for place in case.places])


def _arrived(case, a, place):
    """Return the bytes of shared memory, as elements."""
    around = max(case.box)
    whole = np.pad(a[..., : case.sizes[-1]], around)
    part = whole[tuple([slice(around + at, around + at + n) for at, n in zip(place, case.box)])]
    if not case.swizzle:
        return part.reshape(-1)
    # Row by row, as the tables of the CUDA programming guide show it: piece p of row r lies at
    # p ^ (r % 8), where a row has 128 bytes; narrower rows lie side by side in such rows.
    pieces = np.ascontiguousarray(part).reshape(-1).view(np.uint8).reshape(-1, 8, 16)
    mask, arrived = case.swizzle // 16 - 1, np.empty_like(pieces)
    for row in range(len(pieces)):
        for piece in range(8):
            arrived[row, piece ^ (row % 8 & mask)] = pieces[row, piece]
    return arrived.reshape(-1).view(a.dtype)


def product_by_tensor_maps(rows, columns, depth, stages=2):
    """``C = A @ B.T`` in tiles of 64 x 64: one thread brings tiles of both to shared memory, some
    steps ahead, and four warps multiply them there (``wgmma``).
    """
    steps, tile = depth // 64, 64 * 64

    @T.prim_func
    def main(
        A: T.Buffer((rows, depth), "float16"),
        B: T.Buffer((columns, depth), "float16"),
        C: T.Buffer((rows, columns), "float32"),
    ):
        by = T.launch_thread("blockIdx.y", (rows + 63) // 64)
        bx = T.launch_thread("blockIdx.x", (columns + 63) // 64)
        tx = T.launch_thread("threadIdx.x", 128)
        a = T.decl_buffer((stages * tile,), "float16", scope="shared.dyn")
        b = T.decl_buffer((stages * tile,), "float16", scope="shared.dyn")
        c = T.decl_buffer((32,), "float32", scope="local")
        T.create_barriers(stages)
        if tx == 0:
            for stage in range(stages):
                T.ptx_init_barrier_thread_count(stage, 1)
        T.tvm_storage_sync("shared")
        for i in range(32):
            c[i] = T.float32(0)
        for turn in range(steps + stages - 1):
            if tx == 0:
                if turn < steps:
                    T.ptx_arrive_barrier_expect_tx(turn % stages, 4 * tile)
                    T.ptx_cp_async_bulk_tensor(
                        "float16", a.data, turn % stages * tile, A.data, (rows, depth), (64, 64),
                        (by * 64, turn * 64), turn % stages, 128,
                    )  # fmt: skip
                    T.ptx_cp_async_bulk_tensor(
                        "float16", b.data, turn % stages * tile, B.data, (columns, depth),
                        (64, 64), (bx * 64, turn * 64), turn % stages, 128,
                    )  # fmt: skip
            if turn >= stages - 1:
                T.ptx_wait_barrier((turn + 1) % stages)
                T.ptx_wgmma_fence()
                for k in T.unroll(4):
                    T.ptx_wgmma(
                        "float32", "m64n64k16", "fp16", "fp16", "fp32",
                        a.data, (turn + 1) % stages * tile + k * 16, "k:128", 16, 1024,
                        b.data, (turn + 1) % stages * tile + k * 16, "k:128", 16, 1024,
                        c.data, 0, True,
                    )  # fmt: skip
                T.ptx_wgmma_commit_group()
                T.ptx_wgmma_wait_group(0)
                T.tvm_storage_sync("shared")
        for i in range(32):
            row = T.meta_var(by * 64 + tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8)
            column = T.meta_var(bx * 64 + i // 4 * 8 + tx % 4 * 2 + i % 2)
            if row < rows:
                if column < columns:
                    C[row, column] = c[i]

    return main


def arrays_of_product(rows, columns, depth):
    """Return arguments of a product, and what the last one is afterwards."""
    random = np.random.default_rng(0)
    a, b = [random.integers(-2, 3, (n, depth)).astype("float16") for n in (rows, columns)]
    c = np.full((rows, columns), np.nan, "float32")
    return [a, b, c], a.astype("float32") @ b.astype("float32").T
