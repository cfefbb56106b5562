"""Defines the programs that are compared: each turns a job (a model and its inputs) into a function
without arguments.

What is heavy is imported when a contestant is prepared: each runs in a process of its own
(`benchmarks.contestant`), whose environment is set before any import.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

Run = Callable[[], Sequence[np.ndarray]]
Feed = dict[str, np.ndarray]

PRECISIONS = ("f32", "bf16", "int8")
"""How it is computed; for int8 the model is quantised already, in the QDQ form."""


class NotOffered(Exception):
    """What a contestant cannot do at all; its text is shown in the table's notes."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """What a job says besides the model and its inputs."""

    precision: str = "f32"
    kernel: str = ""
    """The name of the workload that the model is, for numpy."""
    torch_model: str = ""
    """The name of the model in torch (`torch_zoo`) that the ONNX model was made from."""
    batch: int = 1


@dataclass(frozen=True)
class Job(JobOptions):
    """What a contestant is to run, and on how many threads."""

    model: onnx.ModelProto
    feed: Feed
    threads: int


def _session(model: onnx.ModelProto, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def onnxruntime_contestant(model: onnx.ModelProto, feed: Feed, threads: int) -> Run:
    """Prepare onnxruntime's CPU provider with all its optimisations."""
    session = _session(model, threads)
    return lambda: session.run(None, feed)


def _onnxruntime(job: Job) -> Run:
    if job.precision == "bf16":
        raise NotOffered("onnxruntime has no bfloat16 kernels for CPUs")
    return onnxruntime_contestant(job.model, job.feed, job.threads)


def tilesmith_contestant(
    model: onnx.ModelProto, feed: Feed, threads: int, precision: str = "f32", **options: Any
) -> Run:
    """Prepare this compiler, for the CPU of this machine; ``options`` are those of
    `tilesmith.compile`.
    """
    import tilesmith

    tilesmith.set_num_threads(threads)
    if precision != "f32":
        options["precision"] = precision
    executable = tilesmith.compile(model, target=f"llvm -num-cores={threads}", **options)
    arrays = list(feed.values())

    def run() -> Sequence[np.ndarray]:
        result = executable(*arrays)
        outputs = result if isinstance(result, list | tuple) else [result]
        # As onnxruntime does, give arrays on the memory of the results; `numpy()` would copy them.
        return [np.from_dlpack(output) for output in outputs]

    return run


def _tilesmith(job: Job) -> Run:
    # a model for int8 is quantised already, and needs no precision
    precision = "f32" if job.precision == "int8" else job.precision
    return tilesmith_contestant(job.model, job.feed, job.threads, precision)


def _torch_parts(job: Job) -> tuple[Any, tuple[Any, ...]]:
    """Return a module of torch and its inputs: the model itself, where it was made in torch."""
    import torch

    torch.set_num_threads(job.threads)
    if job.precision == "int8":
        raise NotOffered("quantised ONNX models have no torch version here")
    if job.torch_model:
        from benchmarks.torch_models import Case

        case = Case(job.torch_model, job.batch, job.threads)
        return case.model, case.inputs
    from benchmarks.torch_graph import TorchGraph

    graph = TorchGraph(job.model)
    return graph.module(), ({name: torch.from_numpy(array) for name, array in job.feed.items()},)


def _run_of_torch(function: Any, inputs: tuple[Any, ...], precision: str) -> Run:
    import torch

    def tensors(values: Any) -> list[Any]:
        if isinstance(values, torch.Tensor):
            return [values]
        return [tensor for value in values for tensor in tensors(value)]

    def run() -> Sequence[np.ndarray]:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, precision == "bf16"):
            results = tensors(function(*inputs))
        if precision == "bf16":
            results = [one.float() if one.is_floating_point() else one for one in results]
        return [one.numpy() for one in results]

    return run


def _torch(job: Job) -> Run:
    module, inputs = _torch_parts(job)
    return _run_of_torch(module, inputs, job.precision)


def _torch_compile(job: Job) -> Run:
    import torch

    module, inputs = _torch_parts(job)
    return _run_of_torch(torch.compile(module), inputs, job.precision)


