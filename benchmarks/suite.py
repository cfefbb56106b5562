"""The models that are compared, as ONNX files: `python -m benchmarks.suite NAME FOLDER`.

Some are written as graphs (`benchmarks.models`), the others in torch (`torch_zoo`) and exported.
Files are made in a process of its own, so that whoever measures imports no framework.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx

from benchmarks.contestants import PRECISIONS
from benchmarks.models import MODELS, build_model, model_inputs
from benchmarks.processes import JobFiles


@dataclass(frozen=True)
class Member:
    """A model of the suite: a graph (a name in MODELS) or a model in torch (a name in ZOO)."""

    graph: str = ""
    torch_model: str = ""
    is_dynamic: bool = False
    """Whether sizes are left open, and known only when it runs."""
    batches: tuple[int, ...] = (1, 8)


SUITE: dict[str, Member] = {
    **{name: Member(graph=name) for name in MODELS},
    "efficientnet_b0": Member(torch_model="efficientnet_b0"),
    "regnet_y": Member(torch_model="regnet_y"),
    "convnext": Member(torch_model="convnext_t"),
    "vit_b16": Member(torch_model="vit_b16"),
    "unet": Member(torch_model="unet"),
    "wav2vec": Member(torch_model="wav2vec"),
    "lstm": Member(torch_model="lstm"),
    "bert_dynamic": Member(torch_model="bert_base", is_dynamic=True),
    "gpt2_decode": Member(torch_model="gpt2_decode"),
}


def _from_torch(member: Member, batch: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    import tempfile

    from benchmarks.torch_models import Case, arrays_of

    case = Case(member.torch_model, batch, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        case.export(path, member.is_dynamic)
        model = onnx.load(path)
    weights = {one.name for one in model.graph.initializer}
    names = [one.name for one in model.graph.input if one.name not in weights]
    return model, dict(zip(names, arrays_of(case.inputs), strict=True))


def write(name: str, folder: Path, batch: int = 1, precision: str = "f32") -> JobFiles:
    """Write the model called `name` and its inputs below `folder`."""
    member = SUITE[name]
    if member.graph:
        model = build_model(member.graph, batch=batch)
        feed = model_inputs(member.graph, batch=batch)
    else:
        model, feed = _from_torch(member, batch)
    if precision == "int8":
        from benchmarks.quantised import quantised

        model = quantised(model, feed)
    return JobFiles.write(
        folder, model, feed, precision=precision, torch_model=member.torch_model, batch=batch
    )


def write_in_process(name: str, folder: Path, batch: int, precision: str) -> JobFiles:
    """Do as `write` does, in a process of its own; click.ClickException if that fails."""
    command = [sys.executable, "-m", "benchmarks.suite", name, str(folder)]
    command += ["--batch", str(batch), "--precision", precision]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        last = finished.stderr.strip().splitlines()[-1:] or ["no message"]
        raise click.ClickException(f"making {name} failed: {last[0]}")
    values: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    values["model"], values["feed"] = Path(values["model"]), Path(values["feed"])
    return JobFiles(**values)


@click.command()
@click.argument("name", type=click.Choice(list(SUITE)))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--batch", default=1, show_default=True)
@click.option("--precision", type=click.Choice(PRECISIONS), default="f32", show_default=True)
def main(name: str, folder: Path, batch: int, precision: str) -> None:
    """Write the model NAME and its inputs to FOLDER; print a description as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.redirect_stdout(sys.stderr):
        files = write(name, folder, batch, precision)
    command = files.as_command(threads=1)
    click.echo(json.dumps({key: command[key] for key in command if key not in ("do", "threads")}))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.suite")
