"""``relay.op.annotation.annotation``: notes for passes, which change no
value.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, boolean, dtype, integer, text
from tilesmith.relay.op.view import define, functions

SIMULATED_QUANTIZE = "relay.op.annotation.simulated_quantize"
"""The name of the operator by which `relay.quantize` works."""

for _name, _what in (
    ("stop_fusion", "The same tensor; operators before and after are not fused."),
    ("checkpoint", "The same tensor, which is computed anew for the gradient."),
):
    define("annotation." + _name, "data", lambda attrs, data: data, level=10, description=_what)


define(
    "annotation.cast_hint",
    "data",
    lambda attrs, data: data,
    level=10,
    schema=Schema(dtype=dtype("float32")),
    description="The same tensor; a hint of the dtype to which it may be converted.",
)


def _simulated_quantize(attrs: Any, data: Any, scale: Any, low: Any, high: Any) -> Any:
    steps = relax.round(relax.divide(data, scale))
    return relax.multiply(relax.minimum(relax.maximum(steps, low), high), scale)


define(
    SIMULATED_QUANTIZE,
    "data dom_scale clip_min clip_max",
    _simulated_quantize,
    level=11,
    schema=Schema(kind=integer(1), sign=boolean(True), rounding=text("round")),
    description="``clip(round(data / dom_scale), clip_min, clip_max) * dom_scale``, in floats.",
)

compiler_begin = define(
    "annotation.compiler_begin",
    "data",
    lambda attrs, data: data,
    level=10,
    schema=Schema(compiler=text()),
    description="The same value; from here on an external compiler has the program.",
)

compiler_end = define(
    "annotation.compiler_end",
    "data",
    lambda attrs, data: data,
    level=10,
    schema=Schema(compiler=text()),
    description="The same value; here the part of an external compiler ends.",
)

globals().update(functions("annotation."))
