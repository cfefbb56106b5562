"""Passes over flat loops: what they make of small programs, and that the meaning stays."""

import pytest

from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.ir import Let, Var, assert_structural_equal, const
from tilesmith.ir.transform import PassContext
from tilesmith.script import tir as T
from tilesmith.tir import For, ForKind, PrimFunc, decl_buffer, stmt_seq, transform
from tilesmith.tir.analysis import verify_ssa
from tilesmith.tir.stmt import BufferStore


def check(before, after, *passes, sizes=None):
    """The passes make ``after`` of ``before``, and both compute the same."""
    got = apply(before, *passes)
    assert_structural_equal(got, after.with_attr(before.attrs))
    assert_same_results(before, got, sizes)


def test_flatten_buffer():
    @T.prim_func
    def before(A: T.Buffer((4, 6), "float32", strides=[8, 1]), B: T.Buffer((4, 6), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(4, 6):
            B[i, j] = A[i, 5 - j]

    @T.prim_func
    def expected(A: T.Buffer((4, 6), "float32", strides=[8, 1]), B: T.Buffer((4, 6), "float32")):
        X = T.decl_buffer((30,), data=A.data)
        Y = T.decl_buffer((24,), data=B.data)
        for i, j in T.grid(4, 6):
            Y[i * 6 + j] = X[i * 8 - j + 5]

    got = apply(before, transform.FlattenBuffer())
    wanted = apply(expected.with_attr(before.attrs), transform.Simplify())  # the order of terms
    assert_structural_equal(got, wanted)


def test_flatten_buffer_keeps_rows_rows():
    @T.prim_func
    def before(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            B[i, T.Ramp(0, 2, 3)] = A[i, T.Ramp(1, 1, 3)]

    @T.prim_func
    def expected(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
        X = T.decl_buffer((24,), data=A.data)
        Y = T.decl_buffer((24,), data=B.data)
        for i in range(4):
            Y[T.Ramp(i * 6, 2, 3)] = X[T.Ramp(i * 6 + 1, 1, 3)]

    check(before, expected, transform.FlattenBuffer())


def test_narrow_data_type():
    @T.prim_func
    def before(A: T.Buffer((T.int64(64),), "int64"), n: T.int64):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(T.int64(8), T.int64(8)):
            if i * T.int64(8) + j < n:
                A[i * T.int64(8) + j] = (i + j) * T.int64(1000000000)

    @T.prim_func
    def expected(A: T.Buffer((T.int64(64),), "int64"), n: T.int64):
        for i, j in T.grid(8, 8):
            if T.Cast("int64", i * 8 + j) < n:
                # the product does not fit into 32 bits
                A[i * 8 + j] = T.Cast("int64", i + j) * T.int64(1000000000)

    check(before, expected, transform.NarrowDataType(32), sizes={"n": 50})


def test_iterators_of_blocks_are_narrowed_with_what_they_are_bound_to():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(T.int64(8), T.int64(8)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(64), i * T.int64(8) + j)
                T.reads(A[v])
                T.writes(B[v])
                B[v] = A[v] + T.Cast("float32", v)

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i, j in T.grid(8, 8):
            with T.block("B"):
                v = T.axis.spatial(64, i * 8 + j)
                T.reads(A[v])
                T.writes(B[v])
                B[v] = A[v] + T.Cast("float32", v)

    check(before, expected, transform.NarrowDataType(32))


def test_loop_variables_of_a_large_index_keep_their_type():
    @T.prim_func
    def func(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main"})
        A = T.match_buffer(a, (T.int64(17179869184),), "int8")
        B = T.match_buffer(b, (T.int64(131072),), "int8")
        for i, j in T.grid(T.int64(131072), T.int64(131072)):
            A[i * T.int64(131072) + j] = B[i]
        for k in range(T.int64(131072)):
            B[k] = T.int8(1)

    got = apply(func, transform.NarrowDataType(32))
    large, small = got.body.seq
    assert_structural_equal(large, func.body.seq[0], map_free_vars=True)
    assert small.loop_var.dtype == "int32"


@pytest.mark.parametrize("is_load", [False, True])
def test_what_changes_may_be_the_mask_alone(is_load):
    """Places and values stay as they are; the mask names a variable that becomes a narrow one."""

    @T.prim_func
    def store(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.serial(T.int64(3)):
            B.vstore(
                [T.Ramp(0, 1, 8)], A.vload([T.Ramp(0, 1, 8)]),
                predicate=T.get_active_lane_mask("uint1x8", i, T.int64(8)),
            )  # fmt: skip

    @T.prim_func
    def load(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.serial(T.int64(3)):
            value = A.vload(
                [T.Ramp(0, 1, 8)], predicate=T.get_active_lane_mask("uint1x8", i, T.int64(8))
            )
            B.vstore([T.Ramp(0, 1, 8)], value)

    before = load if is_load else store
    after = apply(before, transform.NarrowDataType(32))
    assert '"int64", i)' in after.script()
    assert_same_results(before, after)


def test_two_loops_of_one_variable_are_narrowed_apart():
    buffer, i, n = decl_buffer((8,), "int8"), Var("i", "int64"), Var("n", "int64")

    def loop(extent):
        return For(i, const(0, "int64"), extent, 0, BufferStore(buffer, const(1, "int8"), [i]))

    func = PrimFunc([buffer.data, n], stmt_seq(loop(const(8, "int64")), loop(n)))
    first, second = apply(func, transform.NarrowDataType(32)).body.seq
    assert first.loop_var.dtype == "int32" and first.body.indices[0] is first.loop_var
    assert second.loop_var is i and second.body.indices[0] is i


def test_threads_are_narrowed():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        bx = T.launch_thread("blockIdx.x", T.int64(4))
        tx = T.launch_thread("threadIdx.x", T.int64(8))
        B[bx * T.int64(8) + tx] = A[tx * T.int64(2)] + T.Cast("float32", bx)

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        bx = T.launch_thread("blockIdx.x", 4)
        tx = T.launch_thread("threadIdx.x", 8)
        B[bx * 8 + tx] = A[tx * 2] + T.Cast("float32", bx)

    check(before, expected, transform.NarrowDataType(32))


def test_narrowing_leaves_large_loops_alone():
    @T.prim_func
    def func(A: T.Buffer((T.int64(8),), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(T.int64(3000000000)):
            if i < T.int64(8):
                A[i] = T.float32(1)

    got = apply(func, transform.NarrowDataType(32))
    assert got.body.loop_var.dtype == "int64"


def test_simplify():
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            if i < 16:
                x: T.int32 = 3
                B[(i * 4 + x) // 4] = T.if_then_else(
                    i * 2 >= 0, A[(i * 8 + 8) // 8 - 1], T.float32(0)
                )
            else:
                B[0] = T.float32(5)

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = A[i]

    check(before, expected, transform.Simplify())


def test_simplify_knows_variables_of_one_value():
    """Loops and blocks of one iteration stay; what they count does not."""

    @T.prim_func
    def before(A: T.Buffer((1, 8), "float32"), B: T.Buffer((9,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for n, j in T.grid(1, 8):
            with T.block("B"):
                vn, vj = T.axis.remap("SS", [n, j])
                T.reads(A[vn, vj])
                T.writes(B[vj + vn])
                B[vj + vn] = A[vn, vj]
        for k in T.parallel(8, 9):
            B[k] = T.Cast("float32", k) + A[0, k % 8]

    @T.prim_func
    def expected(A: T.Buffer((1, 8), "float32"), B: T.Buffer((9,), "float32")):
        for _n, j in T.grid(1, 8):
            with T.block("B"):
                vn = T.axis.spatial(1, 0)
                vj = T.axis.spatial(8, j)
                T.reads(A[0, vj])
                T.writes(B[vj])
                B[vj] = A[0, vj]
        for _k in T.parallel(8, 9):
            B[8] = T.Cast("float32", 8) + A[0, 0]

    check(before, expected, transform.Simplify())


def test_simplify_knows_that_one_of_two_holds():
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32, m: T.int32):
        T.func_attr({"global_symbol": "main"})
        if n < 3 or m < 3:
            if n < 3 or m < 3:
                A[0] = 1
        if A[1] < 3 or A[2] < 3:  # what is read may change
            A[1] = 7
            A[2] = 7
            if A[1] < 3 or A[2] < 3:
                A[3] = 1

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32"), n: T.int32, m: T.int32):
        if n < 3 or m < 3:
            A[0] = 1
        if A[1] < 3 or A[2] < 3:
            A[1] = 7
            A[2] = 7
            if A[1] < 3 or A[2] < 3:
                A[3] = 1

    check(before, expected, transform.Simplify(), sizes={"n": 5, "m": 2})


def test_simplify_knows_what_is_asserted():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        assert 3 < 4, "always"
        assert n < 5, "n is small"
        for i in range(8):
            B[i + 0] = B[i]  # does nothing
            if n < 7:
                B[i] = A[i]

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        assert n < 5, "n is small"
        for i in range(8):
            B[i] = A[i]

    check(before, expected, transform.Simplify(), sizes={"n": 3})


def test_remove_no_op():
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for _i in range(16):
            T.evaluate(0)
        if A[0] > T.float32(0):
            T.evaluate(A[1])
        for i in range(16):
            B[i] = B[i]
            A[i] = B[i]
            X_data = T.allocate([4], "float32", "global")
            X = T.decl_buffer((4,), data=X_data)
            T.evaluate(1)

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = B[i]

    check(before, expected, transform.RemoveNoOp())


def test_remove_no_op_around_a_table():
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "main"})
        data = T.allocate_const([3, 1, 2], "int32", [3])
        table = T.decl_buffer((3,), "int32", data=data)
        for i in range(3):
            if A[i] == 7:
                T.evaluate(0)
            A[i] = table[i]

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        data = T.allocate_const([3, 1, 2], "int32", [3])
        table = T.decl_buffer((3,), "int32", data=data)
        for i in range(3):
            A[i] = table[i]

    check(before, expected, transform.RemoveNoOp())


def test_calls_in_what_is_removed_stay():
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for _i in range(T.call_extern("int32", "first", A.data)):
            T.evaluate(0)
        A[T.call_extern("int32", "second", A.data)] = A[T.call_extern("int32", "second", A.data)]

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        T.evaluate(T.call_extern("int32", "first", A.data))
        A[T.call_extern("int32", "second", A.data)] = A[T.call_extern("int32", "second", A.data)]

    got = apply(before, transform.RemoveNoOp())
    assert_structural_equal(got, expected.with_attr(before.attrs))


def test_loops_over_nothing_go():
    @T.prim_func
    def before(A: T.Buffer((4,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(-3):
            A[i] = T.float32(1)
        for i in range(n):
            for j in range(2):
                T.evaluate(T.assume(A[i + j] < T.float32(3)))
        A[0] = T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32"), n: T.int32):
        A[0] = T.float32(2)

    promised = apply(before, transform.RemoveNoOp())
    assert promised.script().count("for ") == 1  # what is promised stays until it is asked for
    check(promised, expected, transform.RemoveAssume(), sizes={"n": 2})


def test_loops_that_store_nothing_go():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            B[i] = T.undef(dtype="float32")
        for i in range(8):
            if i < n:
                B[i] = T.Cast("float32", T.undef())
        for i in range(8):
            if i < n:
                B[i] = T.undef(dtype="float32")
            else:
                B[i] = A[i]
        for i in range(8):
            B[i] = B[i] + A[i]

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            if i < n:
                T.evaluate(0)
            else:
                B[i] = A[i]
        for i in range(8):
            B[i] = B[i] + A[i]

    assert_structural_equal(apply(before, transform.RemoveStoreUndef()), expected)


def test_unroll_loop():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.unroll(2):
            for j in range(3):
                B[i * 3 + j] = A[i]

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for j in range(3):
            B[0 * 3 + j] = A[0]
        for j in range(3):
            B[1 * 3 + j] = A[1]

    got = apply(before, transform.UnrollLoop())
    assert_structural_equal(
        apply(got, transform.Simplify()),
        apply(expected.with_attr(before.attrs), transform.Simplify()),
    )
    assert_same_results(before, got)


@pytest.mark.parametrize("explicit", [0, 1])
def test_automatic_unrolling(explicit):
    @T.prim_func
    def func(A: T.Buffer((4, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            for j in range(4):
                A[i, j] = T.Cast("float32", i)

    config = {"tir.UnrollLoop": {"auto_max_step": 4, "explicit_unroll": bool(explicit)}}
    with PassContext(config=config):
        got = apply(func, transform.UnrollLoop())
    text = got.script()
    assert ("T.unroll(4" in text) is (not explicit)
    assert text.count("A[") == (4 if explicit else 1)
    assert_same_results(func, got)


def test_loops_that_are_left_to_the_back_end_stay():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.unroll(4, annotations={"pragma_unroll_explicit": 0}):
            A[i] = T.Cast("float32", i)

    assert_structural_equal(apply(func, transform.UnrollLoop()), func)


def test_unrolled_loops_for_the_back_end_get_no_annotations():
    @T.prim_func
    def before(A: T.Buffer((12,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            for j in T.unroll(3):
                A[i * 3 + j] = T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((12,), "float32")):
        for i in T.unroll(4):
            for j in T.unroll(3):
                A[i * 3 + j] = T.float32(1)

    option = {"auto_max_step": 16, "explicit_unroll": False}
    with PassContext(config={"tir.UnrollLoop": option}):
        check(before, expected, transform.UnrollLoop())


def test_rewrite_unsafe_select():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            B[i] = T.Select(i > 0, A[i - 1], T.float32(0)) + T.Select(i > 3, A[i], A[7 - i])

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.if_then_else(i > 0, A[i - 1], T.float32(0)) + T.Select(i > 3, A[i], A[7 - i])

    got = apply(before, transform.RewriteUnsafeSelect())
    assert_structural_equal(got, expected.with_attr(before.attrs))


def test_hoist_if_then_else():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            if n > 3:
                A[i] = T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), n: T.int32):
        if n > 3:
            for i in range(8):
                A[i] = T.float32(1)

    check(before, expected, transform.HoistIfThenElse(), sizes={"n": 5})


@pytest.mark.parametrize("hoist", [transform.HoistIfThenElse, transform.HoistExpression])
def test_conditions_inside_of_conditions_rise_as_well(hoist):
    """Each as far as it can; what is likely stays so."""

    @T.prim_func
    def before(B: T.Buffer((128,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i, j, k in T.grid(8, 4, 4):
            if T.likely(i * 2 < n):
                if T.likely(j * 2 + i < n):
                    B[i * 16 + j * 4 + k] = T.float32(1)

    @T.prim_func
    def expected(B: T.Buffer((128,), "float32"), n: T.int32):
        for i in range(8):
            if T.likely(i * 2 < n):
                for j in range(4):
                    if T.likely(j * 2 + i < n):
                        for k in range(4):
                            B[i * 16 + j * 4 + k] = T.float32(1)

    check(before, expected, hoist(), sizes={"n": 5})


def test_storage_rewrite_shares_memory():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        X_data = T.allocate([8], "float32", "global")
        X = T.decl_buffer((8,), data=X_data)
        Y_data = T.allocate([8], "float32", "global")
        Y = T.decl_buffer((8,), data=Y_data)
        Z_data = T.allocate([8], "float32", "global")
        Z = T.decl_buffer((8,), data=Z_data)
        for i in range(8):
            X[i] = A[7 - i]
        for i in range(8):
            Y[i] = X[i] + T.float32(1)
        for i in range(8):
            Z[i] = Y[7 - i]
        for i in range(8):
            B[i] = Z[i]

    got = apply(before, transform.StorageRewrite())
    assert allocations_below(got.body) == 2  # Z lies where X lay
    assert_same_results(before, got)


def allocations_below(node):
    count = int(type(node).__name__ == "Allocate")
    if node.is_leaf:
        return count
    for child in node.children():
        count += allocations_below(child)
    return count


def test_storage_rewrite_moves_allocations_out_of_serial_loops_only():
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for p in T.parallel(4):
            for t in range(2):
                X_data = T.allocate([8], "float32", "global")
                X = T.decl_buffer((8,), data=X_data)
                L_data = T.allocate([8], "float32", "local")
                L = T.decl_buffer((8,), data=L_data, scope="local")
                for i in range(8):
                    X[i] = A[p, i] + T.Cast("float32", t)
                    L[i] = X[i]
                for i in range(8):
                    B[p, i] = X[7 - i] + L[i]

    got = apply(before, transform.StorageRewrite())
    assert type(got.body.body).__name__ == "Allocate"
    assert got.body.body.buffer_var.name == "X_data"
    inner = got.body.body.body
    assert type(inner).__name__ == "For" and "local" in inner.script()
    assert_same_results(before, got)


def test_skip_assert_and_serial_loops():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        assert n > 10, "too small"
        for i in T.parallel(4):
            A[i] = T.float32(n)

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32"), n: T.int32):
        for i in range(4):
            A[i] = T.float32(n)

    got = apply(func, transform.SkipAssert(), transform.ConvertForLoopsToSerial())
    assert_structural_equal(got, expected.with_attr(func.attrs))


def test_peel_vector_tails():
    @T.prim_func
    def before(A: T.Buffer((4, 30), "float32"), B: T.Buffer((4, 30), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            for j0 in range(4):
                for j1 in T.vectorized(8):
                    if j0 * 8 + j1 < 30:
                        B[i, j0 * 8 + j1] = A[i, j0 * 8 + j1]

    @T.prim_func
    def expected(A: T.Buffer((4, 30), "float32"), B: T.Buffer((4, 30), "float32")):
        for i in range(4):
            for j0 in range(3):
                B[i, T.Ramp(j0 * 8, 1, 8)] = A[i, T.Ramp(j0 * 8, 1, 8)]
            B[i, T.Ramp(24, 1, 6)] = A[i, T.Ramp(24, 1, 6)]

    passes = [
        transform.PeelVectorTails(),
        transform.VectorizeLoop(freely=True),
        transform.Simplify(),
    ]
    check(before, expected, *passes)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 23, 24, 40])
def test_peel_vector_tails_of_a_symbolic_size(size):
    @T.prim_func
    def func(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main"})
        n = T.int32()
        A = T.match_buffer(a, (n,))
        B = T.match_buffer(b, (n,))
        for i in T.parallel((n + 7) // 8):
            for j in T.vectorized(8):
                if i * 8 + j < n:
                    B[i * 8 + j] = A[i * 8 + j] * T.float32(2)

    got = apply(func, transform.PeelVectorTails(), transform.VectorizeLoop(freely=True))
    assert_same_results(func, got, {"n": size})


def test_loops_are_not_peeled_for_conditions_on_scalars_or_in_the_middle():
    @T.prim_func
    def func(A: T.Buffer((4, 32), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            for j0 in range(4):
                for j1 in T.vectorized(8):
                    if i < 3 and 5 <= j0 * 8 + j1 and j0 * 8 + j1 != n:
                        A[i, j0 * 8 + j1] = T.float32(1)

    assert_structural_equal(apply(func, transform.PeelVectorTails()), func)


def test_loops_of_one_iteration_vanish_if_asked():
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(1):
            for j in range(4):
                for _k in range(1):
                    A[j] = T.max(A[j], T.Cast("float32", i))

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32")):
        for j in range(4):
            A[j] = T.max(A[j], T.float32(0))

    assert apply(before, transform.UnrollLoop()).script().count("for ") == 1  # one grid of three
    with PassContext(config={"tir.UnrollLoop": {"auto_max_extent": 1}}):
        got = apply(before, transform.UnrollLoop())
    assert_structural_equal(got, expected.with_attr(before.attrs))
    assert_same_results(before, got)


def test_copies_of_an_unrolled_loop_bind_variables_of_their_own():
    x, i = Var("x", "int32"), Var("i", "int32")
    a = decl_buffer((4,), "int32", "A")
    body = BufferStore(a, Let(x, i * 3, x * x + x), [i])
    func = PrimFunc([a], For(i, 0, 4, ForKind.UNROLLED, body), attrs={"global_symbol": "main"})
    got = apply(func, transform.UnrollLoop())
    assert verify_ssa(got) and len(got.body.seq) == 4
    assert_same_results(func, got)


def test_two_lets_of_one_variable_have_their_own_values():
    x, i = Var("x", "int64"), Var("i", "int64")
    a = decl_buffer((T.int64(8),), "int64", "A")
    constant = Let(x, T.int64(0), x * 2 + 1)
    varying = Let(x, i * 3, x * 2 + 1)
    body = stmt_seq(BufferStore(a, constant, [i]), BufferStore(a, varying + a[i], [i]))
    func = PrimFunc([a], For(i, 0, 8, ForKind.SERIAL, body), attrs={"global_symbol": "main"})
    for step in (transform.Simplify(), transform.NarrowDataType(32)):
        got = apply(func, step)
        assert got is not func
        assert_same_results(func, got)
