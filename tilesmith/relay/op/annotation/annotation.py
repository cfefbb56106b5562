"""``relay.op.annotation.annotation``: notes for passes, which change no
value.
"""

from __future__ import annotations

from tilesmith.relax.attrs import Schema, dtype, text
from tilesmith.relay.op.view import define, functions

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

for _name, _what in (
    ("compiler_begin", "The same value; from here on an external compiler has the program."),
    ("compiler_end", "The same value; here the part of an external compiler ends."),
):
    define(
        "annotation." + _name,
        "data",
        lambda attrs, data: data,
        level=10,
        schema=Schema(compiler=text()),
        description=_what,
    )

globals().update(functions("annotation."))
