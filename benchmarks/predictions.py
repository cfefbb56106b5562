"""Compares the time that the cost model predicts for the schedules it chose with measured times.

    python -m benchmarks.run predictions --threads 1

Each case is a single kernel, of the shapes that networks have. Its predicted cycles are those of
the winners that the schedule search reports (`schedule_rules.choices`); where no search took part
(rows, elementwise chains), those of `roof_cycles`: what ports and memory allow. What is measured is
the main kernel of the compiled program alone (`inspect.profile`): that with most operations for a
contraction, so that changes of layout around it do not count, else the slowest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

import tilesmith
from benchmarks.workloads import (
    Workload,
    batched,
    conv,
    gelu,
    layer_norm,
    matmul,
    relu_add,
    row_sums,
    softmax,
)
from tilesmith.inspect import profile
from tilesmith.schedule_rules.choices import capture_choices
from tilesmith.schedule_rules.contractions.tiles import best_tile, tile_cost
from tilesmith.support.knobs import knobs
from tilesmith.target import MachineModel, Target, machine_model


@dataclass(frozen=True)
class Case:
    """A kernel, and the extents of its register tile's axes if it is a contraction."""

    kind: str
    name: str
    make: Callable[[], Workload]
    rows: int = 0
    columns: int = 0


@dataclass(frozen=True)
class Prediction:
    """What was predicted and what was measured, in seconds."""

    name: str
    kind: str
    predicted: float
    measured: float
    source: str
    """"search": the cost model of the schedule search; "roof": what ports and memory allow."""


_PRODUCTS = [(768, 768), (3072, 768), (768, 3072), (256, 256), (1000, 512), (96, 384)]
_PRODUCT_ROWS = (1, 7, 32, 128, 197)
_SQUARES = (64, 128, 192, 256, 384, 512, 768)
_CONVOLUTIONS = [
    (3, 64, 112, 3, 2), (16, 32, 112, 3, 1), (32, 32, 56, 3, 1), (64, 64, 56, 3, 1),
    (64, 128, 56, 3, 2), (96, 96, 28, 3, 1), (128, 128, 28, 3, 1), (128, 256, 28, 3, 2),
    (192, 192, 14, 3, 1), (256, 256, 14, 3, 1), (256, 512, 14, 3, 2), (512, 512, 7, 3, 1),
    (24, 48, 56, 5, 1), (48, 48, 28, 5, 1), (3, 64, 224, 7, 2), (3, 96, 112, 7, 2),
]  # fmt: skip
_POINTWISE = [
    (64, 64, 56), (64, 256, 56), (256, 64, 56), (256, 128, 56), (128, 512, 28), (512, 128, 28),
    (512, 256, 28), (256, 1024, 14), (1024, 256, 14), (1024, 512, 14), (512, 2048, 7),
    (2048, 512, 7), (32, 16, 112), (16, 96, 112), (96, 24, 56), (24, 144, 56), (144, 32, 28),
    (384, 64, 14), (576, 96, 14), (960, 160, 7), (320, 1280, 7),
]  # fmt: skip
_ROWS = [(16, 64), (128, 128), (128, 768), (128, 1024), (1024, 256), (1536, 128), (2048, 768)]


def _contractions() -> Iterator[Case]:
    for n, k in _PRODUCTS:
        for m in _PRODUCT_ROWS:
            name = f"matmul {m}x{n}x{k}"
            yield Case("matmul", name, partial(matmul, name, m, n, k, True), m, n)
    for size in _SQUARES:
        name = f"matmul {size}^3"
        yield Case("matmul", name, partial(matmul, name, size, size, size, False), size, size)
    for count, m, n, k in ((12, 128, 128, 64), (12, 128, 64, 128), (16, 128, 128, 128)):
        name = f"matmul {count} of {m}x{n}x{k}"
        yield Case("matmul", name, partial(batched, name, count, m, n, k), m, n)


