"""Copies of what a block certainly writes, of what earlier iterations have left, and behind what
their indices need; fused loops whose extents may be negative."""

import pytest

from tests.tir.schedule.harness import check, refused
from tilesmith import tir
from tilesmith.script import tir as T


@T.prim_func
def scattered(
    P: T.Buffer((4,), "int32"), A: T.Buffer((4, 2), "int32"), B: T.Buffer((4, 2), "int32")
):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(4, 2):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(P[vi], A[vi, vj])
            T.writes(B[0:4, vj])
            B[(P[vi] % 4 + 4) % 4, vj] = A[vi, vj]


@T.prim_func
def every_other(A: T.Buffer((4,), "int32"), B: T.Buffer((4, 7), "int32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi])
            T.writes(B[vi, 0:7])
            for k in range(4):
                B[vi, k * 2] = A[vi]


@T.prim_func
def through_a_view(A: T.Buffer((3,), "int32"), B: T.Buffer((3,), "int32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(3):
        with T.block("B"):
            vi = T.axis.spatial(3, i)
            T.reads(A[vi])
            T.writes(B[0:3])
            V = T.match_buffer(B[0:3], (3,), "int32", offset_factor=1)
            V[vi] = A[vi]


@T.prim_func
def declared_too_large(A: T.Buffer((3,), "int32"), B: T.Buffer((3,), "int32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(3):
        with T.block("B"):
            vi = T.axis.spatial(3, i)
            T.reads(A[vi])
            T.writes(B[0:3])
            B[vi] = A[vi]


@pytest.mark.parametrize("program", [scattered, every_other, through_a_view, declared_too_large])
@pytest.mark.parametrize("primitive", ["cache_write", "write_at"])
def test_a_copy_back_would_overwrite_what_the_block_leaves(program, primitive):
    def steps(sch):
        if primitive == "cache_write":
            sch.cache_write("B", 0, "global")
        else:
            sch.write_at(sch.get_loops("B")[0], sch.get_block("B"), 0, "global")

    refused(program, steps, "leaves gaps")


@T.prim_func
def filled(A: T.Buffer((4,), "int32"), B: T.Buffer((4, 8), "int32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi])
            T.writes(B[vi, 0:8])
            for k in range(4):
                with T.block("pair"):
                    vk = T.axis.spatial(4, k)
                    T.reads(A[vi])
                    T.writes(B[vi, vk * 2 : vk * 2 + 2])
                    for m in range(2):
                        B[vi, vk * 2 + m] = A[vi] + m


def test_inner_blocks_and_loops_without_gaps():
    check(filled, lambda sch: sch.cache_write("B", 0, "global"))
    check(filled, lambda sch: sch.write_at(sch.get_loops("B")[0], sch.get_block("B"), 0, "global"))


@T.prim_func
def carried(A: T.Buffer((4, 3), "int32"), B: T.Buffer((4, 3), "int32")):
    T.func_attr({"global_symbol": "main"})
    S = T.alloc_buffer((4, 3), "int32")
    for i in range(4):
        for j in range(3):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                S[vi, vj] = A[vi, vj] * 2
        for j in range(3):
            with T.block("B"):
                vi = T.axis.opaque(4, i)
                vj = T.axis.spatial(3, j)
                T.reads(S[T.max(vi - 1, 0) : vi + 1, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = S[T.max(vi - 1, 0), vj] + S[vi, vj]


@pytest.mark.parametrize("number, reason", [(0, "writes 'S' under"), (1, "earlier iterations")])
def test_a_copy_of_what_earlier_iterations_have_written(number, reason):
    def steps(sch):
        sch.read_at(sch.get_loops("B")[number], sch.get_block("B"), 0, "global")

    refused(carried, steps, reason)


@T.prim_func
def looked_up(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    T.func_attr({"global_symbol": "main"})
    P = T.alloc_buffer((4,), "int32")
    for i in range(4):
        with T.block("P"):
            vi = T.axis.spatial(4, i)
            P[vi] = 3 - vi
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[0:4], P[vi])
            T.writes(B[vi])
            B[vi] = A[P[vi] % 4]


def test_a_cache_whose_indices_are_computed_is_filled_after_them():
    def steps(sch):
        sch.reindex_cache_read("B", 0, "global", lambda i: [i])
        assert [sch.get(one).name_hint for one in sch.get_child_blocks(sch.get_block("root"))] == [
            "P", "A_global", "B",
        ]  # fmt: skip

    check(looked_up, steps)


def test_several_negative_extents_are_no_iterations():
    @T.prim_func
    def func(B: T.Buffer((3,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for n in range(3):
            for i in range(n - 2):
                for j in range(n - 2):
                    with T.block("B"):
                        vn, vi, vj = T.axis.remap("SSS", [n, i, j])
                        B[vn] = 7 + vi + vj

    def steps(sch):
        sch.fuse(*sch.get_loops("B")[1:])

    check(func, steps)


def test_sizes_are_not_negative():
    @T.prim_func
    def func(b: T.handle):
        n, m = T.int32(), T.int32()
        B = T.match_buffer(b, (n, m))
        for i, j in T.grid(n // 2 + 1, m * 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = 1.0

    sch = tir.Schedule(func)
    fused = sch.get(sch.fuse(*sch.get_loops("B")))
    assert "max" not in str(fused.extent)


@T.prim_func
def summed(A: T.Buffer((4, 2), "int32"), B: T.Buffer((4,), "int32")):
    T.func_attr({"global_symbol": "main"})
    P = T.alloc_buffer((4,), "int32")
    for i in range(4):
        with T.block("P"):
            vi = T.axis.spatial(4, i)
            P[vi] = 3 - vi
    for i, k in T.grid(4, 2):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk], P[vi])
            T.writes(B[0:4])
            with T.init():
                B[P[vi]] = 0
            B[P[vi]] = B[P[vi]] + A[vi, vk]


def test_partial_results_are_put_where_loaded_places_say():
    def steps(sch):
        sch.rfactor(sch.get_loops("B")[1], 0)
        reads = [region.buffer.name for region in sch.get(sch.get_block("B")).reads]
        assert reads == ["B_rf", "P"]

    check(summed, steps)
