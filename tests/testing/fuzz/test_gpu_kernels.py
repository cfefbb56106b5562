"""Kernels that the fuzzer draws for GPUs: what is drawn, what is checked, and planted faults."""

import collections
import random

import numpy as np
import pytest

import tilesmith
from tilesmith import inspect, tir
from tilesmith.script import from_source
from tilesmith.support.errors import ScheduleError
from tilesmith.testing.fuzz import device_checks, intrinsics, planted
from tilesmith.testing.fuzz.cases import make_case, run_case
from tilesmith.testing.fuzz.checks import TEMPLATES
from tilesmith.testing.fuzz.recipe import build
from tilesmith.testing.fuzz.steps import Nothing, Pick, Recorder

EXCHANGE = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.decl_buffer((64,), "float32", scope="shared")
    S[tx] = A[bx * 32 + tx]
    T.tvm_storage_sync("shared")
    S[32 + (tx + 5) % 32] = S[(tx + 1) % 32]
    T.tvm_storage_sync("shared")
    B[bx * 32 + tx] = S[32 + tx]
"""


def test_each_planted_fault_is_found_by_both():
    """Both barriers matter; a store that moves leaves an element without a value."""
    kernel, found = from_source(EXCHANGE), collections.Counter()
    arrays = [np.arange(64, dtype="float32"), np.zeros(64, "float32")]
    for kind in ("barrier", "load", "store"):
        for _, broken in planted.faults(kernel, kind):
            (wrong, got), (alike, again) = planted.verdicts(broken, arrays)
            assert (wrong is None) == (alike is None)
            if wrong is None:
                np.testing.assert_array_equal(got[1], again[1])
            found[kind, wrong is not None] += 1
    assert found["barrier", True] == 2 and not found["barrier", False]
    assert found["store", True] >= 1 and found["load", False] >= 1
    (wrong, _), (alike, _) = planted.verdicts(kernel, arrays)
    assert wrong is None and alike is None


@pytest.mark.parametrize("scope", ["shared", "global"])
def test_a_write_over_a_write_names_both_threads(scope):
    """The record of the first write is replaced by the second one before the race is told."""
    kernel = from_source(f"""
@T.prim_func
def main(B: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.decl_buffer((32,), "float32", scope="shared")
    {"S" if scope == "shared" else "C"}[tx] = T.Cast("float32", tx)
    {"S" if scope == "shared" else "C"}[(tx + 1) % 32] = T.Cast("float32", tx * 2)
    S[tx] = T.float32(1)
    B[tx] = S[tx]
""")
    arguments = [np.zeros(32, "float32") for _ in range(2)]
    report = inspect.gpu_report(kernel, arguments, compile_kernels=False)
    assert {one.kind for one in report.findings} == {"race"}
    assert "writes it, and no barrier" in report.findings[0].message


def product_case(seed):
    case = next(
        one
        for one in (make_case(number, "pass", "gpu") for number in range(seed, seed + 200))
        if one["steps"] and one["steps"][0][0] == "gpu: fragments"
    )
    return {**case, "planted": True, "config": {}}


@pytest.mark.parametrize("is_async", [False, True])
def test_barriers_before_fragments_matter_within_a_warp(is_async):
    """Any lane may read an element of a fragment, also of its own warp's copies."""
    case = product_case(10)
    case["recipe"]["dims"].update(a=16, b=16, c=16)
    case["config"] = {"tir.use_async_copy": True} if is_async else {}
    result = run_case(case)
    assert result["finding"] is None, result["finding"]["detail"]
    counts = result["counts"]
    assert counts["planted barrier: found"] and counts["device lockstep"]


def steps_of(case):
    """Apply the steps of a case without checks; return the script, and what was applied."""
    intrinsics.register()
    sch = tir.Schedule(build(case["recipe"]), debug_mask="none", error_render_level="none")
    recorder, applied = Recorder(sch), []
    for kind, seed in case["steps"]:
        try:
            if kind in TEMPLATES:
                TEMPLATES[kind][1](Pick(recorder, random.Random(seed), case["recipe"]))
                applied.append(kind)
        except (Nothing, ScheduleError):
            continue
    return sch.mod.script(), applied


WORDS = (
    "software_pipeline_stage", "software_pipeline_async_stages", "vthread.x", '"shared.dyn"',
    "launch_order", "tvm_mma_sync", "ptx_mma", "double_buffer_scope", "buffer_dim_align",
    "T.vectorized", "blockIdx.z", '"local"', "manifest_shared_memory_local_stage",
)  # fmt: skip


def test_what_kernels_have_is_drawn():
    kinds = {"gpu: tiles", "gpu: partial sums", "gpu: vectors", "gpu: fragments"}
    applied, left = collections.Counter(), set(WORDS)
    for seed in range(130):
        case = make_case(seed, None, "gpu")
        if case.get("program") is None:
            text, steps = steps_of(case)
            left -= {word for word in left if word in text}
            applied.update(steps)
        if not left and all(applied[kind] >= 3 for kind in kinds):
            return
    raise AssertionError((left, applied))


def test_code_is_compiled_and_run():
    """Each of these cases runs on the OpenCL device here; NVRTC compiles for several machines."""
    counts = collections.Counter()
    for seed in (1, 2, 3, 12, 24, 36):
        result = run_case(make_case(seed, "codegen", "gpu"))
        assert result["finding"] is None, result["finding"]["detail"]
        counts.update(result["counts"])
    assert counts["code opencl"] >= 4
    if tilesmith.opencl(0).exist:
        assert counts["device opencl: run"] >= 4
    if not tilesmith.cuda(0).exist:
        assert sum(counts[f"code {arch}"] for arch in device_checks.ARCHITECTURES) >= 2


@pytest.mark.parametrize("tile", [16, 32])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_without_padding_there_are_bank_conflicts(tile, dtype):
    """A transposition through shared memory, whose rows are padded or not."""

    def conflicts(padding):
        kernel = from_source(f"""
@T.prim_func
def main(A: T.Buffer((64, 64), "{dtype}"), B: T.Buffer((64, 64), "{dtype}")):
    for i, j in T.grid(64, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]
""")
        sch = tir.Schedule(kernel)
        block = sch.get_block("B")
        tiles = sch.cache_read(block, 0, "shared")
        (by, ty), (bx, tx) = [sch.split(loop, [None, tile]) for loop in sch.get_loops(block)]
        sch.reorder(by, bx, ty, tx)
        for loop, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (tx, "threadIdx.x")):
            sch.bind(loop, tag)
        sch.compute_at(tiles, bx)
        sch.bind(sch.get_loops(tiles)[-1], "threadIdx.x")
        if padding:
            sch.storage_align(tiles, 0, 0, 32, padding)
        report = inspect.gpu_report(sch, target="A100", compile_kernels=False)
        assert report.is_clean
        return max([one.degree for one in report.kernels[0].accesses if one.space == "shared"])

    assert conflicts(1) < conflicts(0)
