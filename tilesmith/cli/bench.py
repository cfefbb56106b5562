"""`tilesmith bench`: measures the latency of a model, and onnxruntime's if that is installed."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from tilesmith.cli.console import table_console
from tilesmith.cli.options import (
    InputShapes,
    compile_options,
    existing_file,
    input_shape_option,
    json_option,
    precision_options,
    print_json,
    shapes,
    target_option,
)

_PERCENTILES = (50, 90, 99)


@click.command("bench")
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.onnx")
@click.option("--threads", type=click.IntRange(min=1), help="Default: all CPUs of this process.")
@click.option("--rounds", type=click.IntRange(min=2), default=20, show_default=True)
@click.option(
    "--batch", "batches", type=click.IntRange(min=0), multiple=True,
    help="Size of symbolic first axes; repeatable, to compare sizes. Default: 1.",
)  # fmt: skip
@target_option
@input_shape_option
@precision_options
@json_option
def bench_command(
    model: Path,
    threads: int | None,
    rounds: int,
    batches: tuple[int, ...],
    target: str,
    input_shapes: InputShapes,
    as_json: bool,
    **given_precision: Any,
) -> None:
    """Measure the latency of MODEL.onnx (or MODEL.tsm) on random inputs.

    Where onnxruntime is installed it runs the same model on the same threads, in turns, and the
    largest difference between the outputs is printed as well.
    """
    from tilesmith.cli.arrays import InputInfo, chosen_sizes, describe_inputs, model_inputs
    from tilesmith.driver import compile as compile_model
    from tilesmith.runtime import executable as executables
    from tilesmith.runtime.threads import num_threads, set_num_threads
    from tilesmith.support.errors import ConfigError
    from tilesmith.support.progress import status
    from tilesmith.target import Target

    existing_file(model, "a model")
    is_artifact = model.suffix == ".tsm"
    if is_artifact and input_shapes:
        raise ConfigError("--input-shape is for models; a compiled model has its sizes")
    if is_artifact and given_precision["precision"]:
        raise ConfigError("--precision is for models; a compiled model has its precision")
    low = compile_options(**given_precision)
    chosen = Target(target)
    if threads is not None:
        set_num_threads(threads)
    given = shapes(input_shapes) or {}
    loaded = executables.load(str(model)) if is_artifact else None
    inputs = model_inputs(model) if loaded is None else describe_inputs(loaded)
    inputs = [InputInfo(one.name, one.dtype, given.get(one.name, one.shape)) for one in inputs]
    if batches and not chosen_sizes(inputs)[1]:
        raise ConfigError("--batch: no input has a symbolic size", notes=("leave --batch out",))
    results = []
    for batch in batches or (None,):
        filled, opened = chosen_sizes(inputs, batch)
        start = time.perf_counter()
        executable = loaded
        if executable is None:
            sizes: dict[str, Any] = {one.name: one.shape for one in filled}
            with status(f"compiling {model.name}"):
                executable = compile_model(
                    str(model), target=chosen, input_shapes={**sizes, **given}, **low
                )
        seconds = time.perf_counter() - start
        filled = chosen_sizes(describe_inputs(executable), batch)[0]
        measured = _measure(executable, filled, None if is_artifact else model, rounds)
        results.append({"sizes": opened, "compile_seconds": seconds, **measured})
    record = {"model": str(model), "threads": num_threads(), "results": results}
    if as_json:
        print_json(record)
    else:
        _print(record, asked=bool(batches))


def _tilesmith(executable: Any, arrays: Sequence[Any]) -> Callable[[], Any]:
    """Return a call of the model; on a device its inputs are there, and it waits for the end."""
    from tilesmith.runtime.devices import Device
    from tilesmith.runtime.ndarray import array

    if executable.device_type == "cpu":
        return lambda: executable(*arrays)
    device = Device(executable.device_type)
    given = [array(one, device) for one in arrays]

    def run() -> None:
        executable(*given)
        device.sync()

    return run


def _measure(
    executable: Any, inputs: Sequence[Any], model: Path | None, rounds: int
) -> dict[str, Any]:
    """Time the executable and, where onnxruntime can run the model, both in turns."""
    from tilesmith.cli.arrays import as_arrays, random_inputs
    from tilesmith.inspect.timing import interleave, pause_for, ratio
    from tilesmith.runtime.threads import num_threads
    from tilesmith.support.progress import progress

    arrays = list(random_inputs(inputs).values())
    contestants: dict[str, Callable[[], Any]] = {"tilesmith": _tilesmith(executable, arrays)}
    ours = as_arrays(executable(*arrays))
    found: dict[str, Any] = {}
    if model is not None and importlib.util.find_spec("onnxruntime") is not None:
        try:
            run = _onnxruntime(model, num_threads(), arrays)
            found["largest_difference"] = _largest_difference(ours, run())
            contestants["onnxruntime"] = run
        except Exception as error:  # whatever a rival raises must not end the measurement
            found["onnxruntime_cannot"] = " ".join(str(error).split()) or type(error).__name__
    with progress("timing") as report:
        timings = interleave(
            contestants,
            rounds,
            progress=lambda done, all: report(done, all),
            each_call=True,
            pause_seconds=pause_for(num_threads() if len(contestants) > 1 else 1),
        )
    found["latency"] = {
        name: {
            **timing.as_json(),
            **{f"p{p}_ms": timing.percentile(p) * 1e3 for p in _PERCENTILES},
            "calls": len(timing.calls),
        }
        for name, timing in timings.items()
    }
    if "onnxruntime" in timings:
        times = ratio(timings["onnxruntime"], timings["tilesmith"])
        found["times_as_fast_as_onnxruntime"] = times
    return found


def _onnxruntime(model: Path, threads: int, arrays: Sequence[Any]) -> Callable[[], Any]:
    """Return a function that runs the model with onnxruntime on the arrays."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what it raises is shown, so nothing has to be logged
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    feed = dict(zip(names, arrays, strict=True))
    return lambda: session.run(None, feed)


def _largest_difference(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    """Return max |a - b| over all outputs."""
    import numpy as np

    return max(
        float(np.abs(a.astype("float64") - b.astype("float64")).max(initial=0.0))
        for a, b in zip(ours, theirs, strict=True)
    )


def _print(record: dict[str, Any], asked: bool) -> None:
    from rich.table import Table

    from tilesmith.inspect.timing import format_seconds
    from tilesmith.support.packages import install_command

    console = table_console()
    for result in record["results"]:
        opened = ", ".join([f"{name} = {size}" for name, size in result["sizes"].items()])
        if opened and not asked:
            opened += " (chosen; others with --batch or --input-shape)"
        title = f"latency of {record['model']}, {record['threads']} threads, in turns"
        click.echo(f"{title}: {opened}" if opened else title)
        table = Table("")
        for percent in _PERCENTILES:
            table.add_column(f"p{percent}", justify="right")
        for name, figures in result["latency"].items():
            times = [figures[f"p{percent}_ms"] / 1e3 for percent in _PERCENTILES]
            table.add_row(name, *[format_seconds(seconds) for seconds in times])
        console.print(table)
        if "onnxruntime_cannot" in result:
            click.echo(f"onnxruntime cannot run this model: {result['onnxruntime_cannot']}")
        elif "onnxruntime" in result["latency"]:
            click.echo(
                f"{result['times_as_fast_as_onnxruntime']:.2f} times as fast as onnxruntime; "
                f"largest difference between the outputs: {result['largest_difference']:.1e}"
            )
        elif importlib.util.find_spec("onnxruntime") is None:
            click.echo(f"to compare with onnxruntime: {install_command('onnxruntime')}")
