"""Runs the benchmarks: `python -m benchmarks.run COMMAND`. Each prints a table and writes JSON."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import onnx

import tilesmith
from benchmarks import report
from benchmarks.contestants import CONTESTANTS, Run, installed, largest_error, prepare
from benchmarks.machine import peak_flops
from benchmarks.models import MODELS, build_model, model_inputs
from benchmarks.operators import OPERATORS
from benchmarks.workloads import KERNELS
from tilesmith.inspect.timing import Timing, format_seconds, interleave, pause_for, ratio
from tilesmith.support.progress import status

OURS, RIVAL = "tilesmith", "onnxruntime"

threads_option = click.option("--threads", default=tilesmith.num_threads(), show_default=True)
rounds_option = click.option("--rounds", default=20, show_default=True)
json_option = click.option(
    "--json", "path", type=click.Path(path_type=Path), help="Default: benchmarks/results/…"
)
contestants_option = click.option(
    "--contestant",
    "names",
    multiple=True,
    type=click.Choice(list(CONTESTANTS)),
    help="Repeatable; default: all that are installed.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure the compiler and its code against rivals, in turns, on the same threads."""


def contest(
    model: onnx.ModelProto,
    feed: dict,
    names: tuple[str, ...],
    threads: int,
    rounds: int,
    in_numpy: Run | None = None,
) -> dict[str, Any]:
    """Prepare the contestants, check them against the first, and time them in turns."""
    chosen = list(names) or installed(list(CONTESTANTS))
    if RIVAL in chosen:  # the reference comes first
        chosen.sort(key=lambda name: name != RIVAL)
    prepared, errors, failures = {}, {}, {}
    reference = None
    for name in chosen:
        with status(f"preparing {name}"):
            try:
                made = prepare(name, model, feed, threads)
                outputs = made.run()
            except Exception as error:  # one contestant's failure is a result, not the end
                failures[name] = f"{type(error).__name__}: {error}"
                continue
        reference = outputs if reference is None else reference
        errors[name] = largest_error(outputs, reference)
        prepared[name] = made
    runs = {name: made.run for name, made in prepared.items()}
    if in_numpy is not None and not names:
        limit_blas(threads)
        runs["numpy"] = in_numpy
        errors["numpy"] = largest_error(in_numpy(), reference)
    with status("timing"):
        timings = interleave(runs, rounds, pause_seconds=pause_for(threads))
    return {
        "timings": timings,
        "seconds": {name: made.seconds for name, made in prepared.items()},
        "errors": errors,
        "failures": failures,
    }


def limit_blas(threads: int) -> None:
    """Give numpy's matrix products the same number of threads, where that is possible."""
    if importlib.util.find_spec("threadpoolctl") is not None:
        import threadpoolctl

        threadpoolctl.threadpool_limits(threads, user_api="blas")


