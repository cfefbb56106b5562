"""Runs models on two OpenCL devices, in a process of its own: PoCL reads how many it has to offer
when it is loaded (`POCL_DEVICES="pthread pthread"`).

    python -m tests.driver.on_two_devices
"""

import random
import sys
import tempfile
from pathlib import Path

import numpy as np

import tilesmith
from tilesmith import relax, relay
from tilesmith.contrib import graph_executor
from tilesmith.ir import VDevice
from tilesmith.ir.transform import PassContext
from tilesmith.relax import op
from tilesmith.runtime.device_code import launch_count
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import TargetError
from tilesmith.target import Target

FIRST, SECOND = tilesmith.opencl(0), tilesmith.opencl(1)


@I.ir_module
class ThreePlaces:
    I.module_global_infos({
        "vdevice": [I.vdevice("llvm"), I.vdevice("opencl", 0), I.vdevice("opencl", 1)]
    })  # fmt: skip

    @R.function
    def main(
        x: R.Tensor((4, 8), "float32", "opencl:0"), w: R.Tensor((8, 5), "float32", "opencl:1")
    ):
        with R.dataflow():
            a = R.multiply(R.add(x, x), R.const(3.0, "float32"))
            b = R.to_vdevice(a, "opencl:1")
            c = R.nn.relu(R.matmul(b, w))
            d = R.multiply(R.to_vdevice(c, "opencl:0"), R.const(0.5, "float32"))
            e = R.exp(R.to_vdevice(d, "llvm:0"))
            R.output(c, d, e)
        return (c, d, e)


def close(found, place, expected):
    """Check a result and where it is."""
    assert found.device == place, (found.device, place)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def check_three(function, x, w, devices=(FIRST, SECOND)):
    """Call `main` of ThreePlaces, and check what it gives."""
    expected = np.maximum(6 * x @ w, 0)
    there = tilesmith.nd.array(x, devices[0]), tilesmith.nd.array(w, devices[1])
    c, d, e = function(*there)
    close(c, devices[1], expected)
    close(d, devices[0], expected * 0.5)
    close(e, tilesmith.cpu(), np.exp(expected * 0.5))


def three_places():
    """A model on two devices and the host: calls, artifacts, devices in another order, refusals."""
    executable = relax.build(ThreePlaces, target="opencl")
    assert executable.metadata["device_numbers"] == [0, 1]
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (4, 8)).astype("float32")
    w = np.random.default_rng(1).uniform(-0.5, 0.5, (8, 5)).astype("float32")
    counts = [launch_count("opencl", number) for number in (0, 1)]
    check_three(executable["main"], x, w)
    assert launch_count("opencl", 0) > counts[0] and launch_count("opencl", 1) > counts[1]
    with tempfile.TemporaryDirectory() as folder:
        executable.export_library(Path(folder) / "model.so")
        loaded = tilesmith.runtime.load_module(Path(folder) / "model.so")
    machine = relax.VirtualMachine(loaded, [tilesmith.cpu(), FIRST, SECOND])
    check_three(machine["main"], x, w)
    turned = relax.VirtualMachine(executable, [SECOND, FIRST])
    check_three(turned["main"], x, w, (SECOND, FIRST))
    machine.set_input("main", x, w)
    machine.invoke_stateful("main")
    close(machine.get_outputs("main")[0], SECOND, np.maximum(6 * x @ w, 0))
    refused(lambda: relax.VirtualMachine(executable, FIRST), "runs on 2 devices of type 'opencl'")
    profiled(executable.profile(*[tilesmith.nd.array(x, FIRST), tilesmith.nd.array(w, SECOND)]))
    there = tilesmith.nd.array(x, FIRST), tilesmith.nd.array(w, FIRST)
    refused(lambda: machine["main"](*there), "input 'w' of 'main' must be on opencl(1)")


def profiled(report):
    """Check the table of ThreePlaces: its kernels, and the copies between them."""
    rows = {row["Name"]: row for row in report.calls}
    places = {name: row["Device"] for name, row in rows.items()}
    assert places == {
        "fused_add_multiply": "opencl(0)", "copy opencl(0) to opencl(1)": "opencl(1)",
        "fused_matmul_relu": "opencl(1)", "copy opencl(1) to opencl(0)": "opencl(0)",
        "multiply1": "opencl(0)", "copy opencl(0) to cpu(0)": "cpu(0)", "exp": "cpu(0)",
    }, places  # fmt: skip
    assert all(row["Count"].count == 1 for row in rows.values())
    assert rows["copy opencl(0) to opencl(1)"]["Bytes"].count == 2 * 4 * 4 * 8
    assert list(report.device_metrics) == ["opencl(0), opencl(1)"]


def refused(call, text):
    """Check that a call raises TargetError with a text."""
    try:
        call()
    except TargetError as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)


def random_model(seed):
    """Matrices that go from one device to the other now and then, on two streams of each."""
    draw = random.Random(seed)
    devices = [VDevice(Target("opencl"), number) for number in (0, 1)]
    params = [
        relax.Var(name, relax.TensorStructInfo((5, 5), "float32", devices[number]))
        for number, name in enumerate("xy")
    ]
    given = [np.random.default_rng(seed + k).uniform(-1, 1, (5, 5)).astype("f4") for k in (0, 9)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            values = [[(params[0], given[0])], [(params[1], given[1])]]
            for _ in range(10):
                place = draw.randrange(2)
                if draw.random() < 0.4:
                    one, array = draw.choice(values[1 - place])
                    values[place].append((builder.emit(op.to_vdevice(one, devices[place])), array))
                    continue
                (one, first), (two, second) = [draw.choice(values[place][-3:]) for _ in range(2)]
                made = builder.emit(op.tanh(builder.emit(op.matmul(one, two))))
                values[place].append((made, np.tanh(first @ second)))
            results = [(place, *values[place][-1]) for place in (0, 1)]
            outputs = [builder.emit_output(op.abs(one)) for _, one, _ in results]
        builder.emit_func_output(relax.Tuple(outputs))
    module = builder.get()
    module.update_global_info("vdevice", devices)
    with PassContext(config={"relax.device_streams": 2}):
        executable = relax.build(module, target="opencl")
    for found, (place, _, wanted) in zip(executable["main"](*given), results):
        close(found, (FIRST, SECOND)[place], np.abs(wanted))


def relay_program():
    """A program of relay with annotations: its parts are on both devices and on the host."""
    a, b = (relay.var(name, shape=(4, 4)) for name in "ab")
    on = relay.annotation.on_device
    product = on(relay.nn.dense(on(relay.add(a, a), FIRST), b), SECOND)
    program = relay.Function([a, b], relay.tanh(on(relay.exp(product), tilesmith.cpu())))
    library = relay.build(program, {"cpu": "llvm", "opencl": "opencl"})
    functions = library.module.metadata["functions"].values()
    assert [(one.get("on_host", False), one.get("device", 0)) for one in functions] == [
        (False, 0), (False, 1), (True, 0), (False, 0),
    ]  # fmt: skip
    executor = graph_executor.GraphModule(library["default"](tilesmith.cpu(), FIRST, SECOND))
    first, second = np.random.default_rng(3).uniform(-1, 1, (2, 4, 4)).astype("float32")
    executor.run(a=first, b=second)
    close(executor.get_output(0), FIRST, np.tanh(np.exp(2 * first @ second.T)))


if __name__ == "__main__":
    three_places()
    relay_program()
    for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 2):
        random_model(number)
    print("all right")
