"""How divided and fused loops are spelled in bindings and predicates: as users' tests expect it."""

import pytest

from tests.tir.schedule.harness import check
from tilesmith.script import tir as T
from tilesmith.tir.stmt import ForKind


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


@T.prim_func
def rows(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(7, 13):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def square(A: T.Buffer((16, 32), "float32"), B: T.Buffer((16, 32), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(16, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "main"})
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


def on_threads(sch):
    fused = sch.fuse(*loops(sch, "B"))
    outer, inner = sch.split(fused, [None, 16])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")


def test_digits_of_fused_loops_stay_digits_of_the_sum():
    @T.prim_func
    def expected(A: T.Buffer((16, 32), "float32"), B: T.Buffer((16, 32), "float32")):
        for f_0, f_1, f_2 in T.grid(16, 8, 4):
            with T.block("B"):
                vi = T.axis.spatial(16, (f_0 * 32 + f_1 * 4 + f_2) // 32)
                vj = T.axis.spatial(32, (f_0 * 32 + f_1 * 4 + f_2) % 32)
                B[vi, vj] = A[vi, vj] + T.float32(1)

    check(square, lambda sch: sch.split(sch.fuse(*loops(sch, "B")), [None, 8, 4]), expected)


def test_predicates_keep_the_nested_products():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        for f_0, f_1, f_2 in T.grid(3, 8, 4):
            with T.block("B"):
                vi = T.axis.spatial(7, (f_0 * 32 + f_1 * 4 + f_2) // 13)
                vj = T.axis.spatial(13, (f_0 * 32 + f_1 * 4 + f_2) % 13)
                T.where((f_0 * 8 + f_1) * 4 + f_2 < 91)
                B[vi, vj] = A[vi, vj] + T.float32(1)

    check(rows, lambda sch: sch.split(sch.fuse(*loops(sch, "B")), [None, 8, 4]), expected)


def test_a_bound_on_high_digits_only_keeps_the_flat_sum():
    @T.prim_func
    def expected(A: T.Buffer((16, 32), "float32"), B: T.Buffer((16, 32), "float32")):
        for f_0, f_1, f_2 in T.grid(6, 24, 4):
            with T.block("B"):
                vi = T.axis.spatial(16, (f_0 * 96 + f_1 * 4 + f_2) // 32)
                vj = T.axis.spatial(32, (f_0 * 96 + f_1 * 4 + f_2) % 32)
                T.where((f_0 * 24 + f_1) * 4 + f_2 < 512)
                B[vi, vj] = A[vi, vj] + T.float32(1)

    check(square, lambda sch: sch.split(sch.fuse(*loops(sch, "B")), [None, 24, 4]), expected)


def test_split_of_a_split():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        for i, j_0_0, j_0_1, j_1 in T.grid(7, 2, 3, 3):
            with T.block("B"):
                vi = T.axis.spatial(7, i)
                vj = T.axis.spatial(13, (j_0_0 * 3 + j_0_1) * 3 + j_1)
                T.where((j_0_0 * 3 + j_0_1) * 3 + j_1 < 13 and j_0_0 * 3 + j_0_1 < 5)
                B[vi, vj] = A[vi, vj] + T.float32(1)

    def steps(sch):
        outer, _ = sch.split(loops(sch, "B")[1], [None, 3])
        sch.split(outer, [None, 3])

    check(rows, steps, expected)


def test_loops_of_one_iteration_go_where_asked():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        for _, i_1, j in T.grid(1, 7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i_1, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    def steps(sch):
        sch.split(loops(sch, "B")[0], [1, 7], preserve_unit_iters=False)

    check(rows, steps, expected)


def test_fused_loops_of_any_extent_take_threads():
    sch = check(rows, on_threads)
    assert [sch.get(loop).kind for loop in loops(sch, "B")] == [ForKind.THREAD_BINDING] * 2


@pytest.mark.parametrize("size", [1, 5])
def test_fused_symbolic_loops_take_threads(size):
    @T.prim_func
    def expected(a: T.handle, b: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n, m), "float32")
        for f_0 in T.thread_binding((n * m + 15) // 16, thread="blockIdx.x"):
            for f_1 in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(n, (f_0 * 16 + f_1) // m)
                    vj = T.axis.spatial(m, (f_0 * 16 + f_1) % m)
                    T.where(f_0 * 16 + f_1 < n * m)
                    B[vi, vj] = A[vi, vj] + T.float32(1)

    check(symbolic, on_threads, expected, sizes={"n": size, "m": 7})


@T.prim_func
def one_image(A: T.Buffer((1, 5), "float32"), C: T.Buffer((1, 5), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((1, 5), "float32")
    for n, i in T.grid(1, 5):
        with T.block("B"):
            vn, vi = T.axis.remap("SS", [n, i])
            B[vn, vi] = A[vn, vi] * T.float32(2)
    for n, i in T.grid(1, 5):
        with T.block("C"):
            vn, vi = T.axis.remap("SS", [n, i])
            C[vn, vi] = B[vn, vi] + T.float32(1)


def test_inlined_consumers_keep_the_iterator_of_one_value():
    @T.prim_func
    def expected(A: T.Buffer((1, 5), "float32"), C: T.Buffer((1, 5), "float32")):
        for n, i in T.grid(1, 5):
            with T.block("B"):
                vn, vi = T.axis.remap("SS", [n, i])
                C[vn, vi] = A[vn, vi] * T.float32(2) + T.float32(1)

    check(one_image, lambda sch: sch.reverse_compute_inline(sch.get_block("C")), expected)


def test_layouts_pad_axes_that_are_shorter_than_a_digit():
    @T.prim_func
    def expected(A: T.Buffer((1, 5), "float32"), C: T.Buffer((1, 5), "float32")):
        B = T.alloc_buffer((1, 1, 8), "float32")
        for n, o, i in T.grid(1, 1, 8):
            with T.block("B"):
                vn, vo, vi = T.axis.remap("SSS", [n, o, i])
                T.reads(A[vn, vo * 8 + vi])
                T.writes(B[vn, vo, vi])
                B[vn, vo, vi] = T.if_then_else(
                    5 <= vi, T.float32(0), A[vn, vo * 8 + vi] * T.float32(2)
                )
        for n, i in T.grid(1, 5):
            with T.block("C"):
                vn, vi = T.axis.remap("SS", [n, i])
                C[vn, vi] = B[vn, vi // 8, vi % 8] + T.float32(1)

    def steps(sch):
        sch.transform_layout(
            sch.get_block("B"), ("write", 0), lambda n, i: (n, i // 8, i % 8), pad_value=0.0
        )

    check(one_image, steps, expected)
