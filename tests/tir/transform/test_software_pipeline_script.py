"""InjectSoftwarePipeline: the three parts as blocks, predicates, waits, refusals."""

import numpy as np
import pytest

from tilesmith.ir import IRModule, assert_structural_equal
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.interpreter import run
from tilesmith.tir.transform import InjectSoftwarePipeline, Simplify

LOOP = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), n: T.int32):
    for t in T.thread_binding(16, thread="threadIdx.x"):
        for i in T.serial({extent}, annotations={annotations}):
            with T.block("c"):
                T.reads(A[t, i])
                T.writes(B[t, i])
                C = T.alloc_buffer((16, 1), "float32", scope="shared")
                with T.block("load"):
                    T.reads(A[t, i])
                    T.writes(C[t, 0])
                    C[t, 0] = A[t, i] * T.float32(2)
                with T.block("use"):
                    T.reads(C[t, 0])
                    T.writes(B[t, i])
                    B[t, i] = C[t, 0] + T.float32(1)
"""


def pipelined(extent, stages, order=(0, 1), background=None, simplify=True):
    annotations = {"software_pipeline_stage": list(stages)}
    if order is not None:
        annotations["software_pipeline_order"] = list(order)
    if background is not None:
        annotations["software_pipeline_async_stages"] = background
    module = IRModule({"main": from_source(LOOP.format(extent=extent, annotations=annotations))})
    passes = [InjectSoftwarePipeline(), *([Simplify()] if simplify else [])]
    return Sequential(passes)(module)["main"]


def test_two_stages():
    @T.prim_func
    def want(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for t in T.thread_binding(16, thread="threadIdx.x"):
            with T.block(""):
                T.reads(A[t, 0:16])
                T.writes(B[t, 0:16])
                C = T.alloc_buffer((2, 16, 1), "float32", scope="shared")
                with T.block("load"):
                    T.reads(A[t, 0])
                    T.writes(C[0, t, 0])
                    C[0, t, 0] = A[t, 0] * T.float32(2)
                with T.block(""):
                    T.reads(A[t, 1:16], C[0:2, t, 0])
                    T.writes(C[0:2, t, 0], B[t, 0:15])
                    for i in range(15):
                        with T.block("load"):
                            T.reads(A[t, i + 1])
                            T.writes(C[(i + 1) % 2, t, 0])
                            C[(i + 1) % 2, t, 0] = A[t, i + 1] * T.float32(2)
                        with T.block("use"):
                            T.reads(C[i % 2, t, 0])
                            T.writes(B[t, i])
                            B[t, i] = C[i % 2, t, 0] + T.float32(1)
                with T.block("use"):
                    T.reads(C[1, t, 0])
                    T.writes(B[t, 15])
                    B[t, 15] = C[1, t, 0] + T.float32(1)

    assert_structural_equal(pipelined(16, [0, 1]), want)


def test_three_stages_in_the_background():
    """Parts of several turns are loops; regions name all versions; predicates guard each turn."""

    @T.prim_func
    def want(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for t in T.thread_binding(16, thread="threadIdx.x"):
            with T.block(""):
                T.reads(A[t, 0:16])
                T.writes(B[t, 0:16])
                C = T.alloc_buffer((3, 16, 1), "float32", scope="shared")
                with T.block(""):
                    T.reads(A[t, 0:2])
                    T.writes(C[0:2, t, 0])
                    for i in T.unroll(2):
                        with T.block(""):
                            T.where(i < 16)
                            T.reads(A[t, i])
                            T.writes(C[i % 3, t, 0])
                            T.attr(0, "async_commit_queue_scope", 0)
                            T.attr(0, "async_scope", 1)
                            C[i % 3, t, 0] = A[t, i] * T.float32(2)
                with T.block(""):
                    T.reads(A[t, 2:16], C[0:3, t, 0])
                    T.writes(C[0:3, t, 0], B[t, 0:14])
                    for i in range(14):
                        with T.block(""):
                            T.where(i + 2 < 16)
                            T.reads(A[t, i + 2])
                            T.writes(C[(i + 2) % 3, t, 0])
                            T.attr(0, "async_commit_queue_scope", 0)
                            T.attr(0, "async_scope", 1)
                            C[(i + 2) % 3, t, 0] = A[t, i + 2] * T.float32(2)
                        with T.block("use"):
                            T.where(i + 2 - 2 < 16)
                            T.reads(C[0:3, t, 0])
                            T.writes(B[t, i - 2 + 2])
                            T.attr(0, "async_wait_queue_scope", 0)
                            T.attr(0, "async_wait_inflight_count", 2)
                            B[t, i - 2 + 2] = C[(i - 2 + 2) % 3, t, 0] + T.float32(1)
                with T.block(""):
                    T.reads(C[0:3, t, 0])
                    T.writes(B[t, 14:16])
                    for i in T.unroll(2):
                        with T.block("use"):
                            T.where(i + 16 - 2 < 16)
                            T.reads(C[0:3, t, 0])
                            T.writes(B[t, i - 2 + 16])
                            T.attr(0, "async_wait_queue_scope", 0)
                            T.attr(0, "async_wait_inflight_count", 1 - i)
                            B[t, i - 2 + 16] = C[(i - 2 + 16) % 3, t, 0] + T.float32(1)

    assert_structural_equal(pipelined(16, [0, 2], background=[0], simplify=False), want)


def test_a_loop_that_may_be_short_does_no_turn_twice():
    text = str(pipelined("n", [0, 2]))
    assert "for i in T.unroll(2):" in text
    assert "T.where(i < n)" in text  # the prologue of a loop with one iteration
    assert "2 <= i + n" in text  # the epilogue comes after the prologue's turns


@pytest.mark.parametrize(
    "stages, order, message",
    [
        ([0, 1], None, "the order of the software pipeline 'i' is not defined"),
        ([0, 1], [0], "has 1 numbers, the body has 2"),
        ([0, 1], [0, 0], "names each statement once"),
        ([1, 0], [0, 1], "runs before what it depends on"),
        ([0, 0], [1, 0], "runs before what it depends on"),
    ],
)
def test_annotations_that_are_wrong(stages, order, message):
    with pytest.raises(ScheduleError, match=message):
        pipelined(16, stages, order)


TWO_COPIES = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for t in T.thread_binding(16, thread="threadIdx.x"):
        for i in T.serial(16, annotations={annotations}):
            with T.block("use"):
                T.reads(A[t, i])
                T.writes(B[t, i])
                C = T.alloc_buffer((16, 1), "float32", scope="shared")
                D = T.alloc_buffer((16, 1), "float32", scope="shared")
                with T.block("first"):
                    T.reads(A[t, i])
                    T.writes(C[t, 0])
                    C[t, 0] = A[t, i]
                with T.block("second"):
                    T.reads(A[t, i])
                    T.writes(D[t, 0])
                    D[t, 0] = A[t, i] * T.float32(2)
                with T.block("sum"):
                    T.reads(C[t, 0], D[t, 0])
                    T.writes(B[t, i])
                    B[t, i] = C[t, 0] + D[t, 0]
"""


