"""Whole models run on an NVIDIA GPU; skipped where there is none."""

import numpy as np
import pytest

import tilesmith
from tests.gpu.models import MODELS
from tilesmith import relax, relay
from tilesmith.contrib import graph_executor
from tilesmith.contrib.cuda_graph import cuda_graph_executor

DEVICE = tilesmith.cuda(0)
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not DEVICE.exist, reason="there is no CUDA device here"),
]


@pytest.mark.parametrize("name", [name for name, one in MODELS.items() if "cuda" in one.kinds])
def test_model(name):
    model = MODELS[name]
    executable = relax.build(model.module(), target="cuda")
    assert bool(executable.metadata["programs"]) == model.runs_by_steps
    machine = relax.VirtualMachine(executable, DEVICE)
    for _ in range(3):  # workspaces are used again
        model.check(machine["main"], DEVICE)


@pytest.mark.parametrize("suffix", ["so", "tsm"])
def test_artifact(suffix, tmp_path):
    model = MODELS["convolutions"]
    path = tmp_path / f"model.{suffix}"
    relax.build(model.module(), target="cuda").export_library(path)
    loaded = tilesmith.runtime.load_module(path)
    model.check(relax.VirtualMachine(loaded, DEVICE)["main"], DEVICE)


def test_torch_shares_memory():
    torch = pytest.importorskip("torch")
    model = MODELS["perceptron"]
    executable = tilesmith.compile(model.module(), target="cuda")
    ((inputs, (expected,)),) = model.cases(np.random.default_rng(0))
    x = torch.from_numpy(inputs[0]).cuda()
    y = torch.from_dlpack(executable(x))
    assert y.is_cuda
    np.testing.assert_allclose(y.cpu().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_calls_do_not_wait_and_streams_are_kept_apart():
    model = MODELS["attention, any length"]
    executable = relax.build(model.module(), target="cuda")
    main = relax.VirtualMachine(executable, DEVICE)["main"]
    streams = [DEVICE.create_raw_stream() for _ in range(2)]
    cases = model.cases(np.random.default_rng(3))
    given = [tilesmith.nd.array(inputs[0], DEVICE) for inputs, _ in cases]
    DEVICE.sync()
    results = []
    try:
        for _ in range(20):
            for stream, ids in zip(streams, given):
                DEVICE.set_raw_stream(stream)
                results.append(main(ids))
        DEVICE.sync()
    finally:
        DEVICE.set_raw_stream(None)
    for number, (made, _) in enumerate(results):
        wanted = cases[number % 2][1][0]
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-4, atol=1e-4)
    results.clear()
    for stream in streams:
        DEVICE.free_raw_stream(stream)


@pytest.mark.parametrize("name", ["perceptron, any batch", "convolutions", "registered functions"])
def test_kernels_are_measured(name):
    model = MODELS[name]
    inputs, _ = model.cases(np.random.default_rng(0))[0]
    report = tilesmith.inspect.profile(
        relax.build(model.module(), "cuda"), inputs, devices=[DEVICE]
    )
    rows = report.calls
    assert all(0 <= row["Duration (us)"].microseconds < 1e5 for row in rows)
    assert any(row["Duration (us)"].microseconds > 0 for row in rows)
    assert {row["Device"] for row in rows} == {"cuda(0)"} and "Board" in report.configuration
    (whole,) = report.device_metrics["cuda(0)"].values()
    alone = report.configuration["Kernels alone (us)"].microseconds
    assert 0 < alone < 1.5 * whole.microseconds


def test_a_large_kernel_is_measured_as_time_evaluator_does():
    x = relax.Var("x", relax.TensorStructInfo((1 << 24,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.exp(x))
        builder.emit_func_output(y)
    executable = relax.build(builder.get(), "cuda")
    there = tilesmith.nd.array(np.zeros(1 << 24, "float32"), DEVICE)
    (row,) = executable.profile(there).calls
    seconds = executable.time_evaluator("main", DEVICE, number=20, repeat=3)(there).median
    assert row["Duration (us)"].microseconds == pytest.approx(seconds * 1e6, rel=0.3)
    assert row["Duration (us)"].microseconds > 0.9 * row["Bound (us)"].microseconds


def test_graph_executor_and_machine_of_relay():
    x, w = relay.var("x", shape=(4, 12)), relay.var("w", shape=(9, 12))
    module = tilesmith.IRModule.from_expr(
        relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    )
    random = np.random.default_rng(0)
    data, weight = (random.standard_normal(s).astype("float32") for s in ((4, 12), (9, 12)))
    expected = np.maximum(data @ weight.T, 0)
    library = relay.build(module, "cuda", params={"w": weight})
    executor = graph_executor.GraphModule(library["default"](DEVICE))
    executor.set_input("x", data)
    executor.run()
    assert executor.get_output(0).device == DEVICE
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert executor.benchmark(DEVICE, number=3, repeat=2).mean > 0
    compiled = relay.vm.compile(module, "cuda", params={"w": weight})
    found = tilesmith.runtime.vm.VirtualMachine(compiled, DEVICE).run(data)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_time_is_that_of_the_device():
    model = MODELS["convolutions"]
    executable = relax.build(model.module(), target="cuda")
    ((inputs, _),) = model.cases(np.random.default_rng(0))
    machine = relax.VirtualMachine(executable, DEVICE)
    x = tilesmith.nd.array(inputs[0], DEVICE)
    found = machine.time_evaluator("main", DEVICE, number=20, repeat=2)(x)
    print(f"\nconvolutions: {found.median * 1e6:.1f} us a call on {DEVICE.device_name}")
    assert 0 < found.median < 0.1


def test_graph_of_launches():
    x, w = relay.var("x", shape=(4, 12)), relay.var("w", shape=(9, 12))
    module = tilesmith.IRModule.from_expr(
        relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w)))
    )
    random = np.random.default_rng(0)
    weight = random.standard_normal((9, 12)).astype("float32")
    library = relay.build(module, "cuda", params={"w": weight})
    executor = cuda_graph_executor.GraphModuleCudaGraph(library["default"](DEVICE))
    for _ in range(3):
        data = random.standard_normal((4, 12)).astype("float32")
        executor.run(x=data)
        powers = np.exp(data @ weight.T)
        expected = powers / powers.sum(-1, keepdims=True)
        np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("sizes", [(1024, 1024, 1024), (777, 333, 1025)])
def test_large_products(sizes):
    m, k, n = sizes
    x, w = relay.var("x", shape=(m, k)), relay.var("w", shape=(n, k))
    module = tilesmith.IRModule.from_expr(
        relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    )
    random = np.random.default_rng(0)
    data, weight = (random.standard_normal(s).astype("float32") for s in ((m, k), (n, k)))
    executor = graph_executor.GraphModule(relay.build(module, "cuda")["default"](DEVICE))
    executor.set_input(x=data, w=weight)
    executor.run()
    expected = np.maximum(data @ weight.T, 0)
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-3, atol=1e-3)
    seconds = executor.benchmark(DEVICE, number=10, repeat=3).median
    print(f"\ndense {sizes}: {2 * m * n * k / seconds / 1e12:.2f} TFLOP/s")
