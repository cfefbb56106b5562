"""Writes the tables of README.md: orders of blocks, iterators, counters, measured times.

python -m examples.gpu_convolution.page            from what is recorded in results/
python -m examples.gpu_convolution.page --count    counts and compiles again (some minutes)
python -m examples.gpu_convolution.page --check    exit code 1 if the page says something else

``results/counters.json`` has the counters; every other file there is a run of measure.py on a GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import tilesmith as ts
from examples.gpu_convolution.block_order import GRIDS, L2_BYTES, ORDERS, name_of, table
from examples.gpu_convolution.convolution import ITERATORS, SHAPES, TILINGS, schedule, tiling_of
from examples.gpu_convolution.machine_code import machine_code
from tilesmith.inspect import cache_report
from tilesmith.tir.transform.threads.order_blocks import tile_of

HERE = Path(__file__).parent
PAGE, RESULTS = HERE / "README.md", HERE / "results"
COUNTERS = RESULTS / "counters.json"
COUNTED = ("3x3 64 to 64, 56x56", "3x3 128 to 128, 28x28", "3x3 128 to 256, stride 2")
PICTURES = (("rows", 0), ("rows", 1), ("columns", 2), ("morton", 2))


def count() -> dict[str, Any]:
    """Return all counters."""
    orders = {
        f"{rows} x {columns}": table((rows, columns), 256, L2_BYTES) for rows, columns in GRIDS
    }
    loops: dict[str, Any] = {}
    for name in COUNTED:
        for iterator in ITERATORS:
            sch = schedule(SHAPES[name], tiling_of(SHAPES[name]), iterator)
            facts = machine_code(ts.build(sch.mod, target="cuda -arch=sm_90"))
            kernel = cache_report(sch, "H100").kernels[0]
            image = kernel.buffers["data"]
            facts |= {
                "requested_mb": kernel.total("requested_bytes") / 1e6,
                "l2_mb": kernel.total("l2_reads") * 32 / 1e6,
                "hits": kernel.l2_hit_rate,
                "image_hits": image.l2_hits / image.l2_reads,
                "dram_mb": kernel.dram_bytes / 1e6,
            }
            loops[f"{name}: {iterator}"] = facts
            print(name, iterator, facts, flush=True)
    return {"orders": orders, "loops": loops}


def runs() -> list[dict[str, Any]]:
    """Return the recorded runs on GPUs."""
    files = [path for path in sorted(RESULTS.glob("*.json")) if path != COUNTERS]
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def picture(order: str, bits: int, rows: int = 5, columns: int = 9) -> list[str]:
    """Return the grid of tiles with the number of the block that makes each."""
    grid = [[0] * columns for _ in range(rows)]
    for number in range(rows * columns):
        row, column = (
            tile_of(order, bits, rows, columns, number) if bits else divmod(number, columns)
        )
        grid[row][column] = number
    return ["".join([f"{number:4}" for number in line]) for line in grid]


def pictures() -> list[str]:
    """Return the grids of several orders, two beside each other."""
    lines = ["```text"]
    for first in range(0, len(PICTURES), 2):
        pair = PICTURES[first : first + 2]
        lines.append("".join([f"  {name_of(*one):38}" for one in pair]).rstrip())
        lines += ["".join([f"{part:40}" for part in parts]).rstrip()
                  for parts in zip(*[picture(*one) for one in pair])]  # fmt: skip
        lines.append("")
    return [*lines[:-1], "```"]


def order_table(counters: dict[str, Any], run: dict[str, Any] | None) -> list[str]:
    """Return hits in L2 and megabytes from memory of each order."""
    grids = list(counters["orders"])
    measured = list(run.get("orders", ())) if run else []
    head = ["order", *[f"{grid}: L2 hits | MB read" for grid in grids]]
    head += [f"{size}: measured ms" for size in measured] or ["measured"]
    lines = [f"| {' | '.join(head)} |", "|:--|" + "--:|" * (2 * len(grids) + max(len(measured), 1))]
    for number, (order, bits) in enumerate(ORDERS):
        cells = [name_of(order, bits)]
        for grid in grids:
            _, hits, megabytes = counters["orders"][grid][number]
            cells += [f"{hits:.1%}", f"{megabytes:.1f}"]
        for size in measured:
            cells.append(f"{run['orders'][size]['orders'][cells[0]]['ms']:.3f}")  # type: ignore[index]
        lines.append(f"| {' | '.join(cells if measured else [*cells, 'not measured'])} |")
    if run and measured:
        rivals = ", ".join(
            [f"{size} {one['cublas_ms']:.3f} ms" for size, one in run["orders"].items()]
        )
        lines += ["", f"cuBLAS: {rivals}."]
    return lines


def loop_table(counters: dict[str, Any]) -> list[str]:
    """Return the instructions of the loop over steps, and the traffic."""
    kinds = ["multiply-adds", "integers", "uniform", "memory", "moves", "other"]
    head = ["convolution: iterator", "registers", "stack bytes", *kinds, "MB asked for"]
    head += ["MB from L2", "L2 hits of the image", "MB of memory"]
    lines = [f"| {' | '.join(head)} |", "|:--|" + "--:|" * (len(head) - 1)]
    for name, one in counters["loops"].items():
        cells = [name, str(one["registers"]), str(one["stack_bytes"])]
        cells += [str(one.get("loop", {}).get(kind, 0)) for kind in kinds]
        cells += [f"{one['requested_mb']:.0f}", f"{one['l2_mb']:.0f}", f"{one['image_hits']:.1%}",
                  f"{one['dram_mb']:.1f}"]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def time_table(run: dict[str, Any] | None) -> list[str]:
    """Return measured times of all shapes."""
    head = ["convolution (batch 32)", "GFLOP", "cuDNN ms", "analytic ms", "share of cuDNN",
            "precomputed ms", "share of cuDNN", "best of all sizes"]  # fmt: skip
    lines = [
        f"Measured on: {run['device'] if run else 'no GPU so far'}.",
        "",
        f"| {' | '.join(head)} |",
    ]
    lines.append("|:--|" + "--:|" * (len(head) - 1))
    for name, shape in SHAPES.items():
        cells = [name, f"{shape.flops / 1e9:.1f}"]
        one = run["shapes"].get(name) if run else None
        if one is None:
            lines.append(f"| {' | '.join(cells + ['not measured'] * 6)} |")
            continue
        cells.append(f"{one['cudnn_ms']:.3f}")
        chosen = tiling_of(shape)
        (size,) = [label for label, tiling in TILINGS.items() if tiling == chosen]
        for iterator in ITERATORS:
            found = one["ours"].get(f"{iterator}, {size}", {})
            cells += (
                [f"{found['ms']:.3f}", f"{found['share']:.0%}"]
                if "ms" in found
                else ["not measured", "–"]
            )
        right = {label: found for label, found in one["ours"].items() if found.get("share")}
        label, best = max(
            right.items(), key=lambda pair: pair[1]["share"], default=("–", {"share": 0})
        )
        cells.append(f"{best['share']:.0%} ({label})")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def written(text: str) -> str:
    """Return the page with its tables."""
    counters = json.loads(COUNTERS.read_text(encoding="utf-8"))
    found = runs()
    run = found[-1] if found else None
    parts = {"pictures": pictures(), "orders": order_table(counters, run),
             "loops": loop_table(counters), "times": time_table(run)}  # fmt: skip
    for name, lines in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        body = "\n".join([begin, "", *lines, "", end])
        text = re.sub(f"{begin}.*?{end}", lambda _, body=body: body, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def main() -> None:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.count:
        RESULTS.mkdir(exist_ok=True)
        COUNTERS.write_text(json.dumps(count(), indent=1) + "\n", encoding="utf-8")
    old = PAGE.read_text(encoding="utf-8")
    new = written(old)
    if options.check:
        sys.exit(0 if new == old else "run: python -m examples.gpu_convolution.page")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
