"""Rules for GPUs under the names that users know."""

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.opencl_harness import run_on_opencl
from tests.schedule_rules.gpu.test_rules import arrays, product, rows, softmax
from tilesmith import te
from tilesmith.schedule_rules import dlight
from tilesmith.support.errors import TypeMismatchError
from tilesmith.target import Target
from tilesmith.tir.interpreter import run

RULES = (dlight.gpu.GEMV(), dlight.gpu.GeneralReduction(), dlight.gpu.Reduction())


@pytest.mark.parametrize("make, size", [(softmax, (2, 32)), (rows, (3, 40)), (product, (4, 6))])
def test_the_pass_schedules_each_function(make, size):
    func = te.create_prim_func(make(*size))
    with Target("cuda -arch=sm_80"):
        module = dlight.ApplyDefaultSchedule(*RULES, dlight.gpu.Fallback())(
            ts.IRModule({"main": func})
        )
    assert module["main"].attrs["tir.is_scheduled"]
    assert "threadIdx.x" in module.script()
    given = arrays(func)
    want = [array.copy() for array in given]
    run(func, *want)
    run(ts.lower(module)["main"], *given)
    np.testing.assert_allclose(given[-1], want[-1], rtol=1e-5, atol=1e-5)
    on_device = arrays(func)
    if run_on_opencl(module, *on_device):
        np.testing.assert_allclose(on_device[-1], want[-1], rtol=1e-5, atol=1e-5)


def test_functions_without_a_target_or_a_rule_stay():
    func = te.create_prim_func(product(4, 6))
    module = ts.IRModule({"main": func})
    after = dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(module)
    ts.ir.assert_structural_equal(after, module)
    with Target("llvm"):
        ts.ir.assert_structural_equal(dlight.ApplyDefaultSchedule(*RULES)(module), module)
    assert dlight.gpu.GEMV().apply(func, Target("llvm"), False) is None


def test_rules_of_functions():
    @dlight.ScheduleRule.from_callable("Mine")
    def mine(func, target, tunable):
        """Nothing."""
        return [ts.tir.Schedule(func)]

    assert type(mine).__name__ == "Mine"
    module = ts.IRModule({"main": te.create_prim_func(rows(4, 4))})
    with Target("cuda"):
        assert dlight.ApplyDefaultSchedule(mine)(module)["main"].attrs["tir.is_scheduled"]
    with pytest.raises(TypeMismatchError, match="method 'apply'"):
        dlight.ApplyDefaultSchedule(3)
