"""Kernels of one instruction each, for tests of GPU code: interpreted, compiled, run on devices."""

import numpy as np

from tilesmith.runtime.dtype import DataType
from tilesmith.script import tir as T

DTYPES = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp64": "float64", "s8": "int8",
    "u8": "uint8", "fp32": "float32", "int32": "int32", "e4m3": "e4m3_float8",
    "e5m2": "e5m2_float8",
}  # fmt: skip
MMA = [
    ("m16n8k8", "fp16", "fp32"), ("m16n8k8", "fp16", "fp16"), ("m16n8k16", "fp16", "fp32"),
    ("m16n8k16", "fp16", "fp16"), ("m16n8k8", "bf16", "fp32"), ("m16n8k16", "bf16", "fp32"),
    ("m16n8k4", "tf32", "fp32"), ("m16n8k8", "tf32", "fp32"), ("m8n8k4", "fp64", "fp64"),
    ("m16n8k4", "fp64", "fp64"), ("m16n8k8", "fp64", "fp64"), ("m16n8k16", "fp64", "fp64"),
    ("m16n8k32", "e4m3", "fp32"), ("m16n8k32", "e5m2", "fp32"), ("m16n8k16", "e4m3", "fp16"),
    ("m8n8k16", "s8", "int32"), ("m16n8k16", "u8", "int32"), ("m16n8k32", "s8", "int32"),
]  # fmt: skip


def mma(shape, kind, c_kind):
    """``c += a * b`` of registers that come from rows of global memory."""
    m, k = int(shape[1 : shape.index("n")]), int(shape.split("k")[1])
    dtype, c_dtype = DTYPES[kind], DTYPES[c_kind]
    a_count, b_count, c_count = m * k // 32, k * 8 // 32, m * 8 // 32

    @T.prim_func
    def main(
        A: T.Buffer((32, a_count), dtype),
        B: T.Buffer((32, b_count), dtype),
        C: T.Buffer((32, c_count), c_dtype),
    ):
        tx = T.launch_thread("threadIdx.x", 32)
        a = T.decl_buffer((a_count,), dtype, scope="local")
        b = T.decl_buffer((b_count,), dtype, scope="local")
        c = T.decl_buffer((c_count,), c_dtype, scope="local")
        for i in range(a_count):
            a[i] = A[tx, i]
        for i in range(b_count):
            b[i] = B[tx, i]
        for i in range(c_count):
            c[i] = C[tx, i]
        T.ptx_mma(
            c_dtype, shape, "row", "col", kind, kind, c_kind, a.data, 0, b.data, 0, c.data, 0,
            False,
        )  # fmt: skip
        for i in range(c_count):
            C[tx, i] = c[i]

    return main


FRAGMENTS = [
    ((16, 16, 16), "float16", "float32", "row_major"),
    ((32, 8, 16), "float16", "float32", "col_major"),
    ((8, 32, 16), "float16", "float16", "row_major"),
    ((16, 16, 16), "bfloat16", "float32", "col_major"),
    ((16, 16, 8), "float32", "float32", "row_major"),
    ((8, 8, 4), "float64", "float64", "col_major"),
    ((16, 16, 16), "int8", "int32", "row_major"), ((32, 8, 16), "uint8", "int32", "col_major"),
]  # fmt: skip


