"""What a worker does before the first kernel comes."""

import pytest

from tilesmith import te
from tilesmith.driver import kernels, warm_up
from tilesmith.ir.serialization import save_json
from tilesmith.support.knobs import knobs
from tilesmith.support.summary import collect_summary
from tilesmith.target import Target


def test_a_small_kernel_warms_up(monkeypatch):
    compiled = []
    monkeypatch.setattr(
        warm_up, "compile_job", lambda *job: compiled.append(kernels.compile_job(*job))
    )
    warm_up.warm_up()
    assert len(compiled) == 1 and len(compiled[0]) > 100


@pytest.mark.parametrize("are_wanted", [True, False])
def test_a_worker_tells_the_time_of_steps(are_wanted):
    """The process that asked adds them to its own."""
    n = te.var("n")
    x = te.placeholder((n,), "float32", "x")
    double = te.create_prim_func([x, te.compute((n,), lambda i: x[i] * 2.0, "y")])
    with knobs.override(check=False):
        job = kernels.KernelJob({"double": double}, Target("llvm"))
        with collect_summary(steps=are_wanted):
            request = kernels.request_for(job)
        reply, _ = kernels.handle_job(request, [save_json(job.renamed()).encode()])
    expected = {"LLVM", "scheduling kernels", "tir.FlattenBuffer"} if are_wanted else set()
    assert expected <= reply["steps"].keys() and bool(reply["steps"]) == are_wanted
