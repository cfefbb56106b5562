"""Runs the benchmarks: `python -m benchmarks.run COMMAND`. Each prints a table and writes JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import onnx

import tilesmith
from benchmarks import report
from benchmarks.contest import OURS, failures, headings, latency_of, rate, record, row, row_of_means
from benchmarks.contestants import CONTESTANTS, PRECISIONS, installed
from benchmarks.models import MODELS, build_model
from benchmarks.operators import OPERATORS
from benchmarks.processes import Contest, JobFiles, Team
from benchmarks.suite import SUITE, write_in_process
from benchmarks.workloads import KERNELS, Workload
from tilesmith.inspect.machine_speed import clock, peak_flops
from tilesmith.inspect.timing import format_seconds, interleave, pause_for, ratio
from tilesmith.support.progress import status

RIVAL = "onnxruntime"
BY_DEFAULT = {
    "kernels": [name for name in CONTESTANTS if name != "torch.compile"],
    "models": [name for name, one in CONTESTANTS.items() if not one.only_kernels],
}
"""A single kernel is the same library call in torch.compile as in torch."""

threads_option = click.option("--threads", default=tilesmith.num_threads(), show_default=True)
rounds_option = click.option("--rounds", default=20, show_default=True)
json_option = click.option(
    "--json", "path", type=click.Path(path_type=Path), help="Default: benchmarks/out/…"
)
contestants_option = click.option(
    "--contestant",
    "names",
    multiple=True,
    type=click.Choice(list(CONTESTANTS)),
    help="Repeatable; default: all that are installed (kernels: but torch.compile).",
)
rivals_option = click.option(
    "--rivals", default="", help="Names, separated by commas, besides tilesmith; or 'all'."
)
batch_option = click.option("--batch", default=1, show_default=True)
precision_option = click.option(
    "--precision", type=click.Choice(PRECISIONS), default="f32", show_default=True
)
record_option = click.option(
    "--record", "is_record", is_flag=True,
    help="Add to the table of benchmarks/README.md (python -m benchmarks.tables writes it).",
)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure the compiler and its code against rivals, in turns, on the same threads."""


def chosen_contestants(names: tuple[str, ...], rivals: str, command: str) -> list[str]:
    """Return who takes part: those named by either option, else the default of the command."""
    wanted = list(CONTESTANTS) if rivals == "all" else [one for one in rivals.split(",") if one]
    if unknown := [name for name in wanted if name not in CONTESTANTS]:
        known = ", ".join(CONTESTANTS)
        raise click.BadParameter(f"no {unknown[0]}; there are {known}", param_hint="--rivals")
    if names:
        return list(names)
    present = installed(wanted or BY_DEFAULT[command])
    return list(dict.fromkeys([OURS, *present]))


def contests(
    team: Team, workloads: Mapping[str, Callable[[], Workload]], rounds: int, precision: str
) -> dict[str, dict[str, Any]]:
    """Hold a contest on each workload; return the records."""
    records = {}
    for name, make in workloads.items():
        workload = make()
        with TemporaryDirectory() as folder, status(name):
            files = JobFiles.write(
                Path(folder), workload.model, workload.feed, precision=precision, kernel=name
            )
            found = team.contest(files, rounds, peak=quick_peak if workload.flops else None)
        records[name] = record(found, workload.flops, workload.bytes)
    return records


def quick_peak() -> float:
    """Return the peak of one core as it is now."""
    return peak_flops(0.1)


def keep(
    name: str, records: dict[str, Any], path: Path | None, is_record: bool, **settings: Any
) -> None:
    """Write the records, also to those of the table if asked."""
    if is_record:
        click.echo(report.add_to_record(name, records, **settings))
    click.echo(report.save(name, records, path, **settings))


def show_contests(
    title: str, records: dict[str, dict[str, Any]], chosen: list[str], last: str,
    of: Callable[[dict[str, Any]], str],
) -> None:  # fmt: skip
    """Print the table of contests, their means, and who failed."""
    rows = [row(name, one, chosen, of(one)) for name, one in records.items()]
    if len(rows) > 1:
        rows.append(row_of_means(records, chosen, ""))
    report.show(title, headings(chosen, [last]), rows)
    for line in failures(records):
        report.console.print(line, markup=False)


