"""`tilesmith inspect`: prints the module at any stage of compilation."""

from __future__ import annotations

import sys
from pathlib import Path

import click

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

# Stage → the language that colours its text on a terminal.
STAGES = {
    "graph": "python",
    "fused": "python",
    "tir": "python",
    "lowered": "python",
    "source": "c",
    "llvm": "llvm",
    "asm": "gas",
}


@click.command("inspect")
@model_argument
@click.option(
    "--stage", type=click.Choice(list(STAGES)), default="graph", show_default=True,
    help="graph: as imported; fused: after the graph passes; tir: scheduled functions; "
    "lowered: flat loops; source: what the back end writes; llvm, asm: what LLVM gets and makes.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["text", "dot", "html"]), default="text",
    show_default=True, help="dot, html: the graph as a picture (stages graph and fused).",
)  # fmt: skip
@click.option("--function", metavar="NAME", help="Only this kernel (stages tir to asm).")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="A file instead of the screen."
)
@target_option
@input_shape_option
@json_option
def inspect_command(
    model: Path,
    stage: str,
    form: str,
    function: str | None,
    output: Path | None,
    target: str,
    input_shapes: InputShapes,
    as_json: bool,
) -> None:
    """Print MODEL.onnx as it looks at one stage of compilation."""
    from tilesmith.support.errors import ConfigError
    from tilesmith.support.progress import status
    from tilesmith.target import Target

    existing_file(model, "a model")
    if output is not None:
        writable_place(output, model)
    chosen = Target(target)
    with status(f"{model.name}: {stage}"):
        from tilesmith.driver.stage_texts import GRAPH_STAGES, graph_module, stages

        if form == "text":
            text = stages(
                str(model), chosen, stage, input_shapes=shapes(input_shapes), function=function
            )
        elif stage not in GRAPH_STAGES or function is not None:
            raise ConfigError(
                f"--format {form} draws whole graphs", notes=("with --stage graph, or fused",)
            )
        else:
            from tilesmith.inspect.graph_picture import graph_picture

            text = graph_picture(
                graph_module(str(model), chosen, stage, shapes(input_shapes)), form
            )
    if output is not None:
        from tilesmith.support.files import write_atomically

        write_atomically(output, text if text.endswith("\n") else text + "\n")
    elif as_json:
        print_json({"model": str(model), "stage": stage, "target": str(chosen), "text": text})
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(
            Syntax(text, STAGES[stage] if form == "text" else form, background_color="default")
        )
    else:
        click.echo(text)
