"""Copies divided between threads, fragments of matrix units, memory with a place of its own."""

import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same, outputs
from tilesmith.ir import assert_structural_equal
from tilesmith.runtime.registry import register_func
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.functor import post_order_visit
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import (
    FlattenBuffer,
    InferFragment,
    InjectPermutedLayout,
    LowerAutoCopy,
    LowerDeviceStorageAccessInfo,
    LowerOpaqueBlock,
    ThreadSync,
    TransformMmaBufferLayout,
    VectorizeLoop,
)


def auto_copy(rows, columns, threads, vector_bytes, scope="shared"):
    ny, nx = threads

    @T.prim_func
    def func(A: T.Buffer((rows, columns), "float32"), B: T.Buffer((rows, columns), "float32")):
        T.func_attr({"global_symbol": "main"})
        for ty in T.thread_binding(ny, thread="threadIdx.y"):
            for tx in T.thread_binding(nx, thread="threadIdx.x"):
                with T.block("all"):
                    T.reads(A[0:rows, 0:columns])
                    T.writes(B[0:rows, 0:columns])
                    S = T.alloc_buffer((rows, columns), scope=scope)
                    with T.block("copy"):
                        T.reads(A[0:rows, 0:columns])
                        T.writes(S[0:rows, 0:columns])
                        T.block_attr({"auto_copy": 1, "vector_bytes": vector_bytes})
                        for i, j in T.grid(rows, columns):
                            S[i, j] = A[i, j]
                    for i, j in T.grid(rows, columns):
                        if (i + j) % (nx * ny) == ty * nx + tx:
                            B[i, j] = S[rows - 1 - i, columns - 1 - j]

    return func


@pytest.mark.parametrize(
    "rows, columns, threads, vector_bytes, rounds",
    [(8, 8, (2, 8), 4, 4), (8, 8, (2, 4), 16, 2), (3, 12, (1, 5), 16, 2), (5, 7, (2, 3), 16, 6)],
)
def test_lower_auto_copy(rows, columns, threads, vector_bytes, rounds):
    func = auto_copy(rows, columns, threads, vector_bytes)
    after = apply(func, LowerAutoCopy())
    text = str(after)
    assert "auto_copy" not in text
    assert f"for turn in range({rounds})" in text
    assert ("T.vectorized(4)" in text) == (vector_bytes == 16 and columns % 4 == 0)
    arrays = arrays_for(func)
    want = outputs(func, arrays)
    assert_same(outputs(after, arrays), want)
    flat = apply(after, LowerOpaqueBlock(), FlattenBuffer(), VectorizeLoop(), ThreadSync("shared"))
    copies = [array.copy() for array in arrays]
    run(flat, *copies, options=Options(check_races=True, check_undefined=True))
    assert_same(copies, want)


def test_copies_to_registers_stay():
    func = auto_copy(4, 4, (1, 4), 4, scope="local")
    after = apply(func, LowerAutoCopy())
    assert "turn" not in str(after) and "auto_copy" not in str(after)


def product(b_shape=16, layout="row_major"):
    @T.prim_func
    def func(A: T.Buffer((256,), "float16"), C: T.Buffer((256,), "float32")):
        T.func_attr({"global_symbol": "main"})
        T.launch_thread("threadIdx.x", 32)
        a = T.allocate([256], "float16", "wmma.matrix_a")
        b = T.allocate([256], "float16", "wmma.matrix_b")
        c = T.allocate([256], "float32", "wmma.accumulator")
        T.tvm_fill_fragment(c, 16, 16, 16, 0, T.float32(0))
        T.tvm_load_matrix_sync(a, 16, 16, 16, 0, T.address_of(A[0]), 16, "row_major")
        T.tvm_load_matrix_sync(a, 16, 16, 16, 0, T.address_of(A[0]), 16, layout)
        T.tvm_load_matrix_sync(b, 16, b_shape, 16, 0, T.address_of(A[0]), 16, "col_major")
        T.tvm_mma_sync(c, 0, a, 0, b, 0, c, 0)
        T.tvm_store_matrix_sync(c, 16, 16, 16, 0, T.address_of(C[0]), 16, "row_major")

    return func


