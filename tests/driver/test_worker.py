"""What a worker does before the first kernel comes."""

from concurrent.futures import Future

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


def doubled(size):
    x = te.placeholder((size,), "float32", "x")
    function = te.create_prim_func([x, te.compute((size,), lambda i: x[i] * 2.0, "y")])
    return kernels.KernelJob({"double": function}, Target("llvm"))


class Pool:
    """Workers that compile here, as soon as they get a job, and note how urgent it is."""

    def __init__(self):
        self.urgency = []

    def submit(self, request, blobs, urgency):
        self.urgency.append(urgency)
        future = Future()
        future.set_result(kernels.handle_job(request, blobs))
        return future


@pytest.fixture
def pool(monkeypatch):
    made = Pool()
    monkeypatch.setattr(kernels, "start_workers", lambda target: made)
    return made


def test_kernels_are_the_same_in_whatever_order_they_are_added(pool):
    jobs = [doubled(size) for size in (3, 4, 5, 6)]
    forward, backward = kernels.KernelCompilation(False), kernels.KernelCompilation(False)
    for job in jobs:
        forward.add(job)
        backward.add(jobs[3 - jobs.index(job)])
    first, second = forward.finish(), backward.finish()
    assert list(first) == [job.key for job in jobs]  # in the order of the jobs
    assert first == second and len(set(first.values())) == 4


def test_workers_begin_with_the_third_kernel(pool):
    jobs, counts = [doubled(size) for size in (3, 4, 3, 5, 6)], []
    compilation = kernels.KernelCompilation(False)
    for job in jobs:
        compilation.add(job)
        counts.append(len(pool.urgency))
    assert counts == [0, 0, 0, 3, 4]  # an equal one does not count
    assert len(compilation.finish()) == 4


def test_unrolled_reductions_are_urgent(pool):
    """LLVM takes longer for them than for others that are as long."""

    def summed(size):
        x, k = te.placeholder((9, size), "float32", "x"), te.reduce_axis((0, size), "k")
        sums = te.compute((9,), lambda i: te.sum(x[i, k], k), "y")
        return kernels.KernelJob({"sums": te.create_prim_func([x, sums])}, Target("llvm"))

    compilation = kernels.KernelCompilation(False)
    for size in (9, 9999, te.var("n")):
        compilation.add(summed(size))
    few, many, unknown = pool.urgency
    assert few > 2 * many and few > 2 * unknown
    assert len(compilation.finish()) == 3
