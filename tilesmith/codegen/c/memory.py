"""Defines rules of loads in C."""

from __future__ import annotations

from tilesmith.codegen.c.rules import handles_node
from tilesmith.codegen.c.values import Values
from tilesmith.codegen.c_family.dialect import short
from tilesmith.codegen.c_family.memory import element, place
from tilesmith.codegen.c_family.pieces import ATOM, CHOICE, OR, Piece
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.expr import BufferLoad


@handles_node(BufferLoad)
def _load(emit: Values, load: BufferLoad) -> Piece:
    if is_packed(load.buffer.dtype):
        base, index = place(emit, load)
        helper = emit.file.helper("load_" + short(load.buffer.dtype))
        found = f"{helper}({base}, {index})"
    else:
        found = element(emit, load)
    if load.predicate is not None:
        on = emit.text(load.predicate, OR)
        return f"{on} ? {found} : 0", CHOICE
    return found, ATOM
