"""Double buffers, software pipelines, merged shared memory: structure and meaning."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same, assert_same_results
from tilesmith.ir import assert_structural_equal
from tilesmith.ir.transform import PassContext
from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError, UnsupportedError
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import (
    InjectDoubleBuffer,
    InjectSoftwarePipeline,
    MergeDynamicSharedMemoryAllocations,
    MergeSharedMemoryAllocations,
    ThreadSync,
)

CHECKED = Options(check_races=True, check_undefined=True)


def results(func, arrays, options=CHECKED):
    copies = [array.copy() for array in arrays]
    run(func, *copies, options=options)
    return copies


def check(func, *passes, sync=True):
    """The passes keep what a function computes; with barriers no threads race."""
    arrays = arrays_for(func)
    want = results(func, arrays, Options())
    after = apply(func, *passes)
    assert_same(results(after, arrays, Options()), want)
    if sync:
        synced = apply(after, ThreadSync("shared"), ThreadSync("shared.dyn"))
        assert_same(results(synced, arrays), want)
    return after


@T.prim_func
def doubled(A: T.Buffer((56,), "float32"), B: T.Buffer((56,), "float32")):
    T.func_attr({"global_symbol": "main"})
    tx = T.launch_thread("threadIdx.x", 8)
    for k in range(7):
        S_data = T.allocate([8], "float32", "shared")
        S = T.decl_buffer((8,), "float32", data=S_data, scope="shared")
        with T.attr(S_data, "double_buffer_scope", 1):
            S[tx] = A[k * 8 + tx]
            B[k * 8 + tx] = S[7 - tx]


def test_double_buffer():
    @T.prim_func
    def expected(A: T.Buffer((56,), "float32"), B: T.Buffer((56,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        S_data = T.allocate([16], "float32", "shared")
        S = T.decl_buffer((16,), "float32", data=S_data, scope="shared")
        S[tx] = A[tx]
        for k in range(6):
            with T.attr(S_data, "double_buffer_write", 1):
                S[(k + 1) % 2 * 8 + tx] = A[k * 8 + tx + 8]
            B[k * 8 + tx] = S[k % 2 * 8 + (7 - tx)]
        B[tx + 48] = S[7 - tx]

    from tilesmith.tir.transform import Simplify

    got = check(doubled, InjectDoubleBuffer(), Simplify())
    want = apply(expected, Simplify())
    assert_structural_equal(got, want)
    assert str(apply(got, ThreadSync("shared"))).count("storage_sync") == 2  # each iteration, last
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": 0}}):
        whole = check(doubled, InjectDoubleBuffer(), Simplify())
    assert "for k in range(7)" in str(whole)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("split", [0, 1, 2])
def test_double_buffer_marked_where_it_is_filled(count, split):
    @T.prim_func
    def func(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for k in range(1, n + 1):
            S_data = T.allocate([8], "float32", "shared")
            S = T.decl_buffer((8,), "float32", data=S_data, scope="shared")
            with T.attr(S_data, "double_buffer_scope", 1):
                for j in range(8):
                    S[j] = A[k * 8 + j - 8]
            for j in range(8):
                B[k * 8 + j - 8] = S[7 - j]

    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": split}}):
        after = apply(func, InjectDoubleBuffer())
    assert "double_buffer_scope" not in str(after)
    assert "T.allocate([16]" in str(after) or "decl_buffer((16,)" in str(after)
    assert_same_results(func, after, {"n": count})


@pytest.mark.parametrize("split", [2, 4])
def test_double_buffer_with_groups_of_iterations(split):
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": split}}):
        after = check(doubled, InjectDoubleBuffer())
    assert "k_outer" in str(after)


def test_double_buffers_are_filled_first():
    @T.prim_func
    def func(A: T.Buffer((56,), "float32"), B: T.Buffer((56,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for k in range(7):
            S_data = T.allocate([8], "float32", "shared")
            S = T.decl_buffer((8,), "float32", data=S_data, scope="shared")
            with T.attr(S_data, "double_buffer_scope", 1):
                B[k] = S[0]
                S[0] = A[k]

    with pytest.raises(UnsupportedError, match="do not fill"):
        apply(func, InjectDoubleBuffer())


def pipeline(count, stages, order, background=(), dtype="float32"):
    """Three statements: load, scale, accumulate."""
    annotations = {"software_pipeline_stage": stages, "software_pipeline_order": order}
    if background:
        annotations["software_pipeline_async_stages"] = list(background)

    @T.prim_func
    def func(A: T.Buffer((count, 8), dtype), B: T.Buffer((count, 8), dtype)):
        T.func_attr({"global_symbol": "main"})
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("outer"):
                T.reads(A[0:count, 0:8])
                T.writes(B[0:count, 0:8])
                for k in T.serial(count, annotations=annotations):
                    with T.block("body"):
                        T.reads(A[k, 0:8])
                        T.writes(B[k, 0:8])
                        S = T.alloc_buffer((8,), dtype, scope="shared")
                        x = T.alloc_buffer((1,), dtype, scope="local")
                        with T.block("load"):
                            T.reads(A[k, tx])
                            T.writes(S[tx])
                            S[tx] = A[k, tx]
                        with T.block("scale"):
                            T.reads(S[0:8])
                            T.writes(x[0])
                            x[0] = S[7 - tx] + S[tx]
                        with T.block("store"):
                            T.reads(x[0])
                            T.writes(B[k, tx])
                            B[k, tx] = x[0] * x[0]

    return func


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "stages, order, background",
    [
        ([0, 0, 0], [0, 1, 2], ()),
        ([0, 1, 1], [0, 1, 2], ()),
        ([0, 1, 2], [0, 1, 2], ()),
        ([0, 1, 2], [2, 1, 0], ()),
        ([0, 2, 3], [2, 0, 1], ()),
        ([0, 1, 1], [0, 1, 2], (0,)),
        ([0, 2, 2], [0, 1, 2], (0,)),
        ([0, 2, 3], [1, 0, 2], (0,)),
        ([0, 3, 3], [2, 0, 1], (0,)),
    ],
)
def test_pipelines_keep_the_meaning(count, stages, order, background):
    from tilesmith.tir.transform import FlattenBuffer, LowerOpaqueBlock, Simplify

    func = pipeline(count, stages, order, background)
    passes = [InjectSoftwarePipeline(), LowerOpaqueBlock(), FlattenBuffer(), Simplify()]
    check(func, *passes)


def test_a_pipeline_of_two_stages():
    from tilesmith.tir.transform import Simplify

    after = apply(pipeline(4, [0, 1, 1], [0, 1, 2]), InjectSoftwarePipeline(), Simplify())
    text = str(after)
    assert "for k in range(3)" in text
    assert "S = T.alloc_buffer((2, 8)" in text
    assert "S[(k + 1) % 2, tx] = A[k + 1, tx]" in text
    assert "S[1, 7 - tx]" in text  # the epilogue: iteration 3


def test_two_versions_on_request():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        with T.block("all"):
            T.reads(A[0:4])
            T.writes(B[0:4])
            for k in T.serial(
                4,
                annotations={
                    "software_pipeline_stage": [0, 1],
                    "software_pipeline_order": [1, 0],
                },
            ):
                with T.block("body"):
                    T.reads(A[k])
                    T.writes(B[k])
                    S = T.alloc_buffer((1,))
                    with T.block("load"):
                        T.reads(A[k])
                        T.writes(S[0])
                        T.block_attr({"double_buffer_scope": 0})
                        S[0] = A[k]
                    with T.block("store"):
                        T.reads(S[0])
                        T.writes(B[k])
                        B[k] = S[0]

    after = check(func, InjectSoftwarePipeline(), sync=False)
    assert "S = T.alloc_buffer((2, 1))" in str(after).replace(', "float32"', "")


def test_copies_in_the_background_are_waited_for():
    after = apply(pipeline(6, [0, 2, 2], [0, 1, 2], (0,)), InjectSoftwarePipeline())
    counts = []
    for line in str(after).splitlines():
        if "async_wait_inflight_count" in line:
            counts.append(line.strip().split('count", ')[1].rstrip("):"))
    assert counts == ["2", "1 - k"]


def test_nested_pipelines():
    inner = {"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}
    outer = {
        "software_pipeline_stage": [0, 1, 1, 1],
        "software_pipeline_order": [0, 1, 2, 3],
    }

    @T.prim_func
    def func(A: T.Buffer((5, 4), "float32"), B: T.Buffer((5, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        with T.block("all"):
            T.reads(A[0:5, 0:4])
            T.writes(B[0:5, 0:4])
            for k in T.serial(5, annotations=outer):
                with T.block("body"):
                    T.reads(A[k, 0:4])
                    T.writes(B[k, 0:4])
                    S = T.alloc_buffer((4,))
                    for i in range(4):
                        S[i] = A[k, i]
                    for j in T.serial(4, annotations=inner):
                        with T.block("inner"):
                            T.reads(S[j])
                            T.writes(B[k, j])
                            x = T.alloc_buffer((1,))
                            x[0] = S[j] + T.float32(1)
                            B[k, j] = x[0] * T.float32(2)

    check(func, InjectSoftwarePipeline(), sync=False)


@pytest.mark.parametrize(
    "stages, order, message",
    [
        ([1, 0, 1], [0, 1, 2], "statement 1 runs before what it depends on .statement 0"),
        ([0, 0, 0], [1, 0, 2], "runs before"),
        ([0, 1], [0, 1], "has 2 numbers, the body has 3"),
        ([0, 1, 1], [0, 0, 2], "names each statement once"),
    ],
)
def test_pipelines_that_are_wrong(stages, order, message):
    with pytest.raises(ScheduleError, match=message):
        apply(pipeline(4, stages, order), InjectSoftwarePipeline())


def shared_stages(scope):
    @T.prim_func
    def func(A: T.Buffer((3, 16), "float32"), B: T.Buffer((3, 16), "float32")):
        T.func_attr({"global_symbol": "main"})
        bx = T.launch_thread("blockIdx.x", 3)
        tx = T.launch_thread("threadIdx.x", 16)
        X = T.decl_buffer((16,), "float32", scope=scope)
        Y = T.decl_buffer((16,), "float16", scope=scope)
        Z = T.decl_buffer((16,), "float32", scope=scope)
        X[tx] = A[bx, tx]
        Y[tx] = T.Cast("float16", X[15 - tx])
        Z[tx] = T.Cast("float32", Y[(tx + 3) % 16])
        B[bx, tx] = Z[15 - tx]

    return func


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_merged_shared_memory(scope):
    func = apply(shared_stages(scope), ThreadSync(scope))
    with PassContext(config={"tir.merge_static_smem": True}):
        after = check(func, MergeSharedMemoryAllocations())
    # Z takes the place of X: a barrier stands between.
    assert f'T.allocate([96], "uint8", "{scope}")' in str(after)
    arrays = arrays_for(func)
    np.testing.assert_array_equal(results(after, arrays)[1], results(func, arrays)[1])


def test_memory_is_not_shared_without_a_barrier():
    after = apply(shared_stages("shared.dyn"), MergeDynamicSharedMemoryAllocations())
    assert 'T.allocate([160], "uint8", "shared.dyn")' in str(after)


def test_static_memory_is_merged_on_request_only():
    func = apply(shared_stages("shared"), ThreadSync("shared"))
    assert apply(func, MergeSharedMemoryAllocations()) is not None
    assert_structural_equal(apply(func, MergeSharedMemoryAllocations()), func)
