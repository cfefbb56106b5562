"""Models on devices are measured kernel by kernel: on PoCL, and on a CUDA driver of our own."""

import json

import numpy as np
import pytest

import tilesmith
from tests.gpu.models import MODELS, there
from tests.runtime.fake_cuda import on_fake_driver
from tilesmith import relax, relay
from tilesmith.contrib.debugger import debug_executor
from tilesmith.relax import op
from tilesmith.runtime.observation import KernelObserver
from tilesmith.runtime.profiler_vm import VirtualMachineProfiler
from tilesmith.runtime.registry import register_func
from tilesmith.script import relax as R
from tilesmith.support.errors import DeviceError, UnsupportedError
from tilesmith.testing import requires_c_compiler

DEVICE = tilesmith.opencl(0)
needs_device = pytest.mark.skipif(not DEVICE.exist, reason="there is no OpenCL device here")
BUILT = {}


def built(name, target="opencl"):
    """A model of the table, built once."""
    if (name, target) not in BUILT:
        BUILT[name, target] = relax.build(MODELS[name].module(), target)
    return BUILT[name, target]


def inputs_of(name, case=0):
    return MODELS[name].cases(np.random.default_rng(7))[case][0]


KERNELS = {
    "perceptron": {"fused_matmul_add_relu": 1, "matmul1": 1, "softmax": 1},
    "perceptron, any batch": {"fused_matmul_add_relu": 1, "matmul1": 1, "softmax": 1},
    "convolutions": {
        "max_pool2d": 1, "fused_conv2d_add_relu_multiply_add": 1, "conv2d1": 1,
        "adaptive_avg_pool2d": 1, "matmul": 1,
    },
    "attention, any length": {
        "take": 1, "layer_norm": 1, "matmul": 3, "permute_dims": 1, "fused_matmul1_multiply": 1,
        "softmax": 1, "matmul2": 1, "fused_matmul_add": 1, "argmax": 1,
    },
}  # fmt: skip
"""The kernels of models, and at how many places each is called."""


@needs_device
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_models(name):
    report = built(name).profile(*inputs_of(name))
    names = [row["Name"] for row in report.calls]
    assert {one: names.count(one) for one in names} == KERNELS[name]
    assert all(row["Device"] == "opencl(0)" and row["Count"].count == 1 for row in report.calls)
    assert all(row["Duration (us)"].microseconds > 0 for row in report.calls)
    assert sum(row["Percent"].percent for row in report.calls) == pytest.approx(100)
    alone = report.configuration["Kernels alone (us)"].microseconds
    (whole,) = report.device_metrics["opencl(0)"].values()
    assert 0 < alone < whole.microseconds
    assert report.configuration["Devices"] == "opencl(0)"


@needs_device
def test_bytes_follow_sizes():
    name = "perceptron, any batch"
    reports = [built(name).profile(*inputs_of(name, case)) for case in (0, 2)]
    for report, rows in zip(reports, (7, 130)):
        row = next(one for one in report.calls if one["Name"] == "matmul1")
        assert row["Bytes"].count == 4 * (rows * 47 + 47 * 19 + rows * 19)
        seconds = row["Duration (us)"].microseconds * 1e-6
        assert row["GFLOP/s"].ratio * seconds * 1e9 == pytest.approx(2 * rows * 47 * 19, rel=0.1)
        assert row["Argument Shapes"].startswith(f"[{rows}, 47]")


@needs_device
def test_copies_and_programs_of_steps():
    rows = built("results").profile(*inputs_of("results")).calls
    copies = [row for row in rows if row["Name"] == "copy"]
    assert sorted(row["Bytes"].count for row in copies) == [16, 16, 96, 96]
    counts = {row["Name"]: row["Count"].count
              for row in built("choices").profile(*inputs_of("choices")).calls}  # fmt: skip
    assert counts["less"] == counts["add2"] + 1  # a loop


@needs_device
def test_trace():
    report = built("perceptron").profile(*inputs_of("perceptron"))
    events = json.loads(report.chrome_trace())["traceEvents"]
    assert [one["name"] for one in events] == list(KERNELS["perceptron"])
    assert {one["args"]["device"] for one in events} == {"opencl(0)"}
    with pytest.raises(UnsupportedError, match="the machine's peak is not known"):
        report.roofline()


@needs_device
@pytest.mark.parametrize("kind", [relax.VirtualMachine, VirtualMachineProfiler])
def test_virtual_machines(kind):
    executable = built("perceptron")
    inputs = [there(one, DEVICE) for one in inputs_of("perceptron")]
    if kind is VirtualMachineProfiler:
        report = kind(executable, DEVICE).profile(*inputs)
    else:
        report = kind(executable, DEVICE, profile=True).profile("main", *inputs)
    names = [row["Name"] for row in report.calls]
    assert names[0] == "main" and set(names[1:]) == set(KERNELS["perceptron"])


@needs_device
def test_a_saved_model_has_no_names(tmp_path):
    built("perceptron").save(tmp_path / "model.tsm")
    with pytest.raises(UnsupportedError, match="loaded from a file"):
        tilesmith.load(tmp_path / "model.tsm").profile(*inputs_of("perceptron"))