@main.command()
@click.argument("models", nargs=-1, type=click.Choice(list(SUITE)))
@threads_option
@rounds_option
@contestants_option
@rivals_option
@batch_option
@precision_option
@record_option
@json_option
def models(
    models: tuple[str, ...], threads: int, rounds: int, names: tuple[str, ...], rivals: str,
    batch: int, precision: str, is_record: bool, path: Path | None,
) -> None:  # fmt: skip
    """Measure the latency of whole MODELS (default: all) against the rivals."""
    chosen = chosen_contestants(names, rivals, "models")
    records: dict[str, dict[str, Any]] = {}
    for name in models or SUITE:
        with TemporaryDirectory() as folder, Team(chosen, threads) as team, status(name):
            try:
                files = write_in_process(name, Path(folder), batch, precision)
                found = team.contest(files, rounds)
            except click.ClickException as error:  # one model's failure is a result, not the end
                found = Contest(failures={"all": error.message})
        records[name] = record(found)
    title = f"models on {threads} threads, batch {batch}, {precision}, in turns; ×: as long as ours"
    seconds = lambda one: one["prepare_seconds"].get(OURS)  # noqa: E731
    show_contests(title, records, chosen, "compile",
                  lambda one: f"{seconds(one):.1f} s" if seconds(one) else "-")  # fmt: skip
    keep("models", records, path, is_record, threads=threads, rounds=rounds, batch=batch,
         precision=precision)  # fmt: skip


@main.command()
@click.option("--match", default="", help="Only kernels whose name contains this.")
@threads_option
@rounds_option
@contestants_option
@rivals_option
@click.option("--precision", type=click.Choice(["f32", "bf16"]), default="f32", show_default=True)
@record_option
@json_option
def kernels(
    match: str, threads: int, rounds: int, names: tuple[str, ...], rivals: str, precision: str,
    is_record: bool, path: Path | None,
) -> None:  # fmt: skip
    """Measure the speed of single kernels: convolutions, matrix products, reductions."""
    chosen = chosen_contestants(names, rivals, "kernels")
    matching = {name: partial(make, name) for name, make in KERNELS.items() if match in name}
    with Team(chosen, threads) as team:
        records = contests(team, matching, rounds, precision)
    title = f"kernels on {threads} threads, {precision}, in turns; ×: as long as ours"
    show_contests(title, records, chosen, "rate, of peak", rate)
    keep("kernels", records, path, is_record, threads=threads, rounds=rounds, batch=1,
         precision=precision)  # fmt: skip


@main.command()
@click.option("--match", default="", help="Only operators whose name contains this.")
@threads_option
@rounds_option
@json_option
def operators(match: str, threads: int, rounds: int, path: Path | None) -> None:
    """Measure 44 operators that had cliffs, against onnxruntime: medians and their ratio."""
    matching = {name: partial(make, name) for name, make in OPERATORS.items() if match in name}
    with Team([OURS, RIVAL], threads) as team:
        records = contests(team, matching, rounds, "f32")
    title = f"operators on {threads} threads, in turns; ×: as long as ours"
    show_contests(title, records, [OURS, RIVAL], "rate", rate)
    click.echo(report.save("operators", records, path, threads=threads, rounds=rounds))


