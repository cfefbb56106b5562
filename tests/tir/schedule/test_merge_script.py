"""merge: nests that stand one after the other become one."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, refused
from tilesmith.script import tir as T


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


@T.prim_func
def two_nests(
    A: T.Buffer((6, 5), "float32"), B: T.Buffer((6, 5), "float32"), C: T.Buffer((6, 5), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(6, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(6, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)


def test_merge():
    @T.prim_func
    def expected(
        A: T.Buffer((6, 5), "float32"),
        B: T.Buffer((6, 5), "float32"),
        C: T.Buffer((6, 5), "float32"),
    ):
        for i in range(6):
            for j in range(5):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)
            for j in range(5):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * T.float32(2)

    check(two_nests, lambda sch: sch.merge(loops(sch, "B")[0], loops(sch, "C")[0]), expected)


def test_merge_of_inner_loops():
    """The loops around them, up to where the nests part, are merged too."""

    @T.prim_func
    def expected(
        A: T.Buffer((6, 5), "float32"),
        B: T.Buffer((6, 5), "float32"),
        C: T.Buffer((6, 5), "float32"),
    ):
        for i, j in T.grid(6, 5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2)

    def steps(sch):
        outer, inner = loops(sch, "B")
        merged = sch.merge(inner, loops(sch, "C")[1])
        assert sch.get(merged) is sch.get(inner) and sch.get(outer).body is sch.get(inner)

    check(two_nests, steps, expected)

    def several(sch):
        sch.split(loops(sch, "B")[0], [2, 3])
        sch.split(loops(sch, "C")[0], [2, 3])
        sch.merge(loops(sch, "B")[1], loops(sch, "C")[1])

    check(two_nests, several)


def test_merge_refusals():
    def first_loops(sch):
        sch.merge(loops(sch, "B")[0], loops(sch, "C")[0])

    refused(
        two_nests,
        lambda sch: sch.merge(loops(sch, "B")[0], loops(sch, "C")[1]),
        "are not in adjacent nests",
    )
    refused(
        two_nests, lambda sch: sch.merge(loops(sch, "B")[0]), "merge: at least two loops are needed"
    )
    refused(
        two_nests,
        [lambda sch: sch.split(loops(sch, "B")[0], [2, 3]), first_loops],
        "the loops differ in kind or extent",
    )


def test_merge_of_loops_without_a_block_around():
    """A function without a root block: its loops are found by their identities only."""

    @T.prim_func(private=True)
    def bare(A: T.Buffer((6,), "float32")):
        for i in range(6):
            A[i] = T.float32(1)
        for i in range(6):
            A[i] = T.float32(2)

    def outermost(sch):
        return [sch.state.get_sref(loop) for loop in sch.mod["main"].body.seq]

    refused(bare, lambda sch: sch.merge(*outermost(sch)), "no loop or block stands around it")


def test_nests_that_pass_on_what_each_iteration_makes():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7, 13), "float32")):
        B = T.alloc_buffer((7, 13), "float32")
        for i, j in T.grid(7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    check(
        programs.elementwise,
        lambda sch: sch.merge(loops(sch, "B")[1], loops(sch, "C")[1]),
        expected,
    )
    check(programs.elementwise64, lambda sch: sch.merge(loops(sch, "B")[0], loops(sch, "C")[0]))

    def tiles(sch):
        for name in "CD":
            i, j = loops(sch, name)[:2]
            i_0, i_1 = sch.split(i, [3, 3])
            j_0, j_1 = sch.split(j, [3, 2])
            sch.reorder(i_0, j_0, i_1, j_1)
        sch.merge(loops(sch, "C")[1], loops(sch, "D")[1])

    check(programs.matmul_relu, tiles)


def neighbours(first: int, second: int, write: bool):
    """Nest a uses element i + first of B, nest b element i + second; one of them writes it."""
    if write:

        @T.prim_func
        def flow(A: T.Buffer((9,), "float32"), C: T.Buffer((7,), "float32")):
            B = T.alloc_buffer((9,), "float32")
            for i in range(7):
                with T.block("a"):
                    vi = T.axis.spatial(7, i)
                    B[vi + first] = A[vi] + T.float32(1)
            for i in range(7):
                with T.block("b"):
                    vi = T.axis.spatial(7, i)
                    C[vi] = B[vi + second] * T.float32(2)

        return flow

    @T.prim_func
    def anti(A: T.Buffer((9,), "float32"), C: T.Buffer((7,), "float32")):
        for i in range(7):
            with T.block("a"):
                vi = T.axis.spatial(7, i)
                C[vi] = A[vi + first] * T.float32(2)
        for i in range(7):
            with T.block("b"):
                vi = T.axis.spatial(7, i)
                A[vi + second] = T.float32(1)

    return anti


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("places", [(0, 1), (1, 0), (2, 0), (0, 2)])
def test_iterations_that_use_what_others_write_are_not_merged(places, write):
    refused(
        neighbours(*places, write),
        lambda sch: sch.merge(loops(sch, "a")[0], loops(sch, "b")[0]),
        "uses what a block of another one writes",
    )
    check(neighbours(1, 1, write), lambda sch: sch.merge(loops(sch, "a")[0], loops(sch, "b")[0]))


def test_reductions_are_not_merged_with_what_reads_them():
    refused(
        programs.matmul_relu,
        [
            lambda sch: sch.reorder(loops(sch, "C")[2], loops(sch, "C")[0]),
            lambda sch: sch.split(loops(sch, "C")[0], [1, 11]),
            lambda sch: sch.merge(loops(sch, "C")[1], loops(sch, "D")[0]),
        ],
        "merge: ",
    )
