"""Builds models of a precision below float32, and compares them with their float32 form.

bfloat16 and float16 change weights and operands of the products that PackForVectors packs; int8
quantises (`driver.quantisation`). All of it starts from the same simplified graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilesmith.driver.pipelines import default_passes
from tilesmith.driver.precision_options import LowPrecision
from tilesmith.driver.quantisation import (
    arguments,
    calibrated,
    flat,
    prepared,
    products,
    quantised,
    with_results,
)
from tilesmith.driver.relax_build import build
from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.span import operators_at
from tilesmith.ir.transform import Sequential
from tilesmith.relax.transform.byte_products import dot_products
from tilesmith.relax.transform.pair_products import has_dot_products_of_pairs
from tilesmith.relay.quantize.accuracy import LayerAccuracy, accuracy_table, agreement
from tilesmith.runtime.executable import Executable
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.fallbacks import collect_fallbacks, record_fallback
from tilesmith.support.summary import phase
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of
from tilesmith.target.features import architecture, is_host, target_features
from tilesmith.target.machine import machine_model

__all__ = ["AccuracyReport", "build_low"]


@dataclass(frozen=True)
class AccuracyReport:
    """How well a model of low precision agrees with float32."""

    precision: str
    layers: tuple[LayerAccuracy, ...]
    """The products and convolutions, the least agreeing first."""
    results: tuple[LayerAccuracy, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values; a signal without noise has None."""
        return {
            "precision": self.precision,
            "layers": [_row(one) for one in self.layers],
            "results": [_row(one) for one in self.results],
        }

    def __str__(self) -> str:
        return accuracy_table([*self.results, *self.layers])


def _row(layer: LayerAccuracy) -> dict[str, Any]:
    ratio = layer.signal_to_noise
    return {
        "name": layer.name,
        "shape": [int(size) for size in layer.shape],
        "signal_to_noise_db": ratio if ratio != float("inf") else None,
        "greatest_error": layer.greatest_error,
    }


def _why_slower(dtype: str, target: Target) -> str | None:
    """Return why a target is not faster with a dtype than with float32; None if it is."""
    if not back_end_of(target).graph_passes:
        return f"weights are not packed for {target.kind.name}"
    machine = machine_model(target)
    if dtype == "bfloat16" and not has_dot_products_of_pairs(target, machine):
        return "the target has no dot products of bfloat16 (avx512bf16; bf16 on Arm)"
    features = target_features(target)
    if dtype == "float16" and architecture(target) == "x86" and "f16c" not in features:
        return "the target has no conversions of float16 (f16c)"
    if dtype == "int8" and dot_products(target, machine) is None:
        return "the target has no dot products of bytes (sse2 or avx2; dotprod or i8mm on Arm)"
    return None


@dataclass(frozen=True, eq=False)
class _Form:
    """How the low form of a prepared module is made: int8 has its ranges, the others a dtype."""

    dtype: str
    target: Target
    ranges: Sequence[Any]
    settings: PassContext
    """Those that held when the model was compiled."""

    def build(self, module: IRModule) -> Executable:
        """Compile a prepared module in low precision."""
        if self.dtype == "int8":
            return build(quantised(module, self.ranges), self.target)
        passes = Sequential(default_passes(self.target, self.dtype), name="low_precision")
        return build(module, self.target, pipeline=passes)


def build_low(
    mod: IRModule, target: Target, params: Mapping[str, Any] | None, low: LowPrecision
) -> Executable:
    """Compile a module in low precision; in float32 where the target is not faster otherwise."""
    dtype = low.dtype
    assert dtype is not None
    with collect_fallbacks() as noted:
        reason = None if low.is_forced else _why_slower(dtype, target)
        if reason is not None:
            record_fallback("precision", dtype, f"{reason}; force_precision=True insists")
    if reason is not None:
        executable = build(mod, target, params)
        executable.add_fallbacks(noted)
        return executable
    with collect_fallbacks() as noted:
        with target, phase("graph passes"):
            module = prepared(mod, params)
        del mod
        ranges: Sequence[Any] = ()
        if dtype == "int8":
            with phase("calibrating"):
                compile_module = partial(build, target=_runnable(target))
                ranges = calibrated(module, low.calibration, low.method, compile_module)
        own = _flushing(target) if dtype == "bfloat16" else target
        form = _Form(dtype, own, ranges, PassContext.current().without_instruments())
    executable = form.build(module)
    executable.add_fallbacks(noted)
    executable.metadata["precision"] = dtype
    executable.accuracy_report = partial(_compared, module, form)
    return executable


def _flushing(target: Target) -> Target:
    """Return a target whose conversions to bfloat16 may take subnormal numbers for 0, as the dot
    products of x86 do: its instruction for them is quick.
    """
    if "avx512bf16" not in target_features(target):
        return target
    return Target({**target.export(), "flush-subnormals": True})


def _runnable(target: Target) -> Target:
    """Return a target whose code runs here: the model of floats is run for calibration."""
    return (
        target
        if back_end_of(target).kernel_object is not None and is_host(target)
        else (Target("llvm"))
    )


def _compared(module: IRModule, form: _Form, inputs: Any) -> AccuracyReport:
    """Run both forms of a prepared module on inputs, and compare what products give."""
    if not is_host(form.target):
        raise UnsupportedError(
            f"code for {form.target} does not run here, so that nothing can be compared"
        )
    found = products(module)
    whole = with_results(module, [one.var for one in found])
    main: Any = module["main"]
    names = [param.name_hint for param in main.params]
    batches = list(inputs) if isinstance(inputs, list) else [inputs]
    with form.settings:
        runs = [build(whole, form.target), form.build(whole)]
    values = [[flat(run(*arguments(names, batch))) for batch in batches] for run in runs]
    count = len(values[0][0])
    layers = []
    for place in range(count):
        number = place - (count - len(found))
        name = f"result {place}" if number < 0 else _name(found[number])
        layers.append(agreement(name, *[[row[place] for row in rows] for rows in values]))
    results, rest = layers[: count - len(found)], layers[count - len(found) :]
    rest.sort(key=lambda one: one.signal_to_noise)
    return AccuracyReport(form.dtype, tuple(rest), tuple(results))


def _name(binding: Any) -> str:
    return operators_at(binding.value.span) or f"{binding.value.op.name} {binding.var.name_hint}"
