"""Passes over blocks: what they make of small programs, and that the meaning stays."""

import pytest

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir import IRModule, assert_structural_equal
from tilesmith.ir.queries import nodes
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.tir import transform
from tilesmith.tir.stmt import Block, BlockRealize


def check(before, after, *passes, sizes=None):
    """The passes make ``after`` of ``before``, and both compute the same."""
    got = apply(before, *passes)
    assert_structural_equal(got, after.with_attr(before.attrs))
    assert_same_results(before, got, sizes)


@T.prim_func
def row_sums(A: T.Buffer((5, 7), "float32"), B: T.Buffer((5,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, k in T.grid(5, 7):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(B[vi])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


def test_lower_init_block():
    @T.prim_func
    def expected(A: T.Buffer((5, 7), "float32"), B: T.Buffer((5,), "float32")):
        for i, k in T.grid(5, 7):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(B[vi])
                if vk == 0:
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    check(row_sums, expected, transform.LowerInitBlock())


def test_convert_blocks_to_opaque():
    @T.prim_func
    def expected(A: T.Buffer((5, 7), "float32"), B: T.Buffer((5,), "float32")):
        for i, k in T.grid(5, 7):
            with T.block("B"):
                T.reads(A[i, k])
                T.writes(B[i])
                if k == 0:
                    B[i] = T.float32(0)
                B[i] = B[i] + A[i, k]

    check(row_sums, expected, transform.LowerInitBlock(), transform.ConvertBlocksToOpaque())


def test_convert_blocks_to_opaque_needs_init_to_be_lowered():
    with pytest.raises(UnsupportedError, match="LowerInitBlock"):
        apply(row_sums, transform.ConvertBlocksToOpaque())
    (realize,) = [node for node in nodes(row_sums.body, BlockRealize) if node.iter_values]
    var = realize.block.iter_vars[0].var
    plain = realize.with_fields(predicate=var < 3, block=realize.block.with_fields(init=None))
    with pytest.raises(UnsupportedError, match="uses iterators"):
        apply(row_sums.with_body(plain), transform.ConvertBlocksToOpaque())


@T.prim_func
def two_rows(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
    T.func_attr({"global_symbol": "main"})
    with T.block("root"):
        T.reads()
        T.writes()
        L = T.alloc_buffer((6, 8))
        for i in range(6):
            for j in range(8):
                with T.block("L"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A[vi, vj])
                    T.writes(L[vi, vj])
                    L[vi, vj] = A[vi, vj] + T.float32(1)
            for j in range(8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(L[vi, 7 - vj])
                    T.writes(B[vi, vj])
                    B[vi, vj] = L[vi, 7 - vj]


def test_plan_and_update_buffer_allocation_location():
    @T.prim_func
    def expected(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
        with T.block("root"):
            T.reads()
            T.writes()
            for i in range(6):
                with T.block(""):
                    T.reads(A[i, 0:8])
                    T.writes(B[i, 0:8])
                    L = T.alloc_buffer((6, 8))
                    for j in range(8):
                        with T.block("L"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            T.reads(A[vi, vj])
                            T.writes(L[vi, vj])
                            L[vi, vj] = A[vi, vj] + T.float32(1)
                    for j in range(8):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            T.reads(L[vi, 7 - vj])
                            T.writes(B[vi, vj])
                            B[vi, vj] = L[vi, 7 - vj]

    check(two_rows, expected, transform.PlanAndUpdateBufferAllocationLocation())


def test_a_new_block_declares_what_it_touches_of_the_buffers_outside():
    """Tiles of a stencil; L is written through its pointer, D (scratch) is in a block inside."""

    @T.prim_func
    def stencil(A: T.Buffer((34,), "float32"), C: T.Buffer((32,), "float32")):
        T.func_attr({"global_symbol": "main"})
        L = T.alloc_buffer((34,))
        D = T.alloc_buffer((34,))
        for t in range(4):
            for j in range(10):
                with T.block("D"):
                    vj = T.axis.spatial(34, t * 8 + j)
                    D[vj] = A[vj]
                with T.block("L"):
                    vj = T.axis.spatial(34, t * 8 + j)
                    T.reads(D[vj])
                    T.writes(L[vj])
                    T.evaluate(T.call_extern("int32", "copy", L.data, D[vj]))
            for j in range(8):
                with T.block("C"):
                    vj = T.axis.spatial(32, t * 8 + j)
                    C[vj] = L[vj] + L[vj + 2]

    planned = apply(stencil, transform.PlanAndUpdateBufferAllocationLocation())
    outer = planned.body.block.body.body.block
    inner = outer.body.seq[0].body.block
    assert [str(region) for region in outer.reads] == ["A[t * 8:t * 8 + 10]"]
    assert [str(region) for region in outer.writes] == ["C[t * 8:t * 8 + 8]"]
    assert [buffer.name for buffer in outer.alloc_buffers] == ["L"]
    assert [str(region) for region in inner.reads] == ["A[t * 8 + j]"]
    assert [str(region) for region in inner.writes] == ["L[t * 8 + j]"]
    assert [buffer.name for buffer in inner.alloc_buffers] == ["D"]


def test_compact_buffer_allocation():
    @T.prim_func
    def expected(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
        with T.block("root"):
            T.reads()
            T.writes()
            for i in range(6):
                with T.block(""):
                    T.reads(A[i, 0:8])
                    T.writes(B[i, 0:8])
                    L = T.alloc_buffer((1, 8))
                    for j in range(8):
                        with T.block("L"):
                            T.reads(A[i, j])
                            T.writes(L[0, j])
                            L[0, j] = A[i, j] + T.float32(1)
                    for j in range(8):
                        with T.block("B"):
                            T.reads(L[0, 7 - j])
                            T.writes(B[i, j])
                            B[i, j] = L[0, 7 - j]

    check(
        two_rows,
        expected,
        transform.PlanAndUpdateBufferAllocationLocation(),
        transform.ConvertBlocksToOpaque(),
        transform.CompactBufferAllocation(),
    )


def test_buffers_hold_what_conditions_let_get_to_them():
    """Loops of the padded size, of which a part reaches L; a loop that is narrowed twice."""

    @T.prim_func
    def before(A: T.Buffer((6, 7), "float32"), B: T.Buffer((10, 9), "float32")):
        T.func_attr({"global_symbol": "main"})
        with T.block("root"):
            T.reads(A[0:6, 0:7])
            T.writes(B[0:10, 0:9])
            L = T.alloc_buffer((12, 12))
            for i, j in T.grid(8, 8):
                with T.block("L"):
                    T.where(i < 6 and j <= 6)
                    T.reads(A[i, j])
                    T.writes(L[i, j])
                    L[i, j] = A[i, j] * T.float32(2)
            for i, j in T.grid(10, 9):
                with T.block("B"):
                    T.reads(L[i - 2, j - 1])
                    T.writes(B[i, j])
                    if 2 <= i and 8 > i:
                        B[i, j] = T.if_then_else(
                            0 < j and T.likely(j < 8), L[i - 2, j - 1], T.float32(1)
                        )
                    else:
                        B[i, j] = T.float32(0)

    after = apply(before, transform.CompactBufferAllocation())
    (compacted,) = after.body.block.alloc_buffers
    assert [size.value for size in compacted.shape] == [6, 7]
    assert_same_results(before, after)


@pytest.mark.parametrize(("n", "m"), [(3, 5), (1, 1), (4, 1)])
def test_a_row_of_a_buffer_of_symbolic_size(n, m):
    @T.prim_func
    def before(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main"})
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        for i in range(n):
            with T.block("rows"):
                T.reads(A[i, 0:m])
                T.writes(B[i, 0:m])
                L = T.alloc_buffer((n * m,))
                K = T.alloc_buffer((n, m))
                for j in range(m):
                    L[i * m + j] = A[i, j]
                    K[i, j] = A[i, j]
                for j in range(m):
                    B[i, j] = L[i * m + (m - 1 - j)] + K[i, j]

    after = apply(before, transform.CompactBufferAllocation())
    line, rows = after.body.block.body.body.block.alloc_buffers
    assert [str(size) for size in line.shape] == ["T.min(n * m, m)"]
    assert [str(size) for size in rows.shape] == ["1", "m"]
    assert_same_results(before, after, {"n": n, "m": m})


def test_a_buffer_holds_what_is_read_without_the_condition():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        with T.block("root"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            L = T.alloc_buffer((9,))
            for i in range(8):
                L[i] = A[i]
            for i in range(8):
                if i < 3:
                    B[i] = L[i]
                else:
                    B[i] = T.Select(i < 5, L[i], T.float32(2))

    after = apply(before, transform.CompactBufferAllocation())
    assert after.body.block.alloc_buffers[0].shape[0].value == 8
    assert_same_results(before, after)


SHARED_BY_THREADS = """
@T.prim_func
def main(A: T.Buffer((3, 4, 32), "float32"), B: T.Buffer((3, 4, 32), "float32")):
    for b in T.thread_binding(3, thread="blockIdx.x"):
        for y in T.thread_binding(4, thread="threadIdx.y"):
            for x in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("copies"):
                    T.reads(A[b, y, x])
                    T.writes(B[b, y, x])
                    S = T.alloc_buffer((3, 4, 32), scope="{scope}")
                    S[b, y, x] = A[b, y, x]
                    B[b, y, x] = S[b, y, x]
"""


@pytest.mark.parametrize(
    ("scope", "shape"),
    [
        ("global", (3, 4, 32)),
        ("shared", (1, 4, 32)),
        ("shared.dyn", (1, 4, 32)),
        ("warp", (1, 1, 32)),
        ("local", (1, 1, 1)),
    ],
)
def test_a_buffer_holds_what_the_threads_that_share_it_use(scope, shape):
    before = from_source(SHARED_BY_THREADS.format(scope=scope))
    after = apply(before, transform.CompactBufferAllocation())
    buffers = [one for block in nodes(after.body, Block) for one in block.alloc_buffers]
    assert [tuple([size.value for size in one.shape]) for one in buffers] == [shape]
    assert_same_results(before, after)


def test_a_reduction_keeps_its_result_outside_of_its_loop():
    """The only accesses to S lie in the loop over k, but S carries a sum from one to the next."""

    @T.prim_func
    def prefix_sums(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
        T.func_attr({"global_symbol": "main"})
        S = T.alloc_buffer((1,))
        for k in range(9):
            with T.block("S"):
                vk = T.axis.reduce(9, k)
                with T.init():
                    S[0] = T.float32(0)
                S[0] = S[0] + A[vk]
            with T.block("B"):
                vi = T.axis.opaque(9, k)
                B[vi] = S[0]

    planned = apply(prefix_sums, transform.PlanAndUpdateBufferAllocationLocation())
    assert [buffer.name for buffer in planned.body.block.alloc_buffers] == ["S"]
    assert_same_results(prefix_sums, planned)


def test_memory_of_threads_is_allocated_in_their_launch():
    """Shared and local memory; global memory stays outside, since all blocks use it."""

    @T.prim_func
    def before(A: T.Buffer((2, 32), "float32"), B: T.Buffer((2, 32), "float32")):
        T.func_attr({"global_symbol": "main"})
        G = T.alloc_buffer((2, 32))
        S = T.alloc_buffer((32,), scope="shared")
        L = T.alloc_buffer((1,), scope="local")
        bx = T.launch_thread("blockIdx.x", 2)
        tx = T.launch_thread("threadIdx.x", 32)
        S[tx] = A[bx, tx]
        G[bx, tx] = S[tx]
        T.tvm_storage_sync("shared")
        L[0] = S[31 - tx]
        B[bx, tx] = L[0] + G[bx, tx]

    planned = apply(before, transform.PlanAndUpdateBufferAllocationLocation(into_kernels=False))
    assert [buffer.name for buffer in planned.body.block.alloc_buffers] == ["G"]
    inner = planned.body.block.body.body.body.block  # in the launch of threadIdx.x
    assert [buffer.name for buffer in inner.alloc_buffers] == ["S", "L"]
    assert_same_results(before, planned)


def test_buffers_that_nobody_uses_are_dropped():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        X = T.alloc_buffer((4,))
        for i in range(4):
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = T.float32(1)

    planned = apply(func, transform.PlanAndUpdateBufferAllocationLocation())
    assert not planned.body.block.alloc_buffers


def test_compaction_keeps_a_dimension_with_data_dependent_index():
    @T.prim_func
    def func(
        A: T.Buffer((6,), "float32"), idx: T.Buffer((6,), "int32"), B: T.Buffer((6,), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for _i in range(1):
            with T.block(""):
                L = T.alloc_buffer((8, 6))
                for j in range(6):
                    L[0, j] = A[j]
                for j in range(6):
                    L[1, idx[j] % 6] = T.float32(2)
                for j in range(6):
                    B[j] = L[0, j]

    compact = apply(func, transform.CompactBufferAllocation())
    shapes = []

    def look(node):
        for buffer in getattr(node, "alloc_buffers", ()):
            shapes.append([int(size) for size in buffer.shape])
        if not node.is_leaf:
            for child in node.children():
                look(child)

    look(compact.body)
    assert shapes == [[2, 6]]
    assert_same_results(func, compact)


def test_lower_match_buffer():
    @T.prim_func
    def before(A: T.Buffer((8, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(2, 2):
            with T.block("A"):
                T.reads()
                T.writes(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                S = T.match_buffer(
                    A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4], (4, 4), offset_factor=1, strides=[8, 1]
                )
                for x, y in T.grid(4, 4):
                    S[x, y] = T.Cast("float32", x * 4 + y)

    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(2, 2):
            with T.block("A"):
                T.reads()
                T.writes(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                for x, y in T.grid(4, 4):
                    A[i * 4 + x, j * 4 + y] = T.Cast("float32", x * 4 + y)

    check(before, expected, transform.LowerMatchBuffer())


def test_offsets_of_matched_buffers_are_simplified():
    @T.prim_func
    def before(A: T.Buffer((8, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(2, 2):
            with T.block("A"):
                T.reads()
                T.writes(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                S = T.match_buffer(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4], (4, 4), offset_factor=1)
                T.evaluate(T.call_extern("int32", "fill", S.data, S.elem_offset))

    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(2, 2):
            with T.block("A"):
                T.reads()
                T.writes(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                T.evaluate(T.call_extern("int32", "fill", A.data, i * 32 + j * 4))

    assert_structural_equal(apply(before, transform.LowerMatchBuffer()), expected)


def test_lower_opaque_block():
    @T.prim_func
    def before(A: T.Buffer((1, 8), "float32"), B: T.Buffer((1, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(1):
            for j in T.serial(8, annotations={"pragma_auto_unroll_max_step": 4}):
                with T.block("B"):
                    T.where(j < 5)
                    T.reads(A[i, j])
                    T.writes(B[i, j])
                    L = T.alloc_buffer((2,), scope="local")
                    L[1] = A[i, j]
                    B[i, j] = L[1]

    @T.prim_func
    def expected(A: T.Buffer((1, 8), "float32"), B: T.Buffer((1, 8), "float32")):
        with T.attr(0, "pragma_auto_unroll_max_step", 4):
            for j in range(8):
                L_data = T.allocate([2], "float32", "local")
                L = T.decl_buffer((2,), data=L_data, scope="local")
                if j < 5:
                    L[1] = A[0, j]
                    B[0, j] = L[1]

    check(before, expected, transform.LowerOpaqueBlock())


def test_global_memory_is_allocated_right_inside_of_the_grid():
    @T.prim_func
    def func(A: T.Buffer((16, 4), "float32"), B: T.Buffer((16, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        X = T.alloc_buffer((16, 4))
        Y = T.alloc_buffer((16, 4), scope="shared")
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for k in range(4):
                for j in range(4):
                    with T.block("X"):
                        vi = T.axis.spatial(16, b * 4 + k)
                        vj = T.axis.spatial(4, j)
                        X[vi, vj] = A[vi, vj]
                        Y[vi, vj] = A[vi, 3 - vj]
                for j in range(4):
                    with T.block("B"):
                        vi = T.axis.spatial(16, b * 4 + k)
                        vj = T.axis.spatial(4, j)
                        B[vi, vj] = X[vi, 3 - vj] + Y[vi, vj]

    got = apply(func, transform.PlanAndUpdateBufferAllocationLocation())
    outer = got.body.block.body
    assert [buffer.name for buffer in outer.body.block.alloc_buffers] == ["X"]
    assert [b.name for b in outer.body.block.body.body.block.alloc_buffers] == ["Y"]
    assert_same_results(func, got)


def test_lower_opaque_block_on_threads():
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.thread_binding(16, thread="blockIdx.x"):
            for k in T.thread_binding(8, thread="threadIdx.x"):
                for v in T.thread_binding(2, thread="vthread"):
                    with T.block(""):
                        T.reads(A[i, 0:16])
                        T.writes(B[i, 0:16])
                        C = T.alloc_buffer((16, 8), "float32", strides=(10, 1), scope="local")
                        C[v, k] = A[i, v * 8 + k]
                        B[i, v * 8 + k] = C[v, k]

    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
        i = T.launch_thread("blockIdx.x", 16)
        k = T.launch_thread("threadIdx.x", 8)
        v = T.launch_thread("vthread", 2)  # a virtual thread
        C_data = T.allocate([16, 10], "float32", "local")
        C = T.decl_buffer((16, 8), "float32", data=C_data, strides=(10, 1), scope="local")
        C[v, k] = A[i, v * 8 + k]
        B[i, v * 8 + k] = C[v, k]

    check(before, expected, transform.LowerOpaqueBlock())
    assert expected.body.body.body.attr_key == "virtual_thread"


def test_lower_opaque_block_refuses_blocks_with_iterators():
    with pytest.raises(UnsupportedError, match="not opaque"):
        apply(two_rows, transform.LowerOpaqueBlock())


def test_storage_align():
    @T.prim_func
    def func(A: T.Buffer((4, 6), "float32"), B: T.Buffer((6, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        L = T.alloc_buffer((4, 6))
        for i, j in T.grid(4, 6):
            with T.block("L"):
                T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
                vi, vj = T.axis.remap("SS", [i, j])
                L[vi, vj] = A[vi, vj]
        for i, j in T.grid(6, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = L[vj, vi]

    got = apply(
        func,
        transform.PlanAndUpdateBufferAllocationLocation(),
        transform.ConvertBlocksToOpaque(),
        transform.CompactBufferAllocation(),
    )
    (buffer,) = got.body.block.alloc_buffers
    assert [int(stride) for stride in buffer.strides] == [8, 1]
    assert_same_results(func, apply(got, transform.LowerOpaqueBlock(), transform.FlattenBuffer()))
    assert_same_results(func, got)


def test_what_an_opaque_iterator_reads_is_allocated_above_its_loop():
    """The second block uses the row that an earlier iteration has left."""

    @T.prim_func
    def before(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
        B = T.alloc_buffer((8, 4), "float32")
        for i in range(8):
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(4):
                with T.block("C"):
                    vi = T.axis.opaque(8, i)
                    vj = T.axis.spatial(4, j)
                    C[vi, vj] = B[vi, vj] + T.if_then_else(vi >= 1, B[vi - 1, vj], T.float32(0))

    after = apply(before, transform.PlanAndUpdateBufferAllocationLocation())
    assert [buffer.name for buffer in after.body.block.alloc_buffers] == ["B"]
    assert_same_results(before, after)


@T.prim_func
def view_that_begins_elsewhere(A: T.Buffer((64,)), C: T.Buffer((64,))):
    for i in range(4):
        with T.block("view"):
            T.reads(A[i * 16 : i * 16 + 16])
            T.writes(C[i * 16])
            B = T.match_buffer(A[i * 16 : i * 16 + 16], (16,), elem_offset=0)
            C[i * 16] = B[0]


@T.prim_func
def views_with_one_stride(A: T.Buffer((64, 64)), C: T.Buffer((64, 32)), D: T.Buffer((8,))):
    with T.block("view"):
        T.reads(A[0:8, 0:8], C[0:8, 0:8])
        T.writes(D[0])
        stride = T.int32()
        B = T.match_buffer(A[0:8, 0:8], (8, 8), strides=[stride, 1], offset_factor=1)
        E = T.match_buffer(C[0:8, 0:8], (8, 8), strides=[stride, 1], offset_factor=1)
        D[0] = B[0, 0] + E[0, 0]


@T.prim_func
def view_with_the_stride_of_a_parameter(A: T.Buffer((64, 64)), D: T.Buffer((8,)), s: T.int32):
    with T.block("view"):
        T.reads(A[0:8, 0:8])
        T.writes(D[0])
        B = T.match_buffer(A[0:8, 0:8], (8, 8), strides=[s, 1], offset_factor=1)
        D[0] = B[0, 0]


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (view_that_begins_elsewhere, "is said to begin at 0, it has i \\* 16"),
        (views_with_one_stride, "is said to have the stride 64, it has 32"),
        (view_with_the_stride_of_a_parameter, "stride s, a variable that has another meaning"),
    ],
)
def test_views_that_their_regions_contradict_are_refused(program, text):
    with pytest.raises(ShapeError, match=text):
        transform.LowerMatchBuffer()(IRModule({"main": program}))


def rows_from(start, factor, step=1):
    @T.prim_func
    def main(A: T.Buffer((8, 64), "float32")):
        for i in range(4):
            with T.block("rows"):
                T.reads()
                T.writes(A[i * step, start : start + 8])
                row = T.match_buffer(A[i * step, start : start + 8], (8,), offset_factor=factor)
                row[0] = T.float32(1)

    return main


@pytest.mark.parametrize(
    ("start", "factor", "step", "fits"),
    [
        (0, 8, 1, True),
        (4, 8, 1, False),  # 64 i + 4 is no multiple of 8 for any i
        (4, 4, 1, True),
        (3, 2, 2, False),
        (0, 128, 1, True),  # 64 i is one for some i
        (32, 128, 1, False),
    ],
)
def test_views_that_begin_beside_the_multiples_of_their_factor_are_refused(
    start, factor, step, fits
):
    func = rows_from(start, factor, step)
    if fits:
        assert_same_results(func, apply(func, transform.LowerMatchBuffer()))
        return
    with pytest.raises(ShapeError, match=f"begin at a multiple of {factor}, it begins at") as found:
        apply(func, transform.LowerMatchBuffer())
    assert "offset_factor=1" in str(found.value)
