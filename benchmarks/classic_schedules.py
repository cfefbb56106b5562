"""Measures classic schedules (`te.create_schedule`) beside the same loops written in TensorIR.

    python -m benchmarks.classic_schedules [--size 1024]

Three tables: what a product of matrices costs from its tensor expression to built code, and how
fast that code is; how bound inference, the writing of loops and lowering grow with the number of
stages in a chain (they are to grow in proportion). Each figure is the best of several runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilesmith as ts
from benchmarks.report import save, show
from tilesmith import te, tir
from tilesmith.te.schedule import InferBound, ScheduleOps, SchedulePostProcToPrimFunc

TILE = 32
CHAINS = (10, 100, 1000)


def product(size: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return inputs, the packed right-hand side, and the product of two matrices."""
    A = te.placeholder((size, size), name="A")
    B = te.placeholder((size, size), name="B")
    P = te.compute(
        (size // TILE, size, TILE), lambda jo, k, ji: B[k, jo * TILE + ji], name="packed"
    )
    k = te.reduce_axis((0, size), name="k")
    C = te.compute(
        (size, size),
        lambda i, j: te.sum(A[i, k] * P[j // TILE, k, te.indexmod(j, TILE)], axis=k),
        name="C",
    )
    return A, B, P, C, k


def classic(size: int) -> tuple[Any, list[Any]]:
    """Return the product blocked, packed, vectorized, with cached writes and in parallel."""
    A, B, P, C, _ = product(size)
    s = te.create_schedule(C.op)
    cache = s.cache_write(C, "global")
    io, jo, _, _ = s[C].tile(*C.op.axis, TILE, TILE)
    s[cache].compute_at(s[C], jo)
    i, j = s[cache].op.axis
    (k,) = s[cache].op.reduce_axis
    ko, ki = s[cache].split(k, factor=4)
    s[cache].reorder(ko, i, ki, j)
    s[cache].vectorize(j)
    s[cache].unroll(ki)
    s[C].parallel(io)
    jo, _, ji = s[P].op.axis
    s[P].vectorize(ji)
    s[P].parallel(jo)
    return s, [A, B, C]


def tensor_ir(size: int) -> tuple[Any, None]:
    """Return the same loops as a schedule of blocks."""
    A, B, P, C, _ = product(size)
    sch = tir.Schedule(te.create_prim_func([A, B, C]))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    io, ii = sch.split(i, [None, TILE])
    jo, ji = sch.split(j, [None, TILE])
    ko, ki = sch.split(k, [None, 4])
    sch.reorder(io, jo, ko, ii, ki, ji)
    sch.cache_write(block, 0, "global")
    write = sch.get_block("C_global")
    sch.reverse_compute_at(write, jo)
    sch.decompose_reduction(block, ko)
    sch.vectorize(ji)
    sch.unroll(ki)
    sch.parallel(io)
    loops = sch.get_loops(sch.get_block("packed"))
    sch.parallel(loops[0])
    sch.vectorize(loops[2])
    return sch.mod, None


def best(run: Callable[[], Any], runs: int) -> float:
    """Return the seconds of the fastest of several runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def paths(size: int, runs: int) -> dict[str, dict[str, float]]:
    """Return the seconds of each way: to schedule, to lower, to build, and of the built code."""
    rng = np.random.default_rng(0)
    a, b = [rng.random((size, size), dtype="float32") for _ in range(2)]
    found = {}
    for name, make in {"classic": classic, "TensorIR": tensor_ir}.items():
        scheduled, args = make(size)
        built = ts.build(scheduled, args, target="llvm")
        out = ts.nd.array(np.zeros((size, size), "float32"))
        inputs = [ts.nd.array(a), ts.nd.array(b), out]
        built(*inputs)
        np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-3)
        found[name] = {
            "schedule": best(lambda make=make: make(size), runs),
            "lower": best(lambda s=scheduled, v=args: ts.lower(s, v), runs),
            "all, to built code": best(
                lambda make=make: ts.build(*make(size), target="llvm"), runs
            ),
            "the product": best(lambda f=built, v=inputs: f(*v), 2 * runs),
        }
    return found


def chain(stages: int) -> tuple[Any, list[Any]]:
    """Return the schedule of elementwise stages, each reading the one before."""
    A = te.placeholder((64,), name="A")
    tensor = A
    for number in range(stages):
        tensor = te.compute((64,), lambda i, T=tensor: T[i] + 1.0, name=f"stage{number}")
    return te.create_schedule(tensor.op), [A, tensor]


def steps(stages: int, runs: int) -> dict[str, float]:
    """Return the seconds of each step from a schedule of a chain to lowered loops."""
    s, args = chain(stages)
    normal = s.normalize()
    bounds = InferBound(normal)
    stmt = ScheduleOps(normal, bounds)
    return {
        "normalize": best(s.normalize, runs),
        "infer bounds": best(lambda: InferBound(normal), runs),
        "write loops": best(lambda: ScheduleOps(normal, bounds), runs),
        "make function": best(lambda: SchedulePostProcToPrimFunc(args, stmt), runs),
        "all of lower": best(lambda: ts.lower(s, args), runs),
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(arguments)
    ways = paths(given.size, given.runs)
    names = list(ways["classic"])
    show(
        f"product of {given.size}x{given.size}: classic schedule and TensorIR, ms",
        ["", *ways, "ratio"],
        [
            [
                step,
                *[f"{ways[way][step] * 1e3:.1f}" for way in ways],
                f"{ways['classic'][step] / ways['TensorIR'][step]:.2f}",
            ]
            for step in names
        ],
    )
    chains = {stages: steps(stages, given.runs) for stages in CHAINS}
    show(
        "a chain of stages: microseconds for each stage",
        ["", *[f"{stages} stages" for stages in CHAINS]],
        [
            [step, *[f"{chains[stages][step] / stages * 1e6:.0f}" for stages in CHAINS]]
            for step in chains[CHAINS[0]]
        ],
    )
    records = {"ways": ways, "chains": {str(stages): found for stages, found in chains.items()}}
    save("classic_schedules", records, given.output, size=given.size, runs=given.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
