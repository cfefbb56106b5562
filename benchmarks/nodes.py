"""Measures what a node costs: making, visiting, rewriting, comparing, hashing; with and without
interning.

    python -m benchmarks.nodes

Each figure is the best of several runs, in nanoseconds per node. Interning is simulated by a table
keyed by class and fields around the same constructors, so that both choices can be compared.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from tilesmith.ir import Rewriter, Visitor
from tilesmith.ir.structural import structural_equal, structural_hash
from tilesmith.tir import Add, FloorDiv, FloorMod, IntImm, Mul, Var


def expressions(
    make: Callable[..., Any], constant: Callable[..., Any], variables: list, count: int
) -> list:
    """Return index expressions as schedules make them: ``(i * a + j) // b * c + k % d``."""
    rng = random.Random(0)
    made = []
    for _ in range(count):
        i, j, k = (rng.choice(variables) for _ in range(3))
        a, b, c, d = (constant("int32", rng.choice((2, 4, 8, 16))) for _ in range(4))
        flat = make(Add, make(Mul, i, a), j)
        made.append(make(Add, make(Mul, make(FloorDiv, flat, b), c), make(FloorMod, k, d)))
    return made


NODES_EACH = 6 + 4  # operators and constants of one expression


class Table:
    """Hash-consing: one object per class and fields."""

    def __init__(self) -> None:
        self.operators: dict = {}
        self.constants: dict = {}

    def make(self, kind: type, a: Any, b: Any) -> Any:
        """Return the one node of a class and its two operands."""
        key = (kind, id(a), id(b))
        found = self.operators.get(key)
        if found is None:
            found = self.operators[key] = kind(a, b)
        return found

    def constant(self, dtype: str, value: int) -> Any:
        """Return the one constant of a dtype and value."""
        found = self.constants.get((dtype, value))
        if found is None:
            found = self.constants[(dtype, value)] = IntImm(dtype, value)
        return found


class Count(Visitor):
    """Visits everything."""

    def __init__(self) -> None:
        self.count = 0

    def visit_IntImm(self, node: IntImm) -> None:
        """Count the constants."""
        self.count += 1


class Keep(Rewriter):
    """Changes nothing."""


class Double(Rewriter):
    """Changes each constant, so that everything is rebuilt."""

    def visit_IntImm(self, node: IntImm) -> IntImm:
        """Double the constant."""
        return IntImm(node.dtype, node.value * 2)


def best(function: Callable[[], Any], nodes: int, runs: int = 7) -> float:
    """Return nanoseconds per node, the best of several runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times) / nodes * 1e9


def measure(count: int = 4000) -> dict[str, float]:
    """Return all figures by name."""
    variables = [Var(name, "int32") for name in "ijkmnpq"]

    def plain(kind: type, a: Any, b: Any) -> Any:
        return kind(a, b)

    def interned() -> list:
        table = Table()
        return expressions(table.make, table.constant, variables, count)

    first = expressions(plain, IntImm, variables, count)
    second = expressions(plain, IntImm, variables, count)
    table = Table()
    shared = expressions(table.make, table.constant, variables, count)
    nodes = count * NODES_EACH
    keep, double, counter = Keep(), Double(), Count()
    driver = best(
        lambda: expressions(lambda *_: variables[0], lambda *_: variables[0], variables, count),
        nodes,
    )

    def memoised_rewrite() -> None:
        memo: dict = {}
        for node in shared:
            if id(node) not in memo:
                memo[id(node)] = double.visit(node)

    return {
        "make": best(lambda: expressions(plain, IntImm, variables, count), nodes) - driver,
        "make, interned": best(interned, nodes) - driver,
        "visit": best(lambda: [counter.visit(node) for node in first], nodes),
        "rewrite, unchanged": best(lambda: [keep.visit(node) for node in first], nodes),
        "rewrite, all changed": best(lambda: [double.visit(node) for node in first], nodes),
        "rewrite, interned and memoised": best(memoised_rewrite, nodes),
        "compare equal": best(
            lambda: [structural_equal(a, b) for a, b in zip(first, second)], nodes
        ),
        "compare, interned (is)": best(lambda: [a is b for a, b in zip(shared, shared)], nodes),
        "hash": best(lambda: [structural_hash(a) for a in first], nodes),
        "distinct nodes when interned, percent": 100 * len(table.operators) / (6 * count),
    }


def main() -> None:
    """Print the table; with a path as argument, write it as JSON too."""
    figures = measure()
    for name, value in figures.items():
        unit = "%" if "percent" in name else "ns/node"
        print(f"{name:40s} {value:9.1f} {unit}")
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
