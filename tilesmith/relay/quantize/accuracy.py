"""Compares a quantised network with its floats, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relay.expr import Call, Tuple
from tilesmith.relay.quantize.annotate import annotate, sites
from tilesmith.relay.quantize.calibrate import calibrate, run_outputs, without_simulation
from tilesmith.relay.quantize.config import QAnnotateKind, current_qconfig
from tilesmith.relay.quantize.partition import partition
from tilesmith.relay.quantize.quantize import prerequisite_optimize
from tilesmith.relay.quantize.realize import realize

__all__ = ["LayerAccuracy", "accuracy_by_layer", "accuracy_table", "agreement"]


@dataclass(frozen=True)
class LayerAccuracy:
    """How well quantised values agree with the floats: signal to noise in decibel, and the greatest
    difference relative to the greatest value.
    """

    name: str
    shape: tuple[Any, ...]
    signal_to_noise: float
    greatest_error: float


def agreement(name: str, floats: list[Any], found: list[Any]) -> LayerAccuracy:
    """Return how well arrays agree with those of the floats."""
    signal = noise = 0.0
    error = greatest = 0.0
    for a, b in zip(floats, found):
        difference = a.astype("float64") - b.astype("float64")
        signal += float((a.astype("float64") ** 2).sum())
        noise += float((difference**2).sum())
        error = max(error, float(numpy.abs(difference).max(initial=0.0)))
        greatest = max(greatest, float(numpy.abs(a).max(initial=0.0)))
    ratio = float("inf") if noise == 0 else 10.0 * float(numpy.log10(max(signal, 1e-30) / noise))
    return LayerAccuracy(
        name, tuple(floats[0].shape), ratio, error / greatest if greatest else error
    )


def _name(call: Call) -> str:
    expr = call.args[0]
    return str(
        getattr(getattr(expr, "op", None), "name", None)
        or getattr(expr, "name_hint", type(expr).__name__)
    )


def accuracy_by_layer(
    mod: IRModule,
    params: Mapping[str, Any] | None = None,
    dataset: Iterable[Mapping[str, Any]] | None = None,
    calibration: Iterable[Mapping[str, Any]] | None = None,
) -> list[LayerAccuracy]:
    """Return how well the network that `quantize` makes agrees with its floats, under the `qconfig`
    in force: at each quantised operand of a product (after quantisation, with all that was
    quantised before it), in simulation; and for each result, computed by the integers.

    ``dataset`` has the inputs that are compared, ``calibration`` those for calibration (the same
    ones without).
    """
    batches = list(dataset or ())
    known = batches if calibration is None else list(calibration)
    chosen = known if current_qconfig().calibrate_mode != "global_scale" else None
    prepared = annotate()(partition()(prerequisite_optimize(mod, params)))
    simulated = calibrate(chosen)(prepared)
    main: Any = simulated["main"]
    floats, taken = without_simulation(main)
    calls: list[Any] = sites(main)
    places = [place for place, one in enumerate(calls) if one.attrs.kind != QAnnotateKind.WEIGHT]
    results = _results(floats.body)
    exact = run_outputs(floats, [*[taken[place] for place in places], *results], batches)
    noisy = run_outputs(main, [calls[place] for place in places], batches) if places else []
    found = []
    for number, place in enumerate(places):
        columns = [[row[number] for row in rows] for rows in (exact, noisy)]
        found.append(agreement(_name(calls[place]), *columns))
    quantized: Any = realize()(simulated)["main"]
    ends = run_outputs(quantized, _results(quantized.body), batches)
    for number in range(len(results)):
        wanted = [row[len(places) + number] for row in exact]
        name = "result" if len(results) == 1 else f"result {number}"
        found.append(agreement(name, wanted, [row[number] for row in ends]))
    return found


def _results(body: Any) -> list[Any]:
    return list(body.fields) if isinstance(body, Tuple) else [body]


def accuracy_table(layers: Iterable[LayerAccuracy]) -> str:
    """Return layers as a table of text."""
    rows = [("value", "shape", "signal/noise", "greatest error")]
    for one in layers:
        shape = "x".join([str(size) for size in one.shape])
        rows.append((one.name, shape, f"{one.signal_to_noise:.1f} dB", f"{one.greatest_error:.2%}"))
    widths = [max([len(row[column]) for row in rows]) for column in range(4)]
    return "\n".join(
        [
            "  ".join([text.ljust(width) for text, width in zip(row, widths)]).rstrip()
            for row in rows
        ]
    )