def compile_in_process(model: Path, cache: Path, threads: int, profile: bool) -> dict[str, Any]:
    """Compile in a fresh process; return the seconds and what it printed. Byte code is kept in the
    folder of the cache, as an installation has it.
    """
    command = [
        sys.executable,
        "-m",
        "benchmarks.compile_once",
        str(model),
        "--threads",
        str(threads),
    ]
    environment = os.environ | {
        "TILESMITH_CACHE_DIR": str(cache),
        "TILESMITH_CACHE": "1",
        "PYTHONPYCACHEPREFIX": str(cache.parent / "bytecode"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if profile:  # one process, so that no other takes its time
        environment["TILESMITH_WORKERS"] = "0"
    start = time.perf_counter()
    finished = subprocess.run(
        command + ["--profile"] * profile, env=environment, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if finished.returncode != 0:
        raise click.ClickException(f"compiling {model.name} failed:\n{finished.stderr[-2000:]}")
    return {**json.loads(finished.stdout.splitlines()[-1]), "process": seconds}


@main.command(name="compile")
@click.argument("models", nargs=-1, type=click.Choice(list(MODELS)))
@click.option("--steps", default=12, show_default=True, help="Steps shown per model.")
@threads_option
@json_option
def compile_times(models: tuple[str, ...], steps: int, threads: int, path: Path | None) -> None:
    """Measure the seconds to compile MODELS (default: all): without caches, and with both caches
    filled.
    """
    results, rows = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name in models or MODELS:
            file = Path(folder) / f"{name}.onnx"
            onnx.save(build_model(name), file)
            with status(f"compiling {name}"):
                if not results:  # what the first process writes for all others
                    compile_in_process(file, Path(folder) / "bytecode-cache", threads, False)
                cold = compile_in_process(file, Path(folder) / f"cache-{name}", threads, False)
                warm = compile_in_process(file, Path(folder) / f"cache-{name}", threads, False)
                shown = compile_in_process(file, Path(folder) / f"profile-{name}", threads, True)
            results[name] = {
                "cold": cold,
                "warm": warm,
                "profiled_seconds": shown["compile"],
                "steps": shown["steps"],
            }
            rows.append(
                [name, *(f"{part[key]:.2f} s" for part in (cold, warm)
                         for key in ("import", "compile", "process"))]
            )  # fmt: skip
    report.show(
        "compile time in a fresh process: empty caches (cold), filled caches (warm)",
        ["", "import", "cold", "whole process", "import", "warm", "whole process"],
        rows,
    )
    for name, result in results.items():
        slowest = sorted(result["steps"].items(), key=lambda item: -item[1])[:steps]
        lines = [[label, f"{seconds * 1e3:.0f} ms"] for label, seconds in slowest]
        rest = result["profiled_seconds"] - sum(seconds for _, seconds in slowest)
        lines.append(["all else", f"{rest * 1e3:.0f} ms"])
        report.show(f"{name}: time by step (cold, one process)", ["step", "time"], lines)
    click.echo(report.save("compile", results, path, threads=threads))


@main.command()
@click.option("--match", default="", help="Only blocks whose name contains this.")
@threads_option
@rounds_option
@json_option
def quantised(match: str, threads: int, rounds: int, path: Path | None) -> None:
    """Measure blocks of networks in f32 and quantised to int8, against onnxruntime."""
    from benchmarks.quantised import BLOCKS, contestants

    results, rows = {}, []
    for name in BLOCKS:
        if match not in name:
            continue
        with status(f"preparing {name}"):
            runs, errors = contestants(name, threads)
        load = os.getloadavg()[0]
        with status("timing"):
            timings = interleave(runs, rounds, pause_seconds=pause_for(threads))
        ours = timings["tilesmith int8"]
        against = [ratio(timings[key], ours) for key in ("tilesmith f32", "onnxruntime int8")]
        ours = timings["tilesmith own int8"]
        against += [ratio(timings[key], ours) for key in ("tilesmith f32", "onnxruntime int8")]
        against.append(ratio(timings["tilesmith f32"], timings["tilesmith bf16"]))
        rows.append([name, *[latency_of(one) for one in timings.values()],
                     *[f"{one:.2f}" for one in against],
                     *[f"{errors[key]:.1e}" for key in ("onnxruntime int8", "tilesmith int8",
                       "tilesmith own int8", "tilesmith bf16")], f"{load:.1f}"])  # fmt: skip
        results[name] = {
            "latency": {key: timing.as_json() for key, timing in timings.items()},
            "errors": errors,
            "load": load,
        }
    columns = ["", *runs, "int8 × f32", "× onnxruntime", "own × f32", "× onnxruntime",
               "bf16 × f32", *[f"error {kind}" for kind in ("onnxruntime", "int8", "own", "bf16")],
               "load"]  # fmt: skip
    report.show(f"quantised blocks on {threads} threads, in turns", columns, rows)
    click.echo(report.save("quantised", results, path, threads=threads, rounds=rounds))


@main.command()
@json_option
def machine(path: Path | None) -> None:
    """Measure the peak performance of one core: multiply-adds and reads from each level of the
    memory.
    """
    from tilesmith.inspect.machine_speed import measure

    with status("measuring"):
        figures = measure()
    report.show("one core", ["", ""], [[name, f"{value:.1f}"] for name, value in figures.items()])
    click.echo(report.save("machine", figures, path))


@main.command()
@click.option("--match", default="", help="Only kernels whose name contains this.")
@click.option("--picture", "drawing", type=click.Path(path_type=Path), help="Draw them (SVG).")
@threads_option
@record_option
@json_option
def predictions(
    match: str, drawing: Path | None, threads: int, is_record: bool, path: Path | None
) -> None:
    """Compare predicted with measured times over more than 100 kernels: ranks, and a picture."""
    from benchmarks.predictions import as_json, cases, picture, predict, summary

    tilesmith.set_num_threads(threads)
    hertz = clock()
    with status("measuring"):
        found = [predict(case, hertz, threads) for case in cases() if match in case.name]
    rows = [
        [one.name, one.source, format_seconds(one.predicted), format_seconds(one.measured),
         f"{one.measured / one.predicted:.2f}"]
        for one in found
    ]  # fmt: skip
    report.show(
        f"predicted and measured, {threads} threads",
        ["", "by", "predicted", "measured", "÷"],
        rows,
    )
    rows = [
        [kind, f"{one['kernels']}", f"{one['rank_correlation']:.3f}",
         f"{one['measured_to_predicted']:.2f}"]
        for kind, one in summary(found).items()
    ]  # fmt: skip
    heads = ["", "kernels", "rank correlation", "measured ÷ predicted"]
    report.show("Spearman's correlation of the ranks", heads, rows)
    if drawing is not None:
        words = f"{len(found)} kernels, {threads} threads"
        drawing.write_text(picture(found, words), encoding="utf-8")
        click.echo(drawing)
    if is_record:
        path = report.record_folder() / f"predictions-{threads}t.json"
    click.echo(report.save("predictions", as_json(found), path, threads=threads))


@main.command()
@click.option("--count", default=4000, show_default=True, help="Expressions per measurement.")
@json_option
def nodes(count: int, path: Path | None) -> None:
    """Measure what a node costs: making, visiting, rewriting, comparing, hashing."""
    from benchmarks.nodes import measure

    figures = measure(count)
    rows = [[name, f"{value:.0f}"] for name, value in figures.items()]
    report.show("nanoseconds per node, best of several runs", ["", "ns"], rows)
    click.echo(report.save("nodes", figures, path, count=count))


@main.command("relay-graphs")
@json_option
def relay_graphs(path: Path | None) -> None:
    """Measure whether InferType, text and passes of relay are linear in the number of calls."""
    from benchmarks.relay_graphs import SIZES, measure

    with status("measuring"):
        figures = measure()
    rows = [[name, *[f"{row[size]:.1f}" for size in SIZES]] for name, row in figures.items()]
    heads = ["", *[f"{size} calls" for size in SIZES]]
    report.show("microseconds per call", heads, rows)
    click.echo(report.save("relay_graphs", figures, path))


@main.command("relay")
@click.option("--network", default="resnet18", show_default=True)
@click.option("--no-compile", is_flag=True, help="Only the latencies.")
@threads_option
@rounds_option
@json_option
def relay_door(
    network: str, no_compile: bool, threads: int, rounds: int, path: Path | None
) -> None:
    """Compare relay's door with relax's on one network: compile times, latencies by executor."""
    from benchmarks.relay import compile_times as times_of_doors
    from benchmarks.relay import latencies

    with status("compiling"):
        seconds = {} if no_compile else times_of_doors(network, threads)
    rows = [
        [door, *[f"{found[state][key]:.2f} s" for state in ("cold", "warm")
                 for key in ("import", "compile")]]
        for door, found in seconds.items()
    ]  # fmt: skip
    if rows:
        heads = ["", "import", "cold", "import", "warm"]
        report.show(f"compiling {network} in a fresh process, {threads} threads", heads, rows)
    with status("timing"):
        timings = latencies(network, threads, rounds)
    rows = [
        [name, latency_of(timing), f"{ratio(timing, timings['relax']):.3f}",
         f"{ratio(timing, timings['graph']):.3f}"]
        for name, timing in timings.items()
    ]  # fmt: skip
    title = f"latency of {network}, {threads} threads, in turns"
    report.show(title, ["", "latency", "÷ relax", "÷ graph"], rows)
    saved = {
        "compile": seconds,
        "latency": {name: timing.as_json() for name, timing in timings.items()},
    }
    click.echo(report.save("relay", saved, path, threads=threads, rounds=rounds))


def torch_row(name: str, found: dict[str, Any], contestants: list[str]) -> list[str]:
    """One line of the table of models in torch."""
    cells = [name]
    for contestant in contestants:
        timing = found["latency"].get(contestant)
        cells.append(format_seconds(timing["median_ms"] / 1e3) if timing else "-")
    for rival in ("torch", RIVAL):
        if rival in contestants:
            factor = found["times_as_fast"].get(rival)
            cells.append(f"{factor:.2f}" if factor else "-")
    if "tilesmith dynamic" in contestants:
        factor = found.get("dynamic_to_static")
        cells.append(f"{factor:.2f}" if factor else "-")
    error = found["largest_error"].get(OURS)
    cells.append("-" if error is None else f"{error:.1e}")
    seconds = found["seconds"].get(OURS)
    cells += [f"{seconds[key]:.1f} s" if seconds else "-" for key in ("import", "compile")]
    return cells


@main.command("torch")
@click.option("--models", default="", help="Names, separated by commas; default: all.")
@click.option("--batch", default=1, show_default=True)
@click.option("--dynamic", is_flag=True, help="Also with sizes that are left open, and the ratio.")
@click.option("--onnxruntime/--no-onnxruntime", "rival", default=True, show_default=True)
@click.option("--profile", is_flag=True, help="Also a table of the kernels of each model.")
@threads_option
@rounds_option
@json_option
def torch_zoo(
    models: str, batch: int, dynamic: bool, rival: bool, profile: bool, threads: int, rounds: int,
    path: Path | None,
) -> None:  # fmt: skip
    """Measure models in plain torch, each in a process of its own: import, compile (no caches),
    errors and latencies against eager torch.
    """
    from benchmarks.models.torch_zoo import ZOO

    names = models.split(",") if models else list(ZOO)
    if unknown := [name for name in names if name not in ZOO]:
        raise click.BadParameter(f"no {unknown[0]}; there are {', '.join(ZOO)}")
    options = ["--batch", batch, "--threads", threads, "--rounds", rounds]
    options += ["--dynamic"] * dynamic + ["--profile"] * profile
    options += ["--onnxruntime" if rival else "--no-onnxruntime"]
    results: dict[str, Any] = {}
    for name in names:
        command = [sys.executable, "-m", "benchmarks.torch_models", name, *map(str, options)]
        with status(f"measuring {name}"):
            finished = subprocess.run(command, capture_output=True, text=True)
        if finished.returncode:  # one model's failure is a result, not the end
            empty = dict.fromkeys(("latency", "seconds", "largest_error", "times_as_fast"), {})
            results[name] = {**empty, "failures": {"all": finished.stderr[-2000:]}}
        else:
            results[name] = json.loads(finished.stdout.splitlines()[-1])
    columns = [OURS, *["tilesmith dynamic"] * dynamic, "torch", *[RIVAL] * rival]
    heads = ["", *columns, "× torch", *[f"× {RIVAL}"] * rival, *["dynamic ÷ static"] * dynamic]
    report.show(
        f"models in torch, batch {batch}, {threads} threads, in turns; ×: as fast as the rival",
        [*heads, "error", "import", "compile"],
        [torch_row(name, found, columns) for name, found in results.items()],
    )
    for line in failures(results):
        report.console.print(line, markup=False)
    for name, found in results.items():
        if "profile" in found:
            click.echo(f"\n{name}\n{found['profile']}")
    settings = {"threads": threads, "rounds": rounds, "batch": batch}
    click.echo(report.save("torch", results, path, **settings))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.run")
