"""Defines rules of loads and pointers, and the addresses of loads and stores."""

from __future__ import annotations

from tilesmith.codegen.c_family.dialect import short
from tilesmith.codegen.c_family.memory import (
    element,
    offset_of_pointer,
    place,
    pointer_space,
    pointer_to,
)
from tilesmith.codegen.c_family.pieces import ATOM, CHOICE, EQUAL, OR, SUM, UNARY, Piece
from tilesmith.codegen.gpu.rules import handles, handles_node
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call, IntImm, Var
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import BufferStore

__all__ = ["packed_helper"]


@handles_node(BufferLoad)
def _load(emit: Values, load: BufferLoad) -> Piece:
    loaded = emit.loaded.get(id(load))
    if loaded is not None and emit.lane is not None:
        return loaded.parts[emit.lane], ATOM
    emit.file.use(load.buffer.dtype)
    if is_packed(load.buffer.dtype):
        base, index = place(emit, load)
        found = f"{packed_helper(emit, 'load', load)}({base}, {index})"
    else:
        found = element(emit, load)
        if load.buffer.dtype.is_bool and emit.dialect.name == "opencl":
            return f"{found} != 0", EQUAL
    if load.predicate is not None:
        on = emit.text(load.predicate, OR)
        return f"{on} ? {found} : ({emit.type(load.buffer.dtype)})0", CHOICE
    return found, ATOM


def packed_helper(emit: Values, action: str, access: BufferLoad | BufferStore) -> str:
    """Return the helper that loads or stores an element that shares its byte with others."""
    scope = access.buffer.data.storage_scope.partition(".")[0]
    where = {"": "global", "global": "global", "shared": "local"}.get(scope, "private")
    return emit.file.helper(f"{action}_{short(access.buffer.dtype)}_{where}")


@handles("address_of")
def _address_of(emit: Values, call: Call) -> Piece:
    load = call.args[0]
    assert isinstance(load, BufferLoad)
    outer, emit.lane = emit.lane, 0
    base, index = place(emit, load)
    emit.lane = outer
    if is_packed(load.buffer.dtype):
        byte = emit.dialect.types["u8"]
        space = emit.spaces.get(load.buffer.data, "")
        return f"(({space}{byte}*){base} + ({index}) / {8 // load.buffer.dtype.bits})", ATOM
    return (base, ATOM) if index == "0" else (f"&{base}[{index}]", UNARY)


@handles("tvm_access_ptr")
def _access_pointer(emit: Values, call: Call) -> Piece:
    unit, data, offset = call.args[0].dtype, call.args[1], offset_of_pointer(emit, call)
    if isinstance(data, Var):
        base = pointer_to(emit, data, unit.element)
    else:
        space, _ = pointer_space(emit, data)
        base = f"(({space}{emit.dialect.memory_type(unit)}*){emit.text(data, UNARY)})"
    is_zero = isinstance(call.args[2], IntImm) and call.args[2].value == 0
    return (base, ATOM) if is_zero else (f"{base} + {offset}", SUM)


@handles("isnullptr")
def _is_null(emit: Values, call: Call) -> Piece:
    return f"{emit.text(call.args[0], EQUAL)} == 0", EQUAL
