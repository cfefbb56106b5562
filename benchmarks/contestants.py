"""Defines the programs that are compared: each turns an ONNX model into a function without
arguments.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

Run = Callable[[], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Prepared:
    """A contestant ready to run: the function, and the seconds that making it took."""

    run: Run
    seconds: float


def onnxruntime_contestant(
    model: onnx.ModelProto, feed: dict[str, np.ndarray], threads: int
) -> Run:
    """Prepare onnxruntime's CPU provider with all its optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, feed)


def torch_contestant(model: onnx.ModelProto, feed: dict[str, np.ndarray], threads: int) -> Run:
    """Prepare eager torch on the same graph."""
    import torch

    from benchmarks.torch_graph import TorchGraph

    torch.set_num_threads(threads)
    graph = TorchGraph(model)
    return lambda: graph(feed)


def tilesmith_contestant(
    model: onnx.ModelProto, feed: dict[str, np.ndarray], threads: int, **options: Any
) -> Run:
    """Prepare this compiler, for the CPU of this machine; ``options`` are those of
    `tilesmith.compile`.
    """
    import tilesmith

    tilesmith.set_num_threads(threads)
    executable = tilesmith.compile(model, target=f"llvm -num-cores={threads}", **options)
    arrays = list(feed.values())

    def run() -> Sequence[np.ndarray]:
        result = executable(*arrays)
        outputs = result if isinstance(result, list | tuple) else [result]
        # As onnxruntime does, give arrays on the memory of the results; `numpy()` would copy them.
        return [np.from_dlpack(output) for output in outputs]

    return run


CONTESTANTS: dict[str, Callable[..., Run]] = {
    "tilesmith": tilesmith_contestant,
    "onnxruntime": onnxruntime_contestant,
    "torch": torch_contestant,
}


def installed(names: Sequence[str]) -> list[str]:
    """Return those of `names` whose package can be imported."""
    return [name for name in names if importlib.util.find_spec(name) is not None]


def prepare(
    name: str, model: onnx.ModelProto, feed: dict[str, np.ndarray], threads: int
) -> Prepared:
    """Make one contestant ready; its errors pass through."""
    start = time.perf_counter()
    run = CONTESTANTS[name](model, feed, threads)
    return Prepared(run, time.perf_counter() - start)


def largest_error(outputs: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> float:
    """Return max |difference| / max |reference|, over all outputs."""
    worst = 0.0
    for found, expected in zip(outputs, reference, strict=True):
        scale = float(np.abs(expected).max()) or 1.0
        worst = max(worst, float(np.abs(found - expected).max()) / scale)
    return worst
