"""Writes one of the networks as an ONNX file."""

from __future__ import annotations

from pathlib import Path

import click
import onnx

from benchmarks.models import MODELS, build_model


@click.command()
@click.argument("name", type=click.Choice(list(MODELS)))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: NAME.onnx")
@click.option("--seed", default=0, show_default=True, help="Of the random weights.")
@click.option("--layer-norm-op", is_flag=True, help="bert: LayerNormalization as one operator.")
def main(name: str, output: Path | None, seed: int, layer_norm_op: bool) -> None:
    """Write the network NAME with random weights."""
    if layer_norm_op and name != "bert":
        raise click.UsageError("--layer-norm-op is for bert")
    options = {"layer_norm_op": True} if layer_norm_op else {}
    output = output or Path(f"{name}.onnx")
    onnx.save(build_model(name, seed, **options), output)
    click.echo(f"{output}: {output.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.models")
