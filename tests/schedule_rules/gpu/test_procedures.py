"""Procedures with parallel rows, such as sorts, are spread over threads by rows."""

import numpy as np
import pytest

import tilesmith
from tilesmith import te, topi
from tilesmith.runtime.devices import opencl
from tilesmith.schedule_rules.default_for_devices import schedule_for_device
from tilesmith.schedule_rules.default_gpu_schedule import default_gpu_schedule
from tilesmith.target import Target
from tilesmith.tir import Schedule

PROCEDURES = {
    "cumsum": (lambda a: topi.cumsum(a, axis=1), lambda x: np.cumsum(x, 1)),
    "argsort": (lambda a: topi.argsort(a, axis=1), lambda x: np.argsort(x, 1, kind="stable")),
    "sort first axis": (lambda a: topi.sort(a, axis=0), lambda x: np.sort(x, 0)),
    "a chain": (
        lambda a: topi.nn.relu(topi.cumsum(topi.negative(a), axis=1) + 2.0),
        lambda x: np.maximum(np.cumsum(-x, 1) + 2, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("schedule", ["rules", "pass"])
@pytest.mark.parametrize("name", PROCEDURES)
def test_procedures_on_a_device(name, schedule):
    if not opencl(0).exist:
        pytest.skip("there is no OpenCL device")
    compute, reference = PROCEDURES[name]
    a = te.placeholder((te.var("n"), 37), "float32", "a")
    result = compute(a)
    func = te.create_prim_func([a, result])
    if schedule == "pass":
        made = default_gpu_schedule(func, 64)
    else:
        made = schedule_for_device(Schedule(func), Target("opencl")).mod
    data = np.random.default_rng(1).random((67, 37)).astype("float32")
    given = tilesmith.nd.array(data, opencl(0))
    out = tilesmith.nd.array(np.zeros((67, 37), str(result.dtype)), opencl(0))
    tilesmith.build(made, target="opencl")["main"](given, out)
    np.testing.assert_allclose(out.numpy(), reference(data), rtol=1e-5, atol=1e-6)
