"""Whole models run on a device: PoCL, OpenCL on the CPU."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilesmith
from tests.gpu.models import MODELS
from tilesmith import relax
from tilesmith.driver.memory_plan import Storage, plan_slots
from tilesmith.ir import Var, const
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import ShapeError, TargetError, TypeMismatchError, UnsupportedError

DEVICE = tilesmith.opencl(0)
needs_device = pytest.mark.skipif(not DEVICE.exist, reason="there is no OpenCL device here")


@needs_device
@pytest.mark.parametrize("name", [name for name, one in MODELS.items() if "opencl" in one.kinds])
def test_model(name):
    model = MODELS[name]
    executable = relax.build(model.module(), target="opencl")
    assert bool(executable.metadata["programs"]) == model.runs_by_steps
    model.check(relax.VirtualMachine(executable, DEVICE)["main"], DEVICE)


@pytest.fixture(scope="module")
def perceptron():
    return relax.build(MODELS["perceptron"].module(), target="opencl")


def _case():
    ((inputs, (expected,)),) = MODELS["perceptron"].cases(np.random.default_rng(1))
    return inputs[0], expected


def _close(found, expected):
    assert found.device == DEVICE
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


@needs_device
@pytest.mark.parametrize("suffix", ["so", "tsm"])
def test_artifact(perceptron, suffix, tmp_path):
    perceptron.export_library(tmp_path / f"model.{suffix}")
    loaded = tilesmith.runtime.load_module(tmp_path / f"model.{suffix}")
    MODELS["perceptron"].check(relax.VirtualMachine(loaded, DEVICE)["main"], DEVICE)


@needs_device
def test_inputs_on_the_host(perceptron):
    x, expected = _case()
    _close(perceptron(x), expected)
    _close(perceptron(x=tilesmith.nd.array(x)), expected)
    machine = relax.VirtualMachine(perceptron, DEVICE)
    with pytest.raises(TargetError, match=r"input 'x' of 'main' must be on opencl\(0\)"):
        machine["main"](x)
    machine.set_input("main", x)
    machine.invoke_stateful("main")
    _close(machine.get_outputs("main"), expected)


@needs_device
def test_measuring(perceptron):
    x, _ = _case()
    machine = relax.VirtualMachine(perceptron, [tilesmith.cpu(), DEVICE])
    there = tilesmith.nd.array(x, DEVICE)
    assert machine.time_evaluator("main", DEVICE, number=2)(there).mean > 0
    assert machine.profile("main", there).calls[0]["Name"] == "main"
    with pytest.raises(UnsupportedError, match="cannot be observed"):
        machine.set_instrument(print)


@needs_device
def test_threads(perceptron):
    x, expected = _case()
    there = tilesmith.nd.array(x, DEVICE)
    main = relax.VirtualMachine(perceptron, DEVICE)["main"]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(main, [there] * 12):
            _close(found, expected)


def test_devices_of_another_type(perceptron):
    with pytest.raises(TargetError, match="built for devices of type 'opencl', it does not run"):
        relax.VirtualMachine(perceptron, tilesmith.cpu())
    for_cpu = relax.build(MODELS["registered functions"].module(), target="llvm")
    with pytest.raises(TargetError, match="built for the CPU, it does not run on opencl"):
        relax.VirtualMachine(for_cpu, tilesmith.opencl(0))


def test_wrong_inputs(perceptron):
    with pytest.raises(ShapeError, match="input 'x' of 'main': expected shape"):
        perceptron(np.zeros((5, 32), "float32"))
    with pytest.raises(TypeMismatchError, match="expected dtype 'float32'"):
        perceptron(np.zeros((5, 33)))


def test_what_is_for_hosts_only(perceptron):
    with pytest.raises(UnsupportedError, match="runs on devices of type 'opencl'"):
        perceptron.export_c("model.o")


def test_code_is_shown_without_a_device():
    executable = relax.build(MODELS["attention, any length"].module(), target="cuda -arch=sm_90")
    source = executable.get_source()
    assert source.count("__global__") >= 9
    assert "R.call_tir" in executable.get_source("script")
    assert executable.metadata["functions"]["main"]["slots"] == [None] * 8
    assert executable.metadata["device"] == "cuda"


# Memory


def test_slots_are_shared():
    main = relax.build(MODELS["convolutions"].module(), target="nvptx").metadata["functions"][
        "main"
    ]
    assert len(main["slots"]) == 2
    assert main["workspace_bytes"] == sum(main["slots"])


def _slots(*uses):
    """Return the slots of storages: each has a size, its first and its last step."""
    storages = [Storage.workspace(size if isinstance(size, Var) else const(size, "int64"))
                for size, _, _ in uses]  # fmt: skip
    steps = [
        [one for one, (_, first, last) in zip(storages, uses) if first <= step <= last]
        for step in range(1 + max([last for _, _, last in uses]))
    ]
    sizes = plan_slots(steps, lambda place: const(place, "int64"))
    return [one.pointer().value for one in storages], sizes


def test_a_slot_grows_for_a_larger_tensor():
    places, sizes = _slots((8, 0, 1), (64, 1, 2), (32, 2, 3), (128, 3, 4))
    assert places == [0, 1, 0, 1]
    assert [size.value for size in sizes] == [32, 128]


def test_symbolic_sizes_share_slots_with_equal_ones():
    n, m = Var("n", "int64"), Var("m", "int64")
    places, sizes = _slots((n, 0, 0), (m, 1, 1), (n, 2, 2), (4, 3, 3))
    assert places == [0, 1, 0, 2]
    assert sizes[0] is n and sizes[1] is m


# Tensors on the host beside those on the device


@I.ir_module
class TwoDevices:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("opencl", 0)]})

    @R.function
    def main(x: R.Tensor((4, 8), "float32", "llvm:0"), w: R.Tensor((8, 5), "float32", "opencl:0")):
        with R.dataflow():
            a = R.multiply(x, R.const(3.0, "float32"))
            b = R.to_vdevice(R.add(a, x), "opencl:0")
            c = R.nn.relu(R.matmul(b, w))
            d = R.exp(R.to_vdevice(c, "llvm:0"))
            R.output(c, d)
        return (c, d)


@needs_device
def test_two_devices(tmp_path):
    executable = relax.build(TwoDevices, target="opencl")
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype("float32") for shape in ((4, 8), (8, 5)))
    expected = np.maximum(4 * x @ w, 0)
    executable.export_library(tmp_path / "model.so")
    for model in (executable, tilesmith.runtime.load_module(tmp_path / "model.so")):
        machine = relax.VirtualMachine(model, [tilesmith.cpu(), DEVICE])
        c, d = machine["main"](tilesmith.nd.array(x), tilesmith.nd.array(w, DEVICE))
        _close(c, expected)
        assert d.device == tilesmith.cpu()
        np.testing.assert_allclose(d.numpy(), np.exp(expected), rtol=1e-4)
    with pytest.raises(TargetError, match=r"input 'x' of 'main' must be on cpu\(0\)"):
        machine["main"](tilesmith.nd.array(x, DEVICE), tilesmith.nd.array(w, DEVICE))


def test_more_devices_are_refused():
    with pytest.raises(UnsupportedError, match="'main' has a tensor on 'opencl'"):
        relax.build(TwoDevices, target="cuda")
