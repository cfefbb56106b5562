"""`tilesmith profile`: shows how long each kernel of a model takes, and how near the peak it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tilesmith.cli.console import table_console
from tilesmith.cli.options import (
    InputShapes,
    existing_file,
    input_shape_option,
    json_option,
    model_argument,
    print_json,
    shapes,
    target_option,
    writable_place,
)

_COLUMNS = {
    "Duration (us)": "us", "Percent": "%", "Count": "calls", "Bound (us)": "bound\nus",
    "GFLOP/s": "GFLOP/s", "GB/s": "GB/s", "Percent of Peak": "% of\npeak",
    "Percent of Memory": "% of\nmemory",
}  # fmt: skip
"""Columns of a report, and what stands above them."""


@click.command("profile")
@model_argument
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="[NAME=]FILE.npy",
    help="Repeatable; without names in the order of the model's inputs. Default: random arrays.",
)  # fmt: skip
@click.option("--threads", type=click.IntRange(min=1), help="Default: all CPUs of this process.")
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--no-peak", is_flag=True, help="Do not measure what this machine can do.")
@click.option(
    "--trace", type=click.Path(path_type=Path), metavar="FILE.json",
    help="Also write one run as a trace for chrome://tracing or Perfetto.",
)  # fmt: skip
@click.option(
    "--roofline", type=click.Path(path_type=Path), metavar="FILE.svg",
    help="Also draw the kernels under what memory and arithmetic allow.",
)  # fmt: skip
@target_option
@input_shape_option
@json_option
def profile_command(
    model: Path,
    inputs: tuple[str, ...],
    threads: int | None,
    runs: int,
    no_peak: bool,
    trace: Path | None,
    roofline: Path | None,
    target: str,
    input_shapes: InputShapes,
    as_json: bool,
) -> None:
    """Show how long each kernel of MODEL.onnx takes, how much it computes and moves, and how near
    that is to what this machine can do.

    Without any --input all inputs are drawn (the same in every run), with 1 for symbolic sizes.
    Kernels of a model for a GPU (--target cuda, opencl) are measured there.
    """
    from tilesmith.cli.arrays import chosen_sizes, describe_inputs, match_inputs, random_inputs
    from tilesmith.driver import compile as compile_model
    from tilesmith.inspect.kernel_profile import profile
    from tilesmith.runtime.threads import set_num_threads
    from tilesmith.support.errors import ConfigError
    from tilesmith.support.files import write_atomically
    from tilesmith.support.progress import status
    from tilesmith.target import Target

    existing_file(model, "a model")
    for path in (trace, roofline):
        if path is not None:
            writable_place(path, model)
    if roofline is not None and no_peak:
        raise ConfigError("--roofline needs what --no-peak leaves out", notes=("give one of them",))
    if threads is not None:
        set_num_threads(threads)
    chosen = Target(target)
    with status(f"compiling {model.name}"):
        executable = compile_model(str(model), target=chosen, input_shapes=shapes(input_shapes))
    wanted = describe_inputs(executable)
    sizes = {} if inputs else chosen_sizes(wanted)[1]
    arrays = match_inputs(inputs, wanted) if inputs else list(random_inputs(wanted).values())
    with status(f"profiling {model.name}"):
        report = profile(executable, arrays, runs=runs, peak=not no_peak)
    if trace is not None:
        write_atomically(trace, report.chrome_trace())
    if roofline is not None:
        write_atomically(roofline, report.roofline())
    if as_json:
        print_json({"model": str(model), "sizes": sizes, **json.loads(report.json())})
        return
    _print(report, model, sizes)
    for path in (trace, roofline):
        if path is not None:
            click.echo(f"wrote {path}")


def _print(report: Any, model: Path, sizes: dict[str, int]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    known = report.configuration
    threads = known.get("Number of threads")
    where = f", {threads} threads" if threads is not None else f" on {known['Devices']}"
    opened = "".join([f", {name} = {size}" for name, size in sizes.items()])
    click.echo(f"kernels of {model}{where}{opened}, medians of {known['Runs']} runs")
    rows = sorted(report.calls, key=lambda row: -row["Duration (us)"].microseconds)
    columns = [name for name in _COLUMNS if any(name in row for row in rows)]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("kernel")
    for name in columns:  # in a narrow terminal names are cut off, figures are not
        table.add_column(_COLUMNS[name], justify="right", no_wrap=True)
    table.add_column("from the nodes")
    for row in rows:
        first, last = (
            Text(str(row[name]), no_wrap=True, overflow="ellipsis")
            for name in ("Name", "Operators")
        )
        table.add_row(first, *[str(row.get(name, "")) for name in columns], last)
    table_console().print(table)
    (whole,) = report.device_metrics.values()
    alone = known["Kernels alone (us)"]
    click.echo(f"the model takes {whole['Duration (us)']} us, its kernels alone {alone} us")
