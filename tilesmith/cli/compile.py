"""`tilesmith compile`: compiles a model file to an artifact."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilesmith.cli.console import table_console
from tilesmith.cli.options import (
    InputShapes,
    compile_options,
    existing_file,
    input_shape_option,
    json_option,
    model_argument,
    precision_options,
    print_json,
    shapes,
    target_option,
    writable_place,
)
from tilesmith.support.errors import ConfigError

if TYPE_CHECKING:
    from tilesmith.runtime.executable import Executable
    from tilesmith.support.fallbacks import FallbackReport
    from tilesmith.support.summary import Summary


@click.command("compile")
@model_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="MODEL.tsm",
    help="Default: the model's name with the ending .tsm.",
)  # fmt: skip
@target_option
@input_shape_option
@click.option(
    "--bounds", type=click.Choice(["check"]),
    help="Check accesses that are not proven to be inside of their buffers when the model runs;"
    " --report lists them.",
)  # fmt: skip
@precision_options
@click.option(
    "--accuracy-report", is_flag=True,
    help="Compare --precision with float32, by layer, on the calibration data or random inputs.",
)  # fmt: skip
@click.option(
    "--params", type=click.Path(path_type=Path), metavar="FILE",
    help="Put the weights into this safetensors file, in the output's folder: models share it.",
)  # fmt: skip
@click.option(
    "--for-c", is_flag=True,
    help="Write MODEL.o, MODEL.h and the weights for C programs; for --target c also MODEL.c.",
)  # fmt: skip
@click.option(
    "--report", is_flag=True,
    help="Also tell what the compiler gave up or did in a slower way, and why.",
)  # fmt: skip
@click.option(
    "-v", "--verbose", is_flag=True,
    help="Also sum up: operators, kernels, time by phase, memory.",
)  # fmt: skip
@click.option(
    "--timing", is_flag=True,
    help="Also tell the time by phase and by pass; that of workers counts, too.",
)  # fmt: skip
@json_option
def compile_command(
    model: Path,
    output: Path | None,
    target: str,
    input_shapes: InputShapes,
    bounds: str | None,
    accuracy_report: bool,
    params: Path | None,
    for_c: bool,
    report: bool,
    verbose: bool,
    timing: bool,
    as_json: bool,
    **given_precision: Any,
) -> None:
    """Compile MODEL.onnx into one file that runs without it."""
    from tilesmith.support.fallbacks import collect_fallbacks
    from tilesmith.support.progress import status
    from tilesmith.support.summary import collect_summary, phase
    from tilesmith.target import Target

    start = time.perf_counter()

    existing_file(model, "a model")
    if params is not None and for_c:
        raise ConfigError("--for-c writes a file of weights of its own", notes=("omit --params",))
    if accuracy_report and given_precision["precision"] is None:
        raise ConfigError("--accuracy-report compares a --precision with float32; name one")
    low = compile_options(**given_precision)
    output = writable_place(output or model.with_suffix(".o" if for_c else ".tsm"), model)
    chosen = Target(target)  # report a misspelt target before the long work begins
    with (
        status(f"compiling {model.name}"),
        collect_fallbacks() as fallbacks,
        collect_summary(steps=timing) as summary,
    ):
        options = {"target": chosen, "input_shapes": shapes(input_shapes), "bounds": bounds, **low}
        executable = _compiled(model, options)
        with phase("saving"):
            _save(executable, output, params, for_c)
    seconds = time.perf_counter() - start
    summary.seconds["all else"] = max(0.0, seconds - sum(summary.seconds.values()))
    used = executable.metadata.get("precision")
    layers = _accuracy(executable, low["calibration"]) if accuracy_report and used else None
    found = {
        "model": str(model),
        "output": str(output),
        "target": str(chosen),
        "seconds": seconds,
        "bytes": output.stat().st_size,
        **({"precision": used} if given_precision["precision"] else {}),
        **({"accuracy": layers.to_json()} if layers else {}),
        **({"fallbacks": fallbacks.to_json()} if report else {}),
        **({"summary": _summed_up(summary, executable)} if verbose or timing else {}),
    }
    if as_json:
        print_json(found)
        return
    _print_made(found, executable, layers)
    if report:
        _print_fallbacks(fallbacks)


def _compiled(model: Path, options: dict[str, Any]) -> Executable:
    """Return the executable of a model file."""
    from tilesmith.support.summary import phase, spend, wants_steps

    with phase("loading the compiler"):
        from tilesmith.driver import compile as compile_model
    made: Executable
    if not wants_steps():
        made = compile_model(str(model), **options)
        return made
    from tilesmith.ir.instrument import PassTimingInstrument, watched

    passes = PassTimingInstrument()
    with watched(passes):
        made = compile_model(str(model), **options)
    spend(passes.totals())
    return made


def _save(executable: Executable, output: Path, params: Path | None, for_c: bool) -> None:
    """Write the file that was asked for."""
    if for_c:
        executable.export_c(output)
    elif params is not None:
        executable.save(output, params=params.absolute())
    else:
        from tilesmith.driver.model import save_artifact

        save_artifact(executable, output)


def _print_made(found: dict[str, Any], executable: Executable, layers: Any) -> None:
    """Print a line about the file, one about a precision that was not used, and what was asked
    for.
    """
    size = f"{found['bytes'] / 1e6:.1f} MB"
    click.echo(
        f"{found['output']}: {size}, compiled in {found['seconds']:.1f} s for {found['target']}"
    )
    if "precision" in found and not found["precision"]:
        rows = [one for one, _ in executable.fallbacks.rows() if one.kind == "precision"]
        click.echo(f"computed in float32: {'; '.join([one.reason for one in rows])}")
    if layers:
        click.echo(str(layers))
    if "summary" in found:
        _print_summary(found["summary"])


def _accuracy(executable: Executable, inputs: list[Any] | None) -> Any:
    """Return the comparison of a model with float32, on random inputs if there are none."""
    from tilesmith.cli.arrays import describe_inputs, random_inputs

    return executable.accuracy_report(inputs or random_inputs(describe_inputs(executable)))


def _summed_up(summary: Summary, executable: Executable) -> dict[str, Any]:
    """Return counts, seconds by phase, and bytes of memory, as JSON values."""
    workspace = executable.metadata["functions"].get("main", {}).get("workspace_bytes")
    return {
        "counts": summary.counts,
        "seconds": summary.seconds,
        **({"seconds of steps": summary.steps} if summary.wants_steps else {}),
        "bytes": {
            "constants": sum([array.nbytes for array in executable.constants.values()]),
            "workspace": workspace if isinstance(workspace, int) else None,
            "peak of this process": peak_memory(),
        },
    }


def peak_memory() -> int | None:
    """Return the most bytes that this process has had in memory; None where unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def _print_summary(found: dict[str, Any]) -> None:
    """Print a line each of counts, times and memory."""
    counts = ", ".join([f"{number} {name}" for name, number in found["counts"].items()])
    click.echo(f"counts: {counts or 'none, the model was in the cache'}")
    times = [f"{name} {seconds:.2f} s" for name, seconds in found["seconds"].items()]
    click.echo(f"time: {', '.join(times)}")
    steps = sorted(found.get("seconds of steps", {}).items(), key=lambda item: -item[1])
    if steps:
        click.echo("time by step, of all processes together:")
    for name, seconds in steps:
        click.echo(f"  {1e3 * seconds:8.1f} ms  {name}")
    sizes = {
        name: "depends on the sizes" if size is None else f"{size / 1e6:.1f} MB"
        for name, size in found["bytes"].items()
    }
    click.echo(f"memory: {', '.join([f'{name} {size}' for name, size in sizes.items()])}")


def _print_fallbacks(report: FallbackReport) -> None:
    """Print one table: what was given up, where, why, how often."""
    if not len(report):
        click.echo("nothing was given up")
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("kind", "subject", "reason", "count", box=None, pad_edge=False)
    table.columns[-1].justify = "right"
    for fallback, count in report.rows():
        table.add_row(fallback.kind, escape(fallback.subject), escape(fallback.reason), str(count))
    table_console().print(table)
