"""`tilesmith run`: runs an artifact on arrays from files and saves the outputs."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tilesmith.cli.options import existing_file, json_option, print_json, writable_place


@click.command("run")
@click.argument("artifact", type=click.Path(path_type=Path), metavar="MODEL.tsm")
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="[NAME=]FILE.npy",
    help="Repeatable; without names in the order of the model's inputs.",
)  # fmt: skip
@click.option(
    "-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path),
    metavar="FILE.npy", help="Repeatable, in the order of the model's outputs.",
)  # fmt: skip
@click.option("--threads", type=click.IntRange(min=1), help="Default: all CPUs of this process.")
@json_option
def run_command(
    artifact: Path,
    inputs: tuple[str, ...],
    outputs: tuple[Path, ...],
    threads: int | None,
    as_json: bool,
) -> None:
    """Run MODEL.tsm once on arrays from .npy files."""
    from tilesmith.cli.arrays import as_arrays, describe_inputs, match_inputs, save_array
    from tilesmith.runtime import executable as executables
    from tilesmith.runtime.threads import set_num_threads
    from tilesmith.support.errors import ConfigError

    existing_file(artifact, "a compiled model")
    for path in outputs:
        writable_place(path, artifact)
    if threads is not None:
        set_num_threads(threads)
    executable = executables.load(str(artifact))
    arrays = match_inputs(inputs, describe_inputs(executable))
    start = time.perf_counter()
    results = as_arrays(executable(*arrays))
    seconds = time.perf_counter() - start
    if outputs and len(outputs) != len(results):
        raise ConfigError(
            f"the model has {len(results)} outputs, {len(outputs)} --output options are given"
        )
    for path, result in zip(outputs, results, strict=False):
        save_array(path, result)
    if as_json:
        records = [
            {"shape": list(r.shape), "dtype": r.dtype.name, "file": str(path) if path else None}
            for r, path in zip(results, outputs or [None] * len(results), strict=True)
        ]
        print_json({"seconds": seconds, "outputs": records})
        return
    for index, result in enumerate(results):
        where = f" -> {outputs[index]}" if outputs else ""
        click.echo(f"output {index}: {result.dtype.name}{list(result.shape)}{where}")
        if not outputs:
            click.echo(str(result))
