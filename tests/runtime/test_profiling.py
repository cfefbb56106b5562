"""Reports, their forms, and the measuring of a function with collectors."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te
from tilesmith.codegen.c_compiler import find_compiler
from tilesmith.runtime.profiling import (
    Count,
    Duration,
    MetricCollector,
    Percent,
    Ratio,
    Report,
    profile_function,
    profiled_stretches,
)
from tilesmith.support.errors import ConfigError


def report():
    calls = [
        {"Name": "conv", "Duration (us)": Duration(1500.0), "Count": Count(1), "x": Ratio(0.5)},
        {"Name": "dense", "Duration (us)": Duration(4000.5), "Count": Count(1), "x": Ratio(2.0)},
        {"Name": "conv", "Duration (us)": Duration(500.0), "Count": Count(1), "x": Ratio(0.5)},
    ]
    totals = {"cpu(0)": {"Duration (us)": Duration(7000.0), "Percent": Percent(100.0)}}
    return Report(calls, totals, {"threads": Count(2)})


def test_table_sorts_adds_up_and_sums():
    lines = report().table().splitlines()
    assert lines[0].split() == ["Name", "Duration", "(us)", "Count", "x"]
    assert lines[1].startswith("dense") and lines[2].split()[:3] == ["conv", "2,000.00", "2"]
    assert lines[4].split() == ["Sum", "6,000.50", "3"]  # a quotient has no sum
    assert lines[5].startswith("Total cpu(0)") and "7,000.00" in lines[5]
    assert lines[-1] == "threads: 2"
    plain = report().table(sort=False, aggregate=False, col_sums=False).splitlines()
    assert [line.split()[0] for line in plain[1:4]] == ["conv", "dense", "conv"]


def test_csv_has_plain_numbers():
    lines = report().csv().splitlines()
    assert lines == ["Name,Duration (us),Count,x", "conv,1500.0,1,0.5", "dense,4000.5,1,2.0",
                     "conv,500.0,1,0.5"]  # fmt: skip


def test_json_comes_back():
    again = Report.from_json(report().json())
    assert again.calls == report().calls and again.configuration == report().configuration
    assert again.device_metrics == report().device_metrics
    for text in ("{", "[]", '{"calls": [{"x": {"unknown": 1}}], "device_metrics": {}}'):
        with pytest.raises(ConfigError, match="not a report"):
            Report.from_json(text)


def test_functions_are_profiled_with_collectors():
    seen = []

    class Calls(MetricCollector):
        def init(self, devices):
            seen.append(devices[0].device)

        def start(self, device):
            return len(seen)

        def stop(self, started):
            return {"started at": Count(started)}

    module = ts.runtime.module_from_functions({"main": lambda a: seen.append(a.shape)})
    profile = profile_function(module, ts.cpu(), [Calls(), MetricCollector()], warmup_iters=2)
    metrics = profile(np.zeros((3, 4), "f4"))
    assert seen[0] == ts.cpu() and [tuple(s) for s in seen[1:]] == [(3, 4)] * 3
    assert metrics["started at"] == Count(3) and metrics["Duration (us)"].microseconds > 0
    assert profile_function(module, ts.cpu(), [], "main", 0)(np.zeros(1, "f4")).keys() == {
        "Duration (us)"
    }


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_marked_stretches_are_counted(target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    x = te.placeholder((4, 5), name="x")
    first = te.compute((4, 5), lambda i, j: x[i, j] + 1, name="first")
    function = te.create_prim_func([x, te.compute((4, 5), lambda i, j: first[i, 0] * 2)])
    options = {"tir.instrument_lwp": True, "tir.reset_start_id": True}
    with ts.transform.PassContext(config=options):
        module = ts.build(function, target=target)
    profiled_stretches(reset=True)
    for _ in range(3):
        module(np.zeros((4, 5), "float32"), np.zeros((4, 5), "float32"))
    found = profiled_stretches()
    assert sorted(found) == [0, 1, 2] and all(each.count == 3 for each in found.values())
    assert found[0].seconds >= found[1].seconds + found[2].seconds > 0
    assert profiled_stretches(reset=True) == found and profiled_stretches() == {}


def test_caches_are_emptied_before_each_repeat():
    x = te.placeholder((64,), name="x")
    module = ts.build(te.create_prim_func([x, te.compute((64,), lambda i: x[i] * 2)]))
    first, second = ts.nd.array(np.ones(64, "float32")), ts.nd.empty((64,))
    evaluate = module.time_evaluator(
        "main", ts.cpu(), number=1, repeat=2, f_preproc="cache_flush_cpu_non_first_arg"
    )
    assert len(evaluate(first, second).results) == 2
    assert (second.numpy() == 2).all() and (first.numpy() == 1).all()
