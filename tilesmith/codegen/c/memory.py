"""Defines rules of loads, and the addresses of loads and stores."""

from __future__ import annotations

from tilesmith.codegen.c.helpers import c_type, short
from tilesmith.codegen.c.rules import ATOM, CHOICE, OR, PRODUCT, Piece, handles_node
from tilesmith.codegen.c.values import Values
from tilesmith.ir import Var
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import BufferStore

__all__ = ["element", "place"]


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


def element(emit: Values, access: BufferLoad | BufferStore) -> str:
    """Return the C lvalue of an access at the current lane."""
    return "{}[{}]".format(*place(emit, access))


def place(emit: Values, access: BufferLoad | BufferStore) -> tuple[str, str]:
    """Return pointer and index of an access at the current lane."""
    buffer = access.buffer
    if len(access.indices) > 1:
        raise emit.out.unsupported(
            f"buffer '{buffer.name}' is accessed with {len(access.indices)} indices",
            "FlattenBuffer has to run before code is generated",
        )
    if is_packed(buffer.dtype) and buffer.data in emit.volatile:
        raise emit.out.unsupported(
            f"it accesses parts of bytes of '{buffer.name}', which is volatile",
            "let elements be whole bytes",
        )
    unit = buffer.dtype.lanes
    if not access.indices:
        index = "0" if unit == 1 else str(emit.lane)
    elif unit == 1:
        index = emit.text(access.indices[0])
    elif access.indices[0].dtype.lanes == 1:
        index = f"{emit.text(access.indices[0], PRODUCT)} * {unit} + {emit.lane}"
    else:
        which = emit.at_lane(access.indices[0], f"({emit.lane} / {unit})", PRODUCT)
        index = f"{which} * {unit} + {emit.lane} % {unit}"
    return _pointer(emit, buffer.data, buffer.dtype.element), index


def _pointer(emit: Values, var: Var, element: DataType) -> str:
    """Return a pointer variable as a pointer to `element`."""
    name = emit.names.get(var)
    if name is None:
        raise emit.out.unsupported(f"buffer '{var.name}' is not defined here")
    if var in emit.volatile:
        return f"((volatile {c_type(element)}*){name})"
    if emit.pointer_types.get(var) is element:
        return name
    return f"(({c_type(element)}*){name})"
