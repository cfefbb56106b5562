"""Measures simplifications per second, on index expressions as schedules make them.

    python -m benchmarks.arith

*fresh*: every expression is new to the analyzer, over variables that it knows; *again*: the same
objects a second time; *constraint*: entering a condition, one question, leaving. Processor time,
the best of several runs.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from tilesmith.arith import Analyzer, detect_iter_map, eval_set
from tilesmith.ir import And, Range, SizeVar, Var

COUNT = 4000


def variables(count: int) -> dict[Var, Range]:
    """Loop variables with constant ranges."""
    rng = random.Random(1)
    return {
        Var(f"i{k}", "int32"): Range(0, rng.choice((2, 4, 8, 16, 32, 64))) for k in range(count)
    }


def fused(rng: random.Random, loops: list[tuple[Var, int]]) -> tuple[Any, int]:
    """Return a flattened index over three loops, and its extent."""
    index, size = rng.choice(loops)
    for _ in range(2):
        var, extent = rng.choice(loops)
        index, size = index * extent + var, size * extent
    return index, size


def convolution(rng: random.Random, loops: list[tuple[Var, int]]) -> Any:
    """Return the access of a convolution with stride and padding to a flattened image."""
    (y, _), (ky, _), (x, _), (kx, _), (c, size) = rng.sample(loops, 5)
    stride, padding = rng.choice((1, 2)), rng.choice((0, 1, 3))
    row = y * stride + ky - padding
    return (row * 56 + (x * stride + kx - padding)) * size + c


def padding(rng: random.Random, loops: list[tuple[Var, int]]) -> Any:
    """Return whether such an access lies inside the image."""
    (y, _), (ky, _), (x, _), (kx, _) = rng.sample(loops, 4)
    row, column = y * 2 + ky, x * 2 + kx
    edge = rng.choice((1, 3))
    return And(And(row >= edge, row < 56 + edge), And(column >= edge, column < 56 + edge))


def symbolic(rng: random.Random, loops: list[tuple[Var, int]]) -> Any:
    """Return digits of an index into an array of run-time shape."""
    (i, _), (j, width), (k, _) = rng.sample(loops, 3)
    index = (i * N + k) * width + j
    return rng.choice((index // width, index % width, index // (N * width), index // width % N))


def long_sum(rng: random.Random, loops: list[tuple[Var, int]]) -> Any:
    """Return a sum of sixteen products, some of which cancel."""
    total: Any = 0
    for _ in range(16):
        total = total + rng.choice(loops)[0] * rng.choice((-64, -8, 1, 8, 64, 512))
    return total


def expressions(kind: str, domains: dict[Var, Range]) -> list[Any]:
    """Return expressions of one kind."""
    rng = random.Random(0)
    loops = [(var, domain.extent.value) for var, domain in domains.items()]
    if kind in SHAPES:
        return [SHAPES[kind](rng, loops) for _ in range(COUNT)]
    made = []
    for _ in range(COUNT):
        index, size = fused(rng, loops)
        factor = rng.choice((2, 4, 8, 16, 32))
        if kind == "split":
            made.append(index // factor)
        elif kind == "round trip":
            made.append(index // factor * factor + index % factor)
        elif kind == "predicate":
            made.append(index < rng.choice((size, size - 3, size * 2)))
        else:
            made.append(rng.choice(loops)[0] * 16 + rng.choice(loops)[0])
    return made


N = SizeVar("n", "int32")
SHAPES: dict[str, Callable[[random.Random, list[tuple[Var, int]]], Any]] = {
    "convolution": convolution, "padding": padding, "symbolic": symbolic, "long sum": long_sum,
}  # fmt: skip


def seconds(make: Callable[[], Callable[[], Any]], runs: int = 5) -> float:
    """Return the shortest of some runs; ``make`` prepares one."""
    best = float("inf")
    for _ in range(runs):
        run = make()
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def analyzer_of(domains: dict[Var, Range]) -> Analyzer:
    """Return an analyzer that knows some loops."""
    analyzer = Analyzer()
    for var, domain in domains.items():
        analyzer.bind(var, domain)
    return analyzer


def measure() -> dict[str, float]:
    """Return calls per second of each case."""
    results: dict[str, float] = {}
    domains = variables(12)
    for kind in ("sum", "split", "round trip", "predicate", *SHAPES):
        exprs = expressions(kind, domains)

        def fresh(exprs: list = exprs) -> Callable[[], Any]:
            analyzer = analyzer_of(domains)
            return lambda: [analyzer.simplify(expr) for expr in exprs]

        def again(exprs: list = exprs) -> Callable[[], Any]:
            run = fresh(exprs)
            run()
            return run

        results[f"simplify {kind}, fresh"] = COUNT / seconds(fresh)
        results[f"simplify {kind}, again"] = COUNT / seconds(again)
    exprs = expressions("predicate", domains)[:1000]

    def constrained() -> Callable[[], Any]:
        analyzer = analyzer_of(domains)

        def run() -> None:
            for expr in exprs:
                with analyzer.constraint_scope(expr):
                    analyzer.can_prove(expr)

        return run

    results["constraint and question"] = len(exprs) / seconds(constrained)
    indices = expressions("sum", domains)[:300]
    results["eval_set"] = len(indices) / seconds(
        lambda: lambda: [eval_set(index, domains) for index in indices]
    )
    i, j = list(domains)[:2]
    pair = {i: Range(0, 8), j: Range(0, 16)}
    maps = [[(i * 16 + j) // factor, (i * 16 + j) % factor] for factor in (2, 4, 8, 16, 32)]
    results["detect_iter_map"] = len(maps) / seconds(
        lambda: lambda: [detect_iter_map(indices, pair) for indices in maps]
    )
    return results


def main() -> None:
    """Print the table, or JSON with ``--json``."""
    results = measure()
    if "--json" in sys.argv:
        print(json.dumps({name: round(value) for name, value in results.items()}))
        return
    for name, value in results.items():
        print(f"{name:32} {value:12,.0f} per second {1e6 / value:10.1f} us")


if __name__ == "__main__":
    main()