def two_branches():
    """A module of two branches, for two streams."""
    x = relax.Var("x", relax.TensorStructInfo((6, 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(op.matmul(op.sin(x), x))
            second = builder.emit(op.matmul(op.exp(x), x))
            result = builder.emit_output(op.matmul(first, second))
        builder.emit_func_output(result)
    return builder.get()


X = np.random.default_rng(0).standard_normal((6, 6)).astype("float32")


def on_two_streams(target):
    with tilesmith.transform.PassContext(config={"relax.device_streams": 2}):
        return relax.build(two_branches(), target)


@needs_device
def test_streams_are_those_of_the_model():
    model = on_two_streams("opencl")
    report = model.profile(X)
    assert report.configuration["Streams"].count == 2
    assert sorted(row["Name"] for row in report.calls) == ["exp", *["matmul"] * 3, "sin"]
    again = model.observed_program().executable
    assert again.metadata["functions"] == model.metadata["functions"]
    np.testing.assert_allclose(again(X).numpy(), model(X).numpy())


@register_func("tests.device_profile.double", override=True)
def double(x, y):
    y.copyfrom((2 * x.numpy()).astype("float32"))


@tilesmith.script.ir_module
class Outside:
    @R.function
    def main(x: R.Tensor((6, 6), "float32")):
        with R.dataflow():
            y = R.call_dps_packed(
                "tests.device_profile.double", (x,), out_sinfo=R.Tensor((6, 6), "float32")
            )
            z = R.exp(y)
            R.output(z)
        return z


@needs_device
def test_code_from_outside():
    rows = {row["Name"]: row for row in relax.build(Outside, "opencl").profile(X).calls}
    assert set(rows) == {"tests.device_profile.double", "exp"}
    row = rows["tests.device_profile.double"]
    assert row["Duration (us)"].microseconds > 0 and row["Bytes"].count == 2 * X.nbytes


class Notes(KernelObserver):
    """Keeps what kernels read and write."""

    def __init__(self):
        self.found = []

    def ends(self, number, operands, seconds):
        copies = [one.numpy() for one in (*operands.inputs(), *operands.outputs())]
        self.found.append((operands.device, copies, seconds))


@needs_device
def test_observers_see_tensors_of_the_device():
    program = relax.build(two_branches(), "opencl").observed_program()
    with Notes() as notes:
        program.executable(X)
    assert [program.kernels[n].name for n in range(5)].count("matmul") == 3
    device, (given, made), seconds = notes.found[0]
    np.testing.assert_array_equal(given, X)
    np.testing.assert_allclose(made, np.sin(X), rtol=1e-5, atol=1e-6)
    assert device == DEVICE and 0 < seconds < 1


@needs_device
@pytest.mark.parametrize("rows", [4, 9])
def test_the_debug_executor_of_relay(rows):
    x, w = relay.var("x", shape=(rows, 12)), relay.var("w", shape=(9, 12))
    program = relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w)))
    weight = np.ones((9, 12), "float32")
    lib = relay.build(tilesmith.IRModule.from_expr(program), "opencl", params={"w": weight})
    module = debug_executor.create(lib.get_graph_json(), lib, DEVICE)
    report = module.profile(x=np.ones((rows, 12), "float32"))
    assert all(row["Device"] == "opencl(0)" for row in report.calls)
    assert any("softmax" in row["Name"] for row in report.calls)
    assert all(row["Duration (us)"].microseconds > 0 for row in report.calls)


# CUDA, on a driver of our own: events are 2 ms apart, and a launch takes 3 ms more


@pytest.fixture
def fake(monkeypatch):
    with on_fake_driver(monkeypatch) as made:
        yield made


@requires_c_compiler
def test_events_on_cuda(fake):
    name = "perceptron"
    model = relax.build(MODELS[name].module(), "nvptx")
    report = relax.VirtualMachine(model, tilesmith.cuda(1)).module.profile(*inputs_of(name))
    rows = {row["Name"]: row for row in report.calls}
    assert set(rows) == set(KERNELS[name])
    assert sum(row["Duration (us)"].microseconds for row in rows.values()) == 3000.0 * len(rows)
    assert {row["Device"] for row in rows.values()} == {"cuda(1)"}
    assert report.configuration["Board"] == "H100"  # by its capability, 9.0
    row = rows["matmul1"]
    operations, bytes_ = 2 * 5 * 47 * 19, row["Bytes"].count
    assert bytes_ == 4 * (5 * 47 + 47 * 19 + 5 * 19)
    assert row["Bound (us)"].microseconds == pytest.approx(bytes_ / 3350e9 * 1e6)
    assert row["Percent of Peak"].ratio == pytest.approx(operations / 3e-3 / 66.9e12 * 100, rel=0.1)
    assert report.roofline().startswith("<svg")
    assert fake.take_calls().count("cuMemsetD8Async") > 0  # it was kept busy


@requires_c_compiler
def test_events_on_streams_of_cuda(fake):
    report = on_two_streams("nvptx").profile(X)
    assert report.configuration["Streams"].count == 2 and len(report.calls) == 5
    streams = {line.split()[0] for line in fake.take_order() if line.endswith("launch")}
    assert len(streams) == 2


@requires_c_compiler
def test_a_launch_that_fails(fake):
    model = relax.build(two_branches(), "nvptx")
    program = model.observed_program()
    fake.plan("cuLaunchKernel", 1, after=1)
    with pytest.raises(DeviceError, match="launching kernel"), Notes() as notes:
        program.executable(X)
    assert len(notes.found) == 1
    with Notes() as notes:
        program.executable(X)
    assert len(notes.found) == 5
