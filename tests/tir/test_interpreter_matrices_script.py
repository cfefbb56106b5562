"""Matrix units in the interpreter: fragments, mma with the layouts of the PTX ISA, ldmatrix."""

import numpy as np
import pytest

from tilesmith.runtime.dtype import DataType
from tilesmith.script import tir as T
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.testing.fuzz.planted import verdicts
from tilesmith.tir.interpreter import run


def random(shape, dtype, seed=0):
    generator = np.random.default_rng(seed)
    if DataType(dtype).is_float:
        return generator.integers(-4, 5, shape).astype(DataType(dtype).numpy())
    low = 0 if DataType(dtype).is_uint else -4
    return generator.integers(low, 5, shape).astype(DataType(dtype).numpy())


@pytest.mark.parametrize("b_layout", ["row_major", "col_major"])
def test_fragments(b_layout):
    stride, step = (16, 256) if b_layout == "row_major" else (32, 16)

    @T.prim_func
    def func(
        A: T.Buffer((16, 32), "float16"),
        B: T.Buffer((512,), "float16"),
        C: T.Buffer((16, 16), "float32"),
    ):
        T.launch_thread("threadIdx.x", 32)
        a = T.decl_buffer((512,), "float16", scope="wmma.matrix_a")
        b = T.decl_buffer((256,), "float16", scope="wmma.matrix_b")
        c = T.decl_buffer((256,), "float32", scope="wmma.accumulator")
        T.tvm_fill_fragment(c.data, 16, 16, 16, 0, T.float32(1))
        for k in range(2):
            T.tvm_load_matrix_sync(
                a.data,
                16,
                16,
                16,
                k,
                T.tvm_access_ptr(T.type_annotation("float16"), A.data, k * 16, 512, 1),
                32,
                "row_major",
            )
            T.tvm_load_matrix_sync(
                b.data,
                16,
                16,
                16,
                0,
                T.tvm_access_ptr(
                    T.type_annotation("float16"),
                    B.data,
                    k * step,
                    256,
                    1,
                ),
                stride,
                b_layout,
            )
            T.tvm_mma_sync(c.data, 0, a.data, k, b.data, 0, c.data, 0)
        T.tvm_store_matrix_sync(
            c.data,
            16,
            16,
            16,
            0,
            T.tvm_access_ptr(T.type_annotation("float32"), C.data, 0, 256, 2),
            16,
            "row_major",
        )

    a, b = random((16, 32), "float16"), random((32, 16), "float16", 1)
    c = np.zeros((16, 16), "float32")
    flat = b.reshape(-1) if b_layout == "row_major" else np.ascontiguousarray(b.T).reshape(-1)
    run(func, a, flat, c)
    np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32") + 1)


