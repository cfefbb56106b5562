"""Every rival computes what onnxruntime does, or says that it does not offer it."""

import dataclasses
import importlib.util

import pytest

from benchmarks.contestant import read_job
from benchmarks.contestants import (
    CONTESTANTS,
    Job,
    NotOffered,
    environment,
    largest_error,
    onnxruntime_contestant,
)
from benchmarks.models import torch_zoo
from benchmarks.quantised import quantised
from benchmarks.suite import SUITE, write
from benchmarks.workloads import (
    KERNELS,
    Workload,
    batched,
    conv,
    gelu,
    layer_norm,
    look_up,
    matmul,
    relu_add,
    row_sums,
    softmax,
)

SMALL = {
    "conv": conv("", (8, 16), 9, 3, 2),
    "depthwise": conv("", (8, 8), 9, 3, groups=8),
    "matmul": matmul("", 3, 5, 7, constant=True),
    "batched": batched("", 2, 3, 5, 7),
    "softmax": softmax("", 3, 5),
    "layer norm": layer_norm("", 3, 8),
    "gelu": gelu("", 3, 5),
    "relu(add)": relu_add("", 10),
    "row sums": row_sums("", 3, 5),
    "rows": look_up("", "Gather", (7, 3), (4,), 0),
    "numbers": look_up("", "Gather", (7,), (4,), 0),
    "columns": look_up("", "Gather", (7, 3), (4,), 1),
    "elements": look_up("", "GatherElements", (7, 3), (7, 3), 1),
}


def job(workload: Workload, precision: str = "f32") -> Job:
    return Job(workload.model, workload.feed, 1, precision=precision)


@pytest.mark.parametrize("rival", ["torch", "openvino", "jax"])
def test_rivals_agree(rival):
    if importlib.util.find_spec(rival) is None:
        pytest.skip(f"{rival} is not installed")
    for name, workload in SMALL.items():
        found = CONTESTANTS[rival].prepare(job(workload))()
        expected = onnxruntime_contestant(workload.model, workload.feed, 1)()
        assert largest_error(found, expected) < 1e-5, name


@pytest.mark.parametrize("rival", ["torch", "openvino", "jax"])
def test_half_the_bits(rival):
    if importlib.util.find_spec(rival) is None:
        pytest.skip(f"{rival} is not installed")
    workload = SMALL["matmul"]
    found = CONTESTANTS[rival].prepare(job(workload, "bf16"))()
    expected = onnxruntime_contestant(workload.model, workload.feed, 1)()
    assert found[0].dtype == "float32" and largest_error(found, expected) < 2e-2


def test_quantised_models_run_as_they_are():
    """What is quantised already is not quantised again."""
    workload = SMALL["conv"]
    model = quantised(workload.model, workload.feed)
    runs = [CONTESTANTS[name].prepare(Job(model, workload.feed, 1, precision="int8"))
            for name in ("tilesmith", "onnxruntime")]  # fmt: skip
    assert largest_error(runs[0](), runs[1]()) < 0.1


def test_what_is_not_offered_is_said():
    with pytest.raises(NotOffered, match="bfloat16"):
        CONTESTANTS["onnxruntime"].prepare(job(SMALL["matmul"], "bf16"))
    with pytest.raises(NotOffered, match="numpy"):
        CONTESTANTS["numpy"].prepare(dataclasses.replace(job(SMALL["conv"]), kernel="no such"))
    name = "softmax 128x1024"
    workload = KERNELS[name](name)
    run = CONTESTANTS["numpy"].prepare(Job(workload.model, workload.feed, 1, kernel=name))
    expected = onnxruntime_contestant(workload.model, workload.feed, 1)()
    assert largest_error(run(), expected) < 1e-5


def test_threads_are_set_before_imports():
    assert environment(2)["OMP_NUM_THREADS"] == "2"
    assert "--xla_cpu_multi_thread_eigen=false" in environment(1)["XLA_FLAGS"]


def test_models_of_torch_are_written_as_files(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    for name in ("regnet_y", "wav2vec"):
        entry = torch_zoo.ZOO[name]
        small = dataclasses.replace(
            entry, make=entry.small, inputs=lambda batch, entry=entry: entry.small_inputs()
        )
        monkeypatch.setitem(torch_zoo.ZOO, name, small)
        folder = tmp_path / name
        folder.mkdir()
        files = write(name, folder)
        command = files.as_command(threads=1)
        assert files.torch_model == name == SUITE[name].torch_model
        given = read_job(command)
        expected = onnxruntime_contestant(given.model, given.feed, 1)()
        assert largest_error(CONTESTANTS["torch"].prepare(given)(), expected) < 1e-4
