"""rfactor of reductions with several results."""

import pytest

from tests.tir.schedule.harness import check, refused
from tilesmith.script import tir as T


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


@T.prim_func
def argmax(
    A: T.Buffer((5, 12), "float32"), P: T.Buffer((5,), "int32"), M: T.Buffer((5,), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i, k in T.grid(5, 12):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -1
                M[vi] = T.min_value("float32")
            v_P: T.int32 = T.Select(M[vi] >= A[vi, vk], P[vi], vk)
            v_M: T.float32 = T.Select(M[vi] >= A[vi, vk], M[vi], A[vi, vk])
            P[vi] = v_P
            M[vi] = v_M


@T.prim_func
def argmin(
    A: T.Buffer((5, 12), "float32"), P: T.Buffer((5,), "int32"), M: T.Buffer((5,), "float32")
):
    """The first of equal ones, whatever the order."""
    T.func_attr({"global_symbol": "main"})
    for i, k in T.grid(5, 12):
        with T.block("argmin"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = T.max_value("int32")
                M[vi] = T.max_value("float32")
            v_P: T.int32 = T.Select(
                M[vi] < A[vi, vk] or (M[vi] == A[vi, vk] and P[vi] < vk), P[vi], vk
            )
            v_M: T.float32 = T.min(M[vi], A[vi, vk])
            P[vi] = v_P
            M[vi] = v_M


@T.prim_func
def moments(
    A: T.Buffer((5, 12), "float32"), S: T.Buffer((5,), "float32"), Q: T.Buffer((5,), "float32")
):
    """The sum from 1 and the sum of squares from 0."""
    T.func_attr({"global_symbol": "main"})
    for i, k in T.grid(5, 12):
        with T.block("moments"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(1)
                Q[vi] = T.float32(0)
            v_S: T.float32 = S[vi] + A[vi, vk]
            v_Q: T.float32 = Q[vi] + A[vi, vk] * A[vi, vk]
            S[vi] = v_S
            Q[vi] = v_Q


def test_rfactor_of_a_choice():
    @T.prim_func
    def expected(
        A: T.Buffer((5, 12), "float32"), P: T.Buffer((5,), "int32"), M: T.Buffer((5,), "float32")
    ):
        P_rf = T.alloc_buffer((3, 5), "int32")
        M_rf = T.alloc_buffer((3, 5), "float32")
        for i, k_0, k_1 in T.grid(5, 3, 4):
            with T.block("argmax_rf"):
                vk_0, vi, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
                with T.init():
                    P_rf[vk_0, vi] = -1
                    M_rf[vk_0, vi] = T.min_value("float32")
                v_P_rf: T.int32 = T.Select(
                    M_rf[vk_0, vi] >= A[vi, vk_0 * 4 + vk_1], P_rf[vk_0, vi], vk_0 * 4 + vk_1
                )
                v_M_rf: T.float32 = T.Select(
                    M_rf[vk_0, vi] >= A[vi, vk_0 * 4 + vk_1],
                    M_rf[vk_0, vi],
                    A[vi, vk_0 * 4 + vk_1],
                )
                P_rf[vk_0, vi] = v_P_rf
                M_rf[vk_0, vi] = v_M_rf
        for i, k_0 in T.grid(5, 3):
            with T.block("argmax"):
                vk_0, vi = T.axis.remap("RS", [k_0, i])
                T.reads(P_rf[vk_0, vi], M_rf[vk_0, vi])
                T.writes(P[vi], M[vi])
                with T.init():
                    P[vi] = -1
                    M[vi] = T.min_value("float32")
                v_P: T.int32 = T.Select(M[vi] >= M_rf[vk_0, vi], P[vi], P_rf[vk_0, vi])
                v_M: T.float32 = T.Select(M[vi] >= M_rf[vk_0, vi], M[vi], M_rf[vk_0, vi])
                P[vi] = v_P
                M[vi] = v_M

    def steps(sch):
        outer, _ = sch.split(loops(sch, "argmax")[1], [3, 4])
        sch.rfactor(outer, 0)

    check(argmax, steps, expected)


@pytest.mark.parametrize(
    "program, name", [(argmax, "argmax"), (argmin, "argmin"), (moments, "moments")]
)
@pytest.mark.parametrize("factor", [3, 4, 5, 12])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rfactor_of_several_results(program, name, factor, which, axis):
    def steps(sch):
        split = sch.split(loops(sch, name)[1], [None, factor])
        block = sch.rfactor(split[which], axis)
        sch.decompose_reduction(block, sch.get_loops(block)[1])

    check(program, steps)


def factor(sch):
    sch.rfactor(sch.get_loops(sch.get_child_blocks(sch.get_block("root"))[0])[1], 0)


def test_refusals():
    @T.prim_func
    def differences(
        A: T.Buffer((5, 12), "float32"), S: T.Buffer((5,), "float32"), Q: T.Buffer((5,), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 12):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                    Q[vi] = T.float32(0)
                v_S: T.float32 = S[vi] - A[vi, vk]
                v_Q: T.float32 = Q[vi] + A[vi, vk]
                S[vi] = v_S
                Q[vi] = v_Q

    refused(differences, factor, "combines with something else than +, *, min, max or a choice")

    @T.prim_func
    def two_conditions(
        A: T.Buffer((5, 12), "float32"), P: T.Buffer((5,), "int32"), M: T.Buffer((5,), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 12):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    P[vi] = -1
                    M[vi] = T.min_value("float32")
                v_P: T.int32 = T.Select(M[vi] >= A[vi, vk], P[vi], vk)
                v_M: T.float32 = T.Select(M[vi] <= A[vi, vk], M[vi], A[vi, vk])
                P[vi] = v_P
                M[vi] = v_M

    refused(two_conditions, factor, "chooses its results by different conditions")

    @T.prim_func
    def other_side(
        A: T.Buffer((5, 12), "float32"), P: T.Buffer((5,), "int32"), M: T.Buffer((5,), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 12):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    P[vi] = -1
                    M[vi] = T.min_value("float32")
                v_P: T.int32 = T.Select(M[vi] >= A[vi, vk], P[vi], vk)
                v_M: T.float32 = T.min(M[vi], A[vi, vk])
                P[vi] = v_P
                M[vi] = v_M

    refused(other_side, factor, "does not choose its results by comparing values")

    @T.prim_func
    def in_turn(
        A: T.Buffer((5, 12), "float32"), S: T.Buffer((5,), "float32"), Q: T.Buffer((5,), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 12):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                    Q[vi] = T.float32(0)
                S[vi] = S[vi] + A[vi, vk]
                Q[vi] = Q[vi] + S[vi]

    refused(in_turn, factor, "several results need their new values in variables first")


def test_results_of_another_dtype_than_what_is_combined():
    def widen(sch):
        sch.unsafe_set_dtype(sch.get_block("argmax"), 1, "float64")

    def factor(sch):
        sch.rfactor(loops(sch, "argmax")[1], 0)

    text = "'M' is float64 and what is combined with it is float32"
    refused(local_maxima, [widen, factor], text)


@T.prim_func
def local_maxima(
    A: T.Buffer((5, 12), "float32"), P: T.Buffer((5,), "int32"), C: T.Buffer((5,), "float32")
):
    T.func_attr({"global_symbol": "main"})
    M = T.alloc_buffer((5,), "float32")
    for i, k in T.grid(5, 12):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -1
                M[vi] = T.min_value("float32")
            v_P: T.int32 = T.Select(M[vi] >= A[vi, vk], P[vi], vk)
            v_M: T.float32 = T.Select(M[vi] >= A[vi, vk], M[vi], A[vi, vk])
            P[vi] = v_P
            M[vi] = v_M
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            C[vi] = M[vi]
