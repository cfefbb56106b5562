"""Writes README.md: the steps, their code, the counters of their kernels, measured times.

python -m examples.gemm_ladder.page            from what is recorded in results/
python -m examples.gemm_ladder.page --count    counts and compiles again (about a minute)
python -m examples.gemm_ladder.page --check    exit code 1 if the page says something else

``results/counters.json`` has the counters; every other file there is a run of sweep.py on a GPU.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from pathlib import Path
from typing import Any

from examples.gemm_ladder.ladder import FINAL, STEPS, Step
from examples.gemm_ladder.sweep import build
from tilesmith.inspect import gpu_report
from tilesmith.ir.transform import PassContext

HERE = Path(__file__).parent
PAGE, RESULTS = HERE / "README.md", HERE / "results"
COUNTERS = RESULTS / "counters.json"
BEGIN, END = "<!-- steps: begin -->", "<!-- steps: end -->"
COUNTED = 1024
"""Rows, columns and depth of the product whose accesses are counted."""
SIZE = 4096
BOARD = "H100"
PEAKS = {"float32": 67e12, "float16": 989e12}
"""Operations a second of an H100 (SXM) at its highest clock, by the dtype of the operands."""


def count(step: Step) -> dict[str, Any]:
    """Return the counters of a step's kernel, and what its machine code needs."""
    _, facts = build(step, SIZE, "sm_90")
    found: dict[str, Any] = {key: facts[key] for key in ("registers", "local_bytes")}
    if step.dtype != "float32":  # fragments are not modelled by threads
        return found
    with PassContext(config=dict(step.options)):
        report = gpu_report(step.schedule(COUNTED, COUNTED, COUNTED), target=BOARD)
    (kernel,) = report.kernels
    shared = kernel.wavefronts
    return found | {
        "findings": len(report.findings),
        "bytes_per_operation": kernel.sector_bytes / kernel.flops,
        "wavefronts": shared / kernel.flops * 64,
        "conflicts": shared / kernel.ideal_wavefronts if kernel.ideal_wavefronts else 0.0,
        "barriers": kernel.barriers / kernel.blocks_total,
        "shared_bytes": kernel.static_shared + kernel.dynamic_shared,
        "times": {name: value * 1e6 for name, value in kernel.times.items()},
    }


def measured() -> list[dict[str, Any]]:
    """Return the recorded runs."""
    files = [path for path in sorted(RESULTS.glob("*.json")) if path != COUNTERS]
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return [run for run in runs if run["size"] == SIZE]


def _cells(name: str, step: Step, counters: dict[str, Any], run: dict[str, Any] | None) -> str:
    """Return the row of a step in the table."""
    one = counters.get(name, {})
    cells = [f"[{name}](#{name})", str(one.get("registers", "–"))]
    if "bytes_per_operation" in one:
        cells += [
            f"{one['bytes_per_operation']:.3f}",
            f"{one['wavefronts']:.2f}" if one["wavefronts"] else "–",
            f"{one['conflicts']:.2f}" if one["conflicts"] else "–",
            f"{one['barriers'] / (COUNTED // getattr(step.tiling, 'depth', 1)):.1f}",
        ]
    else:
        cells += ["–"] * 4
    cells.append(step.predicted or "–")
    row = run["rows"].get(name, {}) if run else {}
    if run is None or "seconds" not in row:
        cells += ["not measured"] * 3
    else:
        rate = 2 * run["size"] ** 3 / row["seconds"]
        share = run["torch"][step.dtype] / row["seconds"]
        cells += [f"{rate / 1e12:.1f}", f"{rate / PEAKS[step.dtype]:.0%}", f"{share:.0%}"]
    return f"| {' | '.join(cells)} |"


def table(counters: dict[str, Any], run: dict[str, Any] | None) -> list[str]:
    """Return the table of all steps."""
    device = run["device"] if run else "no GPU so far"
    head = [
        "step", "registers", "L2 bytes per operation", "shared wavefronts per 64 operations",
        "÷ those without conflicts", "barriers per step of the sum",
        "predicted share of the peak", "TFLOP/s", "share of the peak",
        "share of torch (cuBLAS)",
    ]  # fmt: skip
    lines = [f"Measured on: {device}, {SIZE}³.", "", f"| {' | '.join(head)} |"]
    lines.append("|:--|" + "--:|" * (len(head) - 1))
    lines += [_cells(name, step, counters, run) for name, step in STEPS.items()]
    if run:
        work = 2 * run["size"] ** 3
        rates = ", ".join([f"{d} {work / s / 1e12:.1f}" for d, s in run["torch"].items()])
        lines += ["", f"torch: {rates} TFLOP/s."]
    return lines


def part() -> str:
    """Return what stands between the marks."""
    counters = json.loads(COUNTERS.read_text(encoding="utf-8")) if COUNTERS.exists() else {}
    runs = measured()
    lines: list[str] = []
    for run in runs or [None]:
        lines += [*table(counters, run), ""]
    shown: set[str] = set()
    for number, (name, step) in enumerate(STEPS.items(), 1):
        text = step.remark or " ".join((inspect.getdoc(step.apply) or "").split())
        last = " The last step in float32." if name == FINAL else ""
        lines += [f"### {name}", "", f"{number}. {text}{last}", ""]
        if step.apply.__name__ not in shown:
            shown.add(step.apply.__name__)
            lines += ["```python", inspect.getsource(step.apply).strip(), "```", ""]
        needs = f" It needs the architecture {step.arch}." if step.arch else ""
        lines += [f"Sizes: `{step.tiling}`.{needs}", ""]
    return "\n".join(lines).strip() + "\n"


def written(page: str) -> str:
    """Return the page with the present part between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{PAGE} has no marks {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{part()}\n{END}{after}"


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", action="store_true", help="count and compile again")
    parser.add_argument("--check", action="store_true", help="write nothing; compare")
    options = parser.parse_args()
    if options.count:
        RESULTS.mkdir(exist_ok=True)
        found = {name: count(step) for name, step in STEPS.items()}
        COUNTERS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    new = written(page)
    if options.check:
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