def fragments(sizes, dtype, c_dtype, layout):
    """``c = 1 + a * b`` by fragments, straight from and to global memory; ``layout``: of B."""
    m, n, k = sizes
    stride = n if layout == "row_major" else k

    @T.prim_func
    def main(
        A: T.Buffer((m * k,), dtype), B: T.Buffer((k * n,), dtype), C: T.Buffer((m * n,), c_dtype)
    ):
        T.launch_thread("threadIdx.x", 32)
        a = T.decl_buffer((m * k,), dtype, scope="wmma.matrix_a")
        b = T.decl_buffer((k * n,), dtype, scope="wmma.matrix_b")
        c = T.decl_buffer((m * n,), c_dtype, scope="wmma.accumulator")
        T.tvm_fill_fragment(c.data, m, n, k, 0, T.float32(1))
        T.tvm_load_matrix_sync(
            a.data, m, n, k, 0,
            T.tvm_access_ptr(T.type_annotation(dtype), A.data, 0, m * k, 1), k, "row_major",
        )  # fmt: skip
        T.tvm_load_matrix_sync(
            b.data, m, n, k, 0,
            T.tvm_access_ptr(T.type_annotation(dtype), B.data, 0, k * n, 1), stride, layout,
        )  # fmt: skip
        T.tvm_mma_sync(c.data, 0, a.data, 0, b.data, 0, c.data, 0)
        T.tvm_store_matrix_sync(
            c.data, m, n, k, 0,
            T.tvm_access_ptr(T.type_annotation(c_dtype), C.data, 0, m * n, 2), n, "row_major",
        )  # fmt: skip

    return main


def ldmatrix(count, transposed):
    """Matrices of 8 by 8 elements in shared memory → the registers of each thread."""

    @T.prim_func
    def main(A: T.Buffer((count * 64,), "float16"), B: T.Buffer((32, count * 2), "float16")):
        tx = T.launch_thread("threadIdx.x", 32)
        S = T.decl_buffer((count * 64,), "float16", scope="shared")
        r = T.decl_buffer((count * 2,), "float16", scope="local")
        for i in range(count * 2):
            S[tx * (count * 2) + i] = A[tx * (count * 2) + i]
        T.tvm_storage_sync("shared")
        T.ptx_ldmatrix(
            "float16", transposed, count, ".b16", r.data, 0, S.data, tx % (count * 8) * 8
        )
        for i in range(count * 2):
            B[tx, i] = r[i]

    return main


def store_of_results(dtype):
    """Fill, change and store the registers of a tile of results."""

    @T.prim_func
    def main(C: T.Buffer((16, 20), dtype)):
        tx = T.launch_thread("threadIdx.x", 32)
        c = T.decl_buffer((8,), dtype, scope="local")
        T.mma_fill(dtype, 8, c.data, 0)
        for i in range(8):
            c[i] = c[i] + T.Cast(dtype, tx * 8 + i)
        T.mma_store(
            dtype, 16, 16, T.tvm_access_ptr(T.type_annotation(dtype), C.data, 0, 320, 2),
            c.data, 0, 20,
        )  # fmt: skip

    return main


def copies(count, guarded):
    """Copies of so many bytes in the background, in two groups."""
    number = count // 4

    @T.prim_func
    def main(A: T.Buffer((64 * number,), "int32"), B: T.Buffer((64 * number,), "int32")):
        tx = T.launch_thread("threadIdx.x", 32)
        S = T.decl_buffer((64 * number,), "int32", scope="shared")
        for half in range(2):
            if guarded:
                T.evaluate(
                    T.call_intrin(
                        "int32",
                        "tir.ptx_cp_async",
                        S.data,
                        (half * 32 + tx) * number,
                        A.data,
                        (half * 32 + tx) * number,
                        count,
                        tx % 3 != half,
                    )  # fmt: skip
                )
            else:
                T.ptx_cp_async(
                    "int32", S.data, (half * 32 + tx) * number, A.data, (half * 32 + tx) * number,
                    count,
                )  # fmt: skip
            T.ptx_commit_group()
        T.ptx_wait_group(1)
        T.tvm_storage_sync("shared")
        for i in range(number):
            B[tx * number + i] = S[(31 - tx) * number + i]
        T.ptx_wait_group(0)
        T.tvm_storage_sync("shared")
        for i in range(number):
            B[(32 + tx) * number + i] = S[(63 - tx) * number + i]

    return main