def _convolutions() -> Iterator[Case]:
    for before, after, size, kernel, stride in _CONVOLUTIONS:
        name = f"conv{kernel}x{kernel} s{stride} {before}->{after}@{size}"
        make = partial(conv, name, (before, after), size, kernel, stride)
        yield Case("convolution", name, make, size // stride, after)
    for before, after, size in _POINTWISE:
        name = f"conv1x1 {before}->{after}@{size}"
        make = partial(conv, name, (before, after), size, 1)
        yield Case("convolution", name, make, size * size, after)


def _row_operators() -> Iterator[Case]:
    makers = {"softmax": softmax, "layer norm": layer_norm, "row sums": row_sums, "gelu": gelu}
    for kind, maker in makers.items():
        for rows, columns in _ROWS:
            name = f"{kind} {rows}x{columns}"
            yield Case("rows", name, partial(maker, name, rows, columns))
    for power in (12, 16, 20, 22):
        name = f"relu(add) {1 << power}"
        yield Case("rows", name, partial(relu_add, name, 1 << power))


def cases() -> list[Case]:
    """Return all kernels that are compared."""
    return [*_contractions(), *_convolutions(), *_row_operators()]


def roof_cycles(
    operations: float, traffic: float, case: Case, machine: MachineModel, threads: int
) -> float:
    """Return the cycles that ports and memory allow: multiply-adds at the speed of the register
    tile, and bytes at that of the level of memory that holds them.
    """
    lanes = machine.lanes(32)
    step = 1 / machine.fma_per_cycle
    if case.rows:
        step = tile_cost(best_tile(case.rows, case.columns, machine), machine)
    if traffic <= machine.l2_bytes:
        rate = machine.l2_bandwidth
    elif traffic <= machine.l3_bytes:
        rate = machine.l3_bandwidth
    else:
        rate = machine.memory_bandwidth
    return max(operations / 2 / lanes * step, traffic / rate) / threads


def searched_cycles(choices: Sequence[Any], kernel: str) -> float | None:
    """Return the cycles of the winners for the blocks of a kernel; None without a search."""
    own = [one for one in choices if one.function == kernel] or list(choices)
    return sum([one.considered[0].cycles for one in own]) or None


def _compiled(workload: Workload, target: str) -> tuple[Any, list[Any]]:
    """Return the program, and the choices of the schedule search."""
    with capture_choices() as found:
        return tilesmith.compile(workload.model, target=target, cache=False), found


def _work(row: Any, workload: Workload, seconds: float) -> tuple[float, float]:
    """Return the operations and the bytes of a kernel: counted, else what the workload says."""
    if "GFLOP/s" not in row:
        return workload.flops, workload.bytes
    return row["GFLOP/s"].ratio * seconds * 1e9, row["GB/s"].ratio * seconds * 1e9


def weight(case: Case, row: Any) -> float:
    """Return how much a kernel counts as the main one."""
    seconds = row["Duration (us)"].microseconds / 1e6
    if case.rows:
        return float(row["GFLOP/s"].ratio * seconds) if "GFLOP/s" in row else 0.0
    return float(seconds)


def predict(case: Case, hertz: float, threads: int, runs: int = 30) -> Prediction:
    """Compile one case, and measure its main kernel."""
    workload = case.make()
    target = f"llvm -num-cores={threads}"
    with knobs.override(workers=0):  # choices are reported to the thread that makes them
        executable, choices = _compiled(workload, target)
        report = profile(executable, list(workload.feed.values()), peak=False, runs=runs)
    main = max(report.calls, key=partial(weight, case))
    measured = main["Duration (us)"].microseconds / 1e6
    cycles, source = searched_cycles(choices, str(main["Name"])), "search"
    if cycles is None:
        operations, traffic = _work(main, workload, measured)
        machine = machine_model(Target(target))
        cycles, source = roof_cycles(operations, traffic, case, machine, threads), "roof"
    return Prediction(case.name, case.kind, cycles / hertz, measured, source)


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Return the rank of each value; equal values share the mean of theirs."""
    array = np.asarray(values, "float64")
    _, places, counts = np.unique(array, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's correlation of two rows of numbers; NaN where one of them is constant."""
    x, y = [ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b))]
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale else float("nan")


def summary(predictions: Sequence[Prediction]) -> dict[str, dict[str, float]]:
    """Return, for all and for each kind, how many there are, the rank correlation, and the median
    of measured over predicted.
    """
    found = {}
    for kind in ("all", *dict.fromkeys([one.kind for one in predictions])):
        chosen = [one for one in predictions if kind in ("all", one.kind)]
        pairs = [(one.predicted, one.measured) for one in chosen]
        found[kind] = {
            "kernels": len(chosen),
            "rank_correlation": rank_correlation(*zip(*pairs, strict=True)),
            "measured_to_predicted": float(np.median([after / before for before, after in pairs])),
        }
    return found


def as_json(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return all figures for a file."""
    return {"summary": summary(predictions), "kernels": [asdict(one) for one in predictions]}


_SIDE, _MARGIN = 560, 60
_COLOURS = {"matmul": "#2a6fbb", "convolution": "#c8553d", "rows": "#3a8f5c"}


def picture(predictions: Sequence[Prediction], title: str) -> str:
    """Return an SVG picture: predicted time across, measured time upward, on logarithmic axes."""
    values = [value for one in predictions for value in (one.predicted, one.measured)]
    low, high = np.floor(np.log10(min(values))), np.ceil(np.log10(max(values)))

    def place(seconds: float) -> float:
        share = (np.log10(seconds) - low) / (high - low)
        return _MARGIN + float(share) * (_SIDE - 2 * _MARGIN)

    def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'

    def line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
        return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'

    first, last = _MARGIN, _SIDE - _MARGIN
    parts = [text(_SIDE / 2, 24, title)]
    for power in range(int(low), int(high) + 1):
        at, label = place(10.0**power), f"{10.0 ** (power + 6):g}"
        parts += [line(at, first, at, last, "#ddd"), line(first, at, last, at, "#ddd")]
        parts += [text(at, last + 16, label), text(first - 6, _SIDE - at + 4, label, "end")]
    parts.append(line(first, last, last, first, "#999"))
    for one in predictions:
        x, y = place(one.predicted), _SIDE - place(one.measured)
        words = (
            f"{one.name}: {one.predicted * 1e6:.1f} / {one.measured * 1e6:.1f} µs ({one.source})"
        )
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_COLOURS[one.kind]}" '
                     f'fill-opacity="0.7"><title>{escape(words)}</title></circle>')  # fmt: skip
    for index, (kind, colour) in enumerate(_COLOURS.items()):
        y = first + 14 + 16 * index
        parts.append(f'<circle cx="{first + 12}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(text(first + 22, y, kind, "start"))
    parts.append(text(_SIDE / 2, _SIDE - 16, "predicted, in µs (upward: measured)"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SIDE}" height="{_SIDE}" '
        f'viewBox="0 0 {_SIDE} {_SIDE}" font-family="sans-serif" font-size="12">'
    )
    body = ['<rect width="100%" height="100%" fill="white"/>', *parts]
    return "\n".join([head, *body, "</svg>"]) + "\n"
