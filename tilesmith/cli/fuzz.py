"""`tilesmith fuzz`: random programs against the interpreter, damaged models and arrays, and the
replay of findings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tilesmith.cli.console import table_console
from tilesmith.cli.interruptions import Interruption, interruptible
from tilesmith.cli.options import existing_file, json_option, print_json

_COMMAND = "tilesmith.cli.main:tilesmith"


@click.group("fuzz")
def fuzz_command() -> None:
    """Check the compiler with random programs, and with damaged models and arrays.

    Every schedule primitive, lowering pass and back end has to keep what the interpreter computes;
    whatever a file or an argument says, the answer is a result or an error that explains itself.

    \b
    tilesmith fuzz tir --minutes 10 --json
    tilesmith fuzz tir --field gpu --minutes 10
    tilesmith fuzz models --cases 1000 --jobs 2
    tilesmith fuzz replay fuzz-findings/test_pass_tir_simplify_script.py --json
    """


@fuzz_command.command("tir")
@click.option("--minutes", type=click.FloatRange(min=0), default=1.0, show_default=True)
@click.option("--seed", type=int, help="Of the first program; default: from the clock.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--only", type=click.Choice(["primitive", "pass", "codegen"]), help="Check only these steps."
)
@click.option("--field", help="Only programs of one field (threads, gpu, rules, …).")
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

    The exit code is 1 when something failed; each failure is shrunk and saved as a test. A run that
    is interrupted shows what it did until then; the exit code is 130 (Ctrl-C) or 143 (SIGTERM).
    """
    import time

    from tilesmith.support.progress import progress
    from tilesmith.testing.fuzz.campaign import Options, Summary, fuzz
    from tilesmith.testing.fuzz.fields import FIELDS

    if field is not None and field not in FIELDS:
        raise click.BadParameter(f"there are {', '.join(FIELDS)}", param_hint="--field")

    chosen = int(time.time()) % 10**6 * 1000 if seed is None else seed
    options = Options(60 * minutes, chosen, workers, only, field, output)
    summary = Summary()
    with (
        interruptible() as interruption,
        progress("fuzzing", False if as_json else None) as report,
    ):

        def show(latest: Summary) -> None:
            nonlocal summary
            summary = latest
            found = len(summary.findings)
            text = f"{summary.counts['programs']} programs, {found} findings"
            report(summary.seconds, options.seconds, text)

        fuzz(options, show)
    record = _record(chosen, interruption, summary)
    if as_json:
        print_json(record)
    else:
        _print(record)
    context.exit(interruption.exit_code or int(bool(summary.findings or summary.broken)))


@fuzz_command.command("models")
@click.option("--cases", type=click.IntRange(min=1), help="Default: as many as the time allows.")
@click.option(
    "--minutes", type=click.FloatRange(min=0), help="Default: 1, or no limit with --cases."
)
@click.option("--seed", type=int, help="Of the first case; default: from the clock.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--kind", help="Only cases of one kind (model, graph, torch, …).")
@click.option(
    "--level", type=click.Choice(["node", "attribute", "byte"]), help="Only such changes of models."
)
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("fuzz-findings"), show_default=True,
    help="Folder for findings, each one a file that can be replayed.",
)  # fmt: skip
@click.pass_context
@json_option
def models_command(
    context: click.Context, cases: int | None, minutes: float | None, seed: int | None, jobs: int,
    kind: str | None, level: str | None, output: Path, as_json: bool,
) -> None:  # fmt: skip
    """Change models, compiled models and arrays, draw graphs of operators (of ONNX, and of torch
    where that is installed), and look at what becomes of them.

    Each case runs in a process of its own, with limits of time and memory. Failures: the process
    dies or does not end, an error is not one of Tilesmith's or does not explain itself, a result is
    not that of onnxruntime or torch. The exit code is 1 when something failed; each failure is
    reduced and saved. A run that is interrupted shows what it did until then; the exit code is 130
    (Ctrl-C) or 143 (SIGTERM).
    """
    import time

    from tilesmith.relax.frontend.onnx.onnx_package import require_onnx
    from tilesmith.relax.frontend.torch.torch_package import require_torch
    from tilesmith.support.progress import progress

    require_onnx()
    from tilesmith.testing.fuzz.models.campaign import Options, Summary, fuzz_models
    from tilesmith.testing.fuzz.models.cases import KINDS

    if kind is not None and kind not in KINDS:
        raise click.BadParameter(f"there are {', '.join(KINDS)}", param_hint="--kind")
    if kind == "torch":
        require_torch()
    if minutes is None and cases is None:
        minutes = 1.0
    chosen = int(time.time()) % 10**6 * 1000 if seed is None else seed
    seconds = None if minutes is None else 60 * minutes
    options = Options(cases, seconds, chosen, jobs, kind, level, output, command=_COMMAND)
    summary = Summary()
    with (
        interruptible() as interruption,
        progress("fuzzing", False if as_json else None) as report,
    ):

        def show(latest: Summary) -> None:
            nonlocal summary
            summary = latest
            found = len(summary.findings)
            done, whole = float(summary.cases), float(cases or 0)
            if seconds is not None and (not whole or summary.seconds / seconds > done / whole):
                done, whole = summary.seconds, seconds
            report(done, whole, f"{summary.cases} cases, {found} findings")

        fuzz_models(options, show)
    record = _record(chosen, interruption, summary)
    if as_json:
        print_json(record)
    else:
        _print_models(record)
    context.exit(interruption.exit_code or int(bool(summary.findings)))