def barriers():
    """Copies in the background that a barrier of shared memory waits for, twice."""

    @T.prim_func
    def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.decl_buffer((64,), "float32", scope="shared")
        T.create_barriers(2)
        if tx == 0:
            T.ptx_init_barrier_thread_count(1, 64)
        T.tvm_storage_sync("shared")
        for turn in range(2):
            T.ptx_cp_async("float32", S.data, tx, A.data, turn * 64 + tx, 4)
            T.ptx_cp_async_barrier(1)
            T.ptx_arrive_barrier(1)
            T.ptx_wait_barrier(1)
            B[turn * 64 + tx] = S[63 - tx]
            T.tvm_storage_sync("shared")

    return main


def bulk_copies():
    """One thread copies for all, and announces how many bytes come."""

    @T.prim_func
    def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.decl_buffer((64,), "float32", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 64)
        T.tvm_storage_sync("shared")
        for turn in range(2):
            if tx == 0:
                T.ptx_cp_async_bulk("float32", S.data, 0, A.data, turn * 64, 256, 0)
                T.ptx_arrive_barrier_expect_tx(0, 256)
            else:
                T.ptx_arrive_barrier(0)
            T.ptx_wait_barrier(0)
            B[turn * 64 + tx] = S[63 - tx]
            T.tvm_storage_sync("shared")

    return main


SHUFFLED = ["float32", "float16", "int8", "uint16", "int64", "float64", "int32"]


def shuffles(dtype):
    """All kinds of exchanges, in segments of a warp too."""

    @T.prim_func
    def main(A: T.Buffer((32,), dtype), B: T.Buffer((4, 32), dtype)):
        tx = T.launch_thread("threadIdx.x", 32)
        mask = T.decl_buffer((1,), "uint32", scope="local")
        mask[0] = T.tvm_warp_activemask()
        B[0, tx] = T.tvm_warp_shuffle(mask[0], A[tx], (tx + 5) % 32, 32, 32)
        B[1, tx] = T.tvm_warp_shuffle_up(mask[0], A[tx], 3, 16, 32)
        B[2, tx] = T.tvm_warp_shuffle_down(mask[0], A[tx], 2, 8, 32)
        B[3, tx] = T.tvm_warp_shuffle(mask[0], A[tx], 1, 4, 32)

    return main


ADDED = ["int32", "uint32", "int64", "uint64", "float32", "float64", "float16", "bfloat16"]


def atomics(dtype):
    """64 threads add to four elements of shared memory, and these to global memory."""

    @T.prim_func
    def main(A: T.Buffer((128,), dtype), B: T.Buffer((4,), dtype)):
        bx = T.launch_thread("blockIdx.x", 2)
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.decl_buffer((4,), dtype, scope="shared")
        if tx < 4:
            S[tx] = T.Cast(dtype, 0)
        T.tvm_storage_sync("shared")
        T.evaluate(T.call_intrin(dtype, "tir.atomic_add", T.address_of(S[tx % 4]), A[bx * 64 + tx]))
        T.tvm_storage_sync("shared")
        if tx < 4:
            T.evaluate(T.call_intrin(dtype, "tir.atomic_add", T.address_of(B[tx]), S[tx]))

    return main


BYTES = [("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8")]


def dp4a(first, second):
    """Products of four bytes each."""
    result = "uint32" if first == second == "uint8" else "int32"

    @T.prim_func
    def main(A: T.Buffer((128,), first), B: T.Buffer((128,), second), C: T.Buffer((32,), result)):
        tx = T.launch_thread("threadIdx.x", 32)
        C[tx] = T.dp4a(A[tx * 4 : tx * 4 + 4], B[tx * 4 : tx * 4 + 4], C[tx])

    return main


