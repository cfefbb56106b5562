"""What was given up for a model is told with its reason: by workers, by caches, by artifacts."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import numpy as np
import onnx
import pytest

import tilesmith as ts
from benchmarks.models import bert, build_model
from tilesmith import relax, te, topi
from tilesmith.driver import kernels
from tilesmith.ir import IRModule
from tilesmith.runtime.executable import Executable
from tilesmith.schedule_rules import default
from tilesmith.script import relax as R
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.knobs import knobs

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=2 -opt-level=0"  # 8 lanes


def rows(report):
    return [(one.kind, one.subject, one.reason, count) for one, count in report.rows()]


def short(kernel, block, steps):
    reason = f"the innermost loop has {steps} steps, fewer than 8"
    return ("vectorization", f"{kernel}: block '{block}'", reason, 1)


EXPECTED = {
    "digits": [],
    "resnet18": [],
    "mobilenetv2": [],
    "bert": [],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_models_give_up_what_is_expected_and_nothing_else(name, monkeypatch):
    """Each row is known and has to be so: sizes that are smaller than a vector."""
    shapes = {"image": (2, 1, 8, 8)} if name == "digits" else None
    if name == "bert":
        sizes = {"LAYERS": 2, "HIDDEN": 48, "HEADS": 4, "HEAD": 12, "INTERMEDIATE": 80}
        for key, value in {**sizes, "SEQUENCE": 13, "VOCABULARY": 50, "POSITIONS": 20}.items():
            monkeypatch.setattr(bert, key, value)
    model = onnx.load(DIGITS) if name == "digits" else build_model(name)
    with collect_fallbacks() as report:
        executable = ts.compile(model, TARGET, input_shapes=shapes)
    assert rows(report) == EXPECTED[name]
    assert rows(executable.fallbacks) == EXPECTED[name]


def test_checking_adds_nothing_to_the_report():
    """The build that code is compared with leaves much undone, which users need not know."""
    with knobs.override(check=True, cache=False, workers=0), collect_fallbacks() as report:
        ts.compile(onnx.load(DIGITS), TARGET, input_shapes={"image": (2, 1, 8, 8)})
    assert rows(report) == EXPECTED["digits"]


def product():
    """A product of matrices and what follows, as a module."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((16, 32), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weights = relax.const(np.ones((32, 16), "float32"))
            value = builder.emit(relax.op.matmul(x, weights))
            result = builder.emit_output(relax.op.nn.relu(value))
        builder.emit_func_output(result)
    return builder.get()


class _WorkerHere:
    """Hands messages to what workers run, in this process."""

    target = "llvm"

    def submit(self, data, blobs=(), urgency=0):
        future = Future()
        future.set_result(kernels.handle_job(data, blobs))
        return future


@pytest.fixture
def refusing(monkeypatch):
    def refuse(*arguments, **options):
        raise ScheduleError("no contraction today")

    monkeypatch.setattr(default, "schedule_contraction", refuse)


REFUSED = ("schedule", "fused_matmul_relu: block 'matmul_packed'", "no contraction today", 1)


@pytest.mark.parametrize("place", ["here", "worker"])
def test_a_refused_rule_is_told(refusing, monkeypatch, tmp_path, place):
    if place == "worker":
        monkeypatch.setattr(kernels, "FEWEST_FOR_WORKERS", 1)
        monkeypatch.setattr(kernels, "start_workers", lambda target: _WorkerHere())
    with knobs.override(workers=0, cache=True, cache_dir=tmp_path / "cache"):
        for _ in ("cold", "warm"):
            with collect_fallbacks() as report:
                executable = relax.build(product(), target=TARGET)
            assert REFUSED in rows(report)
            assert rows(report) == rows(executable.fallbacks)
            monkeypatch.undo()  # what is in the cache tells it, although no rule refuses now


def test_artifacts_and_warm_caches_of_models_tell_the_same(tmp_path):
    value, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4, strides=[2, 2])],
        "image",
        [value("x", kind, [1, 3, 8, 8])],
        [value("y", kind, None)],
        [onnx.numpy_helper.from_array(np.ones((2, 3, 3, 3), "float32"), "w")],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset), tmp_path / "image.onnx")
    told = []
    with knobs.override(cache=True, cache_dir=tmp_path / "cache"):
        for _ in ("cold", "warm"):
            with collect_fallbacks() as report:
                executable = ts.compile(str(tmp_path / "image.onnx"), TARGET)
            told.append(rows(report))
    path = tmp_path / "image.tsm"
    executable.save(str(path))
    few = ("packing", "main: relax.nn.conv2d", "it has fewer than 8 output channels", 1)
    assert few in told[0]
    assert told[0] == told[1] == rows(Executable.load(path).fallbacks)


def test_worker_processes_tell(tmp_path):
    """Enough kernels that processes of their own compile them."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((8, 3), "float32"))
    with builder.function("main", [x]):
        value = x
        for number in range(4):
            value = builder.emit(relax.op.sum(value, axis=1, keepdims=True))
            value = builder.emit(relax.op.concat([value] * (number + 2), axis=1))
        builder.emit_func_output(value)
    told = []
    for workers in (0, 2):
        with knobs.override(workers=workers), collect_fallbacks() as report:
            relax.build(builder.get(), target="llvm")
        told.append(rows(report))
    assert told[0] == told[1] and told[0]


def test_an_inlining_that_is_refused_is_told(monkeypatch):
    def refuse(self, block):
        raise ScheduleError("the consumer reads elsewhere")

    monkeypatch.setattr("tilesmith.tir.schedule.Schedule.compute_inline", refuse)
    x = te.placeholder((8, 16), name="x")
    function = te.create_prim_func([x, topi.exp(topi.add(x, 1.0))])
    with collect_fallbacks() as report:
        ts.build(IRModule({"main": default.default_schedule(function, ts.target.Target("llvm"))}))
    assert ("inlining", "main: block 'T_add'", "the consumer reads elsewhere", 1) in rows(report)


def test_a_cache_that_cannot_be_written_is_told_but_not_kept(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with knobs.override(cache=True, cache_dir=tmp_path / "file"):
        with collect_fallbacks() as report:
            executable = relax.build(product(), target=TARGET)
    assert {one.kind for one, _ in report.rows()} == {"cache"}
    assert len(executable.fallbacks) == 0
