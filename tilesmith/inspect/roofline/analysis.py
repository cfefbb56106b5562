"""Adds to a report of kernels what each of them could reach at most."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy

from tilesmith.contrib.debugger.debug_executor import GraphModuleDebug, create
from tilesmith.driver import relay_build
from tilesmith.inspect.roofline import registry
from tilesmith.inspect.roofline.kernels import counted_bytes, counted_operations, main_dtype
from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.instrument import PassInstrument
from tilesmith.runtime.devices import Device
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.profiling import Count, Duration, Metric, Ratio, Report
from tilesmith.runtime.threads import num_threads
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import PrimFunc

__all__ = ["SaveLoweredTIR", "roofline_analysis", "roofline_from_existing"]

KERNEL = "Kernel"
"""The metric of a call that names the kernel, where the call's name is another one."""


class SaveLoweredTIR(PassInstrument):
    """Keeps the kernels as they are when a pass of lowering gets them: ``functions``, by variable.

    Only kernels that are lowered in this process are seen: those of ``tilesmith.build``, and of
    models while a PassContext has instruments.
    """

    def __init__(self, before_pass: str = "tir.VectorizeLoop") -> None:
        self.functions: dict[GlobalVar, PrimFunc] = {}
        self.before_pass = before_pass

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Keep the functions that the pass gets."""
        if info.name == self.before_pass:
            for variable, function in mod.functions.items():
                if isinstance(function, PrimFunc):
                    self.functions[variable] = function


def roofline_from_existing(
    report: Report,
    tir_functions: Mapping[Any, PrimFunc],
    target: Any,
    dev: Device,
    remote: Any = None,
) -> Report:
    """Return a report with these metrics of each call whose kernel is among ``tir_functions`` (by
    variable or name): operations, bytes, what bounds it, and how near it comes.

    A call names its kernel by "Kernel", else by "Name".
    """
    chosen = Target(target)
    kernels = {getattr(key, "name_hint", key): one for key, one in tir_functions.items()}
    limits: dict[Any, tuple[float, str]] = {}
    calls = []
    with chosen:
        for call in report.calls:
            kernel = kernels.get(str(call.get(KERNEL, call.get("Name"))))
            added = {} if kernel is None else _compared(call, kernel, chosen, dev, remote, limits)
            calls.append({**call, **added})
    configuration: dict[str, Metric] = {
        **report.configuration,
        "Number of threads": Count(num_threads()),
        "Target": str(chosen),
    }
    for (kind, *_), (peak, name) in limits.items():
        configuration[f"Estimated Peak {kind} ({name})"] = Ratio(peak)
    return Report(calls, report.device_metrics, configuration)


def _compared(
    call: Mapping[str, Metric],
    kernel: PrimFunc,
    target: Target,
    dev: Device,
    remote: Any,
    limits: dict[Any, tuple[float, str]],
) -> dict[str, Metric]:
    """Return what is to be added to a call; limits are measured once for each dtype."""
    duration = call.get("Duration (us)")
    if not isinstance(duration, Duration) or not duration.microseconds:
        return {}
    seconds = duration.microseconds * 1e-6
    features = {"flops": counted_operations(kernel), "bytes": counted_bytes(kernel)}
    key = ("FLOP/s", main_dtype(kernel))
    if key not in limits:
        found = registry.estimate_peak_flops(kernel, features, target, dev, remote)
        limits[key] = found[1:]
    if ("byte/s",) not in limits:
        found = registry.estimate_peak_bandwidth(kernel, features, target, dev, remote)
        limits["byte/s",] = found[1:]
    operations, bytes_ = features["flops"], features["bytes"]
    compute, memory = operations / limits[key][0], bytes_ / limits["byte/s",][0]
    return {
        "Estimated FLOPs": Count(round(operations)),
        "Loaded Bytes": Count(round(bytes_)),
        "Arithmetic Intensity": Ratio(operations / bytes_ if bytes_ else 0.0),
        "FLOP/s": Ratio(operations / seconds),
        "Bandwidth": Ratio(bytes_ / seconds),
        "Bound": "compute" if compute > memory else "memory",
        "Percent of Theoretical Optimal": Ratio(100 * max(compute, memory) / seconds),
    }


def roofline_analysis(
    mod: Any,
    params: Mapping[str, Any] | None,
    target: Any,
    dev: Device,
    remote: Any = None,
) -> Report:
    """Compile a program, run its kernels one by one on random inputs, and compare each with what
    the machine can do at most. ``params`` give values to parameters of ``main``.
    """
    if remote is not None:
        raise UnsupportedError(
            "roofline: only this machine is measured", notes=("run it there: remote=None",)
        )
    chosen = Target(target)
    library = relay_build.build(mod, chosen, params=params)
    graph: str = library.get_executor_config()
    module = create(graph, library, dev)
    try:
        report = module.profile(**_random_inputs(module))
    finally:
        module.exit()
    names = {
        node["name"]: node["attrs"]["func_name"]
        for node in json.loads(graph)["nodes"]
        if node["op"] != "null"
    }
    for call in report.calls:
        call[KERNEL] = names[str(call["Name"])]
    kernels = {
        name: function
        for name, function in library.lowered.functions.items()
        if isinstance(function, PrimFunc)
    }
    return roofline_from_existing(report, kernels, chosen, dev)


def _random_inputs(module: GraphModuleDebug) -> dict[str, numpy.ndarray]:
    """Return values for all inputs: floats of [0, 1), integers 0 and 1."""
    shapes, dtypes = module.get_input_info()
    random = numpy.random.default_rng(0)
    found = {}
    for name, shape in shapes.items():
        kind = DataType(dtypes[name])
        values = random.random(shape) if kind.is_float else random.integers(0, 2, shape)
        found[name] = numpy.asarray(values).astype(kind.numpy())
    return found
