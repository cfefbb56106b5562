"""Kernels of one product ``ptx_wgmma`` each, for tests: interpreted, compiled, run on devices."""

from typing import NamedTuple

import numpy as np

from tilesmith.runtime.dtype import DataType
from tilesmith.script import tir as T

DTYPES = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "e4m3_float8",
    "e5m2": "e5m2_float8", "s8": "int8", "u8": "uint8", "fp32": "float32", "int32": "int32",
}  # fmt: skip
ROWS, THREADS, GROUP = 64, 128, 8


class Case(NamedTuple):
    """A product: its columns, types, the layouts of A and B, and the part of wide rows that is
    used; ``adds``: the results are added to what is there.
    """

    columns: int = 64
    kind: str = "fp16"
    result: str = "fp32"
    a: str = "k:128"
    b: str = "k:128"
    part: int = 0
    adds: bool = True

    @property
    def element(self):
        return DataType(DTYPES[self.kind]).nbytes

    @property
    def steps(self):
        return 32 // self.element


CASES = {
    "rows of 128 bytes": Case(),
    "the last part of rows of 128 bytes": Case(part=3),
    "rows of 64 bytes": Case(a="k:64", b="k:64", part=1),
    "rows of 32 bytes": Case(a="k:32", b="k:32"),
    "rows of 16 bytes": Case(a="k:16", b="k:16"),
    "B by columns": Case(128, b="mn:128"),
    "both by columns": Case(128, a="mn:128", b="mn:128"),
    "columns in rows of 64 bytes": Case(b="mn:64"),
    "columns in rows of 32 bytes": Case(b="mn:32"),
    "columns in rows of 16 bytes": Case(a="mn:16", b="mn:16"),
    "A in registers": Case(a="registers", b="mn:128"),
    "256 columns": Case(256, b="mn:128"),
    "24 columns": Case(24),
    "results replaced": Case(adds=False),
    "results of 16 bits": Case(result="fp16"),
    "bfloat16": Case(96, "bf16", b="mn:32"),
    "tf32": Case(64, "tf32"),
    "tf32 from registers": Case(64, "tf32", a="registers"),
    "bytes": Case(64, "s8", "int32"),
    "unsigned bytes from registers": Case(48, "u8", "int32", a="registers"),
    "e4m3": Case(64, "e4m3"),
    "e5m2 with results of 16 bits": Case(64, "e5m2", "fp16"),
}


def distances(layout, size, steps, element):
    """Return leading and stride distance, and the bytes that a matrix takes."""
    major, width = layout.split(":")
    width = int(width)
    if major == "k":
        leading = size * 16
        return leading, GROUP * width, size * (32 if width == 16 else width)
    parts = size * element // width
    if width == 16:
        return GROUP * 16, steps * 16, parts * steps * 16
    return steps * width, GROUP * width, parts * steps * width


def place(layout, sizes, outer, k, element, start):
    """Return the number of an element of shared memory that holds element (outer, k) of a matrix
    that begins ``start`` bytes behind the first one.
    """
    size, steps = sizes
    major, width = layout.split(":")
    width = int(width)
    if major == "k" and width == 16:
        byte = outer * 16 + k * element // 16 * (size * 16) + k * element % 16
    elif major == "k":
        byte = outer * width + k * element
    else:
        byte = outer * element // width * (steps * width) + k * width + outer * element % width
    byte = byte + start
    piece, inside = byte // 16, byte % 16
    # Row r of eight has its pieces in another order: 128 bytes are one row, 64 bytes two rows at
    # a distance, and so on.
    turn = piece // 8 % 8 % (width // 16)
    return ((piece ^ turn) * 16 + inside) // element


def product_of(case):
    """Return the kernel: C += A @ B.T, with A [64, k] and B [columns, k]."""
    columns, steps, element = case.columns, case.steps, case.element
    dtype, c_dtype = DTYPES[case.kind], DTYPES[case.result]
    in_registers = case.a == "registers"
    layout_a = "k:128" if in_registers else case.a
    a_leading, a_stride, a_bytes = distances(layout_a, ROWS, steps, element)
    b_leading, b_stride, b_bytes = distances(case.b, columns, steps, element)
    start = case.part * 32
    shape, results = f"m64n{columns}k{steps}", columns // 2
    held = ROWS * steps // THREADS
    packed = 4 // element
    a_count, b_count = -(-a_bytes // 1024) * 1024 // element, -(-b_bytes // 1024) * 1024 // element

    def register_place(thread, i):
        """Row and step of what a thread holds of A: those of ``mma`` in each of four warps."""
        block = i // packed
        row = thread // 32 * 16 + thread % 32 // 4 + block % 2 * 8
        return row, thread % 4 * packed + i % packed + block // 2 * 4 * packed

    @T.prim_func
    def main(
        A: T.Buffer((ROWS, steps), dtype),
        B: T.Buffer((columns, steps), dtype),
        C: T.Buffer((ROWS, columns), c_dtype),
    ):
        tx = T.launch_thread("threadIdx.x", THREADS)
        a = T.decl_buffer((a_count,), dtype, scope="shared.dyn")
        b = T.decl_buffer((b_count,), dtype, scope="shared.dyn")
        r = T.decl_buffer((held,), dtype, scope="local")
        c = T.decl_buffer((results,), c_dtype, scope="local")
        for i in range(ROWS * steps // THREADS):
            row = T.meta_var((i * THREADS + tx) // steps)
            k = T.meta_var((i * THREADS + tx) % steps)
            a[place(layout_a, (ROWS, steps), row, k, element, start)] = A[row, k]
        for i in range(columns * steps // THREADS):
            row = T.meta_var((i * THREADS + tx) // steps)
            k = T.meta_var((i * THREADS + tx) % steps)
            b[place(case.b, (columns, steps), row, k, element, start)] = B[row, k]
        for i in range(held):
            place_of = T.meta_var(register_place(tx, i))
            r[i] = A[place_of[0], place_of[1]]
        for i in range(results):
            c[i] = C[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2]
        T.tvm_storage_sync("shared")
        T.ptx_wgmma_fence()
        T.ptx_wgmma(
            c_dtype, shape, case.kind, case.kind, case.result,
            r.data if in_registers else a.data, 0 if in_registers else start // element,
            case.a, a_leading, a_stride,
            b.data, start // element, case.b, b_leading, b_stride,
            c.data, 0, case.adds,
        )  # fmt: skip
        T.ptx_wgmma_commit_group()
        T.ptx_wgmma_wait_group(0)
        for i in range(results):
            C[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2] = c[i]

    return main


def arrays_of(case, seed=0):
    """Return A, B, C with small whole numbers, and what C is afterwards."""
    random = np.random.default_rng(seed)
    low = 0 if case.kind == "u8" else -2
    kind = DataType(DTYPES[case.kind]).numpy()
    a = random.integers(low, 3, (ROWS, case.steps)).astype(kind)
    b = random.integers(low, 3, (case.columns, case.steps)).astype(kind)
    c = random.integers(-2, 3, (ROWS, case.columns)).astype(DataType(DTYPES[case.result]).numpy())
    expected = a.astype("float64") @ b.astype("float64").T + case.adds * c.astype("float64")
    return (a, b, c), expected