def _openvino(job: Job) -> Run:
    """Prepare OpenVINO's CPU plugin; left alone it would compute in bfloat16 where it can."""
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if job.precision == "bf16" else "f32",
        "INFERENCE_NUM_THREADS": job.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = core.read_model(job.model.SerializeToString())
    compiled = core.compile_model(model, "CPU", settings)
    request, feed, count = compiled.create_infer_request(), job.feed, len(compiled.outputs)

    def run() -> Sequence[np.ndarray]:
        result = request.infer(feed, share_inputs=True, share_outputs=True)
        return [result[place] for place in range(count)]

    return run


def _jax(job: Job) -> Run:
    from benchmarks.jax_graph import JaxGraph

    if job.precision == "int8":
        raise NotOffered("quantised ONNX models have no jax version here")
    graph = JaxGraph(job.model, "bfloat16" if job.precision == "bf16" else "float32")
    values = graph.prepare(job.feed)
    return lambda: graph(values)


def _numpy(job: Job) -> Run:
    from benchmarks.workloads import KERNELS

    made = KERNELS[job.kernel](job.kernel).numpy if job.kernel in KERNELS else None
    if made is None or job.precision != "f32":
        raise NotOffered("it has no short form in numpy")
    limit_blas(job.threads)
    return made


def _tvm(job: Job) -> Run:
    """Prepare Apache TVM as it comes, without tuning."""
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    if job.precision != "f32":
        raise NotOffered("only f32 is compared")
    built = tvm.compile(relax.get_pipeline("zero")(from_onnx(job.model)), target="llvm")
    machine = relax.VirtualMachine(built, tvm.cpu())
    arrays = [tvm.runtime.tensor(array) for array in job.feed.values()]

    def run() -> Sequence[np.ndarray]:
        result = machine["main"](*arrays)
        outputs = [result] if hasattr(result, "numpy") else list(result)
        return [np.from_dlpack(output) for output in outputs]

    return run


def limit_blas(threads: int) -> None:
    """Give numpy's matrix products the same number of threads, where that is possible."""
    if importlib.util.find_spec("threadpoolctl") is not None:
        import threadpoolctl

        threadpoolctl.threadpool_limits(threads, user_api="blas")


@dataclass(frozen=True)
class Contestant:
    """A program: the package that it needs, how it is prepared, and whether its threads can only be
    limited by limiting its processors.
    """

    package: str
    prepare: Callable[[Job], Run] = field(repr=False)
    is_pinned: bool = False
    only_kernels: bool = False


CONTESTANTS: dict[str, Contestant] = {
    "tilesmith": Contestant("tilesmith", _tilesmith),
    "onnxruntime": Contestant("onnxruntime", _onnxruntime),
    "torch": Contestant("torch", _torch),
    "torch.compile": Contestant("torch", _torch_compile),
    "openvino": Contestant("openvino", _openvino),
    "jax": Contestant("jax", _jax, is_pinned=True),
    "numpy": Contestant("numpy", _numpy, only_kernels=True),
    "tvm": Contestant("tvm", _tvm, is_pinned=True),
}


def installed(names: Sequence[str]) -> list[str]:
    """Return those of `names` whose package can be imported."""
    return [
        name for name in names if importlib.util.find_spec(CONTESTANTS[name].package) is not None
    ]


def environment(threads: int) -> dict[str, str]:
    """Return what has to be set before a contestant's packages are imported."""
    count = str(threads)
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS")
    eigen = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {eigen}".strip()
    return {**dict.fromkeys(variables, count), "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


def largest_error(outputs: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> float:
    """Return max |difference| / max |reference|, over all outputs; infinite for other shapes."""
    worst = 0.0
    for found, expected in zip(outputs, reference, strict=True):
        if found.shape != expected.shape:
            return float("inf")
        if not expected.size:
            continue
        scale = float(np.abs(expected).max()) or 1.0
        difference = np.abs(found.astype("float64") - expected.astype("float64")).max()
        worst = max(worst, float(difference) / scale)
        if np.isnan(difference):
            return float("nan")
    return worst
