"""Realize: makes integers of simulated quantisations.

Each becomes ``qnn.quantize`` and ``qnn.dequantize``; FakeQuantizationToInteger then computes with
integers what lies between.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relay.expr import const
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.view import make_call
from tilesmith.relay.qnn.op.parameters import constant_of
from tilesmith.relay.quantize.annotate import is_simulated
from tilesmith.relay.quantize.config import QAnnotateKind, current_qconfig
from tilesmith.relay.rewriting import rewrite
from tilesmith.relay.transform.clean_up import EliminateCommonSubexpr
from tilesmith.relay.transform.fold_constant import FoldConstant
from tilesmith.relay.transform.integer_graphs import FakeQuantizationToInteger
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of
from tilesmith.support.errors import UnsupportedError

__all__ = ["realize"]


def _integers(call: Any) -> Any:
    """Return what a simulated quantisation stands for: to integers and back."""
    config, attrs = current_qconfig(), call.attrs
    scale = constant_of(call.args[1])
    high = constant_of(call.args[3])
    if scale is None or high is None:
        raise UnsupportedError("realize: a scale is not known yet", notes=("calibrate first",))
    kind = attrs.kind
    dtype = config.get_dtype_by_kind(kind)
    axis = 0 if scale.size > 1 else -1
    data, factor = call.args[0], const(scale.reshape(-1) if scale.size > 1 else scale.reshape(()))
    if kind != QAnnotateKind.WEIGHT and config.nbit_input < 8 or float(high) < 127:
        limit = (float(high) * scale).astype("float32")
        data = make_call("minimum", [make_call("maximum", [data, const(-limit)]), const(limit)])
    if dtype == "uint8":  # the same integers, 128 greater
        point = const(numpy.full(scale.reshape(-1).shape if axis == 0 else (), 128, "int32"))
    else:
        point = const(numpy.zeros(scale.reshape(-1).shape if axis == 0 else (), "int32"))
    made = make_call("qnn.quantize", [data, factor, point], {"axis": axis, "out_dtype": dtype})
    return make_call("qnn.dequantize", [made, factor, point], {"axis": axis})


@relay_pass("QuantizeRealize", 1, ["InferType"])
def realize(mod: IRModule) -> IRModule:
    """Replace simulated quantisations by integers, and compute with these wherever possible."""
    for variable, function in functions_of(mod):
        mod[variable] = rewrite(
            function, lambda node: _integers(node) if is_simulated(node) else node
        )
    mod = FakeQuantizationToInteger(use_qat=True)(infer_module(mod))
    # The floats of weights are not needed any more; what two regions convert is the same.
    return infer_module(EliminateCommonSubexpr()(FoldConstant(fold_qnn=True)(mod)))
