"""Contestants in processes of their own: what they do wrong is a result, and stays theirs."""

import os
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks import contest
from benchmarks.contestants import largest_error
from benchmarks.processes import ContestantFailure, ContestantProcess, JobFiles, Team

FAKE = Path(__file__).with_name("fake_contestant.py")


def fake(way: str) -> list[str]:
    return [sys.executable, str(FAKE), way]


def doubled() -> onnx.ModelProto:
    """Return a model that computes x + x."""
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    graph = helper.make_graph(nodes, "double", [value("x")], [value("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def files(tmp_path):
    feed = {"x": np.arange(6, dtype="float32").reshape(2, 3)}
    return JobFiles.write(tmp_path, doubled(), feed)


WRONG = {
    "dies": "died of SIGSEGV",
    "leaves": "ended with exit code 1: something went wrong",
    "hangs": "no answer within 2 s",
    "refuses": "ValueError: planted",
    "wrong": "wrong output: largest error 0.1",
    "nan": "wrong output: largest error nan",
    "flat": r"wrong output: shapes \[\(6,\)\], the reference has \[\(2, 3\)\]",
    "objects": "unreadable output: ",
}


def test_what_a_contestant_does_wrong_is_a_result(files):
    ways = ["good", "slow", *WRONG, "cannot"]
    with Team(ways, 1, command=fake, run_timeout=2.0) as team:
        found = team.contest(files, rounds=3)
        again = team.contest(files, rounds=1, names=["good", "dies"])
    assert set(found.timings) == {"good", "slow"} and found.errors["slow"] == 0
    assert found.timings["good"].median == pytest.approx(0.001)
    assert set(found.failures) == set(WRONG) and found.not_offered == {"cannot": "it never could"}
    for way, reason in WRONG.items():
        pytest.raises(ContestantFailure, _raise, found.failures[way]).match(reason)
    assert set(again.timings) == {"good", "dies"}  # started afresh


def _raise(text):
    raise ContestantFailure(text)


def state_of(pid: int) -> str:
    """Return the state of a process as Linux names it: T when stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the states of processes in /proc")
def test_who_waits_is_stopped_and_who_is_closed_is_gone(files):
    process = ContestantProcess("good", fake("good"), 1)
    pid = process._process.pid
    process.ask(10.0, **files.as_command(1))
    process.pause()
    end = time.monotonic() + 5
    while state_of(pid) != "T" and time.monotonic() < end:
        time.sleep(0.01)
    assert state_of(pid) == "T"
    assert process.ask(10.0, do="measure", sample_seconds=0.01) == {"calls": 3}
    process.pause()
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_real_contestants_agree(files):
    names = ["tilesmith", "onnxruntime"]
    with Team(names, 1) as team:
        found = team.contest(files, rounds=2, peak=lambda: 1e9)
    assert not found.failures and found.errors == {"tilesmith": 0, "onnxruntime": 0}
    kept = contest.record(found, flops=6.0)
    assert kept["best"]["name"] == "onnxruntime" and kept["peak_gflops"] == 1
    assert kept["best"]["times_as_fast"] == kept["times_as_fast"]["onnxruntime"] > 0
    line = contest.row("double", kept, names, contest.rate(kept))
    assert line[0] == "double" and line[2].endswith(f"×{kept['best']['times_as_fast']:.2f}")
    assert "GFLOP/s" in line[-1]


def test_means_and_failures_of_a_table():
    records = {
        "a": {"latency": {}, "largest_error": {}, "times_as_fast": {"torch": 2.0, "jax": 8.0},
              "best": {"name": "torch", "times_as_fast": 2.0}, "failures": {"tvm": "gone\nmore"}},
        "b": {"latency": {}, "largest_error": {}, "times_as_fast": {"torch": 0.5}, "failures": {},
              "best": {"name": "torch", "times_as_fast": 0.5}},
    }  # fmt: skip
    assert contest.means(records) == pytest.approx({"torch": 1.0, "jax": 8.0, "best": 1.0})
    names = ["tilesmith", "torch", "jax", "tvm"]
    assert contest.row_of_means(records, names)[2:6] == ["×1.00", "×8.00", "-", "1.00"]
    assert contest.row("a", records["a"], names)[4] == "failed"
    records["b"]["not_offered"] = {"tilesmith": "no bf16", "numpy": "no short form"}
    assert contest.failures(records) == [
        "a: tvm failed: gone", "b: tilesmith takes no part: no bf16"
    ]  # fmt: skip


def test_the_largest_error_of_other_shapes_and_of_truth_values():
    ones = np.ones(3, bool)
    assert largest_error([ones], [~ones]) == 1
    assert largest_error([np.ones((1, 3))], [np.ones(3)]) == float("inf")
    assert largest_error([np.zeros(0)], [np.zeros(0)]) == 0
