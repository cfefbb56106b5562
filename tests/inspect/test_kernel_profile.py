"""Models are measured kernel by kernel; observers see what each kernel reads and writes."""

import json
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import tilesmith
from tilesmith import inspect, relax
from tilesmith.inspect import kernel_profile
from tilesmith.runtime.observation import KernelObserver
from tilesmith.runtime.profiling import Report
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, UnsupportedError

COLUMNS = 24
WEIGHT = np.random.default_rng(0).standard_normal((16, COLUMNS)).astype("float32")


def network(rows="n"):
    """A product with weights, relu, and a softmax."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "projection"),
        helper.make_node("Relu", ["product"], ["positive"], "activation"),
        helper.make_node("Softmax", ["positive"], ["y"], "scores"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, COLUMNS])],
        [from_array(WEIGHT, "w")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(scope="module", params=[5, "n"], ids=["static", "dynamic"])
def executable(request):
    return tilesmith.compile(network(request.param))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A machine of known limits, which need not be measured."""
    monkeypatch.setattr(kernel_profile, "_peak_operations", lambda *_: 1e11)
    monkeypatch.setattr(kernel_profile, "_peak_bytes", lambda *_: 1e10)


X = np.random.default_rng(1).standard_normal((5, 16)).astype("float32")


class Notes(KernelObserver):
    def __init__(self):
        self.events = []

    def begins(self, number, operands):
        self.events.append(("begins", number, operands.shapes))

    def ends(self, number, operands, seconds):
        self.events.append(("ends", number, operands.inputs(), operands.outputs(), seconds))


def test_observers_see_kernels(executable):
    program = executable.observed_program()
    with Notes() as notes:
        result = program.executable(X)
    np.testing.assert_array_equal(result.numpy(), executable(X).numpy())
    assert [event[:2] for event in notes.events] == [
        ("begins", 0), ("ends", 0), ("begins", 1), ("ends", 1)
    ]  # fmt: skip
    product, softmax = program.kernels
    assert product.operators == "MatMul node 'projection', Relu node 'activation'"
    assert softmax.operators == "Softmax node 'scores'"
    (_, _, inputs, outputs, seconds), last = notes.events[1], notes.events[3]
    np.testing.assert_allclose(outputs[0].numpy(), np.maximum(X @ WEIGHT, 0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(inputs[0].numpy(), X)
    np.testing.assert_array_equal(last[3][0].numpy(), result.numpy())
    assert 0 < seconds < 1


def test_nothing_is_seen_without_an_observer(executable):
    program = executable.observed_program()
    with Notes() as notes:
        pass
    program.executable(X)
    assert not notes.events


def test_an_observer_may_end_the_call(executable):
    class Refuse(KernelObserver):
        def ends(self, number, operands, seconds):
            raise ConfigError("stop here")

    program = executable.observed_program()
    with Refuse(), pytest.raises(ConfigError, match="stop here"):
        program.executable(X)
    np.testing.assert_array_equal(program.executable(X).numpy(), executable(X).numpy())


def test_the_profile_counts_what_kernels_do(executable):
    report = executable.profile(X)
    product = next(row for row in report.calls if "MatMul" in row["Operators"])
    seconds = product["Duration (us)"].microseconds * 1e-6
    operations = 2 * 5 * 16 * COLUMNS + 5 * COLUMNS  # products, sums, and relu
    assert product["GFLOP/s"].ratio * seconds * 1e9 == pytest.approx(operations, rel=0.1)
    assert product["Percent of Peak"].ratio == pytest.approx(product["GFLOP/s"].ratio, rel=1e-6)
    fewest_bytes = 4 * (5 * 16 + 16 * COLUMNS + 5 * COLUMNS)
    assert product["GB/s"].ratio * seconds * 1e9 >= fewest_bytes * (1 - 1e-9)  # it is rounded
    assert product["Percent of Memory"].ratio == pytest.approx(10 * product["GB/s"].ratio, rel=1e-6)
    assert product["Count"].count == 1 and product["Argument Shapes"].startswith("[5, 16]")
    assert sum(row["Percent"].percent for row in report.calls) == pytest.approx(100)
    assert "Softmax node 'scores'" in str(report)


def test_the_forms_of_a_profile(executable):
    report = executable.profile(x=X)
    assert Report.from_json(report.json()).calls == report.calls
    events = json.loads(report.chrome_trace())["traceEvents"]
    assert [event["args"]["operators"] for event in events][-1] == "Softmax node 'scores'"
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(events, events[1:]))
    picture = ElementTree.fromstring(report.roofline())
    circles = picture.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2 and all(0 < float(one.get("cx")) < 800 for one in circles)


def test_a_profile_without_a_peak_draws_nothing(executable):
    report = inspect.profile(executable, [X], runs=2, peak=False)
    assert "Percent of Peak" not in report.calls[0]
    with pytest.raises(UnsupportedError, match="nothing to draw"):
        report.roofline()
    with pytest.raises(ConfigError, match="too little"):
        inspect.profile(executable, [X], runs=0)


def test_saved_and_cached_models(tmp_path, monkeypatch):
    monkeypatch.setenv("TILESMITH_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "model.onnx"
    onnx.save(network(3), path)
    first = tilesmith.compile(path)
    again = tilesmith.compile(path)  # from the cache
    assert [row["Name"] for row in again.profile(X[:3]).calls] == [
        row["Name"] for row in first.profile(X[:3]).calls
    ]
    first.save(tmp_path / "model.tsm")
    with pytest.raises(UnsupportedError, match="loaded from a file"):
        tilesmith.load(tmp_path / "model.tsm").profile(X[:3])


def test_the_virtual_machine_lists_kernels(executable):
    report = relax.VirtualMachine(executable, tilesmith.cpu()).profile("main", X)
    names = [row["Name"] for row in report.calls]
    assert names[0] == "main" and "softmax" in names


def test_kernels_in_loops_are_counted_by_call():
    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with block.function("main", [x]):
        y = block.emit(relax.op.exp(x))
        block.emit_func_output(block.emit(relax.op.add(y, y)))
    built = relax.build(block.get(), "llvm", pipeline=None)
    rows = {row["Name"]: row for row in built.profile(np.ones(4, "float32")).calls}
    assert set(rows) == {"exp", "add"} and all(one["Count"].count == 1 for one in rows.values())


def test_kernels_of_unknown_work_are_measured_without_it():
    @tilesmith.script.ir_module
    class Module:
        @T.prim_func
        def rows(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                y[i] = T.float32(0)
                for _ in range(x[i]):
                    y[i] = y[i] + T.float32(2)

        @R.function
        def main(x: R.Tensor((4,), "int32")) -> R.Tensor((4,), "float32"):
            y = R.call_tir(Module.rows, (x,), out_sinfo=R.Tensor((4,), "float32"))
            return y

    built = relax.build(Module, "llvm")
    (row,) = built.profile(np.arange(4, dtype="int32")).calls
    assert row["Count"].count == 1 and "GFLOP/s" not in row


@pytest.mark.parametrize("dtype", ["bool", "int4", ""])
def test_a_dtype_without_a_peak_is_refused(dtype):
    with pytest.raises(UnsupportedError, match="no peak of multiplying and adding"):
        inspect.roofline.x86.estimate_peak_fma_vector_flops("llvm", tilesmith.cpu(), None, dtype)
