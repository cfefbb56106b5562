"""compute_at and reverse_compute_at where iterators are spread over dimensions, or share one."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, refused
from tilesmith.script import tir as T


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


@T.prim_func
def digits(A: T.Buffer((3, 4), "float32"), C: T.Buffer((12,), "float32")):
    """The consumer takes its iterator apart."""
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((3, 4), "float32")
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i in range(12):
        with T.block("C"):
            vi = T.axis.spatial(12, i)
            C[vi] = B[vi // 4, vi % 4] + T.float32(1)


@T.prim_func
def combined(A: T.Buffer((12,), "float32"), C: T.Buffer((3, 4), "float32")):
    """The consumer puts its iterators together."""
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((12,), "float32")
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = A[vi] * T.float32(2)
    for i, j in T.grid(3, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi * 4 + vj] + T.float32(1)


def test_reverse_compute_at_of_digits():
    @T.prim_func
    def expected(A: T.Buffer((3, 4), "float32"), C: T.Buffer((12,), "float32")):
        B = T.alloc_buffer((3, 4), "float32")
        for i in range(3):
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for ax0 in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(12, i * 4 + ax0)
                    C[vi] = B[vi // 4, vi % 4] + T.float32(1)

    def at(number):
        return lambda sch: sch.reverse_compute_at(sch.get_block("C"), loops(sch, "B")[number])

    check(digits, at(0), expected)
    check(digits, at(1))

    def exchanged(sch):
        sch.reorder(*reversed(loops(sch, "B")))
        at(1)(sch)

    check(digits, exchanged)

    def columns(sch):
        sch.reorder(*reversed(loops(sch, "B")))

    refused(digits, [columns, at(0)], "does not tell its iterators in one iteration of 'j'")


@pytest.mark.parametrize("factor", [4, 8, 12])
def test_reverse_compute_at_of_a_sum_of_iterators(factor):
    def steps(sch):
        outer, _ = sch.split(loops(sch, "B")[0], [None, factor])
        sch.reverse_compute_at(sch.get_block("C"), outer)

    check(combined, steps)
    check(combined, lambda sch: sch.reverse_compute_at(sch.get_block("C"), loops(sch, "B")[0]))


def test_reverse_compute_at_of_tiles_that_do_not_fit():
    def split(sch):
        sch.split(loops(sch, "B")[0], [None, 3])

    def move(sch):
        sch.reverse_compute_at(sch.get_block("C"), loops(sch, "B")[0])

    refused(combined, [split, move], "does not tell its iterators in one iteration of 'i_0'")


def test_compute_at_of_digits():
    """A producer that writes by digits, or at sums, computes only what is needed."""

    @T.prim_func
    def packed(A: T.Buffer((12,), "float32"), C: T.Buffer((3, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((3, 4), "float32")
        for i in range(12):
            with T.block("B"):
                vi = T.axis.spatial(12, i)
                B[vi // 4, vi % 4] = A[vi] * T.float32(2)
        for i, j in T.grid(3, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    def at(number, extents):
        def steps(sch):
            sch.compute_at(sch.get_block("B"), loops(sch, "C")[number])
            found = [int(sch.get(loop).extent) for loop in loops(sch, "B")]
            assert found == extents

        return steps

    check(packed, at(0, [3, 4]))
    check(packed, at(1, [3, 4]))

    @T.prim_func
    def flat(A: T.Buffer((3, 4), "float32"), C: T.Buffer((12,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((12,), "float32")
        for i, j in T.grid(3, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi * 4 + vj] = A[vi, vj] * T.float32(2)
        for i in range(12):
            with T.block("C"):
                vi = T.axis.spatial(12, i)
                C[vi] = B[vi] + T.float32(1)

    def tiles(sch):
        outer, _ = sch.split(loops(sch, "C")[0], [None, 4])
        sch.compute_at(sch.get_block("B"), outer)
        assert [int(sch.get(loop).extent) for loop in loops(sch, "B")] == [3, 4]

    check(flat, tiles)


def test_compute_at_of_two_outputs():
    """The iterator takes all values that one of the outputs needs."""

    @T.prim_func
    def two(A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((8,), "float32")
        D = T.alloc_buffer((8, 2), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.float32(2)
                D[vi // 2 + 1, vi % 2] = A[vi] * T.float32(3)
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = B[vi] + D[vi + 1, 0] + D[vi + 1, 1]

    check(two, lambda sch: sch.compute_at(sch.get_block("B"), loops(sch, "C")[0]))


@pytest.mark.parametrize("number", [0, 1])
def test_windows_at_a_step(number):
    """A producer of what strided windows read."""
    check(
        programs.strided,
        lambda sch: sch.compute_at(sch.get_block("B"), loops(sch, "C")[number]),
    )


def test_places_under_a_loop():
    """``index`` counts the statements of the loop; a place between producer and consumer serves."""

    def steps(index):
        def apply(sch):
            sch.compute_at(sch.get_block("C"), loops(sch, "D")[0])
            sch.compute_at(sch.get_block("B"), loops(sch, "D")[0], index=index)

        return apply

    for index in (-1, -2, 0):
        check(programs.three_stages, steps(index))

    def first(sch):
        sch.compute_at(sch.get_block("C"), loops(sch, "D")[0])

    def late(sch):
        sch.compute_at(sch.get_block("B"), loops(sch, "D")[0], index=1)

    refused(programs.three_stages, [first, late], "index 1 is not between 0 and 0")


def test_parallel_loops_over_producers_that_overlap():
    """Iterations that compute the same rows again, each for itself, may run at once."""

    def steps(sch):
        i = loops(sch, "C")[0]
        outer, _ = sch.split(i, [None, 4])
        sch.compute_at(sch.get_block("B"), outer)
        sch.parallel(outer)

    check(programs.stencil, steps)

    def bound(sch):
        i = loops(sch, "C")[0]
        sch.compute_at(sch.get_block("B"), i)
        sch.bind(i, "blockIdx.x")

    check(programs.stencil, bound)

    def together(sch):
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[0])

    refused(
        programs.stencil,
        [together, lambda sch: sch.vectorize(loops(sch, "C")[0])],
        "the binding of block 'B' is not affine",
    )


def test_reorder_inside_of_overlapping_parts():
    """Loops outside of the reordered ones may make parts that overlap."""

    def steps(sch):
        sch.compute_at(sch.get_block("P"), loops(sch, "C")[1])
        channel, column = loops(sch, "P")[2:]
        sch.reorder(column, channel)

    check(programs.convolution, steps)


def test_one_thread_axis_for_two_loops():
    def inner(sch):
        sch.bind(loops(sch, "B")[1], "threadIdx.x")

    def outer(sch):
        sch.bind(loops(sch, "B")[0], "threadIdx.x")

    refused(programs.elementwise, [inner, outer], "loop 'j' inside is bound to threadIdx.x already")
    refused(programs.elementwise, [outer, inner], "an outer loop is bound to threadIdx.x already")


def test_checks_can_be_turned_off():
    """``enable_check=False``: the user answers for the order of iterations."""
    from tests.tir.schedule.harness import schedule_of

    sch = schedule_of(programs.scan, enable_check=False)
    sch.parallel(loops(sch, "B")[0])
    assert sch.get(loops(sch, "B")[0]).kind == 1


@T.prim_func
def fused_rows(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (6, n), "float32")
    B = T.match_buffer(b, (6, n), "float32")
    for i, j in T.grid(6, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


@pytest.mark.parametrize("tag, scope", [("threadIdx.x", "local"), ("vthread", "local")])
def test_memory_of_one_thread_is_read_by_that_thread(tag, scope):
    """What a thread makes of rows whose length is not known may be in any row."""

    def divide(sch):
        sch.cache_write(sch.get_block("B"), 0, scope)
        outer, middle, _ = sch.split(sch.fuse(*loops(sch, "B")), [None, 3, 2])
        sch.bind(outer, "blockIdx.x")
        sch.bind(middle, tag)

    def move(sch):
        sch.reverse_compute_at(sch.get_block(f"B_{scope}"), loops(sch, "B")[1])

    refused(fused_rows, [divide, move], "of which each thread has its own")