def test_infer_fragment():
    func = product()
    after = apply(func, InferFragment())
    text = str(after)
    for line in (
        'T.attr(a, "fragment_shape", "16, 16, 16")',
        'T.attr(a, "fragment_layout", "row_major")',
        'T.attr(b, "fragment_layout", "col_major")',
        'T.attr(c, "fragment_shape", "16, 16, 16")',
    ):
        assert line in text
    assert 'T.attr(c, "fragment_layout"' not in text
    arrays = arrays_for(func)
    assert_same(outputs(after, arrays), outputs(func, arrays))


def test_fragments_that_do_not_fit():
    with pytest.raises(UnsupportedError, match="'a' is used with two layouts"):
        apply(product(layout="col_major"), InferFragment())
    with pytest.raises(UnsupportedError, match="different shapes are multiplied: 'c', 'a', 'b'"):
        apply(product(b_shape=8), InferFragment())


def test_memory_with_a_place_of_its_own():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        x = T.decl_buffer((8,), scope="local.scratchpad")
        x[0] = A[0]
        A[1] = x[0]

    assert_structural_equal(apply(func, LowerDeviceStorageAccessInfo()), func)
    known = {"unit_bits": 32, "max_num_bits": 256, "head_address": 4096}
    register_func("tvm.info.mem.local.scratchpad", lambda: known, override=True)
    after = apply(func, LowerDeviceStorageAccessInfo())
    assert "T.uint64(4096)" in str(after)
    known["max_num_bits"] = 128
    with pytest.raises(UnsupportedError, match="needs 256 bits of 'local.scratchpad', .* 128"):
        apply(func, LowerDeviceStorageAccessInfo())
    from tilesmith.runtime.registry import remove_global_func

    remove_global_func("tvm.info.mem.local.scratchpad")


def permuted(columns, lanes=8, dtype="float16", mark="permuted_layout"):
    pieces = columns // lanes

    @T.prim_func
    def func(A: T.Buffer((16, columns), dtype), B: T.Buffer((16, columns), dtype)):
        T.func_attr({"global_symbol": "main"})
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("all"):
                T.reads(A[0:16, 0:columns])
                T.writes(B[0:16, 0:columns])
                S = T.alloc_buffer((16, columns), dtype, scope="shared")
                for i in range(16):
                    with T.block("load"):
                        T.reads(A[i, 0:columns])
                        T.writes(S[i, 0:columns])
                        T.block_attr({mark: "g2s_A"})
                        for j in range(pieces):
                            S[i, T.Ramp(j * lanes, 1, lanes)] = A[i, T.Ramp(j * lanes, 1, lanes)]
                for i, j in T.grid(16, columns):
                    if (i * columns + j) % 32 == tx:
                        B[i, j] = S[15 - i, columns - 1 - j]

    return func


@pytest.mark.parametrize("columns, lanes", [(64, 8), (128, 4), (32, 8), (96, 2)])
def test_inject_permuted_layout(columns, lanes):
    func = permuted(columns, lanes)
    after = apply(func, InjectPermutedLayout())
    assert "T.bitwise_xor" in str(after) and "permuted_layout" not in str(after)
    arrays = arrays_for(func)
    assert_same(outputs(after, arrays), outputs(func, arrays))
    other = permuted(columns, lanes, mark="something")
    assert_structural_equal(apply(other, InjectPermutedLayout()), other)


def test_rows_that_cannot_be_permuted():
    with pytest.raises(UnsupportedError, match="the rows of 'S' cannot be permuted"):
        apply(permuted(64, dtype="float32"), InjectPermutedLayout())
    with pytest.raises(UnsupportedError, match="crosses pieces of 8"):
        apply(permuted(64, 16), InjectPermutedLayout())


def test_permuted_rows_are_read_by_ldmatrix():
    @T.prim_func
    def func(A: T.Buffer((16, 64), "float16"), B: T.Buffer((32, 8), "float16")):
        T.func_attr({"global_symbol": "main"})
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("all"):
                T.reads(A[0:16, 0:64])
                T.writes(B[0:32, 0:8])
                S = T.alloc_buffer((16, 64), "float16", scope="shared")
                r = T.alloc_buffer((8,), "float16", scope="local")
                for i, j in T.grid(16, 2):
                    with T.block("load"):
                        T.reads(A[i, j * 32 + tx])
                        T.writes(S[i, j * 32 + tx])
                        T.block_attr({"permuted_layout": "g2s_A"})
                        S[i, j * 32 + tx] = A[i, j * 32 + tx]
                with T.block("read"):
                    T.reads(S[0:16, 0:64])
                    T.writes(r[0:8])
                    T.ptx_ldmatrix(
                        "float16", False, 4, ".b16", r.data, 0,
                        T.tvm_access_ptr(T.type_annotation("float16"), S.data, 16, 1024, 1),
                        tx % 16 * 64 + tx // 16 * 8,
                    )  # fmt: skip
                for i in range(8):
                    B[tx, i] = r[i]

    after = apply(func, InjectPermutedLayout())
    arrays = arrays_for(func)
    assert_same(outputs(after, arrays), outputs(func, arrays))
    assert str(after).count("bitwise_xor") == 2


