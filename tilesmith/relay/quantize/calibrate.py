"""Calibrate: chooses the scales of simulated quantisations, from a dataset where one is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relax import interpreter
from tilesmith.relay.analysis import get_total_mac_number
from tilesmith.relay.expr import Call, Constant, Tuple, const
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.quantize.annotate import is_simulated, sites
from tilesmith.relay.quantize.config import QAnnotateKind, current_qconfig
from tilesmith.relay.quantize.kl_divergence import best_threshold
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.translate import to_relax
from tilesmith.relay.walks import parts, post_order, with_parts
from tilesmith.support.errors import ConfigError
from tilesmith.support.lazy import resolve

__all__ = ["calibrate", "collect_stats", "run_outputs"]

_PERCENTILE = 99.99
_FEWEST_PRODUCTS = 1 << 28  # what numpy multiplies while a small network is compiled
Dataset = Iterable[Mapping[str, Any]]


def run_outputs(function: Function, outputs: list[Any], dataset: Dataset) -> list[list[Any]]:
    """Return the values of expressions of a function for each element of a dataset (inputs by their
    names). Compiled code computes them unless numpy does so in less time than compiling takes.
    """
    program = Function(function.params, Tuple(outputs), None, function.type_params)
    batches = list(dataset)
    run = _runner(IRModule.from_expr(program), len(batches))
    found = []
    for batch in batches:
        inputs = {
            name: numpy.asarray(getattr(one, "numpy", lambda one=one: one)())
            for name, one in batch.items()
        }
        missing = [one.name_hint for one in function.params if one.name_hint not in inputs]
        if missing:
            raise ConfigError(
                f"the dataset has no '{missing[0]}'",
                notes=("an element is a dictionary: name of an input → array",),
            )
        results = run(*[inputs[one.name_hint] for one in function.params])
        found.append(
            [numpy.asarray(getattr(one, "numpy", lambda one=one: one)()) for one in results]
        )
    return found


def _runner(module: IRModule, count: int) -> Callable[..., Any]:
    """Return what runs a program so many times."""
    products = get_total_mac_number(infer_module(module)["main"]) * count
    if products < _FEWEST_PRODUCTS:
        return partial(interpreter.run, to_relax(module), "main")
    run: Callable[..., Any] = resolve("tilesmith.driver.relay_executors:create_executor")(
        "graph", module
    ).evaluate()
    return run


def without_simulation(function: Function) -> tuple[Function, list[Any]]:
    """Return a function without its simulated quantisations, and what each of them took, in the
    order of `sites`.
    """
    done: dict[int, Any] = {}
    taken = []
    for node in post_order(function):
        if is_simulated(node):
            done[id(node)] = done[id(node.args[0])]
            taken.append(done[id(node)])
        else:
            done[id(node)] = with_parts(node, [done[id(part)] for part in parts(node)])
    return done[id(function)], taken


def collect_stats(mod: IRModule, dataset: Dataset, chunk_by: int = -1) -> list[list[numpy.ndarray]]:
    """Return the values that each simulated quantisation of an operand gets in the network of
    floats, an array for each element of the dataset. ``chunk_by`` of them are computed at once.
    """
    main: Any = mod["main"]
    places = [place for place, one in enumerate(sites(main)) if not _is_weight(one)]
    floats, taken = without_simulation(main)
    step = len(places) if chunk_by in (-1, 0) else int(chunk_by)
    batches = list(dataset)
    found: list[list[numpy.ndarray]] = []
    for start in range(0, len(places), max(step, 1)):
        chosen = [taken[place] for place in places[start : start + step]]
        rows = run_outputs(floats, chosen, batches)
        found += [[row[place] for row in rows] for place in range(len(chosen))]
    return found


def _is_weight(call: Any) -> bool:
    return int(call.attrs.kind) == QAnnotateKind.WEIGHT


def _greatest(values: list[numpy.ndarray]) -> float:
    return max([float(numpy.abs(one).max()) for one in values], default=0.0)


def _by_percentile(values: list[numpy.ndarray], bits: int) -> float:
    flat = numpy.abs(numpy.concatenate([one.reshape(-1) for one in values]))
    return float(numpy.percentile(flat, _PERCENTILE))


def _by_divergence(values: list[numpy.ndarray], bits: int) -> float:
    return best_threshold(numpy.concatenate([one.reshape(-1) for one in values]), bits)


_THRESHOLDS: dict[str, Callable[[list[numpy.ndarray], int], float]] = {
    "kl_divergence": _by_divergence,
    "percentile": _by_percentile,
}


def _weight_scale(call: Call, bits: int) -> numpy.ndarray:
    weight = call.args[0]
    if not isinstance(weight, Constant):
        raise ConfigError("a weight is no constant", notes=("give the parameters: params=...",))
    array = numpy.abs(weight.data.numpy())
    mode = current_qconfig().weight_scale
    if mode == "channel_max" and array.ndim > 1:
        axes = tuple(range(1, array.ndim))  # weights of convolutions and dense: outputs first
        greatest = array.max(axes, keepdims=True)
    else:
        greatest = array.max()
    greatest = numpy.where(greatest > 0, greatest, 1.0)
    if mode == "power2":
        greatest = 2.0 ** numpy.ceil(numpy.log2(greatest))
    return numpy.asarray(greatest / 2.0 ** (bits - 1), "float32")


def _scaled(function: Function, thresholds: list[float] | None) -> Function:
    """Return a function whose simulated quantisations have scales."""
    config = current_qconfig()
    numbers = iter(thresholds or ())
    done: dict[int, Any] = {}
    for node in post_order(function):
        new = with_parts(node, [done[id(part)] for part in parts(node)])
        if is_simulated(node):
            kind = node.attrs.kind
            bits = config.get_nbit_by_kind(kind)
            if kind == QAnnotateKind.WEIGHT:
                scale = _weight_scale(new, bits)
            else:
                limit = config.global_scale if thresholds is None else next(numbers)
                scale = numpy.asarray((limit or 1.0) / 2.0 ** (bits - 1), "float32")
            high = numpy.float32(2 ** (bits - 1) - 1)
            new = new.with_fields(args=(new.args[0], const(scale), const(-high), const(high)))
        done[id(node)] = new
    result: Function = done[id(function)]
    return result


def calibrate(dataset: Dataset | None = None) -> Any:
    """Return the pass that chooses scales, as `qconfig` says; the modes that look at values need a
    dataset: dictionaries from names of inputs to arrays.
    """
    return _calibrate(dataset)


@relay_pass("QuantizeCalibrate", 1, ["InferType"])
def _calibrate(mod: IRModule, dataset: Dataset | None) -> IRModule:
    config = current_qconfig()
    mode = config.calibrate_mode
    thresholds = None
    if mode != "global_scale":
        if dataset is None:
            raise ConfigError(
                f"calibrate_mode='{mode}' needs a dataset",
                notes=("quantize(mod, params, dataset=[{'data': array}, ...])",),
            )
        bits = config.get_nbit_by_kind(QAnnotateKind.INPUT)
        values = collect_stats(mod, dataset, config.calibrate_chunk_by)
        thresholds = [_THRESHOLDS[mode](one, bits) or _greatest(one) for one in values]
    main: Any = mod["main"]
    mod["main"] = _scaled(main, thresholds)
    return infer_module(mod)
