"""``relay.quantize.quantize``: the steps of a quantisation, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import PassContext
from tilesmith.relay import transform
from tilesmith.relay.expr import const
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.quantize.annotate import annotate
from tilesmith.relay.quantize.calibrate import calibrate
from tilesmith.relay.quantize.config import (
    QAnnotateKind,
    QConfig,
    QuantizeContext,
    current_qconfig,
    kind2str,
    qconfig,
    quantize_context,
)
from tilesmith.relay.quantize.partition import partition, split_conversions
from tilesmith.relay.quantize.realize import realize
from tilesmith.relay.rewriting import bind

__all__ = [
    "QAnnotateKind", "QConfig", "QuantizeContext", "annotate", "current_qconfig", "kind2str",
    "partition", "prerequisite_optimize", "qconfig", "quantize", "quantize_context", "realize",
]  # fmt: skip

_BEFORE = ("SimplifyInference", "FoldConstant", "FoldScaleAxis", "CanonicalizeOps", "FoldConstant")


def _bound(mod: IRModule, params: Mapping[str, Any] | None) -> IRModule:
    if not params:
        return mod
    main: Any = mod["main"]
    by_name = {param.name_hint: param for param in main.params}
    values = {by_name[name]: const(one) for name, one in params.items() if name in by_name}
    mod["main"] = bind(main, values)
    return mod


def prerequisite_optimize(mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """Return a module in the form that quantisation expects: parameters are constants,
    normalisations are folded into weights.
    """
    if isinstance(mod, Function):
        mod = IRModule.from_expr(mod)
    mod = _bound(mod.shallow_copy(), params)
    known = dir(transform)
    with PassContext(opt_level=3):
        for name in _BEFORE:
            if name in known:
                mod = getattr(transform, name)()(infer_module(mod))
    return infer_module(mod)


def quantize(
    mod: IRModule,
    params: Mapping[str, Any] | None = None,
    dataset: Iterable[Mapping[str, Any]] | None = None,
) -> IRModule:
    """Return a network of integers for one of floats (an IRModule, or a function).

    ``dataset`` has inputs by their names, for calibration. What is quantised, and how, says
    `qconfig`. With ``do_simulation`` the result computes in floats what the integers would.
    """
    config = current_qconfig()
    mod = prerequisite_optimize(mod, params)
    mod = calibrate(dataset)(annotate()(partition()(mod)))
    if config.do_simulation:
        return mod
    mod = realize()(mod)
    if config.partition_conversions != "disabled":
        return split_conversions(mod, config.partition_conversions == "fully_integral")
    return mod