@pytest.mark.parametrize("merges", [True, False])
def test_neighbours_in_the_background_are_one_group_if_wanted(merges):
    annotations = {
        "software_pipeline_stage": [0, 0, 1],
        "software_pipeline_order": [0, 1, 2],
        "software_pipeline_async_stages": [0],
    }
    module = IRModule({"main": from_source(TWO_COPIES.format(annotations=annotations))})
    with PassContext(config={"tir.merge_async_commit_queue_scope": merges}):
        func = InjectSoftwarePipeline()(module)["main"]
    turns = 2  # the first one, and those of the loop
    assert func.script().count("async_commit_queue_scope") == turns * (1 if merges else 2)
    a = np.random.default_rng(0).random((16, 16)).astype("float32")
    b = np.zeros_like(a)
    run(func, a, b)
    np.testing.assert_array_equal(b, a + a * np.float32(2))


THROUGH_A_BUFFER = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i in T.serial(16, annotations={annotations}):
        with T.block("c"):
            T.reads(A[0:16, i])
            T.writes(B[0:16, i])
            D = T.alloc_buffer((16,), "float32", scope="local")
            for t in range(16):
                with T.block("copies"):
                    T.reads(A[t, i])
                    T.writes(D[t])
                    C = T.alloc_buffer((1,), "float32", scope="shared")
                    C[0] = A[t, i]
                    D[t] = C[0]
            for t in range(16):
                with T.block("use"):
                    T.reads(D[t])
                    T.writes(B[t, i])
                    B[t, i] = D[t]
"""


def test_what_a_statement_reads_back_is_not_stored_in_the_background():
    annotations = {
        "software_pipeline_stage": [0, 1],
        "software_pipeline_order": [0, 1],
        "software_pipeline_async_stages": [0],
    }
    module = IRModule({"main": from_source(THROUGH_A_BUFFER.format(annotations=annotations))})
    func = InjectSoftwarePipeline()(module)["main"]
    lines = [line.strip() for line in func.script().splitlines()]
    assert lines.count('T.attr(0, "async_commit_queue_scope", 0)') == 2
    marked = [
        line.partition("[")[0].partition("_")[0]
        for mark, line in zip(lines, lines[1:])
        if mark == 'T.attr(0, "async_scope", 1)'
    ]
    assert marked == ["D", "D"]
    a = np.random.default_rng(0).random((16, 16)).astype("float32")
    b = np.zeros_like(a)
    run(func, a, b)
    np.testing.assert_array_equal(b, a)
