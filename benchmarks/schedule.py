"""Measures what a schedule primitive costs: in a large function, and in a module of many functions.

    python -m benchmarks.schedule

Each figure is the best of several runs, in microseconds for one call. A primitive looks only at the
nest that it changes and at the way to the root, so the function beside it should not matter: the
columns show a small function, one of about 2,000 nodes, and the small one among 100 functions.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from tilesmith import tir
from tilesmith.ir import IRModule, Node, Var
from tilesmith.tir import Block, BlockRealize, BufferRegion, BufferStore, For, IterVar, PrimFunc

SIZE = 64


def chain(stages: int, symbol: str) -> PrimFunc:
    """Return elementwise stages over a matrix, each in its own nest, then a reduction of the
    rows.
    """
    shape = (SIZE, SIZE)
    buffers = [tir.decl_buffer(shape, "float32", f"B{k}") for k in range(stages + 1)]
    sums = tir.decl_buffer((SIZE,), "float32", "S")
    nests = []
    for number in range(stages):
        source, target = buffers[number], buffers[number + 1]
        nests.append(_nest(f"stage{number}", [source], target, ("i", "j"), 2, None))
    nests.append(_nest("sum", [buffers[-1]], sums, ("i", "k"), 1, 0.0))
    root = Block((), (), (), "root", tir.SeqStmt(nests), None, tuple(buffers[1:]))
    body = BlockRealize((), True, root)
    return PrimFunc([buffers[0], sums], body, attrs={"global_symbol": symbol})


def _nest(name: str, sources: list, target: Any, names: tuple, spatial: int, start: Any) -> For:
    loops = [Var(n, "int32") for n in names]
    iterators = [
        IterVar((0, SIZE), "v" + n, IterVar.DataPar if k < spatial else IterVar.CommReduce)
        for k, n in enumerate(names)
    ]
    place = [iterator.var for iterator in iterators]
    value = sources[0][tuple(place)] + 1.0
    if start is not None:
        value = target[tuple(place[:spatial])] + sources[0][tuple(place)]
    block = Block(
        iterators,
        [BufferRegion.from_point(source, place) for source in sources],
        [BufferRegion.from_point(target, place[:spatial])],
        name,
        BufferStore(target, value, place[:spatial]),
        None if start is None else BufferStore(target, start, place[:spatial]),
    )
    body: Any = BlockRealize(loops, True, block)
    for loop in reversed(loops):
        body = For(loop, 0, SIZE, tir.ForKind.SERIAL, body)
    return body


def count_nodes(node: Node) -> int:
    """Count the nodes of a tree, shared ones as often as they are used."""
    return 1 + sum(count_nodes(child) for child in node.children())


Step = Callable[[tir.Schedule, Any, list, list], Any]

STEPS: dict[str, Step] = {
    "get_block": lambda sch, block, loops, sums: sch.get_block("stage1"),
    "get_loops": lambda sch, block, loops, sums: sch.get_loops(block),
    "split": lambda sch, block, loops, sums: sch.split(loops[0], [None, 8]),
    "fuse": lambda sch, block, loops, sums: sch.fuse(*loops),
    "reorder": lambda sch, block, loops, sums: sch.reorder(*loops[::-1]),
    "loop_partition": lambda sch, block, loops, sums: sch.loop_partition(loops[0], [8, None]),
    "add_unit_loop": lambda sch, block, loops, sums: sch.add_unit_loop(block),
    "parallel": lambda sch, block, loops, sums: sch.parallel(loops[0]),
    "vectorize": lambda sch, block, loops, sums: sch.vectorize(loops[1]),
    "unroll": lambda sch, block, loops, sums: sch.unroll(loops[1]),
    "annotate": lambda sch, block, loops, sums: sch.annotate(block, "key", 1),
    "compute_inline": lambda sch, block, loops, sums: sch.compute_inline(block),
    "compute_at": lambda sch, block, loops, sums: sch.compute_at(
        block, sch.get_loops(sch.get_block("stage2"))[0]
    ),
    "reverse_compute_at": lambda sch, block, loops, sums: sch.reverse_compute_at(
        sch.get_block("stage2"), loops[0]
    ),
    "cache_read": lambda sch, block, loops, sums: sch.cache_read(block, 0, "local"),
    "cache_write": lambda sch, block, loops, sums: sch.cache_write(block, 0, "local"),
    "set_scope": lambda sch, block, loops, sums: sch.set_scope(block, 0, "shared"),
    "transform_layout": lambda sch, block, loops, sums: sch.transform_layout(
        block, ("write", 0), lambda i, j: (j, i)
    ),
    "decompose_reduction": lambda sch, block, loops, sums: sch.decompose_reduction(
        sch.get_block("sum"), sums[1]
    ),
    "rfactor": lambda sch, block, loops, sums: sch.rfactor(sums[1], 0),
    "copy": lambda sch, block, loops, sums: sch.copy(),
}


def cost(module: IRModule, step: Step, runs: int = 9) -> float:
    """Return microseconds for one call of a primitive, the best of several schedules."""
    times = []
    for _ in range(runs):
        sch = tir.Schedule(module)
        sch.work_on("main")
        block = sch.get_block("stage1")
        loops = sch.get_loops(block)
        sums = sch.get_loops(sch.get_block("sum"))
        start = time.perf_counter()
        step(sch, block, loops, sums)
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def measure() -> dict[str, dict[str, float]]:
    """Return costs by primitive and kind of module."""
    small, large = chain(4, "main"), chain(32, "main")
    modules = {
        "small": IRModule({"main": small}),
        f"{count_nodes(large.body)} nodes": IRModule({"main": large}),
        "100 functions": IRModule(
            {"main": small, **{f"other{k}": chain(4, f"other{k}") for k in range(99)}}
        ),
    }
    return {
        name: {title: cost(module, step) for title, module in modules.items()}
        for name, step in STEPS.items()
    }


def main() -> None:
    """Print the table; with a path as argument, write it as JSON too."""
    figures = measure()
    titles = list(next(iter(figures.values())))
    table = Table("primitive, µs", *titles)
    for name, row in figures.items():
        table.add_row(name, *[f"{row[title]:.0f}" for title in titles])
    Console().print(table)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
