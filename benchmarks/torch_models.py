"""Measures one model of the zoo in plain torch: imported through ``torch.export``, compiled without
caches, compared with eager torch and timed in turns with it.

    python -m benchmarks.torch_models resnet18 --dynamic

Run as a process of its own, so that no kernels of another model are there; prints JSON.
``python -m benchmarks.run torch`` does so for many models.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import torch

from benchmarks.contestants import Run, largest_error
from benchmarks.models.torch_zoo import ZOO, Entry
from tilesmith.inspect.timing import interleave, pause_for, ratio

OURS, OPEN, EAGER, RIVAL = "tilesmith", "tilesmith dynamic", "torch", "onnxruntime"


def flat(values: Any) -> list[torch.Tensor]:
    """Return the tensors of inputs or results, some of which are tuples of them."""
    if isinstance(values, torch.Tensor):
        return [values]
    return [tensor for value in values for tensor in flat(value)]


def arrays_of(values: Any) -> list[np.ndarray]:
    return [tensor.detach().numpy() for tensor in flat(values)]


def steady(model: torch.nn.Module, inputs: tuple) -> None:
    """Let batch normalisation see the inputs, so that activations keep a size of about 1."""
    norms = [each for each in model.modules() if isinstance(each, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    if norms:
        with torch.no_grad():
            model(*inputs)
    model.eval()


class Case:
    """A model with its inputs, and what eager torch computes of them."""

    def __init__(self, name: str, batch: int, threads: int) -> None:
        torch.set_num_threads(threads)
        self.entry: Entry = ZOO[name]
        self.threads = threads
        self.model, self.inputs = self.entry.build(batch)
        steady(self.model, self.inputs)
        self.buffers = {key: value.clone() for key, value in self.model.named_buffers()}
        with torch.inference_mode():
            self.expected = [array.copy() for array in arrays_of(self.model(*self.inputs))]
        self.after = {key: value.clone() for key, value in self.model.named_buffers()}
        self.restore()

    def restore(self) -> None:
        """Give the buffers that the model writes to, such as a cache, their first values."""
        with torch.no_grad():
            for name, buffer in self.model.named_buffers():
                buffer.copy_(self.buffers[name])

    def eager(self) -> list[np.ndarray]:
        """Run torch itself."""
        with torch.inference_mode():
            return arrays_of(self.model(*self.inputs))

    def compiled(self, is_dynamic: bool) -> tuple[Any, Run, list[np.ndarray], dict[str, float]]:
        """Return the compiled model, a function that runs it, what it should give, and the seconds
        of each phase.
        """
        import tilesmith
        from tilesmith.relax.frontend.torch import from_exported_program

        tilesmith.set_num_threads(self.threads)
        inputs, shapes = self.inputs, None
        if is_dynamic:
            shapes = self.entry.dynamic_shapes()
            if "batch" in str(shapes):
                inputs = self.entry.inputs(2)  # torch takes a size of 1 for a fixed one
        moments = [time.perf_counter()]
        program = torch.export.export(self.model, inputs, dynamic_shapes=shapes)
        moments.append(time.perf_counter())
        module = from_exported_program(program)
        moments.append(time.perf_counter())
        executable = tilesmith.compile(module, f"llvm -num-cores={self.threads}", cache=False)
        moments.append(time.perf_counter())
        seconds = dict(zip(("export", "import", "compile"), np.diff(moments).tolist()))
        attributes = module["main"].attrs
        mutated = [str(name) for name in attributes["mutated"]] if "mutated" in attributes else []
        given = arrays_of(self.inputs) + [self.buffers[name].numpy() for name in mutated]

        def run() -> Sequence[np.ndarray]:
            result = executable(*given)
            outputs = result if isinstance(result, list | tuple) else [result]
            return [np.from_dlpack(output) for output in outputs]

        expected = self.expected + [self.after[name].numpy() for name in mutated]
        run.given = given  # type: ignore[attr-defined]
        return executable, run, expected, seconds

    def export(self, path: Path, is_dynamic: bool = False) -> None:
        """Write the model as ONNX, or raise as torch does; dynamic: with sizes left open."""
        has_script = not is_dynamic and importlib.util.find_spec("onnxscript") is not None
        options: dict[str, Any] = {}
        if is_dynamic:
            names = [f"input{place}" for place in range(len(flat(self.inputs)))]
            axes = self.entry.dynamic() if self.entry.dynamic is not None else ()
            options = {"input_names": names, "dynamic_axes": dict(zip(names, axes, strict=True))}
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(self.model, self.inputs, str(path), dynamo=has_script, **options)

    def onnxruntime(self, folder: Path) -> Run:
        """Return a function that runs the model in onnxruntime; or raise as torch does."""
        import onnxruntime

        path = folder / "model.onnx"
        self.export(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        names = [one.name for one in session.get_inputs()]
        feed = dict(zip(names, arrays_of(self.inputs), strict=True))
        return lambda: session.run(None, feed)


def measure(
    name: str, batch: int, threads: int, rounds: int, is_dynamic: bool, rival: bool, profile: bool
) -> dict[str, Any]:
    """Return the figures of one model."""
    case = Case(name, batch, threads)
    runs: dict[str, Run] = {EAGER: case.eager}
    record: dict[str, Any] = {"seconds": {}, "largest_error": {}, "failures": {}}
    kept: dict[str, Any] = {}

    def attempt(contestant: str, prepare: Callable[[], tuple[Run, list[np.ndarray]]]) -> None:
        """Prepare and check a contestant; its failure is a result, not the end."""
        try:
            run, expected = prepare()
            record["largest_error"][contestant] = largest_error(run(), expected)
            runs[contestant] = run
        except Exception as error:
            record["failures"][contestant] = f"{type(error).__name__}: {error}"[:2000]

    def ours(contestant: str, dynamic: bool) -> tuple[Run, list[np.ndarray]]:
        executable, run, expected, seconds = case.compiled(dynamic)
        record["seconds"][contestant] = seconds
        kept[contestant] = executable, run
        return run, expected

    attempt(OURS, lambda: ours(OURS, False))
    if is_dynamic and case.entry.dynamic is not None:
        attempt(OPEN, lambda: ours(OPEN, True))
    with TemporaryDirectory() as folder:
        if rival:
            attempt(RIVAL, lambda: (case.onnxruntime(Path(folder)), case.expected))
        timings = interleave(runs, rounds, pause_seconds=pause_for(threads))
    record["latency"] = {one: timing.as_json() for one, timing in timings.items()}
    mine = timings.get(OURS)
    record["times_as_fast"] = {
        one: ratio(timing, mine)
        for one, timing in timings.items()
        if mine is not None and one in (EAGER, RIVAL)
    }
    if mine is not None and OPEN in timings:
        record["dynamic_to_static"] = ratio(timings[OPEN], mine)
    if profile and OURS in kept:
        executable, run = kept[OURS]
        record["profile"] = executable.profile(*run.given).table()
    return record


@click.command()
@click.argument("name", type=click.Choice(list(ZOO)))
@click.option("--batch", default=1, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=20, show_default=True)
@click.option("--dynamic", is_flag=True, help="Also with sizes that are left open.")
@click.option("--onnxruntime/--no-onnxruntime", "rival", default=True, show_default=True)
@click.option("--profile", is_flag=True, help="Also a table of the kernels.")
def main(
    name: str, batch: int, threads: int, rounds: int, dynamic: bool, rival: bool, profile: bool
) -> None:
    """Measure the model NAME."""
    os.environ["TILESMITH_CACHE"] = "0"
    warnings.filterwarnings("ignore", module=r"torch|copyreg|contextlib")
    with contextlib.redirect_stdout(sys.stderr):
        record = measure(name, batch, threads, rounds, dynamic, rival, profile)
    click.echo(json.dumps(record))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.torch_models")