# (shape, dtype in PTX, A, B): places of element i of a lane, as the tables of the PTX ISA have them
SHAPES = [
    (
        "m16n8k16", "fp16",
        lambda g, t, i: (g if i // 2 in (0, 2) else g + 8, t * 2 + (i & 1) + (8 if i >= 4 else 0)),
        lambda g, t, i: (t * 2 + (i & 1) + (8 if i >= 2 else 0), g),
    ),
    (
        "m16n8k8", "bf16",
        lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
        lambda g, t, i: (t * 2 + i, g),
    ),
    (
        "m16n8k32", "s8",
        lambda g, t, i: (
            g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (16 if i >= 8 else 0)
        ),
        lambda g, t, i: (t * 4 + (i & 3) + (16 if i >= 4 else 0), g),
    ),
    (
        "m8n8k16", "u8",
        lambda g, t, i: (g, t * 4 + i),
        lambda g, t, i: (t * 4 + i, g),
    ),
    (
        "m16n8k8", "tf32",
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
        lambda g, t, i: (t + 4 * i, g),
    ),
    (
        "m8n8k4", "fp64",
        lambda g, t, i: (g, t),
        lambda g, t, i: (t, g),
    ),
]  # fmt: skip
DTYPES = {
    "fp16": ("float16", "fp32", "float32"), "bf16": ("bfloat16", "fp32", "float32"),
    "s8": ("int8", "int32", "int32"), "u8": ("uint8", "int32", "int32"),
    "tf32": ("float32", "fp32", "float32"), "fp64": ("float64", "fp64", "float64"),
}  # fmt: skip


@pytest.mark.parametrize("shape, kind, a_place, b_place", SHAPES)
def test_mma(shape, kind, a_place, b_place):
    m, k = int(shape[1 : shape.index("n")]), int(shape.split("k")[1])
    dtype, c_kind, c_dtype = DTYPES[kind]
    a_count, b_count, c_count = m * k // 32, k * 8 // 32, m * 8 // 32

    @T.prim_func
    def func(
        A: T.Buffer((32, a_count), dtype),
        B: T.Buffer((32, b_count), dtype),
        C: T.Buffer((32, c_count), c_dtype),
    ):
        tx = T.launch_thread("threadIdx.x", 32)
        a = T.decl_buffer((a_count,), dtype, scope="local")
        b = T.decl_buffer((b_count,), dtype, scope="local")
        c = T.decl_buffer((c_count + 1,), c_dtype, scope="local")
        for i in range(a_count):
            a[i] = A[tx, i]
        for i in range(b_count):
            b[i] = B[tx, i]
        for i in range(c_count):
            c[i + 1] = C[tx, i]
        T.ptx_mma(
            c_dtype,
            shape,
            "row",
            "col",
            kind,
            kind,
            c_kind,
            a.data,
            0,
            b.data,
            0,
            c.data,
            1,
            False,
        )
        for i in range(c_count):
            C[tx, i] = c[i + 1]

    a, b, c = random((m, k), dtype), random((k, 8), dtype, 1), random((m, 8), c_dtype, 2)
    held = []
    for matrix, place, count in ((a, a_place, a_count), (b, b_place, b_count)):
        held.append(
            np.stack([[matrix[place(lane // 4, lane % 4, i)] for i in range(count)]
                      for lane in range(32)])
        )  # fmt: skip

    def c_place(lane, i):
        return (lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + (i & 1))

    held_c = np.stack([[c[c_place(lane, i)] for i in range(c_count)] for lane in range(32)])
    run(func, *held, held_c)
    want = (a.astype("float64") @ b.astype("float64") + c).astype(c.dtype)
    for lane in range(32):
        for i in range(c_count):
            assert held_c[lane, i] == want[c_place(lane, i)]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, transposed):
    @T.prim_func
    def func(A: T.Buffer((count * 64,), "float16"), B: T.Buffer((32, count * 2), "float16")):
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

    a = np.arange(count * 64, dtype="float16")
    b = np.zeros((32, count * 2), "float16")
    run(func, a, b)
    for lane in range(32):
        for i in range(count * 2):
            row, column = lane // 4, lane % 4 * 2 + i % 2
            if transposed:
                row, column = column, row
            assert b[lane, i] == a[i // 2 * 64 + row * 8 + column]


def test_simdgroup_matrices():
    @T.prim_func
    def func(
        A: T.Buffer((8, 8), "float32"),
        B: T.Buffer((8, 8), "float32"),
        C: T.Buffer((8, 8), "float32"),
    ):
        T.launch_thread("threadIdx.x", 32)
        a = T.decl_buffer((64,), "float32", scope="metal.simdgroup")
        b = T.decl_buffer((64,), "float32", scope="metal.simdgroup")
        c = T.decl_buffer((64,), "float32", scope="metal.simdgroup")
        T.make_filled_simdgroup_matrix(c.data, 0, T.float32(2), 8, 8)
        T.simdgroup_load(a.data, 0, T.address_of(A[0, 0]), 8, 8, 8, False)
        T.simdgroup_load(b.data, 0, T.address_of(B[0, 0]), 8, 8, 8, True)
        T.simdgroup_multiply_accumulate(c.data, 0, a.data, 0, b.data, 0, c.data, 0)
        T.simdgroup_store(c.data, 0, T.address_of(C[0, 0]), 8, 8, 8, False)

    a, b, c = random((8, 8), "float32"), random((8, 8), "float32", 1), np.zeros((8, 8), "float32")
    run(func, a, b, c)
    np.testing.assert_array_equal(c, a @ b.T + 2)


def test_fill_and_store_of_accumulators():
    @T.prim_func
    def func(C: T.Buffer((16, 20), "float32")):
        tx = T.launch_thread("threadIdx.x", 32)
        c = T.decl_buffer((8,), "float32", scope="local")
        T.mma_fill("float32", 8, c.data, 0)
        for i in range(8):
            c[i] = c[i] + T.Cast("float32", tx * 8 + i)
        T.mma_store(
            "float32", 16, 16, T.tvm_access_ptr(T.type_annotation("float32"), C.data, 0, 320, 2),
            c.data, 0, 20,
        )  # fmt: skip

    c = np.full((16, 20), -1, "float32")
    run(func, c)
    assert (c[:, 16:] == -1).all()
    assert sorted(c[:, :16].reshape(-1).tolist()) == list(range(256))
    assert c[3, 5] == (3 * 4 + 2) * 8 + 1


def tile_of_two_warps(name, step):
    """Return a kernel whose two warps store tiles to one place: of 0 and of ``step``."""

    @T.prim_func
    def tvm_store_matrix_sync(C: T.Buffer((16, 16), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.alloc_buffer((16, 16), scope="shared")
        c = T.decl_buffer((256,), "float32", scope="wmma.accumulator")
        T.tvm_fill_fragment(c.data, 16, 16, 16, 0, T.float32(0))
        if tx >= 32:
            T.tvm_fill_fragment(c.data, 16, 16, 16, 0, T.float32(step))
        T.tvm_store_matrix_sync(
            c.data, 16, 16, 16, 0,
            T.tvm_access_ptr(T.type_annotation("float32"), S.data, 0, 256, 2), 16, "col_major",
        )  # fmt: skip
        T.tvm_storage_sync("shared")
        for i in range(4):
            C[tx // 4, tx % 4 * 4 + i] = S[tx // 4, tx % 4 * 4 + i]

    @T.prim_func
    def mma_store(C: T.Buffer((16, 16), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        S = T.alloc_buffer((16, 16), scope="shared")
        c = T.decl_buffer((8,), "float32", scope="local")
        for i in range(8):
            c[i] = T.Cast("float32", tx // 32 * step)
        T.mma_store(
            "float32", 16, 16, T.tvm_access_ptr(T.type_annotation("float32"), S.data, 0, 256, 2),
            c.data, 0, 16,
        )  # fmt: skip
        T.tvm_storage_sync("shared")
        for i in range(4):
            C[tx // 4, tx % 4 * 4 + i] = S[tx // 4, tx % 4 * 4 + i]

    return {"mma_store": mma_store, "tvm_store_matrix_sync": tvm_store_matrix_sync}[name]


@pytest.mark.parametrize("name", ["tvm_store_matrix_sync", "mma_store"])
def test_warps_that_store_one_tile_race_unless_it_is_the_same(name):
    for step in (0, 1):
        for wrong, (result,) in verdicts(tile_of_two_warps(name, step), [np.ones((16, 16), "f4")]):
            if step == 0:
                assert wrong is None and not result.any()
            else:
                assert wrong is not None and wrong.startswith("race")


def test_what_is_refused():
    @T.prim_func
    def part(C: T.Buffer((8, 8), "float32")):
        tx = T.launch_thread("threadIdx.x", 32)
        c = T.decl_buffer((64,), "float32", scope="metal.simdgroup")
        if tx < 8:
            T.make_filled_simdgroup_matrix(c.data, 0, C[0, 0], 8, 8)

    with pytest.raises(ExecutionError, match="only 8 of the 32 threads of a warp reach"):
        run(part, np.zeros((8, 8), "float32"))

    @T.prim_func
    def bits():
        T.launch_thread("threadIdx.x", 32)
        c = T.decl_buffer((64,), "int32", scope="wmma.accumulator")
        T.tvm_bmma_sync(c.data, 0, c.data, 0, c.data, 0, c.data, 0)

    with pytest.raises(UnsupportedError, match="tvm_bmma_sync"):
        run(bits)