@fuzz_command.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
@json_option
def replay_command(context: click.Context, file: Path, as_json: bool) -> None:
    """Run a saved finding again, in a process of its own; the exit code is 1 while it fails."""
    existing_file(file, "a saved finding")
    if file.suffix == ".json":
        from tilesmith.testing.fuzz.models.campaign import replay_finding

        failed = replay_finding(file, _COMMAND)
    else:
        from tilesmith.testing.fuzz.isolated import IsolatedRunner

        runner = IsolatedRunner()
        failed = runner.replay(file.absolute())
        runner.close()
    if as_json:
        print_json({"file": str(file), "failed": failed})
    else:
        click.echo(f"{file}: passes" if failed is None else f"{file}: fails\n{failed}")
    if failed is not None:
        context.exit(1)


def _record(seed: int, interruption: Interruption, summary: Any) -> dict[str, Any]:
    """Return a run as plain data."""
    ended_by = None if interruption.signal is None else interruption.signal.name
    return {"seed": seed, "interrupted_by": ended_by, **summary.as_json()}


def _print(record: dict[str, Any]) -> None:
    from rich.table import Table

    console = table_console()
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
    for kind in ("fields", "forms"):
        if record[kind]:
            click.echo(", ".join(f"{count} {name}" for name, count in record[kind].items()))
    devices = [f"{count} for {name}" for name, count in record["devices"].items()]
    click.echo(f"lowered for devices: {', '.join(devices) or 'none'}")
    if record["too_large"]:
        click.echo(f"left when their schedules made too much work: {record['too_large']} programs")
    for kind in record["never_applied"]:
        click.echo(f"never applied, always refused: {kind}")
    for message, count in record["unsupported"].items():
        click.echo(f"not supported, {count} times: {message}")
    for text in record["broken_cases"]:
        click.echo(f"broken case: {text}")
    if record["interrupted_by"]:
        click.echo(f"interrupted by {record['interrupted_by']}")
    if not record["findings"]:
        click.echo("nothing failed")
    for finding in record["findings"]:
        where = f" -> {finding['file']}" if finding["file"] else ""
        click.echo(f"FAILED {finding['signature']} ({finding['count']} times){where}")


def _print_models(record: dict[str, Any]) -> None:
    from rich.table import Table

    shown = [name for name, count in record["outcomes"].items() if count]
    table = Table("cases", *shown)
    for kind, counts in record["kinds"].items():
        table.add_row(kind, *[str(counts[name]) for name in shown])
    table.add_row("all", *[str(record["outcomes"][name]) for name in shown])
    table_console().print(table)
    click.echo(
        f"seed {record['seed']}, {record['seconds']} s: {record['cases']} cases "
        f"({record['cases_per_minute']} per minute)"
    )
    if record["interrupted_by"]:
        click.echo(f"interrupted by {record['interrupted_by']}")
    if not record["findings"]:
        click.echo("nothing failed")
    for finding in record["findings"]:
        where = f" -> {finding['file']}" if finding["file"] else ""
        click.echo(f"FAILED {finding['signature']} ({finding['count']} times){where}")
