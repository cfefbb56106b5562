"""``relay.op.annotation``, known as ``relay.annotation``: notes for passes, which change no
value.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax.attrs import Schema, dtype
from tilesmith.relay.op.view import define, functions

for _name, _what in (
    ("stop_fusion", "The same tensor; operators before and after are not fused."),
    ("checkpoint", "The same tensor, which is computed anew for the gradient."),
):
    define("annotation." + _name, "data", lambda attrs, data: data, level=10, description=_what)


def _cast_hint(attrs: Any, data: Any) -> Any:
    return data


define(
    "annotation.cast_hint",
    "data",
    _cast_hint,
    level=10,
    schema=Schema(dtype=dtype("float32")),
    description="The same tensor; a hint of the dtype to which it may be converted.",
)

globals().update(functions("annotation."))
