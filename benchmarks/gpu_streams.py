"""What several streams gain a model with independent branches on a device.

python -m benchmarks.gpu_streams                     # a table, and benchmarks/out/gpu_streams.json
python -m benchmarks.gpu_streams --kind opencl       # without CUDA graphs

A model of four branches of products, whose sum is the result, is built for one stream, for two and
for four. All are called in turns, from Python and (on CUDA) as a recorded graph, and compared with
numpy. Small products leave most of the GPU idle: there streams can gain; large ones fill it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

import tilesmith as ts
from benchmarks.report import save, show
from tilesmith import relax
from tilesmith.inspect.timing import Timing, interleave, ratio
from tilesmith.ir.transform import PassContext
from tilesmith.relax import op
from tilesmith.runtime.cuda import graph_of
from tilesmith.runtime.device_models import model_on

BRANCHES, DEPTH = 4, 6
SIZES = (128, 256, 512, 1024)
STREAMS = (1, 2, 4)
CALLS = 10
"""Calls before the device is waited for."""
TOLERANCE = 1e-3


def branches(size: int) -> ts.IRModule:
    """Return a model of independent branches: each multiplies by a matrix of its own again and
    again.
    """
    info = relax.TensorStructInfo((size, size), "float32")
    x, *weights = [relax.Var(name, info) for name in ("x", *[f"w{n}" for n in range(BRANCHES)])]
    builder = relax.BlockBuilder()
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            total = None
            for weight in weights:
                value = x
                for _ in range(DEPTH):
                    value = builder.emit(op.tanh(builder.emit(op.matmul(value, weight))))
                total = value if total is None else builder.emit(op.add(total, value))
            result = builder.emit_output(op.abs(total))
        builder.emit_func_output(result)
    return builder.get()


def expected(arrays: list[np.ndarray]) -> np.ndarray:
    """Return what the model computes, in float64."""
    x, *weights = [array.astype("float64") for array in arrays]
    total = np.zeros_like(x)
    for weight in weights:
        value = x
        for _ in range(DEPTH):
            value = np.tanh(value @ weight)
        total += value
    return np.abs(total)


def target_of(device: ts.runtime.Device) -> str:
    """Return the target of a device."""
    if device.type != "cuda":
        return str(device.type)
    return f"cuda -arch=sm_{str(device.compute_version).replace('.', '')}"


def contestants(
    size: int, device: ts.runtime.Device, errors: dict[str, float]
) -> dict[str, Callable[[], None]]:
    """Return the calls that are timed; ``errors`` gets their largest errors."""
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((size, size), dtype="float32") for _ in range(1 + BRANCHES)]
    arrays[1:] = [array / size**0.5 for array in arrays[1:]]
    wanted = expected(arrays)
    tensors = [ts.nd.array(array, device) for array in arrays]
    found: dict[str, Callable[[], None]] = {}

    def add(name: str, call: Callable[[], Any], result: Any) -> None:
        call()
        device.sync()
        errors[name] = float(np.abs(result.numpy() - wanted).max())

        def run() -> None:
            for _ in range(CALLS):
                call()
            device.sync()

        found[name] = run

    for count in STREAMS:
        with PassContext(config={"relax.device_streams": count}):
            model = relax.build(branches(size), target=target_of(device))
        bound = model_on(model, [device])["main"].bound(*tensors)
        name = f"{count} stream{'s' * (count > 1)}"
        add(name, bound, bound.results[0])
        if device.type == "cuda":
            replayed = model_on(model, [device])["main"].bound(*tensors)
            graph = graph_of(lambda *_, call=replayed: call(), *replayed.tensors)
            add(f"{name}, graph", graph.launch, replayed.results[0])
    return found


def measure(size: int, device: ts.runtime.Device, rounds: int) -> dict[str, Any]:
    """Return times and errors of one size, and how many times as fast several streams are."""
    errors: dict[str, float] = {}
    timings = interleave(contestants(size, device, errors), rounds)
    each = {
        name: Timing(name, tuple([sample / CALLS for sample in timing.samples]))
        for name, timing in timings.items()
    }
    gains = {}
    for name in each:
        base = "1 stream, graph" if name.endswith("graph") else "1 stream"
        if name != base:
            gains[name] = ratio(each[base], each[name])
    failures = {name: f"error {error:.1e}" for name, error in errors.items()
                if not error < TOLERANCE}  # fmt: skip
    return {
        "latency": {name: timing.as_json() for name, timing in each.items()},
        "times_as_fast": gains,
        "errors": errors,
        "failures": failures,
    }


@click.command()
@click.option("--kind", type=click.Choice(["cuda", "opencl"]), default="cuda")
@click.option("--size", "sizes", multiple=True, type=int, help="Of the matrices; repeatable.")
@click.option("--rounds", default=15, help="Samples of each contestant.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="File for the figures.")
def main(kind: str, sizes: tuple[int, ...], rounds: int, path: Path | None) -> None:
    """Measure models of independent branches on one stream and on several."""
    device = ts.device(kind, 0)
    if not device.exist:
        raise click.ClickException(f"there is no device of type '{kind}' here")
    records = {}
    for size in sizes or SIZES:
        records[str(size)] = one = measure(size, device, rounds)
        rows = [
            [name, f"{figures['median_ms']:.4f}", f"{one['times_as_fast'].get(name, 1.0):.2f}",
             f"{one['errors'][name]:.0e}"]
            for name, figures in one["latency"].items()
        ]  # fmt: skip
        title = f"{BRANCHES} branches of {DEPTH} products of {size} x {size}, {device.device_name}"
        show(title, ["", "ms a call", "times as fast", "error"], rows)
    save(
        "gpu_streams", records, path, device=str(device.device_name), branches=BRANCHES, depth=DEPTH
    )
    failed = [f"{size}, {name}: {text}" for size, one in records.items()
              for name, text in one["failures"].items()]  # fmt: skip
    if failed:
        raise click.ClickException("wrong results: " + "; ".join(failed))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.gpu_streams")
