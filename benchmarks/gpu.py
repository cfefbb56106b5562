"""Kernels on a CUDA device against torch (cuBLAS, cuDNN) and the bandwidth of its copies.

python -m benchmarks.gpu                    # a table, and benchmarks/out/gpu.json
python -m benchmarks.gpu --record           # also benchmarks/results/gpu.json, for the README
python -m benchmarks.gpu --compile-only     # no device: compiles all, prints registers and times

The products are steps of examples/gemm_ladder; the others are scheduled by the rules of
``tilesmith.schedule_rules.gpu``. Each round runs every kernel of ours, then torch's, timed by
events; results are compared with float64 on fresh random inputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.table import Table

import tilesmith as ts
from benchmarks.contest import OURS, rate, record
from benchmarks.processes import Contest
from benchmarks.report import RESULTS, console, save
from examples.gemm_ladder.ladder import FINAL, STEPS, Step
from tilesmith import te, topi
from tilesmith.codegen.gpu import kernel_resources
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.inspect.timing import Timing, format_seconds
from tilesmith.runtime.cuda import graph_of
from tilesmith.schedule_rules.gpu import first_rule
from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError, UnsupportedError
from tilesmith.target import Target

CALLS = 10
"""Calls of one sample."""
LAUNCHES = 1000
GRAPH = 100
"""Launches within a CUDA graph."""
COPIED = 1 << 28
"""Bytes of the copy that measures the bandwidth: read and written."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Workload:
    """A kernel: its inputs, how it is made, and the same in torch."""

    name: str
    inputs: tuple[Shape, ...]
    make: Callable[..., te.Tensor] | Step
    """Gives the output of placeholders, which rules schedule; or a step of the GEMM ladder."""
    torch: Callable[..., Any]
    flops: float = 0.0
    tolerance: float = 1e-5

    @property
    def dtype(self) -> str:
        """The dtype of the inputs."""
        return self.make.dtype if isinstance(self.make, Step) else "float32"

    def architecture(self, target: Target) -> str:
        """Return what the kernel is compiled for; "" if the target cannot run it."""
        arch = str(target.attrs.get("arch") or target.kind.name)
        return self.make.architecture(arch) if isinstance(self.make, Step) else arch

    def traffic(self, output: Shape) -> float:
        """Return the fewest bytes that the kernel moves."""
        sizes = [float(np.prod(shape, initial=1.0)) for shape in (*self.inputs, output)]
        return sum(sizes) * 4

    def build(self, target: Target) -> Any:
        """Return the compiled module. Raises ScheduleError if no rule knows the pattern, and
        UnsupportedError for a step that the target's architecture cannot run.
        """
        if isinstance(self.make, Step):
            (rows, depth), (_, columns) = self.inputs
            arch = self.architecture(target)
            if not arch:
                raise UnsupportedError(f"it needs {self.make.arch}")
            if target.kind.name == "cuda":
                target = Target({**target.export(), "arch": arch})
            return self.make.build(self.make.schedule(rows, columns, depth), str(target))
        tensors = [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(self.inputs)]
        sch = first_rule(te.create_prim_func([*tensors, self.make(*tensors)]), target)
        if sch is None:
            raise ScheduleError(f"no rule for GPUs knows the pattern of '{self.name}'")
        return ts.build(sch.mod, target=target)


def _sum(a: te.Tensor, axis: int) -> te.Tensor:
    kept = a.shape[1 - axis]
    k = te.reduce_axis((0, a.shape[axis]), "k")
    return te.compute((kept,), lambda i: te.sum(a[i, k] if axis else a[k, i], k), name="total")


def _sum_of_all(a: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, a.shape[0]), "k")
    return te.compute((), lambda: te.sum(a[k], k), name="total")


