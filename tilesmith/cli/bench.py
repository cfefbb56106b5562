"""`tilesmith bench`: measures the latency of a model, and onnxruntime's if that is installed."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import click

from tilesmith.cli.options import (
    InputShapes,
    existing_file,
    input_shape_option,
    json_option,
    print_json,
    shapes,
    target_option,
)


@click.command("bench")
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.onnx")
@click.option("--threads", type=click.IntRange(min=1), help="Default: all CPUs of this process.")
@click.option("--rounds", type=click.IntRange(min=2), default=20, show_default=True)
@target_option
@input_shape_option
@json_option
def bench_command(
    model: Path,
    threads: int | None,
    rounds: int,
    target: str,
    input_shapes: InputShapes,
    as_json: bool,
) -> None:
    """Measure the latency of MODEL.onnx (or MODEL.tsm) on random inputs.

    Where onnxruntime is installed it runs the same model on the same threads, in turns, and the
    largest difference between the outputs is printed as well.
    """
    from tilesmith.cli.arrays import as_arrays, describe_inputs, random_inputs
    from tilesmith.driver import compile as compile_model
    from tilesmith.inspect.timing import interleave
    from tilesmith.runtime import executable as executables
    from tilesmith.runtime.threads import num_threads, set_num_threads
    from tilesmith.support.progress import progress, status
    from tilesmith.target import Target

    existing_file(model, "a model")
    is_artifact = model.suffix == ".tsm"
    chosen = Target(target)
    if threads is not None:
        set_num_threads(threads)
    threads = num_threads()
    start = time.perf_counter()
    with status(f"{'loading' if is_artifact else 'compiling'} {model.name}"):
        if is_artifact:
            executable = executables.load(str(model))
        else:
            executable = compile_model(str(model), target=chosen, input_shapes=shapes(input_shapes))
    seconds = time.perf_counter() - start
    feed = random_inputs(describe_inputs(executable))
    arrays = list(feed.values())
    contestants: dict[str, Any] = {"tilesmith": lambda: executable(*arrays)}
    record: dict[str, Any] = {"model": str(model), "threads": threads, "compile_seconds": seconds}
    rival = None if is_artifact else _onnxruntime(model, threads)
    if rival is not None:
        outputs = rival.run(None, feed)
        record["largest_difference"] = _largest_difference(as_arrays(executable(*arrays)), outputs)
        contestants["onnxruntime"] = lambda: rival.run(None, feed)
    with progress("timing") as report:
        timings = interleave(contestants, rounds, progress=lambda done, all: report(done, all))
    record["latency"] = {name: timing.as_json() for name, timing in timings.items()}
    _print(record, timings, as_json)


def _onnxruntime(model: Path, threads: int) -> Any:
    """Return an onnxruntime session for the model, or None if onnxruntime is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _largest_difference(ours: list, theirs: list) -> float:
    """Return max |a - b| over all outputs."""
    import numpy as np

    return max(
        float(np.abs(a.astype("float64") - b.astype("float64")).max(initial=0.0))
        for a, b in zip(ours, theirs, strict=True)
    )


def _print(record: dict[str, Any], timings: dict[str, Any], as_json: bool) -> None:
    from tilesmith.inspect.timing import format_seconds, ratio

    ours, theirs = timings["tilesmith"], timings.get("onnxruntime")
    if theirs is not None:
        record["times_as_fast_as_onnxruntime"] = ratio(theirs, ours)
    if as_json:
        print_json(record)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"latency of {record['model']}, {record['threads']} threads, in turns")
    table.add_column("")
    for column in ("median", "10 %", "90 %"):
        table.add_column(column, justify="right")
    for name, timing in timings.items():
        figures = (timing.median, timing.low, timing.high)
        table.add_row(name, *(format_seconds(seconds) for seconds in figures))
    console = Console()
    console.print(table)
    if theirs is None:
        console.print("to compare with onnxruntime: pip install onnxruntime")
        return
    console.print(
        f"{record['times_as_fast_as_onnxruntime']:.2f} times as fast as onnxruntime; "
        f"largest difference between the outputs: {record['largest_difference']:.1e}"
    )
