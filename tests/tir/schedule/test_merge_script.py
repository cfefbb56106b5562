"""merge: nests that stand one after the other become one."""

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

    refused(programs.elementwise, first_loops, "uses what a block of another one writes")
    refused(
        two_nests,
        lambda sch: sch.merge(loops(sch, "B")[0], loops(sch, "C")[1]),
        "do not stand side by side",
    )
    refused(
        two_nests, lambda sch: sch.merge(loops(sch, "B")[0]), "merge: at least two loops are needed"
    )
    refused(
        two_nests,
        [lambda sch: sch.split(loops(sch, "B")[0], [2, 3]), first_loops],
        "the loops differ in kind or extent",
    )