def _product_with_vector(a: te.Tensor, x: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute((a.shape[0],), lambda i: te.sum(a[i, k] * x[k], k), name="product")


def _gemm(size: int, step: Step) -> Workload:
    half = step.dtype == "float16"
    name = f"matmul {step.dtype} {size}{', wgmma' * bool(step.arch)}"
    shape, tolerance = (size, size), 1e-3 if half else 1e-5
    return Workload(name, (shape, shape), step, lambda t, a, b: t.matmul(a, b), 2.0 * size**3,
                    tolerance)  # fmt: skip


def _by_rule(size: int) -> Workload:
    """Return a product that the rule schedules, as it does in models."""
    name, shape = f"matmul float32 {size}, rule", (size, size)
    return Workload(name, (shape, shape), topi.matmul, lambda t, a, b: t.matmul(a, b),
                    2.0 * size**3)  # fmt: skip


def workloads() -> list[Workload]:
    """Return all kernels."""
    last, half = STEPS[FINAL], STEPS["tensor_cores"]
    found = [_gemm(4096, last), _by_rule(4096), _by_rule(1024), _by_rule(1000), _gemm(4096, half)]
    found.append(_gemm(4096, STEPS["warpgroups"]))
    found.append(Workload("gemv 16384", ((16384, 16384), (16384,)), _product_with_vector,
                          lambda t, a, x: t.mv(a, x)))  # fmt: skip
    for rows, columns in ((8192, 8192), (65536, 1024)):
        for axis, kind in ((1, "rows"), (0, "columns")):
            found.append(Workload(
                f"sum of {kind} {rows}x{columns}", ((rows, columns),),
                lambda a, axis=axis: _sum(a, axis), lambda t, a, axis=axis: t.sum(a, axis),
            ))  # fmt: skip
    found.append(
        Workload(
            "sum of all 64M", ((1 << 26,),), _sum_of_all, lambda t, a: t.sum(a), tolerance=1e-3
        )
    )
    for width in (1024, 4096, 4097):
        shape = ((1 << 25) // width // 8 * 8, width)
        found.append(Workload(f"softmax {shape[0]}x{width}", (shape,), topi.nn.softmax,
                              lambda t, a: t.softmax(a, -1)))  # fmt: skip
        found.append(Workload(
            f"layer norm {shape[0]}x{width}", (shape, (width,), (width,)),
            lambda a, g, b: topi.nn.layer_norm(a, g, b, [1], 1e-5),
            lambda t, a, g, b: t.nn.functional.layer_norm(a, (a.shape[1],), g, b),
        ))  # fmt: skip
    for rows, columns in ((8192, 8192), (8191, 8191)):
        found.append(Workload(
            f"2 a + b {rows}x{columns}", ((rows, columns),) * 2,
            lambda a, b: te.compute(a.shape, lambda i, j: a[i, j] * 2.0 + b[i, j], name="c"),
            lambda t, a, b: t.add(b, a, alpha=2.0),
        ))  # fmt: skip
    return found


# Without a device.


def compile_all(chosen: list[Workload], target: Target) -> None:
    """Compile all, and print what the machine code needs."""
    table = Table("kernel", "registers", "spilled bytes", "shared bytes", "lowered", "compiled")
    for workload in chosen:
        start, arch = time.perf_counter(), workload.architecture(target)
        if not arch:
            table.add_row(workload.name, "left out: this architecture cannot run it")
            continue
        built = workload.build(target).imported_modules[0]
        built_at = time.perf_counter()
        code = compile_source(built.get_source(), arch)
        done = time.perf_counter()
        needs = list(kernel_resources(code).values())
        table.add_row(
            workload.name,
            *[
                ", ".join([str(getattr(one, key)) for one in needs])
                for key in ("registers", "local_bytes", "shared_bytes")
            ],
            format_seconds(built_at - start),
            format_seconds(done - built_at),
        )
    console.print(table)


# With a device.


class Rival:
    """torch on the device: inputs, references, times. Beside "opencl" it runs on the CPU."""

    def __init__(self, kind: str = "cuda") -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.is_cuda = torch, kind == "cuda"
        self.place = "cuda" if self.is_cuda else "cpu"
        self.device = ts.device(kind, 0)
        self.name = torch.cuda.get_device_name(0) if self.is_cuda else f"OpenCL ({kind})"

    def tensors(self, workload: Workload) -> list[Any]:
        """Return fresh random inputs."""
        dtype = getattr(self.torch, workload.dtype)
        return [self.torch.randn(shape, device=self.place).to(dtype) for shape in workload.inputs]

    def wait(self) -> None:
        """Wait until the device has done everything."""
        if self.is_cuda:
            self.torch.cuda.synchronize()

    def seconds(self, call: Callable[[], Any], calls: int = CALLS) -> float:
        """Return the seconds of a call."""
        call()
        if not self.is_cuda:
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        begin, end = [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        self.wait()
        return float(begin.elapsed_time(end)) / 1e3 / calls

    def bandwidth(self) -> float:
        """Return the bytes a second of a large copy, read and written."""
        source = self.torch.empty(COPIED // 4, device=self.place).normal_()
        target = self.torch.empty_like(source)
        times = [self.seconds(lambda: target.copy_(source)) for _ in range(7)]
        return 2 * COPIED / float(np.median(times))


def contest(workload: Workload, target: Target, rival: Rival, rounds: int) -> dict[str, Any]:
    """Build, check and time a kernel; return its record."""
    device, torch = rival.device, rival.torch
    tensors = rival.tensors(workload)
    wanted = workload.torch(torch, *[tensor.double() for tensor in tensors])
    start = time.perf_counter()
    built = workload.build(target)
    seconds = {OURS: time.perf_counter() - start}
    output = np.full(tuple(wanted.shape), np.nan, "float32")
    arrays = [ts.nd.array(tensor.cpu().numpy(), device) for tensor in tensors]
    arrays.append(ts.nd.array(output, device))
    built["main"](*arrays)
    got = torch.from_numpy(np.asarray(arrays[-1].numpy())).to(rival.place).double()
    error = float((got - wanted).norm() / wanted.norm())
    failures = {}
    if not error < workload.tolerance:
        failures[OURS] = f"wrong result: relative error {error:.1e}"
    evaluator = built.time_evaluator("main", device, number=CALLS, repeat=1)
    samples: dict[str, list[float]] = {OURS: [], "torch": []}
    for _ in range(rounds):
        samples[OURS].append(float(evaluator(*arrays).mean))
        samples["torch"].append(rival.seconds(lambda: workload.torch(torch, *tensors)))
    timings = {name: Timing(name, tuple(values)) for name, values in samples.items()}
    found = Contest(timings=timings, errors={OURS: error}, seconds=seconds,
                    failures=failures)  # fmt: skip
    traffic = 0.0 if workload.flops else workload.traffic(tuple(wanted.shape))
    return record(found, workload.flops, traffic)


@T.prim_func
def _many(A: T.Buffer((32,), "float32"), count: T.int32):
    for _ in range(count):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("b"):
                i = T.axis.spatial(32, tx)
                A[i] = T.float32(0)


def launches(rival: Rival, target: Target) -> dict[str, float]:
    """Return the seconds of a launch of a kernel that does next to nothing: from Python, in a loop
    of native code, and within a graph of launches; those of torch as far as it has them.
    """
    torch = rival.torch
    call = ts.build(_many, target=target)["_many"]
    array = ts.nd.array(np.zeros(32, "float32"), rival.device)
    tensor = torch.zeros(32, device=rival.place)
    found = {
        OURS: _seconds(rival, lambda: call(array, 1), LAUNCHES),
        "torch": _seconds(rival, tensor.neg_, LAUNCHES),
        f"{OURS}, native code": _seconds(rival, lambda: call(array, LAUNCHES), 1) / LAUNCHES,
    }
    if rival.is_cuda:
        ours = graph_of(call, array, GRAPH)
        theirs = torch.cuda.CUDAGraph()
        with torch.cuda.graph(theirs):
            for _ in range(GRAPH):
                tensor.neg_()
        found[f"{OURS}, graph"] = _seconds(rival, ours.launch, 50) / GRAPH
        found["torch, graph"] = _seconds(rival, theirs.replay, 50) / GRAPH
    return found


def _seconds(rival: Rival, call: Callable[[], Any], count: int) -> float:
    """Return the shortest time of a call of several rounds, until the device is done."""
    best = float("inf")
    for _ in range(5):
        rival.wait()
        start = time.perf_counter()
        for _ in range(count):
            call()
        rival.wait()
        best = min(best, time.perf_counter() - start)
    return best / count


def compile_seconds(arch: str) -> dict[str, float]:
    """Return the seconds in which NVRTC compiles the last step of the ladder, and those in which
    the same is found in the cache.
    """
    step = STEPS[FINAL]
    source = step.build(step.schedule(4096, 4096, 4096)).imported_modules[0].get_source()
    fresh = f"// {time.time_ns()}\n{source}"
    found = {}
    for name in ("NVRTC", "cache"):
        start = time.perf_counter()
        compile_source(fresh, arch)
        found[name] = time.perf_counter() - start
    return found


def run(
    chosen: list[Workload], target: Target, rival: Rival, rounds: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measure all; return the records and what else was measured."""
    bandwidth = rival.bandwidth()
    records: dict[str, Any] = {}
    table = Table(
        "kernel", OURS, "rate", "share of the copy's rate", "torch", "torch ÷ ours", "error"
    )
    for workload in chosen:
        try:
            one = contest(workload, target, rival, rounds)
        except Exception as error:  # the other kernels are measured all the same
            table.add_row(workload.name, f"{type(error).__name__}: {str(error)[:200]}")
            continue
        if "gigabytes_per_second" in one:
            one["share"] = one["gigabytes_per_second"] * 1e9 / bandwidth
        records[workload.name] = one
        table.add_row(
            workload.name,
            format_seconds(one["latency"][OURS]["median_ms"] / 1e3),
            rate(one),
            f"{one['share']:.0%}" if "share" in one else "",
            format_seconds(one["latency"]["torch"]["median_ms"] / 1e3),
            f"{one['times_as_fast']['torch']:.2f}",
            one["failures"].get(OURS) or f"{one['largest_error'][OURS]:.0e}",
        )
    console.print(table)
    overhead, compiling = (
        launches(rival, target),
        compile_seconds(str(target.attrs.get("arch") or "sm_90")),
    )
    console.print(f"copies: {bandwidth / 1e12:.2f} TB/s")
    shown = {"a launch": overhead, "the last step of the ladder, compiled": compiling}
    for title, times in shown.items():
        parts = [f"{name} {format_seconds(value)}" for name, value in times.items()]
        console.print(f"{title}: {'; '.join(parts)}")
    facts = {
        "device": rival.name,
        "copy_bytes_per_second": bandwidth,
        "launch_seconds": overhead,
        "compile_seconds": compiling,
    }
    return records, facts


@click.command()
@click.option("--match", default="", help="Part of the names of kernels.")
@click.option("--rounds", default=9, help="Samples of each kernel.")
@click.option("--arch", default="sm_90", help="Architecture to compile for.")
@click.option("--compile-only", is_flag=True, help="Compile all; needs no device.")
@click.option("--record", "is_recorded", is_flag=True, help="Keep the figures for the README.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="File for the figures.")
def main(
    match: str, rounds: int, arch: str, compile_only: bool, is_recorded: bool, path: Path | None
) -> None:
    """Measure kernels on a CUDA device."""
    chosen = [one for one in workloads() if match in one.name]
    target = Target(f"cuda -arch={arch}")
    if compile_only:
        compile_all(chosen, target)
        return
    if not ts.cuda(0).exist:
        console.print("not measured: no CUDA device (--compile-only compiles all)")
        return
    records, facts = run(chosen, target, Rival(), rounds)
    save("gpu", records, path, **facts)
    if is_recorded:
        save("gpu", records, RESULTS / "gpu.json", **facts)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.gpu")
