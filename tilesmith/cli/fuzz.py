"""`tilesmith fuzz`: checks random programs against the interpreter, and replays findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tilesmith.cli.options import existing_file, json_option, print_json


@click.group("fuzz")
def fuzz_command() -> None:
    """Check the compiler with random programs.

    Every schedule primitive, lowering pass and back end has to keep what the interpreter computes.

    \b
    tilesmith fuzz tir --minutes 10 --json
    tilesmith fuzz replay fuzz-findings/test_pass_tir_simplify_script.py --json
    """


@fuzz_command.command("tir")
@click.option("--minutes", type=click.FloatRange(min=0), default=1.0, show_default=True)
@click.option("--seed", type=int, help="Of the first program; default: from the clock.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--only", type=click.Choice(["primitive", "pass", "codegen"]), help="Check only these steps."
)
@click.option("--field", help="Only programs of one field (threads, pipelines, …).")
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("fuzz-findings"), show_default=True,
    help="Folder for findings, each one a test.",
)  # fmt: skip
@click.pass_context
@json_option
def tir_command(
    context: click.Context, minutes: float, seed: int | None, workers: int, only: str | None,
    field: str | None, output: Path, as_json: bool,
) -> None:  # fmt: skip
    """Draw programs and schedules for some minutes.

    The exit code is 1 when something failed; each failure is shrunk and saved as a test.
    """
    import time

    from tilesmith.support.progress import progress
    from tilesmith.testing.fuzz.campaign import Options, Summary, fuzz
    from tilesmith.testing.fuzz.fields import FIELDS

    if field is not None and field not in FIELDS:
        raise click.BadParameter(f"there are {', '.join(FIELDS)}", param_hint="--field")

    chosen = int(time.time()) % 10**6 * 1000 if seed is None else seed
    options = Options(60 * minutes, chosen, workers, only, field, output)
    with progress("fuzzing", False if as_json else None) as report:

        def show(summary: Summary) -> None:
            found = len(summary.findings)
            text = f"{summary.counts['programs']} programs, {found} findings"
            report(summary.seconds, options.seconds, text)

        summary = fuzz(options, show)
    record = {"seed": chosen, **summary.as_json()}
    if as_json:
        print_json(record)
    else:
        _print(record)
    if summary.findings or summary.broken:
        context.exit(1)


@fuzz_command.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
@json_option
def replay_command(context: click.Context, file: Path, as_json: bool) -> None:
    """Run a saved finding again, in a process of its own; the exit code is 1 while it fails."""
    from tilesmith.testing.fuzz.isolated import IsolatedRunner

    existing_file(file, "a saved finding")
    runner = IsolatedRunner()
    failed = runner.replay(file.absolute())
    runner.close()
    if as_json:
        print_json({"file": str(file), "failed": failed})
    else:
        click.echo(f"{file}: passes" if failed is None else f"{file}: fails\n{failed}")
    if failed is not None:
        context.exit(1)


def _print(record: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("primitive", "tried", "applied", "refused")
    for kind, counts in record["primitives"].items():
        applied, refused = counts["applied"], counts["refused"]
        table.add_row(kind, str(applied + refused), str(applied), str(refused))
    console.print(table)
    applied = sum(counts["applied"] for counts in record["primitives"].values())
    code = ", ".join(f"{name} {count}" for name, count in record["code"].items()) or "none"
    click.echo(
        f"seed {record['seed']}, {record['seconds']} s: {record['programs']} programs "
        f"({record['programs_per_minute']} per minute), {applied} primitives applied, "
        f"{sum(record['passes'].values())} passes, code: {code}"
    )
    click.echo(", ".join(f"{count} {name}" for name, count in record["fields"].items()))
    devices = [f"{count} for {name}" for name, count in record["devices"].items()]
    click.echo(f"lowered for devices: {', '.join(devices) or 'none'}")
    if record["too_large"]:
        click.echo(f"left when their schedules made too much work: {record['too_large']} programs")
    for message, count in record["unsupported"].items():
        click.echo(f"not supported, {count} times: {message}")
    for text in record["broken_cases"]:
        click.echo(f"broken case: {text}")
    if not record["findings"]:
        click.echo("nothing failed")
    for finding in record["findings"]:
        where = f" -> {finding['file']}" if finding["file"] else ""
        click.echo(f"FAILED {finding['signature']} ({finding['count']} times){where}")
