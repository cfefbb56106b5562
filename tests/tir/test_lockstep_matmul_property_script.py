"""Products of matrices through shared memory: no races whatever the tiles, and always one where a
barrier is taken away."""

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilesmith.inspect import gpu_report
from tilesmith.ir import IntImm, IRModule
from tilesmith.ir.queries import is_call, walk
from tilesmith.lowering import lower
from tilesmith.lowering.gpu_checks import kernels_of
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir.functor import ir_transform
from tilesmith.tir.interpreter.lockstep import LockstepOptions, run_kernels
from tilesmith.tir.schedule import Schedule
from tilesmith.tir.stmt import Evaluate


def product(m, n, k):
    @T.prim_func
    def main(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        C: T.Buffer((m, n), "float32"),
    ):
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vk] * B[vk, vj]

    return main


def scheduled(m, n, k, threads, tile, depth, stages=False, pad=0):
    """Tiles of ``threads`` × ``threads`` threads with ``tile`` × ``tile`` elements each."""
    sch = Schedule(product(m, n, k))
    block = sch.get_block("C")
    i, j, r = sch.get_loops(block)
    by, ty, ii = sch.split(i, [None, threads, tile])
    bx, tx, jj = sch.split(j, [None, threads, tile])
    ro, ri = sch.split(r, [None, depth])
    sch.reorder(by, bx, ty, tx, ro, ri, ii, jj)
    for loop, axis in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (tx, "threadIdx.x"),
    ):
        sch.bind(loop, axis)
    local = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(local, tx)
    for operand in (0, 1):
        copy = sch.cache_read(block, operand, "shared")
        sch.compute_at(copy, ro)
        fused = sch.fuse(*sch.get_loops(copy)[-2:])
        _, t0, t1 = sch.split(fused, [None, threads, threads])
        sch.bind(t0, "threadIdx.y")
        sch.bind(t1, "threadIdx.x")
        if pad:
            sch.storage_align(copy, 0, 0, 32, pad)
    if stages:
        sch.annotate(ro, "software_pipeline_stage", [0, 0, 1])
        sch.annotate(ro, "software_pipeline_order", [0, 1, 2])
    sch.decompose_reduction(block, ro)
    return sch


def kernels(sch):
    return kernels_of(lower(sch.mod), Target("nvptx"))["main"]


def barriers(func):
    return [
        one
        for one in walk(func.body)
        if isinstance(one, Evaluate) and is_call(one.value, "tir.tvm_storage_sync")
    ]


def without(func, barrier):
    def leave_out(stmt):
        return Evaluate(IntImm("int32", 0)) if stmt is barrier else None

    return func.with_body(ir_transform(func.body, None, leave_out, ["tir.Evaluate"]))


def matrices(m, n, k):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    return [a.astype("float32"), b.astype("float32"), np.zeros((m, n), "float32")]


@given(
    st.sampled_from([2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([2, 4, 8]),
    st.integers(5, 20), st.booleans(), st.data(),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_tiles_in_shared_memory(threads, tile, depth, k, stages, data):
    assume(k > 2 * depth)
    m, n = [data.draw(st.integers(threads * tile, 2 * threads * tile)) for _ in range(2)]
    func = kernels(scheduled(m, n, k, threads, tile, depth, stages))
    arrays = matrices(m, n, k)
    options = LockstepOptions(blocks=100, statements=10**9)
    assert run_kernels(func, arrays, options).findings == ()
    np.testing.assert_array_equal(arrays[2], arrays[0] @ arrays[1])
    found = barriers(func)
    assert found
    barrier = data.draw(st.sampled_from(found))
    broken = without(func, barrier)
    assert len(barriers(broken)) == len(found) - 1
    findings = run_kernels(broken, matrices(m, n, k), LockstepOptions(blocks=2)).findings
    assert {one.kind for one in findings} == {"race"}


def test_a_tile_of_64_by_64_with_two_buffers_is_checked_quickly():
    sch = scheduled(64, 64, 32, 16, 4, 8, stages=True)
    func = kernels(sch)
    text = func.script()
    assert 'threadIdx.x", 16' in text and "% 2" in text  # 256 threads, buffers take turns
    arrays = matrices(64, 64, 32)
    start = time.perf_counter()
    result = run_kernels(func, arrays, LockstepOptions(statements=10**9))
    assert result.findings == () and result.cut == ()
    assert time.perf_counter() - start < 10
    np.testing.assert_array_equal(arrays[2], arrays[0] @ arrays[1])


@pytest.mark.parametrize("pad, degree", [(0, 2), (1, 1)])
def test_padding_removes_bank_conflicts(pad, degree):
    """With rows of 32 elements, the 16 × 2 threads of a warp read rows 0 and 4 of A at one column:
    two words of one bank; padded by one, they lie in different banks. In B, 16 threads read every
    fourth word: 64 words apart at most, each bank twice."""
    sch = scheduled(64, 64, 64, 16, 4, 32, pad=pad)
    (kernel,) = gpu_report(sch, target="T4").kernels
    reads = {
        one.buffer: one for one in kernel.accesses if one.space == "shared" and one.kind == "read"
    }
    assert reads["A_shared"].degree == degree


def test_two_functions_are_two_kernels():
    functions = {}
    for name, size in (("one", 8), ("two", 4)):
        func = scheduled(size, size, 8, 2, 2, 4).mod["main"]
        functions[name] = func.with_attr("global_symbol", name)
    module = IRModule(functions)
    report = gpu_report(module)
    assert [kernel.name for kernel in report.kernels] == ["one_kernel", "two_kernel"]
