"""Measures the GEMM ladder on a CUDA device: every step, and other sizes of the last ones.

python -m examples.gemm_ladder.sweep --json examples/gemm_ladder/results/h100.json

Each kernel is built, compared with the product in float64 on fresh random inputs, and timed by
events in rounds, each of which runs all kernels and ``torch.matmul`` (without TF32) once. Without a
CUDA device, ``--compile-only`` compiles all and prints what the machine code needs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tilesmith as ts
from examples.gemm_ladder.ladder import STEPS, VARIANTS, Step
from tilesmith.codegen.gpu import kernel_resources
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.support.errors import UnsupportedError

TOLERANCE = {"float32": 1e-5, "float16": 1e-3}
"""Largest relative error, in the norm of the whole result."""


def steps(only: str | None) -> dict[str, Step]:
    """Return what is measured, by name; a variant with the schedule of a step is not repeated."""
    found: dict[str, Step] = dict(STEPS)
    for name, step in VARIANTS.items():
        known = [(one.apply, one.tiling) for one in found.values()]
        if (step.apply, step.tiling) not in known:
            found[name] = step
    return {name: step for name, step in found.items() if only is None or only in name}


def build(step: Step, size: int, arch: str) -> tuple[Any, dict[str, Any]]:
    """Compile a step; return the module and what is known about the kernel. The architecture
    "opencl" is an OpenCL device, of whose code nothing is known.
    """
    wanted = step.architecture(arch)
    if not wanted:
        raise UnsupportedError(f"the step needs {step.arch}, not {arch}")
    start, arch = time.perf_counter(), wanted
    target = "opencl" if arch == "opencl" else f"cuda -arch={arch}"
    built = step.build(step.schedule(size, size, size), target)
    built_at = time.perf_counter()
    if arch == "opencl":
        return built, {"registers": 0, "lowering_seconds": built_at - start}
    machine_code = compile_source(built.imported_modules[0].get_source(), arch)
    (needs,) = kernel_resources(machine_code).values()
    return built, {
        "registers": needs.registers,
        "local_bytes": needs.local_bytes,
        "lowering_seconds": built_at - start,
        "compile_seconds": time.perf_counter() - built_at,
    }


class Rival:
    """The inputs on the device, and ``torch.matmul``; for OpenCL on the CPU."""

    def __init__(self, size: int, arch: str) -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.size, self.is_cuda = torch, size, arch != "opencl"
        self.device = ts.cuda(0) if self.is_cuda else ts.opencl(0)
        self.place = "cuda" if self.is_cuda else "cpu"
        self.name = torch.cuda.get_device_name(0) if self.is_cuda else "OpenCL"
        self.inputs: dict[str, Any] = {}
        self.wanted: dict[str, Any] = {}
        for dtype in ("float32", "float16"):
            a, b = [
                torch.randn(size, size, device=self.place).to(getattr(torch, dtype))
                for _ in range(2)
            ]
            self.inputs[dtype] = (a, b)
            self.wanted[dtype] = a.double() @ b.double()

    def arrays(self, dtype: str) -> list[Any]:
        """Return the inputs and a poisoned output as arrays of ours."""
        values = [tensor.cpu().numpy() for tensor in self.inputs[dtype]]
        values.append(np.full((self.size, self.size), np.nan, "float32"))
        return [ts.nd.array(value, self.device) for value in values]

    def error(self, dtype: str, result: Any) -> float:
        """Return the relative error of a result."""
        got = self.torch.from_numpy(result.numpy()).to(self.place).double()
        wanted = self.wanted[dtype]
        return float((got - wanted).norm() / wanted.norm())

    def seconds(self, dtype: str, count: int) -> float:
        """Return the time of one product by torch."""
        torch, (a, b) = self.torch, self.inputs[dtype]
        torch.matmul(a, b)
        if not self.is_cuda:
            start = time.perf_counter()
            torch.matmul(a, b)
            return time.perf_counter() - start
        begin, end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        begin.record()
        for _ in range(count):
            torch.matmul(a, b)
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / count


def measure(size: int, rounds: int, only: str | None, arch: str) -> dict[str, Any]:
    """Build, check and time all; return the results."""
    rival = Rival(size, arch)
    rows: dict[str, dict[str, Any]] = {}
    kernels: dict[str, tuple[Any, list[Any]]] = {}
    arrays = {dtype: rival.arrays(dtype) for dtype in ("float32", "float16")}
    for name, step in steps(only).items():
        row = rows[name] = {"dtype": step.dtype, "predicted": step.predicted}
        try:
            built, facts = build(step, size, arch)
            row.update(facts)
            given = arrays[step.dtype]
            given[2].copyfrom(np.full((size, size), np.nan, "float32"))
            built["main"](*given)
            row["error"] = rival.error(step.dtype, given[2])
            if not row["error"] < TOLERANCE[step.dtype]:
                row["failure"] = f"wrong result: relative error {row['error']:.1e}"
                continue
            kernels[name] = (built, given)
        except Exception as error:  # the other kernels are measured all the same
            row["failure"] = f"{type(error).__name__}: {str(error)[:300]}"
    times: dict[str, list[float]] = {name: [] for name in (*kernels, "float32", "float16")}
    for _ in range(rounds):
        for name, (built, given) in kernels.items():
            evaluator = built.time_evaluator("main", rival.device, number=5, repeat=1)
            times[name].append(float(evaluator(*given).mean))
        for dtype in ("float32", "float16"):
            times[dtype].append(rival.seconds(dtype, 5))
    for name, row in rows.items():
        if times.get(name):
            row["seconds"] = statistics.median(times[name])
    return {
        "device": rival.name,
        "size": size,
        "torch": {d: statistics.median(times[d]) for d in ("float32", "float16")},
        "rows": rows,
    }


def table(results: dict[str, Any]) -> str:
    """Return the results as lines: TFLOP/s, share of torch, registers."""
    work = 2 * results["size"] ** 3
    lines = [f"{results['device']}, {results['size']}³"]
    for dtype, seconds in results["torch"].items():
        lines.append(f"{'torch ' + dtype:42s} {work / seconds / 1e12:8.1f} TFLOP/s")
    for name, row in results["rows"].items():
        if "seconds" not in row:
            reason, _, _ = str(row.get("failure", "not measured")).partition("\n")
            lines.append(f"{name:42s} {reason}")
            continue
        share = results["torch"][row["dtype"]] / row["seconds"]
        lines.append(
            f"{name:42s} {work / row['seconds'] / 1e12:8.1f} TFLOP/s {share:7.1%} of torch, "
            f"{row['registers']} registers, error {row['error']:.0e}"
        )
    return "\n".join(lines)


def compile_only(size: int, only: str | None, arch: str) -> None:
    """Compile all, and print what the machine code needs."""
    for name, step in steps(only).items():
        if not step.architecture(arch):
            print(f"{name:42s} left out: it needs {step.arch}, not {arch}")
            continue
        _, facts = build(step, size, arch)
        print(
            f"{name:42s} {facts['registers']:4d} registers, {facts['local_bytes']} B spilled, "
            f"lowered in {facts['lowering_seconds']:.2f} s, compiled in "
            f"{facts['compile_seconds']:.2f} s"
        )


def main() -> int:
    """Measure, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", help="part of the names of kernels")
    parser.add_argument("--arch", default="sm_90", help="architecture, or 'opencl'")
    parser.add_argument("--compile-only", action="store_true")
    options = parser.parse_args()
    if options.compile_only:
        compile_only(options.size, options.only, options.arch)
        return 0
    if options.arch != "opencl" and not ts.cuda(0).exist:
        print("not measured: no CUDA device (--compile-only compiles all)")
        return 0
    results = measure(options.size, options.rounds, options.only, options.arch)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
