"""Models with tensors on several devices of a type: on PoCL, and on a CUDA driver of our own."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilesmith
from tests.runtime.fake_cuda import FakeDriver
from tilesmith import relax, relay
from tilesmith.runtime.cuda import driver
from tilesmith.runtime.device_code import launch_count
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import TargetError, UnsupportedError
from tilesmith.testing import requires_c_compiler

needs_device = pytest.mark.skipif(
    not tilesmith.opencl(0).exist, reason="there is no OpenCL device here"
)


@needs_device
def test_several_devices_of_a_type():
    """PoCL has several devices where it is told so when it is loaded: in another process."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.driver.on_two_devices"],
        env={**os.environ, "POCL_DEVICES": "pthread pthread"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    if "there is no opencl(1)" in run.stderr:
        pytest.skip("only PoCL can be told to have several devices")
    assert run.stdout == "all right\n", run.stderr


@I.ir_module
class Mixed:
    I.module_global_infos({"vdevice": [I.vdevice("opencl", 0), I.vdevice("opencl", 3)]})

    @R.function
    def main(x: R.Tensor((4,), "float32", "opencl:0"), y: R.Tensor((4,), "float32", "opencl:1")):
        with R.dataflow():
            z = R.add(x, y)
            R.output(z)
        return z

    @R.function
    def other(y: R.Tensor((4,), "float32", "opencl:1")):
        R.func_attr({"global_symbol": "other"})
        with R.dataflow():
            z = R.exp(y)
            R.output(z)
        return z


def test_tensors_of_two_devices_are_not_mixed():
    with pytest.raises(UnsupportedError, match="tensors on several devices, number 0, 3") as caught:
        relax.build(Mixed, target="opencl")
    assert "R.to_vdevice" in str(caught.value)


def test_functions_on_different_devices():
    module = Mixed.clone()
    x = relax.Var("x", module["main"].params[0].struct_info)
    module["main"] = relax.Function([x], relax.SeqExpr([], x), attrs={"global_symbol": "main"})
    metadata = relax.build(module, target="opencl").metadata
    assert metadata["device_numbers"] == [0, 3] and not metadata["programs"]
    places = {name: one.get("device", 0) for name, one in metadata["functions"].items()}
    assert places == {"main": 0, "other": 1}


def test_places_of_relay_that_are_refused():
    x = relay.var("x", shape=(4,))
    there = relay.annotation.on_device(relay.exp(x), tilesmith.cuda(0))
    with pytest.raises(
        UnsupportedError, match="a value is on cuda:0, and the program is built for"
    ):
        relay.build(relay.Function([x], relay.tanh(there)), "opencl")
    with pytest.raises(UnsupportedError, match="devices of one type, and on the host, got"):
        relay.build(relay.Function([x], x), ["cuda", "opencl"])


@I.ir_module
class TwoGpus:
    I.module_global_infos({"vdevice": [I.vdevice("nvptx", 0), I.vdevice("nvptx", 1)]})

    @R.function
    def main(x: R.Tensor((4,), "float32", "nvptx:0")):
        with R.dataflow():
            y = R.exp(R.to_vdevice(R.sin(x), "nvptx:1"))
            R.output(y)
        return y


@requires_c_compiler
def test_two_gpus(monkeypatch):
    fake = FakeDriver()
    monkeypatch.setenv("TILESMITH_CUDA_DRIVER", str(fake.path))
    gc.collect()
    driver.unload()
    fake.reset()
    first, second = tilesmith.cuda(0), tilesmith.cuda(1)
    executable = relax.build(TwoGpus, target="nvptx")
    run = relax.VirtualMachine(executable, [first, second])["main"]
    there = tilesmith.nd.array(np.zeros(4, "float32"), first)
    counts = [launch_count("cuda", number) for number in (0, 1)]
    assert run(there).device == second
    assert [launch_count("cuda", number) for number in (0, 1)] == [one + 1 for one in counts]
    assert fake.take_calls().count("cuModuleLoadDataEx") == 2  # once for each device
    before = len(fake.take_order())
    run(there)
    words = [line.split()[1] for line in fake.take_order()[before:]]
    # the copy waits for what may use its memory on the second one, and is waited for there
    assert words == ["launch", "record", "wait", "copy", "record", "wait", "launch"]
    with pytest.raises(TargetError, match="runs on 2 devices of type 'cuda'"):
        relax.VirtualMachine(executable, first)
    del executable, run, there
    gc.collect()
    driver.unload()
