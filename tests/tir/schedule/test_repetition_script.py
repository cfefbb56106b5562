"""Loops that repeat a reduction keep their place among its own loops: updates count once."""

import pytest

from tests.tir.schedule.harness import check, refused, schedule_of
from tilesmith.script import tir as T


def loops(sch, name="B"):
    return sch.get_loops(sch.get_block(name))


def names(sch, name="B"):
    return [sch.get(loop).loop_var.name for loop in loops(sch, name)]


def reorder(*order):
    return lambda sch: sch.reorder(*[loops(sch)[k] for k in order])


def fuse(*order):
    return lambda sch: sch.fuse(*[loops(sch)[k] for k in order])


def split(number, factors):
    return lambda sch: sch.split(loops(sch)[number], factors)


@T.prim_func
def outside(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4,), "int32")):
    T.func_attr({"global_symbol": "main"})
    for _p, i, k in T.grid(3, 4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def inside(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((4,), "int32")
    for k, i, _p in T.grid(6, 4, 3):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
    for i in T.grid(4):
        with T.block("C"):
            vi = T.axis.remap("S", [i])
            C[vi] = B[vi] * 2


def test_a_producer_under_a_loop_that_does_not_drive_it():
    @T.prim_func
    def program(A: T.Buffer((4, 6), "int32"), C: T.Buffer((3, 4), "int32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((4,), "int32")
        M = T.alloc_buffer((3, 4), "int32")
        for i, k in T.grid(4, 6):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0
                B[vi] = B[vi] + A[vi, vk]
        for p, i in T.grid(3, 4):
            with T.block("M"):
                vp, vi = T.axis.remap("SS", [p, i])
                M[vp, vi] = B[vi] * 2
        for p, i in T.grid(3, 4):
            with T.block("C"):
                vp, vi = T.axis.remap("SS", [p, i])
                C[vp, vi] = M[vp, vi] + 1

    def repeat(sch):
        sch.compute_at(sch.get_block("B"), loops(sch, "M")[0])
        sch.compute_inline(sch.get_block("M"))
        assert names(sch) == ["p", "ax0", "ax1"]

    check(program, lambda sch: (repeat(sch), reorder(1, 0)(sch)))
    check(program, lambda sch: (repeat(sch), reorder(2, 1)(sch)))
    refused(
        program,
        [repeat, reorder(2, 0)],
        "reorder: loop 'p' may repeat block 'B' for the same elements, and would change places "
        "with its reduction loop 'ax1'",
        "keep the order of 'p' and 'ax1', or move the block out of 'p' before",
        marked="for p",
    )


def test_reorder_keeps_the_place_of_repetition():
    check(outside, reorder(1, 0))
    check(outside, reorder(2, 1))
    sch = check(outside, reorder(0, 2, 1))
    assert names(sch) == ["_p", "k", "i"]
    refused(outside, reorder(2, 0), "loop '_p' may repeat block 'B'", marked="for _p")
    refused(inside, reorder(2, 0), "loop '_p' may repeat block 'B'", marked="for _p")


def test_a_single_iteration_repeats_nothing():
    def steps(sch):
        sch.add_unit_loop(loops(sch)[1])
        reorder(3, 1)(sch)

    sch = check(outside, steps)
    assert names(sch) == ["_p", "k", "i", "u"]


def test_repetition_in_a_fused_loop():
    fused = "loop '_p_i_fused' may repeat block 'B'"
    refused(outside, [fuse(0, 1), reorder(1, 0)], fused)
    # Once the loops are apart again, the elements may go on the outside.
    again = [fuse(0, 1), split(0, [None, 4])]
    sch = check(outside, lambda sch: [step(sch) for step in [*again, reorder(2, 1)]])
    assert names(sch) == ["_p_i_fused_0", "k", "_p_i_fused_1"]
    refused(outside, [*again, reorder(2, 0)], "loop '_p_i_fused_0' may repeat block 'B'")


@pytest.mark.parametrize("length", [2, 3])
def test_repetition_in_a_reduction_loop(length):
    """The loops go three times through the reduction, in order: so they have to stay."""
    check(outside, lambda sch: [step(sch) for step in (reorder(1, 0), fuse(1, 2))])
    refused(
        outside,
        [reorder(1, 0), fuse(1, 2), split(1, [None, length]), reorder(2, 1)],
        "the reduction loops of block 'B' may run several times through its reduction",
    )


def test_a_start_in_an_inner_block():
    @T.prim_func
    def program(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for _p, i, k in T.grid(3, 4, 2):
            with T.block("outer"):
                vi, vko = T.axis.remap("SR", [i, k])
                for k1 in range(4):
                    with T.block("B"):
                        vii = T.axis.spatial(4, vi)
                        vk = T.axis.reduce(8, vko * 4 + k1)
                        with T.init():
                            B[vii] = 0
                        B[vii] = B[vii] + A[vii, vk]

    def swap(one, other):
        return lambda sch: sch.reorder(loops(sch, "outer")[one], loops(sch, "outer")[other])

    check(program, swap(2, 1))
    refused(program, swap(2, 0), "loop '_p' may repeat block 'outer'")


def test_threads_with_memory_of_their_own_repeat_nothing():
    @T.prim_func
    def program(A: T.Buffer((6,), "int32"), C: T.Buffer((3,), "int32")):
        B = T.alloc_buffer((1,), "int32", scope="local")
        for _p in T.thread_binding(3, thread="threadIdx.x"):
            for k in range(6):
                with T.block("B"):
                    vk = T.axis.reduce(6, k)
                    with T.init():
                        B[0] = 0
                    B[0] = B[0] + A[vk]
        for p in T.thread_binding(3, thread="threadIdx.x"):
            with T.block("C"):
                vp = T.axis.spatial(3, p)
                C[vp] = B[0]

    sch = schedule_of(program)
    reorder(1, 0)(sch)
    assert names(sch) == ["k", "_p"]

    def share(sch):
        sch.set_scope(sch.get_block("B"), 0, "shared")

    refused(program, [share, reorder(1, 0)], "loop '_p' may repeat block 'B'")


@pytest.mark.parametrize(
    "primitive",
    [
        lambda sch: sch.decompose_reduction(sch.get_block("B"), loops(sch)[0]),
        lambda sch: sch.rfactor(loops(sch)[0], 0),
        lambda sch: sch.compute_at(sch.get_block("B"), loops(sch, "C")[0]),
        lambda sch: sch.blockize(loops(sch)[0]),
        lambda sch: sch.blockize(loops(sch)[2]),
    ],
    ids=["decompose_reduction", "rfactor", "compute_at", "blockize", "blockize_the_repetition"],
)
def test_repeated_updates_are_not_a_reduction(primitive):
    refused(inside, primitive, "loop '_p' repeats its updates inside of its reduction loop 'k'")


def test_primitives_under_a_loop_that_repeats_the_whole():
    check(outside, lambda sch: sch.decompose_reduction(sch.get_block("B"), loops(sch)[2]))
    check(outside, lambda sch: sch.rfactor(loops(sch)[2], 0))
    check(outside, lambda sch: sch.blockize(loops(sch)[1]))
    refused(
        outside,
        lambda sch: sch.blockize(loops(sch)[0]),
        "the init of block 'B' cannot be moved out: the loops inside may run several times",
    )


def test_partial_results_of_a_repeated_reduction():
    refused(
        outside,
        [reorder(1, 0), fuse(1, 2), lambda sch: sch.rfactor(loops(sch)[1], 0)],
        "rfactor: the reduction loops of block 'B' may run several times through its reduction",
    )


@T.prim_func
def idle(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4,), "int32")):
    T.func_attr({"global_symbol": "main"})
    for p, i, k in T.grid(3, 4, 6):
        with T.block("B"):
            vp, vi, vk = T.axis.remap("SSR", [p, i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk] * (vp + 1)


def test_an_iterator_on_which_no_result_depends_repeats_like_a_loop():
    check(idle, lambda sch: sch.decompose_reduction("B", sch.get_loops("B")[1]))
    repeats = "loop 'p' repeats block 'B'"
    refused(idle, lambda sch: sch.decompose_reduction("B", sch.get_loops("B")[0]), repeats)
    refused(idle, reorder(2, 0), "loop 'p' may repeat block 'B'")
