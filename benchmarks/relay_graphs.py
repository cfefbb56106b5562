"""Measures whether work on relay's programs is linear in their size: chains of 1 000, 10 000 and
100 000 calls with residual additions.

    python -m benchmarks.run relay-graphs

Each figure is in microseconds of the processor's time per call; it should not grow with the size
(but for what Python's garbage collector adds, which looks at all objects again and again).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tilesmith import relay
from tilesmith.ir import IRModule, Op
from tilesmith.relay import transform

SIZES = (1_000, 10_000, 100_000)


def program(count: int) -> IRModule:
    """Return a function of ``count`` calls, each fourth of which adds a value from before."""
    tanh, add = Op.get("tanh"), Op.get("add")
    x = relay.var("x", shape=(1, 8))
    value = before = x
    for number in range(count):
        if number % 4 == 3:
            value, before = relay.Call(add, [value, before]), value
        else:
            value = relay.Call(tanh, [value])
    return IRModule.from_expr(relay.Function([x], value))


STEPS: dict[str, Callable[[IRModule], Any]] = {
    "InferType": transform.InferType(),
    "print": lambda mod: mod.astext(),
    "print and parse": lambda mod: relay.parse(mod.astext()),
    "ToANormalForm": transform.ToANormalForm(),
    "EliminateCommonSubexpr": transform.EliminateCommonSubexpr(),
    "FoldConstant": transform.FoldConstant(),
    "SimplifyExpr": transform.SimplifyExpr(),
    "FoldScaleAxis": transform.FoldScaleAxis(),
    "CombineParallelDense": transform.CombineParallelDense(),
    "FuseOps": transform.FuseOps(),
}
"""Those from SimplifyExpr on find the types first."""


def measure(sizes: tuple[int, ...] = SIZES) -> dict[str, dict[int, float]]:
    """Return microseconds per call, by step and number of calls."""
    figures: dict[str, dict[int, float]] = {name: {} for name in STEPS}
    for size in sizes:
        for name, step in STEPS.items():
            mod = program(size)  # types are noted at expressions: each step gets new ones
            start = time.process_time()
            step(mod)
            figures[name][size] = (time.process_time() - start) / size * 1e6
    return figures
