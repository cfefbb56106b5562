"""`tilesmith explain`: shows the schedules considered for a kernel, and why one was chosen."""

from __future__ import annotations

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
)


@click.command("explain")
@model_argument
@click.option("--kernel", metavar="NAME", help="Only this kernel, with its whole schedule.")
@click.option(
    "--candidates", "count", type=click.IntRange(min=1), default=8, show_default=True,
    help="How many candidates are shown, the winner first.",
)  # fmt: skip
@click.option("--no-measure", is_flag=True, help="Do not compile the model and time its kernels.")
@target_option
@input_shape_option
@json_option
def explain_command(
    model: Path,
    kernel: str | None,
    count: int,
    no_measure: bool,
    target: str,
    input_shapes: InputShapes,
    as_json: bool,
) -> None:
    """Show the schedules that were considered for the kernels of MODEL.onnx, with their predicted
    times, and what the winner takes in fact.
    """
    from tilesmith.driver.explanation import explain
    from tilesmith.support.progress import status
    from tilesmith.target import Target

    existing_file(model, "a model")
    chosen = Target(target)
    with status(f"scheduling {model.name}"):
        found = explain(str(model), chosen, kernel=kernel, input_shapes=shapes(input_shapes))
    measured: dict[str, float] = {}
    if not no_measure:
        with status(f"timing {model.name}"):
            measured = _measured(model, chosen, shapes(input_shapes))
    if as_json:
        rows = [{**one.to_json(), "microseconds": measured.get(one.kernel)} for one in found]
        print_json({"model": str(model), "target": str(chosen), "kernels": rows})
        return
    for one in found:
        _print(one, measured.get(one.kernel), count, whole=kernel is not None)


def _measured(model: Path, target: Any, sizes: Any) -> dict[str, float]:
    """Return the median time of each kernel in microseconds."""
    from tilesmith.cli.arrays import describe_inputs, random_inputs
    from tilesmith.driver import compile as compile_model
    from tilesmith.inspect.kernel_profile import profile

    executable = compile_model(str(model), target=target, input_shapes=sizes)
    arrays = list(random_inputs(describe_inputs(executable)).values())
    report = profile(executable, arrays, peak=False)
    times: dict[str, float] = {}
    for row in report.calls:
        metrics: dict[str, Any] = row
        calls = max(1, metrics["Count"].count)
        times[str(row["Name"])] = metrics["Duration (us)"].microseconds / calls
    return times


def _print(explanation: Any, microseconds: float | None, count: int, whole: bool) -> None:
    from rich.table import Table

    took = "" if microseconds is None else f", measured {microseconds:.1f} us a call"
    click.echo(f"{explanation.kernel}{took}")
    for choice in explanation.choices:
        table = Table(choice.block, title=None)
        components = [*choice.considered[0].components]
        for name in ("cycles", *components):
            table.add_column(name, justify="right")
        for one in choice.considered[:count]:
            cells = [f"{value:.0f}" for value in (one.cycles, *one.components.values())]
            table.add_row(one.text, *cells)
        table_console().print(table)
        click.echo(f"  {len(choice.considered)} candidates; the first one won: {choice.reason}")
    if not explanation.choices:
        click.echo("  no candidates: no contraction, a rule of its own, or scheduled before")
    if whole:
        click.echo("".join([f"    {line}\n" for line in explanation.trace]), nl=False)
