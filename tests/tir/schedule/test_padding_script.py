"""decompose_padding and pad_einsum."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tir.schedule.harness import check, main_of, refused, schedule_of
from tests.tir.transform.harness import assert_same_results
from tilesmith.script import tir as T
from tilesmith.tir.schedule import ScheduleError


@T.prim_func
def padded(A: T.Buffer((6, 9), "float32"), B: T.Buffer((8, 12), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(
                1 <= vi and vi < 7 and 2 <= vj and vj < 11, A[vi - 1, vj - 2], T.float32(3)
            )


@T.prim_func
def padded_in_two(A: T.Buffer((6, 9), "float32"), B: T.Buffer((8, 12), "float32")):
    for i_pad, j_pad in T.grid(8, 12):
        with T.block("B_pad_const"):
            vi, vj = T.axis.remap("SS", [i_pad, j_pad])
            B[vi, vj] = T.float32(3)
    for i, j in T.grid(6, 9):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi + 1, vj + 2] = A[vi, vj]


@T.prim_func
def padded_row_by_row(A: T.Buffer((6, 9), "float32"), B: T.Buffer((8, 12), "float32")):
    for i in range(8):
        for j_pad in range(12):
            with T.block("B_pad_const"):
                vi, vj = T.axis.remap("SS", [i, j_pad])
                B[vi, vj] = T.float32(3)
        for j in range(9):
            with T.block("B"):
                vi = T.axis.spatial(6, i - 1)
                vj = T.axis.spatial(9, j)
                T.where(1 <= i and i < 7)
                B[vi + 1, vj + 2] = A[vi, vj]


@T.prim_func
def one_image(A: T.Buffer((1, 6), "float32"), B: T.Buffer((1, 8), "float32")):
    T.func_attr({"global_symbol": "main"})
    for n, i in T.grid(1, 8):
        with T.block("B"):
            vn, vi = T.axis.remap("SS", [n, i])
            B[vn, vi] = T.if_then_else(1 <= vi and vi < 7, A[vn, vi - 1], T.float32(0))


def test_decompose_padding_inside_of_a_loop_of_one_iteration():
    @T.prim_func
    def expected(A: T.Buffer((1, 6), "float32"), B: T.Buffer((1, 8), "float32")):
        for _ in range(1):
            for i_pad in range(8):
                with T.block("B_pad_const"):
                    vn = T.axis.spatial(1, 0)
                    vi = T.axis.spatial(8, i_pad)
                    B[vn, vi] = T.float32(0)
            for i in range(6):
                with T.block("B"):
                    vn = T.axis.spatial(1, 0)
                    vi = T.axis.spatial(6, i)
                    B[vn, vi + 1] = A[vn, vi]

    def steps(sch):
        block = sch.get_block("B")
        sch.decompose_padding(block, sch.get_loops(block)[1])

    check(one_image, steps, expected)


@pytest.mark.parametrize("number, expected", [(0, padded_in_two), (1, padded_row_by_row)])
def test_decompose_padding(number, expected):
    def steps(sch):
        block = sch.get_block("B")
        loop = sch.get_loops(block)[number]
        assert sch.can_decompose_padding(block, loop)
        fill = sch.decompose_padding(block, loop)
        assert sch.get(fill).name_hint == "B_pad_const"
        assert not sch.can_decompose_padding(block, sch.get_loops(block)[0])

    check(padded, steps, expected)


@T.prim_func
def selected(A: T.Buffer((9,), "float32"), B: T.Buffer((12,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = T.if_then_else(2 * vi + 1 >= 4 and 0 < 11 - vi, A[vi - 2] * A[vi - 2], 0.0)


def test_linear_bounds_and_values():
    sch = check(selected, lambda sch: sch.decompose_padding(sch.get_block("B"), loops(sch, "B")[0]))
    assert int(sch.get(loops(sch, "B")[0]).extent) == 9


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


def test_after_splits():
    def steps(sch):
        i, j = loops(sch, "B")
        j0, j1 = sch.split(j, [None, 5])
        sch.reorder(j0, i, j1)
        sch.decompose_padding(sch.get_block("B"), i)

    check(padded, steps)


@T.prim_func
def not_padded(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func
def diagonal(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj <= vi, A[vi, vj], T.float32(0))


@T.prim_func
def padded_with_value(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.if_then_else(vi < 5, A[vi], A[0])


@pytest.mark.parametrize(
    "program, text",
    [
        (not_padded, "does not choose between a value and padding"),
        (diagonal, "is not a bound of one iterator"),
        (padded_with_value, "the padding is not constant"),
    ],
)
def test_decompose_padding_refused(program, text):
    refused(
        program,
        lambda sch: sch.decompose_padding(sch.get_block("B"), loops(sch, "B")[0]),
        "decompose_padding:",
        text,
    )
    sch = schedule_of(program)
    assert not sch.can_decompose_padding(sch.get_block("B"), loops(sch, "B")[0])


# --- pad_einsum -----------------------------------------------------------------------------------


@T.prim_func
def product(
    A: T.Buffer((7, 9), "float32"), B: T.Buffer((9, 6), "float32"), C: T.Buffer((7, 6), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(7, 6, 9):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def product_padded(
    A: T.Buffer((7, 9), "float32"), B: T.Buffer((9, 6), "float32"), C: T.Buffer((7, 6), "float32")
):
    A_pad = T.alloc_buffer((8, 12))
    B_pad = T.alloc_buffer((12, 6))
    C_pad = T.alloc_buffer((8, 6))
    for i0, i1 in T.grid(8, 12):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v0 < 7 and v1 < 9, A[v0, v1], T.float32(0))
    for i0, i1 in T.grid(12, 6):
        with T.block("B_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            B_pad[v0, v1] = T.if_then_else(v0 < 9, B[v0, v1], T.float32(0))
    for i, j, k in T.grid(8, 6, 12):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C_pad[vi, vj] = T.float32(0)
            C_pad[vi, vj] = C_pad[vi, vj] + A_pad[vi, vk] * B_pad[vk, vj]
    for i0, i1 in T.grid(7, 6):
        with T.block("C_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            C[v0, v1] = C_pad[v0, v1]


def test_pad_einsum():
    check(product, lambda sch: sch.pad_einsum(sch.get_block("C"), [4, 2, 4]), product_padded)


def test_nothing_to_pad():
    check(product, lambda sch: sch.pad_einsum(sch.get_block("C"), [7, 3, 9]), product)


@T.prim_func
def batched_with_producer(
    X: T.Buffer((3, 7, 9), "int8"), W: T.Buffer((3, 5, 9), "int8"), Y: T.Buffer((3, 7, 5), "int32")
):
    T.func_attr({"global_symbol": "main"})
    A = T.alloc_buffer((3, 7, 9), "int8")
    C = T.alloc_buffer((3, 7, 5), "int32")
    for n, i, k in T.grid(3, 7, 9):
        with T.block("A"):
            vn, vi, vk = T.axis.remap("SSS", [n, i, k])
            A[vn, vi, vk] = X[vn, vi, vk] + T.int8(1)
    for n, i, j, k in T.grid(3, 7, 5, 9):
        with T.block("C"):
            vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
            with T.init():
                C[vn, vi, vj] = 0
            C[vn, vi, vj] = C[vn, vi, vj] + T.Cast("int32", A[vn, vi, vk]) * T.Cast(
                "int32", W[vn, vj, vk]
            )
    for n, i, j in T.grid(3, 7, 5):
        with T.block("Y"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            Y[vn, vi, vj] = C[vn, vi, vj] * 2


@pytest.mark.parametrize("padding", [[1, 4, 4, 4], [2, 1, 1, 1], [1, 1, 1, 2], [5, 5, 5, 5]])
def test_batched_between_other_blocks(padding):
    def steps(sch):
        block = sch.get_block("C")
        sch.pad_einsum(block, padding)
        extents = [int(sch.get(loop).extent) for loop in sch.get_loops(block)]
        assert all(extent % factor == 0 for extent, factor in zip(extents, padding))

    check(batched_with_producer, steps)


def test_copies_can_be_inlined_again():
    def steps(sch):
        sch.pad_einsum(sch.get_block("C"), [1, 4, 4, 4])
        sch.compute_inline(sch.get_block("A"))
        sch.reverse_compute_inline(sch.get_block("Y"))

    check(batched_with_producer, steps)


@T.prim_func
def windowed(
    A: T.Buffer((9,), "float32"), W: T.Buffer((3,), "float32"), C: T.Buffer((7,), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i, k in T.grid(7, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi + vk] * W[vk]


@T.prim_func
def row_maxima(A: T.Buffer((7, 9), "float32"), C: T.Buffer((7,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, k in T.grid(7, 9):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.min_value("float32")
            C[vi] = T.max(C[vi], A[vi, vk])


@T.prim_func
def half_indexed(
    A: T.Buffer((7, 9), "float32"), W: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i, k in T.grid(7, 9):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * W[vi]


@pytest.mark.parametrize(
    "program, padding, texts",
    [
        (windowed, [4, 1], ["'A' is indexed by vi + vk", "reindex"]),
        (row_maxima, [1, 4], ["padding 'vk' with zeros would change the reduction"]),
        (half_indexed, [1, 4], ["padding 'vk' with zeros would change the reduction"]),
        (product, [4, 4], ["has 3 iterators, 2 factors are given"]),
        (product, [4, 0, 1], ["the factor 0 is not positive"]),
    ],
)
def test_pad_einsum_refused(program, padding, texts):
    refused(program, lambda sch: sch.pad_einsum(sch.get_block("C"), padding), "pad_einsum:", *texts)


def test_maxima_can_be_padded_beside_the_reduction():
    check(row_maxima, lambda sch: sch.pad_einsum(sch.get_block("C"), [4, 1]))
    check(half_indexed, lambda sch: sch.pad_einsum(sch.get_block("C"), [4, 3]))


def test_split_loops_are_refused():
    def steps(sch):
        sch.split(loops(sch, "C")[0], [None, 2])
        sch.pad_einsum(sch.get_block("C"), [4, 4, 4])

    sch = schedule_of(product)
    with pytest.raises(ScheduleError, match="not to a loop of its own"):
        steps(sch)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_padding(data):
    padding = [data.draw(st.integers(1, 6)) for _ in range(3)]
    sch = schedule_of(product)
    block = sch.get_block("C")
    sch.pad_einsum(block, padding)
    for producer in sch.get_producers(block):
        found = sch.get_loops(producer)
        place = data.draw(st.sampled_from(found))
        if sch.can_decompose_padding(producer, place):
            sch.decompose_padding(producer, place)
    for loop, factor in zip(sch.get_loops(block), padding):
        sch.split(loop, [None, factor])
    assert_same_results(product, main_of(sch))


def test_padding_of_an_iterator_that_no_result_depends_on():
    @T.prim_func
    def program(A: T.Buffer((2,), "float32"), B: T.Buffer((3,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for k, p, i in T.grid(2, 1, 3):
            with T.block("B"):
                vk, vp, vi = T.axis.remap("RSS", [k, p, i])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vk]

    check(program, lambda sch: sch.pad_einsum("B", [2, 1, 4]))
    refused(program, lambda sch: sch.pad_einsum("B", [2, 4, 3]), "depends on iterator 'vp'")


@T.prim_func
def padded_by_itself(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    N = T.alloc_buffer((9,), "int32")
    for i in range(9):
        with T.block("N"):
            vi = T.axis.spatial(9, i)
            N[vi] = vi
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = T.if_then_else(N[vi] <= N[vi] and vi < 7, A[vi], T.float32(3))


def test_what_only_the_condition_read_is_not_read_any_more():
    @T.prim_func
    def expected(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
        N = T.alloc_buffer((9,), "int32")
        for i in range(9):
            with T.block("N"):
                vi = T.axis.spatial(9, i)
                N[vi] = vi
        for i_pad in range(9):
            with T.block("B_pad_const"):
                vi = T.axis.spatial(9, i_pad)
                B[vi] = T.float32(3)
        for i in range(7):
            with T.block("B"):
                vi = T.axis.spatial(7, i)
                B[vi] = A[vi]

    def steps(sch):
        block = sch.get_block("B")
        sch.decompose_padding(block, sch.get_loops(block)[0])

    check(padded_by_itself, steps, expected)
