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
    help="Repeatable; without names in the order of the model's inputs. Default: random arrays.",
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
    """Run MODEL.tsm once on arrays from .npy files, or on random ones.

    Without any --input all inputs are drawn (the same in every run), with 1 for symbolic sizes.
    """
    from tilesmith.cli.arrays import (
        as_arrays,
        chosen_sizes,
        describe_inputs,
        match_inputs,
        random_inputs,
        save_array,
    )
    from tilesmith.runtime import executable as executables
    from tilesmith.runtime.threads import set_num_threads
    from tilesmith.support.errors import ConfigError

    existing_file(artifact, "a compiled model")
    for path in outputs:
        writable_place(path, artifact)
    if threads is not None:
        set_num_threads(threads)
    executable = executables.load(str(artifact))
    wanted = describe_inputs(executable)
    sizes = {} if inputs else chosen_sizes(wanted)[1]
    arrays = match_inputs(inputs, wanted) if inputs else list(random_inputs(wanted).values())
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
        drawn = {} if inputs or not wanted else {"random_inputs": True, "sizes": sizes}
        print_json({"seconds": seconds, "outputs": records, **drawn})
        return
    if wanted and not inputs:
        chosen = "".join([f", {name} = {size}" for name, size in sizes.items()])
        click.echo(f"random inputs{chosen} (give yours with --input)")
    for index, result in enumerate(results):
        where = f" -> {outputs[index]}" if outputs else ""
        click.echo(f"output {index}: {result.dtype.name}{list(result.shape)}{where}")
        if not outputs:
            click.echo(str(result))
