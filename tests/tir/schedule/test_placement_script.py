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


@pytest.mark.parametrize("size", [1, 5, 9])
def test_each_thread_copies_what_it_made_itself(size):
    """Found by fuzzing: each thread copied its row, of which it had made one element."""

    def steps(sch):
        sch.cache_write(sch.get_block("B"), 0, "local")
        outer, middle, _ = sch.split(sch.fuse(*loops(sch, "B")), [None, 16, 1])
        sch.bind(outer, "blockIdx.x")
        sch.bind(middle, "threadIdx.x")
        sch.reverse_compute_at(sch.get_block("B_local"), loops(sch, "B")[1])

    sch = check(fused_rows, steps, sizes={"n": size})
    assert len(loops(sch, "B_local")) == 2


@T.prim_func
def symbolic_rows(a: T.handle, c: T.handle):
    T.func_attr({"global_symbol": "main"})
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    C = T.match_buffer(c, (n, m), "float32")
    B = T.alloc_buffer((n, m), "float32")
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


@pytest.mark.parametrize("sizes", [(5, 3), (2, 9), (1, 1), (0, 4), (4, 0)])
@pytest.mark.parametrize("number", [0, 1])
def test_compute_at_of_rows_that_a_fused_loop_of_symbolic_extent_reads(number, sizes):
    @T.prim_func
    def outside(a: T.handle, c: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        C = T.match_buffer(c, (n, m), "float32")
        B = T.alloc_buffer((n, m), "float32")
        for f_0 in range((n * m + 7) // 8):
            for ax0, ax1 in T.grid(T.min((f_0 * 8 + 7) // m + 1, n) - f_0 * 8 // m, m):
                with T.block("B"):
                    vi = T.axis.spatial(n, f_0 * 8 // m + ax0)
                    vj = T.axis.spatial(m, ax1)
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for f_1 in range(8):
                with T.block("C"):
                    vi = T.axis.spatial(n, (f_0 * 8 + f_1) // m)
                    vj = T.axis.spatial(m, (f_0 * 8 + f_1) % m)
                    T.where(f_0 * 8 + f_1 < n * m)
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    @T.prim_func
    def inside(a: T.handle, c: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        C = T.match_buffer(c, (n, m), "float32")
        B = T.alloc_buffer((n, m), "float32")
        for f_0, f_1 in T.grid((n * m + 7) // 8, 8):
            with T.block("B"):
                vi = T.axis.spatial(n, (f_0 * 8 + f_1) // m)
                vj = T.axis.spatial(m, (f_0 * 8 + f_1) % m)
                T.where(f_0 * 8 + f_1 < n * m)
                B[vi, vj] = A[vi, vj] * T.float32(2)
            with T.block("C"):
                vi = T.axis.spatial(n, (f_0 * 8 + f_1) // m)
                vj = T.axis.spatial(m, (f_0 * 8 + f_1) % m)
                T.where(f_0 * 8 + f_1 < n * m)
                C[vi, vj] = B[vi, vj] + T.float32(1)

    def steps(sch):
        split = sch.split(sch.fuse(*loops(sch, "C")), [None, 8])
        sch.compute_at(sch.get_block("B"), split[number])

    expected = (outside, inside)[number]
    check(symbolic_rows, steps, expected, sizes=dict(zip("nm", sizes)))


@pytest.mark.parametrize("sizes", [(3, 5), (0, 3), (3, 0)])
@pytest.mark.parametrize("factor", [None, 4])
def test_reverse_compute_at_under_a_fused_loop_of_symbolic_extent(factor, sizes):
    def steps(sch):
        loop = sch.fuse(*loops(sch, "B"))
        if factor is not None:
            loop = sch.split(loop, [None, factor])[1]
        sch.reverse_compute_at(sch.get_block("C"), loop)

    sch = check(symbolic_rows, steps, sizes=dict(zip("nm", sizes)))
    assert len(loops(sch, "C")) == (1 if factor is None else 2)
    text = sch.mod["main"].script()
    assert text.count("T.where(i_j_fused_0 * 4 + i_j_fused_1 < n * m)") == (2 if factor else 0)


def test_reverse_compute_at_needs_all_that_a_fused_loop_leaves_out():
    """Each of the columns occurs, but not with each of the rows."""

    @T.prim_func
    def diagonal(a: T.handle, c: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m))
        C = T.match_buffer(c, (n, m))
        B = T.alloc_buffer((n, m))
        for f in range(n * m):
            with T.block("B"):
                vi = T.axis.spatial(n, f // m)
                vj = T.axis.spatial(m, f % n)
                T.where(f % n < m)
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(n, m):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]

    def move(sch):
        sch.reverse_compute_at(sch.get_block("C"), loops(sch, "B")[0])

    refused(diagonal, move, "reverse_compute_at")


def test_conditions_of_moved_blocks_are_simple():
    """The lower bound first, constants on one side."""

    @T.prim_func
    def shifted(A: T.Buffer((9,), "float32"), C: T.Buffer((14,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((9,), "float32")
        for i in range(9):
            with T.block("B"):
                vi = T.axis.spatial(9, i)
                B[vi] = A[vi]
        for i in range(14):
            with T.block("C"):
                vi = T.axis.spatial(14, i)
                C[vi] = T.if_then_else(2 <= vi and vi < 11, B[vi - 2], T.float32(0))

    def steps(sch):
        sch.compute_at(sch.get_block("B"), sch.split(loops(sch, "C")[0], [None, 4])[0])

    @T.prim_func
    def expected(A: T.Buffer((9,), "float32"), C: T.Buffer((14,), "float32")):
        B = T.alloc_buffer((9,), "float32")
        for i_0 in range(4):
            for ax0 in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(9, i_0 * 4 - 2 + ax0)
                    T.where(2 <= i_0 * 4 + ax0 and i_0 * 4 + ax0 < 11)
                    B[vi] = A[vi]
            for i_1 in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(14, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 14)
                    C[vi] = T.if_then_else(2 <= vi and vi < 11, B[vi - 2], T.float32(0))

    check(shifted, steps, expected)


@T.prim_func(check_well_formed=False)
def without_rows(A: T.Buffer((0, 4), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    B = T.alloc_buffer((0, 4), "float32")
    for j, i in T.grid(4, 0):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
    for j, k in T.grid(4, 3):
        with T.block("C"):
            vj, vk = T.axis.remap("SR", [j, k])
            T.reads(B[0:0, vj])
            with T.init():
                C[vj] = 0.0
            C[vj] = C[vj] + T.if_then_else(vk > 5, B[0, vj], T.float32(2))


def test_consumers_do_not_move_under_loops_without_iterations():
    """What the consumer reads under a condition is empty, but it has results."""

    def move(sch):
        sch.reverse_compute_at(sch.get_block("C"), loops(sch, "B")[1])

    refused(without_rows, move, "loop 'i' may have no iteration, and block 'C' would not run")

    def move_outside(sch):
        sch.reverse_compute_at(sch.get_block("C"), loops(sch, "B")[0])

    check(without_rows, move_outside)


@T.prim_func
def sums_of_prefixes(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((8, 4), scope="shared")
    for i in range(8):
        for j, k in T.grid(i + 1, 4):
            with T.block("S"):
                v = T.axis.remap("SS", [j, k])
                S[v[0], v[1]] = A[v[0], v[1]]
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = S[vi, 0] + S[vi, 3]


@pytest.mark.parametrize("order", ["outer first", "inner first"])
def test_threads_fill_shared_memory_together_only_where_all_come_by(order):
    """Loop j is longer for some threads: a barrier in it would never be passed (by fuzzing)."""

    def outer(sch):
        sch.bind(loops(sch, "B")[0], "threadIdx.x")

    def inner(sch):
        sch.bind(loops(sch, "S")[2], "threadIdx.x")

    steps = [outer, inner] if order == "outer first" else [inner, outer]
    refused(sums_of_prefixes, steps, "is bound to threadIdx.x already", "equally often")
