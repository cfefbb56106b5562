"""Compares the doors on one network: ResNet-18 built with relay's functions, and imported to relax.

    python -m benchmarks.run relay                 # the table
    python -m benchmarks.relay relay --threads 2   # one compilation in this process, as JSON

The network and its weights are those of `benchmarks.models`: each node of the ONNX graph becomes a
call of relay's operator, so that both doors compile the same computation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.models import build_model, model_inputs
from tilesmith.inspect.timing import Timing, interleave, pause_for

DOORS = ("relay", "relax")


def relay_network(model: onnx.ModelProto) -> tuple[Any, dict[str, np.ndarray]]:
    """Return relay's module of an ONNX graph of a residual network, and its parameters."""
    from tilesmith import relay
    from tilesmith.ir import IRModule

    nn = relay.nn
    rules: dict[str, Callable[..., Any]] = {
        "Conv": lambda x, w, **given: nn.conv2d(
            x, w, strides=given["strides"], padding=given["pads"], groups=given["group"],
            kernel_size=given["kernel_shape"]),
        "BatchNormalization": lambda *args, epsilon=1e-5: nn.batch_norm(*args, epsilon=epsilon)[0],
        "Relu": nn.relu,
        "Add": relay.add,
        "MaxPool": lambda x, **given: nn.max_pool2d(
            x, given["kernel_shape"], given["strides"], padding=given["pads"]),
        "GlobalAveragePool": nn.global_avg_pool2d,
        "Flatten": lambda x, **given: nn.batch_flatten(x),
        "Gemm": lambda x, w, b, **given: nn.bias_add(nn.dense(x, w), b),
    }  # fmt: skip
    params = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    values = {name: relay.var(name, shape=value.shape) for name, value in params.items()}
    inputs = [one for one in model.graph.input if one.name not in params]
    for one in inputs:
        sizes = [size.dim_value for size in one.type.tensor_type.shape.dim]
        values[one.name] = relay.var(one.name, shape=sizes)
    places = [values[name] for name in [*[one.name for one in inputs], *params]]
    for node in model.graph.node:
        given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        operands = [values[name] for name in node.input]
        values[node.output[0]] = rules[node.op_type](*operands, **given)
    result = values[model.graph.output[0].name]
    return IRModule.from_expr(relay.Function(places, result)), params


def build(model: onnx.ModelProto, door: str, threads: int, executor: str = "graph") -> Any:
    """Compile the network through a door."""
    import tilesmith

    target = f"llvm -num-cores={threads}"
    if door == "relax":
        return tilesmith.compile(model, target=target)
    from tilesmith import relay

    module, params = relay_network(model)
    with tilesmith.transform.PassContext(opt_level=3):
        if executor == "vm":
            return relay.vm.compile(module, target, params=params)
        chosen = relay.backend.Executor(executor)
        return relay.build(module, target, params=params, executor=chosen)


def compile_times(network: str, threads: int) -> dict[str, dict[str, Any]]:
    """Return the seconds to compile through each door, without caches and with filled ones; each
    time in a new process.
    """
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for door in DOORS:
            cache = Path(folder) / door
            environment = os.environ | {"TILESMITH_CACHE_DIR": str(cache), "TILESMITH_CACHE": "1"}
            command = [sys.executable, "-m", "benchmarks.relay", door, "--network", network,
                       "--threads", str(threads)]  # fmt: skip
            for state in ("cold", "warm"):
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                if done.returncode != 0:
                    raise click.ClickException(f"{door} failed:\n{done.stderr[-2000:]}")
                found.setdefault(door, {})[state] = json.loads(done.stdout.splitlines()[-1])
    return found


def runs(network: str, threads: int) -> dict[str, Callable[[], Any]]:
    """Return functions that run the network once: relax's door and all executors of relay."""
    import tilesmith
    from tilesmith.contrib import graph_executor
    from tilesmith.contrib.aot_executor import AotModule
    from tilesmith.runtime.vm import VirtualMachine

    tilesmith.set_num_threads(threads)
    model = build_model(network)
    ((name, value),) = model_inputs(network).items()
    image = tilesmith.nd.array(value)
    executable = build(model, "relax", threads)
    library = build(model, "relay", threads)
    through_relay = library.get_lib()
    graph = graph_executor.GraphModule(library["default"](tilesmith.cpu()))
    aot = AotModule(build(model, "relay", threads, "aot")["default"](tilesmith.cpu()))
    machine = VirtualMachine(build(model, "relay", threads, "vm"), tilesmith.cpu())
    for module in (graph, aot):
        module.set_input(name, image)
        module.run()
    machine.set_input("main", image)
    expected = executable(image).numpy()
    results = [through_relay(image), graph.get_output(0), aot.get_output(0), machine.run()]
    for found in results:
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3, atol=1e-3)
    return {
        "relax": lambda: executable(image),
        "relay": lambda: through_relay(image),
        "graph": graph.run,
        "aot": aot.run,
        "vm": machine.run,
    }


def latencies(network: str, threads: int, rounds: int) -> dict[str, Timing]:
    """Return the latencies, measured in turns."""
    return interleave(runs(network, threads), rounds, pause_seconds=pause_for(threads))


@click.command()
@click.argument("door", type=click.Choice(DOORS))
@click.option("--network", default="resnet18", show_default=True)
@click.option("--threads", default=1, show_default=True)
def main(door: str, network: str, threads: int) -> None:
    """Compile the network through DOOR once, and print the seconds."""
    model = build_model(network)
    start = time.perf_counter()
    import tilesmith

    # Resolving the names imports what they need.
    _ = (tilesmith.compile, tilesmith.transform.PassContext)
    if door == "relay":
        from tilesmith import relay

        _ = relay.build
    imported = time.perf_counter()
    build(model, door, threads)
    compiled = time.perf_counter()
    click.echo(json.dumps({"import": imported - start, "compile": compiled - imported}))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.relay")