def record(result: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one contest for the JSON file."""
    timings: dict[str, Timing] = result["timings"]
    ours = timings.get(OURS)
    return {
        "latency": {name: timing.as_json() for name, timing in timings.items()},
        "times_as_fast": {
            name: ratio(timing, ours)
            for name, timing in timings.items()
            if ours is not None and name != OURS
        },
        "prepare_seconds": result["seconds"],
        "largest_error": result["errors"],
        "failures": result["failures"],
    }


def latency(timing: Timing) -> str:
    """Return the median, and half the distance from the 10th to the 90th percentile."""
    spread = (timing.high - timing.low) / 2 / timing.median
    return f"{format_seconds(timing.median)} ±{spread:.0%}"


def _absent(contestant: str) -> str:
    return "-" if contestant == "numpy" else "failed"


def row(name: str, result: dict[str, Any], columns: list[str]) -> list[str]:
    """One line of the table of a contest."""
    timings: dict[str, Timing] = result["timings"]
    ours = timings.get(OURS)
    cells = [name]
    for contestant in columns:
        timing = timings.get(contestant)
        cells.append(latency(timing) if timing else _absent(contestant))
    for contestant in columns:
        if contestant != OURS:
            both = ours is not None and contestant in timings
            cells.append(f"{ratio(timings[contestant], ours):.2f}" if both else "-")
    error = result["errors"].get(OURS)
    cells.append("-" if error is None else f"{error:.1e}")
    return cells


def table_columns(chosen: list[str]) -> list[str]:
    """Return the headings for `row`."""
    ratios = [f"× {name}" for name in chosen if name != OURS]
    return ["", *chosen, *ratios, "error"]


def report_failures(results: dict[str, dict[str, Any]]) -> None:
    """Say which contestants could not run, and why."""
    for name, result in results.items():
        for contestant, message in result["failures"].items():
            first = message.splitlines()[0]
            report.console.print(f"{name}: {contestant} failed: {first}", markup=False)


@main.command()
@click.argument("models", nargs=-1, type=click.Choice(list(MODELS)))
@threads_option
@rounds_option
@contestants_option
@json_option
def models(
    models: tuple[str, ...], threads: int, rounds: int, names: tuple[str, ...], path: Path | None
) -> None:
    """Measure the latency of whole MODELS (default: all) against the rivals."""
    results = {}
    for name in models or MODELS:
        with status(f"building {name}"):
            model = build_model(name)
        results[name] = contest(model, model_inputs(name), names, threads, rounds)
    chosen = list(names) or installed(list(CONTESTANTS))
    report.show(
        f"latency of {threads} threads, in turns; ×: times as fast as the rival",
        [*table_columns(chosen), "compile"],
        [
            [
                *row(name, result, chosen),
                f"{result['seconds'][OURS]:.1f} s" if OURS in result["seconds"] else "-",
            ]
            for name, result in results.items()
        ],
    )
    report_failures(results)
    saved = {name: record(result) for name, result in results.items()}
    click.echo(report.save("models", saved, path, threads=threads, rounds=rounds))


@main.command()
@click.option("--match", default="", help="Only kernels whose name contains this.")
@threads_option
@rounds_option
@contestants_option
@json_option
def kernels(
    match: str, threads: int, rounds: int, names: tuple[str, ...], path: Path | None
) -> None:
    """Measure the speed of single kernels: convolutions, matrix products, reductions."""
    results, rows = {}, []
    peak = peak_flops() * threads
    chosen = list(names) or [*installed(list(CONTESTANTS)), "numpy"]
    for name, make in KERNELS.items():
        if match not in name:
            continue
        workload = make(name)
        result = contest(workload.model, workload.feed, names, threads, rounds, workload.numpy)
        results[name] = result
        ours = result["timings"].get(OURS)
        rate = "-"
        if ours is not None:
            if workload.flops:
                flops = workload.flops / ours.median
                rate = f"{flops / 1e9:.0f} GFLOP/s, {flops / peak:.0%} of peak"
            else:
                rate = f"{workload.bytes / ours.median / 1e9:.1f} GB/s"
        rows.append([*row(name, result, chosen), rate])
    report.show(
        f"kernels on {threads} threads, in turns; ×: times as fast as the rival",
        [*table_columns(chosen), "rate"],
        rows,
    )
    report_failures(results)
    saved = {name: record(result) for name, result in results.items()}
    click.echo(report.save("kernels", saved, path, threads=threads, rounds=rounds))


@main.command()
@click.option("--match", default="", help="Only operators whose name contains this.")
@threads_option
@rounds_option
@json_option
def operators(match: str, threads: int, rounds: int, path: Path | None) -> None:
    """Measure 44 operators that had cliffs, against onnxruntime: medians and their ratio."""
    results = {}
    for name, make in OPERATORS.items():
        if match in name:
            workload = make(name)
            results[name] = contest(workload.model, workload.feed, (OURS, RIVAL), threads, rounds)
    columns = [OURS, RIVAL]
    rows = [row(name, result, columns) for name, result in results.items()]
    title = f"operators on {threads} threads, in turns; ×: times as fast as the rival"
    report.show(title, table_columns(columns), rows)
    report_failures(results)
    saved = {name: record(result) for name, result in results.items()}
    click.echo(report.save("operators", saved, path, threads=threads, rounds=rounds))


def compile_in_process(model: Path, cache: Path, threads: int, profile: bool) -> dict[str, Any]:
    """Compile in a fresh process; return the seconds and what it printed."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.compile_once",
        str(model),
        "--threads",
        str(threads),
    ]
    environment = os.environ | {"TILESMITH_CACHE_DIR": str(cache), "TILESMITH_CACHE": "1"}
    if profile:  # the passes over kernels then run in this process too, and are counted
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
@click.option("--passes", default=12, show_default=True, help="Passes shown per model.")
@threads_option
@json_option
def compile_times(models: tuple[str, ...], passes: int, threads: int, path: Path | None) -> None:
    """Measure the seconds to compile MODELS (default: all): without caches, and with both caches
    filled.
    """
    results, rows = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name in models or MODELS:
            file = Path(folder) / f"{name}.onnx"
            onnx.save(build_model(name), file)
            with status(f"compiling {name}"):
                cold = compile_in_process(file, Path(folder) / f"cache-{name}", threads, False)
                warm = compile_in_process(file, Path(folder) / f"cache-{name}", threads, False)
                shown = compile_in_process(file, Path(folder) / f"profile-{name}", threads, True)
            results[name] = {
                "cold": cold,
                "warm": warm,
                "profiled_seconds": shown["compile"],
                "passes": shown["passes"],
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
        slowest = sorted(result["passes"].items(), key=lambda item: -item[1])[:passes]
        lines = [[label, f"{seconds * 1e3:.0f} ms"] for label, seconds in slowest]
        rest = result["profiled_seconds"] - sum(seconds for _, seconds in slowest)
        lines.append(["all else (other passes, schedules, LLVM, import)", f"{rest * 1e3:.0f} ms"])
        report.show(f"{name}: time by pass (cold)", ["pass", "time"], lines)
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
        rows.append([name, *[latency(one) for one in timings.values()],
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
    from benchmarks.machine import measure

    with status("measuring"):
        figures = measure()
    report.show("one core", ["", ""], [[name, f"{value:.1f}"] for name, value in figures.items()])
    click.echo(report.save("machine", figures, path))


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
        [name, latency(timing), f"{ratio(timing, timings['relax']):.3f}",
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


def torch_row(name: str, record: dict[str, Any], contestants: list[str]) -> list[str]:
    """One line of the table of models in torch."""
    cells = [name]
    for contestant in contestants:
        timing = record["latency"].get(contestant)
        cells.append(format_seconds(timing["median_ms"] / 1e3) if timing else "-")
    for rival in ("torch", RIVAL):
        if rival in contestants:
            factor = record["times_as_fast"].get(rival)
            cells.append(f"{factor:.2f}" if factor else "-")
    if "tilesmith dynamic" in contestants:
        factor = record.get("dynamic_to_static")
        cells.append(f"{factor:.2f}" if factor else "-")
    error = record["largest_error"].get(OURS)
    cells.append("-" if error is None else f"{error:.1e}")
    seconds = record["seconds"].get(OURS)
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
            failures = {"all": finished.stderr[-2000:]}
            empty = dict.fromkeys(("latency", "seconds", "largest_error", "times_as_fast"), {})
            results[name] = {**empty, "failures": failures}
        else:
            results[name] = json.loads(finished.stdout.splitlines()[-1])
    columns = [OURS, *["tilesmith dynamic"] * dynamic, "torch", *[RIVAL] * rival]
    heads = ["", *columns, "× torch", *[f"× {RIVAL}"] * rival, *["dynamic ÷ static"] * dynamic]
    report.show(
        f"models in torch, batch {batch}, {threads} threads, in turns; ×: as fast as the rival",
        [*heads, "error", "import", "compile"],
        [torch_row(name, record, columns) for name, record in results.items()],
    )
    report_failures(results)
    for name, record in results.items():
        if "profile" in record:
            click.echo(f"\n{name}\n{record['profile']}")
    settings = {"threads": threads, "rounds": rounds, "batch": batch}
    click.echo(report.save("torch", results, path, **settings))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.run")