def dot_of_words(name):
    """Products of small integers in words, as schedules for CPUs have them."""

    @T.prim_func
    def main(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")):
        tx = T.launch_thread("threadIdx.x", 32)
        C[tx] = C[tx] + T.call_intrin(
            "int32", name, A[tx] * 1000003 + 77, B[tx] * 777767777 + 1234567
        )

    return main


def guarded_loads():
    """Loads into registers that are 0 where a condition is false."""

    @T.prim_func
    def main(A: T.Buffer((33,), "float32"), B: T.Buffer((2, 32), "float32")):
        tx = T.launch_thread("threadIdx.x", 32)
        r = T.decl_buffer((2,), "float32", scope="local")
        for i in T.unroll(2):
            T.evaluate(T.call_intrin("float32", "tir.ptx_ldg32", r.data, tx < 20 - i, A[tx + i], i))
        for i in T.unroll(2):
            B[i, tx] = r[i]

    return main


# What the interpreter does not compute: numpy does.

KEPT = ((0, 1), (1, 3), (0, 2), (2, 3))
"""Which two of four neighbours a row of the sparse matrix keeps, in each of four groups, and again
behind them."""
METADATA = sum((low | high << 2) << 4 * group for group, (low, high) in enumerate(KEPT)) * 0x10001


def sparse(shape, kind, c_kind, selector):
    """``c += a * b`` with a sparse ``a``, of registers that come from rows of global memory."""
    k = int(shape.split("k")[1])
    dtype, c_dtype = DTYPES[kind], DTYPES[c_kind]
    a_count, b_count = k // 4, k // 4

    @T.prim_func
    def main(
        A: T.Buffer((32, a_count), dtype),
        B: T.Buffer((32, b_count), dtype),
        E: T.Buffer((32,), "uint32"),
        C: T.Buffer((32, 4), c_dtype),
    ):
        tx = T.launch_thread("threadIdx.x", 32)
        a = T.decl_buffer((a_count,), dtype, scope="local")
        b = T.decl_buffer((b_count,), dtype, scope="local")
        e = T.decl_buffer((1,), "uint32", scope="local")
        c = T.decl_buffer((4,), c_dtype, scope="local")
        for i in range(a_count):
            a[i] = A[tx, i]
        for i in range(b_count):
            b[i] = B[tx, i]
        e[0] = E[tx]
        for i in range(4):
            c[i] = C[tx, i]
        T.ptx_mma_sp(
            c_dtype, shape, "row", "col", kind, kind, c_kind, a.data, 0, b.data, 0, c.data, 0,
            e.data, 0, selector, False,
        )  # fmt: skip
        for i in range(4):
            C[tx, i] = c[i]

    return main


def sparse_arrays(shape, kind, c_kind, selector):
    """Return arguments, and what the results are: the tables of fragments of the PTX ISA. Threads
    that are not selected give other metadata.
    """
    k = int(shape.split("k")[1])
    dtype, c_dtype = [DataType(DTYPES[one]).numpy() for one in (kind, c_kind)]
    random = np.random.default_rng(0)
    kept = random.integers(-4, 5, (16, k // 2))
    dense, columns = np.zeros((16, k)), [4 * g + i for g in range(k // 4) for i in KEPT[g % 4]]
    dense[:, columns] = kept
    b, c = random.integers(-4, 5, (k, 8)), random.integers(-4, 5, (16, 8))
    thread = np.arange(32)[:, None]
    group, inside = thread // 4, thread % 4
    each = 32 // DataType(DTYPES[kind]).bits  # elements of a register
    number = np.arange(k // 4)[None, :]
    row, column = group + number // each * 8, inside * each + number % each
    b_row = inside * each + number % each + number // each * 4 * each
    place = np.arange(4)[None, :]
    c_row, c_column = group + place // 2 * 8, inside * 2 + place % 2
    giving = {16: 1, 32: 2}[k]
    chosen = np.arange(32) % 4 // giving == selector
    metadata = np.where(chosen, METADATA, 0x4E4E4E4E).astype("uint32")
    arrays = [
        kept[row, column].astype(dtype), b[b_row, group].astype(dtype), metadata,
        c[c_row, c_column].astype(c_dtype),
    ]  # fmt: skip
    return arrays, (c + dense @ b)[c_row, c_column]


def bits():
    """``c = popcount(a ^ b)`` of rows of 128 bits, by fragments."""

    @T.prim_func
    def main(
        A: T.Buffer((8, 4), "int32"), B: T.Buffer((8, 4), "int32"), C: T.Buffer((8, 8), "int32")
    ):
        T.launch_thread("threadIdx.x", 32)
        a = T.decl_buffer((1024,), "int1", scope="wmma.matrix_a")
        b = T.decl_buffer((1024,), "int1", scope="wmma.matrix_b")
        c = T.decl_buffer((64,), "int32", scope="wmma.accumulator")
        T.tvm_fill_fragment(c.data, 8, 8, 128, 0, T.float32(0))
        T.tvm_load_matrix_sync(
            a.data, 8, 8, 128, 0,
            T.tvm_access_ptr(T.type_annotation("int1"), A.data, 0, 1024, 1), 128, "row_major",
        )  # fmt: skip
        T.tvm_load_matrix_sync(
            b.data, 8, 8, 128, 0,
            T.tvm_access_ptr(T.type_annotation("int1"), B.data, 0, 1024, 1), 128, "col_major",
        )  # fmt: skip
        T.tvm_bmma_sync(c.data, 0, a.data, 0, b.data, 0, c.data, 0)
        T.tvm_store_matrix_sync(
            c.data, 8, 8, 128, 0,
            T.tvm_access_ptr(T.type_annotation("int32"), C.data, 0, 64, 2), 8, "row_major",
        )  # fmt: skip

    return main


def bits_arrays():
    """Return arguments, and how many bits of their rows differ."""
    random = np.random.default_rng(0)
    a, b = [random.integers(-(1 << 31), 1 << 31, (8, 4)).astype("int32") for _ in range(2)]
    differ = (a[:, None] ^ b[None]).view("uint8")
    return [a, b, np.zeros((8, 8), "int32")], np.unpackbits(differ, axis=-1).sum(-1)


SPARSE = [("m16n8k16", "fp16", "fp32", 1), ("m16n8k32", "s8", "int32", 1)]
OF_NUMPY = {
    **{f"sparse {' '.join(one[:3])}": (sparse(*one), sparse_arrays(*one)) for one in SPARSE},
    "bits": (bits(), bits_arrays()),
}
"""Kernels for NVIDIA GPUs: name → function, and its arguments and results."""

CUDA = {
    **{f"mma {' '.join(one)}": (mma, one) for one in MMA},
    **{f"wmma {'x'.join(map(str, one[0]))} {one[1]}": (fragments, one) for one in FRAGMENTS},
    **{f"ldmatrix {n} {way}": (ldmatrix, (n, way)) for n in (1, 2, 4) for way in (False, True)},
    "results f32": (store_of_results, ("float32",)),
    "results f16": (store_of_results, ("float16",)),
    "results i32": (store_of_results, ("int32",)),
    "barriers": (barriers, ()),
    "bulk copies": (bulk_copies, ()),
    **{f"shuffles {dtype}": (shuffles, (dtype,)) for dtype in SHUFFLED},
}
"""Kernels for NVIDIA GPUs only: name → function that makes it, and its arguments."""
EVERYWHERE = {
    **{f"copies {n} {way}": (copies, (n, way)) for n in (4, 8, 16) for way in (False, True)},
    **{f"atomics {dtype}": (atomics, (dtype,)) for dtype in ADDED},
    **{f"dp4a {a} {b}": (dp4a, (a, b)) for a, b in BYTES},
    "dot i8": (dot_of_words, ("tir.dot_i8i8",)),
    "dot i16": (dot_of_words, ("tir.dot_i16i16",)),
    "dot u8": (dot_of_words, ("tir.dot_u8i8",)),
    "guarded loads": (guarded_loads, ()),
}
"""Kernels that OpenCL has, too."""


def arrays_for(function, seed=0):
    """Small whole numbers for each buffer of a function."""
    random = np.random.default_rng(seed)
    made = []
    for buffer in function.buffers:
        low = 0 if buffer.dtype.is_uint else -4
        shape = [int(size) for size in buffer.shape]
        made.append(random.integers(low, 5, shape).astype(DataType(buffer.dtype).numpy()))
    return made