@pytest.mark.parametrize(
    "matrix, shape, count",
    [("matrixA", (32, 16), 16), ("matrixB", (16, 32), 16), ("matrixC", (32, 8), 8)],
)
def test_transform_mma_buffer_layout(matrix, shape, count):
    rows, columns = shape

    def owner(i, j):
        return j % 8 * 4 + i % 8 // 2 if matrix == "matrixB" else i % 8 * 4 + j % 8 // 2

    @T.prim_func
    def func(A: T.Buffer((rows, columns), "float32"), B: T.Buffer((rows, columns), "float32")):
        T.func_attr({"global_symbol": "main"})
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("all"):
                T.reads(A[0:rows, 0:columns])
                T.writes(B[0:rows, 0:columns])
                M = T.alloc_buffer((rows, columns), scope="m16n8k8." + matrix)
                for i, j in T.grid(rows, columns):
                    if owner(i, j) == tx:
                        M[i, j] = A[i, j] + T.float32(1)
                for i, j in T.grid(rows, columns):
                    if owner(i, j) == tx:
                        B[i, j] = M[i, j] * T.float32(2)

    after = apply(func, TransformMmaBufferLayout())
    (buffer,) = _block_of(after, "all").alloc_buffers
    size = 1
    for extent in buffer.shape:
        size *= extent.value
    assert buffer.scope() == "local" and size == count
    arrays = arrays_for(func)
    assert_same(outputs(after, arrays), outputs(func, arrays))


def _block_of(func, name):
    found = []

    def look(node):
        if getattr(node, "name_hint", None) == name:
            found.append(node)

    post_order_visit(func.body, look)
    (block,) = found
    return block


def test_matrices_of_other_sizes():
    @T.prim_func
    def func():
        T.func_attr({"global_symbol": "main"})
        with T.block("all"):
            T.reads()
            T.writes()
            M = T.alloc_buffer((16, 8), scope="m16n8k8.matrixA")
            M[0, 0] = T.float32(1)

    with pytest.raises(UnsupportedError, match="multiples of 32 and 8"):
        apply(func, TransformMmaBufferLayout())


def test_copies_that_all_threads_make_need_one_barrier_where_they_arrive():
    """Each thread copies the same element: that is no race, in the background or not."""

    @T.prim_func
    def func(A: T.Buffer((3,), "float32"), B: T.Buffer((3, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 4)
        S = T.decl_buffer((2,), scope="shared")
        for k in range(3):
            with T.attr(0, "async_commit_queue_scope", 0):
                T.attr(0, "async_scope", 1)
                S[k % 2] = A[k]
            T.attr(0, "async_wait_queue_scope", 0)
            T.attr(0, "async_wait_inflight_count", 0)
            B[k, tx] = S[k % 2]

    @T.prim_func
    def expected(A: T.Buffer((3,), "float32"), B: T.Buffer((3, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 4)
        S = T.decl_buffer((2,), scope="shared")
        for k in range(3):
            with T.attr(0, "async_commit_queue_scope", 0):
                T.attr(0, "async_scope", 1)
                S[k % 2] = A[k]
            T.attr(0, "async_wait_queue_scope", 0)
            T.attr(0, "async_wait_inflight_count", 0)
            T.tvm_storage_sync("shared")
            B[k, tx] = S[k % 2]

    after = apply(func, ThreadSync("shared"))
    assert_structural_equal(after, expected)
    copies = [array.copy() for array in arrays_for(func)]
    run(after, *copies, options=Options(check_races=True, check_undefined=True))
    assert (copies[1] == copies[0][:, None]).all()
