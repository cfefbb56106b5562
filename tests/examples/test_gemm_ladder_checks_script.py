"""The steps of the GEMM ladder, run in checks: no findings, and each barrier and wait is needed."""

import time

import numpy as np
import pytest

import tilesmith as ts
from examples.gemm_ladder.ladder import STEPS
from tests.tir.test_lockstep_matmul_property_script import barriers, matrices, without
from tilesmith.inspect import gpu_report
from tilesmith.ir.queries import walk
from tilesmith.lowering import lower
from tilesmith.lowering.gpu_checks import kernels_of
from tilesmith.target import Target
from tilesmith.tir.functor import ir_transform
from tilesmith.tir.interpreter.lockstep import LockstepOptions, run_kernels
from tilesmith.tir.stmt import AttrStmt

WHOLE = LockstepOptions(blocks=100, statements=10**9)


def kernels(name, rows, columns, depth):
    step = STEPS[name]
    with ts.transform.PassContext(config=dict(step.options)):
        module = lower(step.schedule(rows, columns, depth).mod)
        return kernels_of(module, Target("cuda -arch=sm_90"))["main"]


# With fewer tiles than stages, no buffer would be used twice, and no barrier be needed.
@pytest.mark.parametrize("name, depth", [("double_buffering", 40), ("asynchronous_copies", 64)])
def test_the_last_steps_are_correct_and_need_their_barriers(name, depth):
    func = kernels(name, 128, 128, depth)
    arrays = matrices(128, 128, depth)
    start = time.perf_counter()
    assert run_kernels(func, arrays, WHOLE).findings == ()
    assert time.perf_counter() - start < 10
    np.testing.assert_array_equal(arrays[2], arrays[0] @ arrays[1])
    for barrier in barriers(func):
        found = run_kernels(without(func, barrier), matrices(128, 128, depth)).findings
        assert found and {one.kind for one in found} <= {"race", "missing wait"}


def test_a_copy_that_is_not_waited_for_is_found():
    func = kernels("asynchronous_copies", 128, 128, 40)

    def is_wait(stmt):
        return isinstance(stmt, AttrStmt) and stmt.attr_key == "async_wait_queue_scope"

    waits = [one for one in walk(func.body) if is_wait(one)]
    assert waits
    broken = ir_transform(
        func.body, None, lambda stmt: stmt.body.body if is_wait(stmt) else None, ["tir.AttrStmt"]
    )
    found = run_kernels(func.with_body(broken), matrices(128, 128, 40)).findings
    assert "missing wait" in {one.kind for one in found}


def test_the_report_on_a_large_product_is_made_from_a_few_blocks():
    step = STEPS["no_bank_conflicts"]
    args = [np.zeros((1024, 1024), "float32")] * 3
    report = gpu_report(
        step.schedule(1024, 1024, 1024), args, "H100", blocks=2, compile_kernels=False
    )
    assert report.is_clean and report.kernels[0].bank_conflicts == ()
    assert report.kernels[0].flops == 2 * 1024**3
