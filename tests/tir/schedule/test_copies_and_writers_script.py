"""Copies between the blocks that write a buffer, and partial results in front of shared loops."""

import pytest

from tests.tir.schedule.harness import check, refused
from tilesmith.script import tir as T


@T.prim_func
def written_twice(
    A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(8, 8):
        with T.block("first"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 8):
        with T.block("update"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = B[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 8):
        with T.block("result"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("last"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.float32(3)


def reads_of(sch, name):
    return [region.buffer.name for region in sch.get(sch.get_block(name)).reads]


def test_later_writers_do_not_matter():
    def steps(sch):
        sch.cache_inplace("update", 0, "local")
        sch.cache_read("B_local", 0, "shared")
        assert reads_of(sch, "B_local") == ["B_shared"]
        assert reads_of(sch, "result") == ["B"]

    check(written_twice, steps)


def test_earlier_readers_and_writers_do_not_matter():
    def steps(sch):
        copies = sch.cache_inplace("update", 0, "local")
        sch.cache_write(copies[1], 0, "shared")
        assert reads_of(sch, "B_local") == ["B"]

    check(written_twice, steps)


def test_a_copy_of_what_is_written_later_too_is_for_no_later_block():
    refused(
        written_twice,
        lambda sch: sch.cache_write("first", 0, "shared", consumer_blocks=["result"]),
        "another block writes",
    )


@T.prim_func
def tiles(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i0, j0 in T.grid(2, 2):
        with T.block("tile"):
            vi0, vj0 = T.axis.remap("SS", [i0, j0])
            T.reads(C[vi0 * 4 : vi0 * 4 + 4, vj0 * 4 : vj0 * 4 + 4], A[vi0 * 4 : vi0 * 4 + 4, 0:8])
            T.writes(C[vi0 * 4 : vi0 * 4 + 4, vj0 * 4 : vj0 * 4 + 4])
            for i, j in T.grid(4, 4):
                with T.block("start"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi0 * 4 + vi, vj0 * 4 + vj] = T.float32(0)
                for k in range(8):
                    with T.block("sum"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        C[vi0 * 4 + vi, vj0 * 4 + vj] = (
                            C[vi0 * 4 + vi, vj0 * 4 + vj] + A[vi0 * 4 + vi, vk]
                        )


def test_a_block_that_starts_what_it_reads_is_written_through_a_copy():
    check(tiles, lambda sch: sch.cache_write("tile", 0, "local"))


def test_a_block_that_reads_old_values_is_not():
    @T.prim_func
    def updated(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        for i0 in range(2):
            with T.block("tile"):
                vi0 = T.axis.spatial(2, i0)
                T.reads(C[vi0 * 4 : vi0 * 4 + 4, 0:8], A[vi0 * 4 : vi0 * 4 + 4, 0:8])
                T.writes(C[vi0 * 4 : vi0 * 4 + 4, 0:8])
                for i, j in T.grid(4, 8):
                    with T.block("start"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi0 * 4 + vi, vj] = A[vi0 * 4 + vi, vj]
                    with T.block("mirror"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi0 * 4 + vi, vj] = C[vi0 * 4 + vi, 7 - vj]

    refused(updated, lambda sch: sch.cache_write("tile", 0, "local"), "the copy is empty")


def test_what_a_consumer_leaves_out_is_a_predicate():
    @T.prim_func
    def cropped(A: T.Buffer((16, 8), "float32"), C: T.Buffer((12, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((16, 8))
        for i, j in T.grid(16, 8):
            with T.block("made"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(12, 8):
            with T.block("crop"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((16, 8), "float32"), C: T.Buffer((12, 8), "float32")):
        for i, j in T.grid(16, 8):
            with T.block("made"):
                vi = T.axis.spatial(12, i)
                vj = T.axis.spatial(8, j)
                T.where(i < 12)
                C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)

    check(cropped, lambda sch: sch.reverse_compute_inline("crop"), expected)

    def steps(sch):
        sch.reverse_compute_inline("crop")
        sch.cache_write("made", 0, "local")

    check(cropped, steps)


@T.prim_func
def shared_rows(
    A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.block("before"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi, 0]
        for j, _ in T.grid(6, 1):
            with T.block("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vj]
        with T.block("after"):
            vi = T.axis.spatial(8, i)
            C[vi] = C[vi] + B[vi]


@pytest.mark.parametrize("loop, size", [(1, 6), (2, 1)])
def test_partial_results_in_front_of_shared_loops(loop, size):
    def steps(sch):
        sch.rfactor(sch.get_loops("sum")[loop], 0)
        assert len(sch.get_loops("sum_rf")) == 3
        partial = sch.get(sch.get_block("sum_rf")).writes[0].buffer
        assert [int(extent) for extent in partial.shape] == [size, 8]

    check(shared_rows, steps)


def test_partial_results_do_not_pass_what_they_are_made_of():
    @T.prim_func
    def made_inside(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "float32")):
        D = T.alloc_buffer((8, 6))
        for i in range(8):
            for j in range(6):
                with T.block("made"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(6):
                with T.block("sum"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + D[vi, vj]

    refused(
        made_inside,
        lambda sch: sch.rfactor(sch.get_loops("sum")[1], 0),
        "'made' writes what block 'sum' uses",
    )


def beside_the_buffer(column):
    @T.prim_func
    def program(
        A: T.Buffer((4, 3), "float32"),
        B: T.Buffer((4, 3), "float32"),
        C: T.Buffer((4,), "float32"),
    ):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            for j in range(3):
                with T.block("all"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj]
            with T.block("never"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi, column])
                T.writes(C[vi])
                C[vi] = T.if_then_else(vi < -1, A[vi, column], T.float32(1))

    return program


@pytest.mark.parametrize("column", [5, -3])
@pytest.mark.parametrize("primitive", ["cache_read", "read_at"])
def test_copies_leave_out_what_readers_name_outside_of_the_buffer(primitive, column):
    def steps(sch):
        if primitive == "cache_read":
            sch.cache_read("all", 0, "local")
        else:
            sch.read_at(sch.get_loops("all")[0], "all", 0, "local")
        assert sch.get(sch.get_block("never")).reads[0].buffer.name == "A_local"

    check(beside_the_buffer(column), steps)


@pytest.mark.parametrize("column", [5, -3])
def test_copies_for_one_reader_outside_of_the_buffer_are_empty(column):
    def steps(sch):
        never = sch.get_block("never")
        copy = sch.cache_read(never, 0, "local", consumer_blocks=[never])
        assert int(sch.get(sch.get_loops(copy)[1]).extent) == 0

    check(beside_the_buffer(column), steps)


@pytest.mark.parametrize("column", [5, -3])
def test_copies_in_place_leave_out_what_is_outside_of_the_buffer(column):
    @T.prim_func
    def program(A: T.Buffer((4, 3), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            with T.block("sum"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi, 0], A[vi, column])
                T.writes(A[vi, 1])
                A[vi, 1] = A[vi, 0] + T.if_then_else(vi < -1, A[vi, column], T.float32(1))

    check(program, lambda sch: sch.cache_inplace("sum", 0, "local"))


def test_copies_back_leave_out_what_the_condition_of_the_writer_cuts_off():
    @T.prim_func
    def program(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((10,), "float32")
        for i in range(16):
            with T.block("made"):
                T.where(i < 10)
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] + T.float32(1)
        for i in range(10):
            with T.block("used"):
                vi = T.axis.spatial(10, i)
                C[vi] = B[vi]

    def steps(sch):
        copy = sch.cache_write("made", 0, "local")
        assert int(sch.get(sch.get_loops(copy)[0]).extent) == 10

    check(program, steps)
