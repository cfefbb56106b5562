"""LowerCrossThreadReduction where blocks see their buffers through views (``T.match_buffer``)."""

import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same
from tilesmith.ir import assert_structural_equal
from tilesmith.ir.queries import nodes
from tilesmith.script import tir as T
from tilesmith.support.errors import ReductionError
from tilesmith.tir import MatchBufferRegion
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import LowerCrossThreadReduction, Simplify, UnifyThreadBinding


def results(func, arrays, options):
    copies = [array.copy() for array in arrays]
    run(func, *copies, options=options)
    return copies


def same(func, after):
    arrays = arrays_for(func)
    threads = apply(after, UnifyThreadBinding())
    checked = Options(check_races=True, check_undefined=True)
    assert_same(results(threads, arrays, checked), results(func, arrays, Options()))


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("scope", ["global", "local"])
def test_views_of_a_reduction_block_become_the_buffers_themselves(scope, steps):
    """With symbolic strides and offsets, and with and without a serial part."""

    def program(has_views):
        @T.prim_func
        def views(A: T.Buffer((5, steps * 16), "int32"), C: T.Buffer((5, 16), "int32")):
            T.func_attr({"global_symbol": "main"})
            B = T.alloc_buffer((5, 2), "int32", scope=scope)
            for i in T.thread_binding(5, thread="blockIdx.x"):
                for ko in range(steps):
                    for ki in T.thread_binding(16, thread="threadIdx.x"):
                        with T.block("sum"):
                            vi = T.axis.spatial(5, i)
                            vk = T.axis.reduce(steps * 16, ko * 16 + ki)
                            T.reads(A[vi, vk])
                            T.writes(B[vi, 1])
                            result = T.match_buffer(
                                B[vi, 1], (1,), "int32", strides=("s",), offset_factor=1,
                                scope=scope,
                            )  # fmt: skip
                            row = T.match_buffer(
                                A[vi, 0 : steps * 16], (steps * 16,), "int32", strides=("t",),
                                offset_factor=1,
                            )  # fmt: skip
                            with T.init():
                                result[0] = 7
                            result[0] = result[0] + row[vk]
                for j in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("out"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.where(j == 0 or scope == "local")
                        C[vi, vj] = B[vi, 1] + vj

        @T.prim_func
        def plain(A: T.Buffer((5, steps * 16), "int32"), C: T.Buffer((5, 16), "int32")):
            T.func_attr({"global_symbol": "main"})
            B = T.alloc_buffer((5, 2), "int32", scope=scope)
            for i in T.thread_binding(5, thread="blockIdx.x"):
                for ko in range(steps):
                    for ki in T.thread_binding(16, thread="threadIdx.x"):
                        with T.block("sum"):
                            vi = T.axis.spatial(5, i)
                            vk = T.axis.reduce(steps * 16, ko * 16 + ki)
                            T.reads(A[vi, vk])
                            T.writes(B[vi, 1])
                            with T.init():
                                B[vi, 1] = 7
                            B[vi, 1] = B[vi, 1] + A[vi, vk]
                for j in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("out"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.where(j == 0 or scope == "local")
                        C[vi, vj] = B[vi, 1] + vj

        return views if has_views else plain

    after = apply(program(True), LowerCrossThreadReduction(), Simplify())
    wanted = apply(program(False), LowerCrossThreadReduction(), Simplify())
    assert_structural_equal(after, wanted)
    same(program(True), apply(program(True), LowerCrossThreadReduction()))


def test_views_of_other_blocks_stay():
    """Of a block around the reduction, and of a block that needs the result of the first thread."""

    @T.prim_func
    def func(A: T.Buffer((5, 16), "int32"), C: T.Buffer((5, 2), "int32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((5,), "int32", scope="shared")
        for i in T.thread_binding(5, thread="blockIdx.x"):
            with T.block("row"):
                vi = T.axis.spatial(5, i)
                T.reads(A[vi, 0:16])
                T.writes(B[vi])
                row = T.match_buffer(A[vi, 0:16], (16,), "int32", offset_factor=1)
                result = T.match_buffer(B[vi], (1,), "int32", offset_factor=1, scope="shared")
                for k in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("sum"):
                        vk = T.axis.reduce(16, k)
                        with T.init():
                            result[0] = 0
                        result[0] = result[0] + row[vk]
            for j in range(2):
                with T.block("out"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(B[vi])
                    T.writes(C[vi, vj])
                    seen = T.match_buffer(B[vi], (1,), "int32", offset_factor=1, scope="shared")
                    C[vi, vj] = seen[0] + vj

    after = apply(func, LowerCrossThreadReduction())
    views = [match.buffer.name for match in nodes(after.body, MatchBufferRegion)]
    assert sorted(views) == ["result", "row", "seen"]
    assert "T.where(tx == 0)" in str(after)  # around "out", although it was written as `result`
    same(func, after)


def refused(func, message):
    with pytest.raises(ReductionError, match=message):
        apply(func, LowerCrossThreadReduction())


def test_partial_results_that_a_view_shows():
    @T.prim_func
    def func(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32"), C: T.Buffer((16,), "int32")):
        for j in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("sum"):
                v = T.axis.reduce(16, j)
                T.reads(A[v])
                T.writes(B[0])
                result = T.match_buffer(B[0], (1,), "int32", offset_factor=1)
                with T.init():
                    result[0] = 0
                result[0] = result[0] + A[v]
            with T.block("scan"):
                v = T.axis.spatial(16, j)
                T.reads(B[0])
                T.writes(C[v])
                seen = T.match_buffer(B[0], (1,), "int32", offset_factor=1)
                C[v] = seen[0]

    refused(func, "'sum' reduces over 'j'.*need the result in between")


def test_updates_through_views_without_an_init():
    @T.prim_func
    def func(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
        for j in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("sum"):
                v = T.axis.reduce(16, j)
                T.reads(A[v], B[0])
                T.writes(B[0])
                result = T.match_buffer(B[0], (1,), "int32", offset_factor=1)
                result[0] = result[0] + A[v]

    refused(func, "'sum' has no init and reduces over 'j'")


def test_results_that_are_read_under_another_name():
    @T.prim_func
    def func(A: T.Buffer((16,), "int32"), B: T.Buffer((2,), "int32")):
        with T.block("outer"):
            T.reads(A[0:16])
            T.writes(B[0])
            result = T.match_buffer(B[0], (1,), "int32", offset_factor=1)
            for j in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("sum"):
                    v = T.axis.reduce(16, j)
                    with T.init():
                        result[0] = 0
                    result[0] = result[0] + A[v] * B[0]

    refused(func, "'sum' .* reads the memory of its result through another buffer")


def test_buffers_that_a_reduction_block_allocates():
    @T.prim_func
    def func(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
        for j in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("sum"):
                v = T.axis.reduce(16, j)
                own = T.alloc_buffer((1,), "int32")
                with T.init():
                    B[0] = 0
                B[0] = B[0] + A[v] * own[0]

    refused(func, "'sum' .* uses a buffer that it allocates itself")


@pytest.mark.parametrize("has_init", [True, False])
@pytest.mark.parametrize("inner", [False, True])
def test_lets_between_loops_and_the_block(has_init, inner):
    """Found by fuzzing: a reduction over ``at``, which stands for a thread, was left as it is."""

    @T.prim_func
    def program(A: T.Buffer((3, 8), "int32"), B: T.Buffer((3,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.thread_binding(3, thread="blockIdx.x"):
            for k in T.thread_binding(8, thread="threadIdx.x"):
                at: T.int32 = k
                for u in range(1):
                    last: T.int32 = at + u if inner else at
                    with T.block("sum"):
                        vi = T.axis.spatial(3, i)
                        vk = T.axis.reduce(8, last)
                        T.reads(A[vi, vk])
                        T.writes(B[vi])
                        if has_init:
                            with T.init():
                                B[vi] = 0
                        B[vi] = B[vi] + A[vi, vk]

    if has_init:
        after = apply(program, LowerCrossThreadReduction())
        assert "tvm_thread_allreduce" in after.script()
        same(program, after)
    else:
        with pytest.raises(ReductionError, match="has no init and reduces over 'k'"):
            apply(program, LowerCrossThreadReduction())
