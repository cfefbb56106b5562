"""Writes the places of loads and stores: pointer and index."""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c_family.pieces import PRODUCT
from tilesmith.codegen.c_family.values import CommonValues
from tilesmith.ir import Call, PointerType, PrimExpr, PrimType, Var
from tilesmith.ir.structural import structural_equal
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.queries import loads
from tilesmith.tir.stmt import BufferStore

__all__ = [
    "element", "offset_of_pointer", "overlaps", "place", "pointed_dtype", "pointer_space",
    "pointer_to",
]  # fmt: skip


def element(emit: CommonValues[Any], access: BufferLoad | BufferStore) -> str:
    """Return the lvalue of an access at the current lane."""
    return "{}[{}]".format(*place(emit, access))


def place(emit: CommonValues[Any], access: BufferLoad | BufferStore) -> tuple[str, str]:
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
    unit, lane = buffer.dtype.lanes, emit.lane or 0
    if not access.indices:
        index = "0" if unit == 1 else str(lane)
    elif unit == 1:
        index = emit.text(access.indices[0])
    elif access.indices[0].dtype.lanes == 1:
        index = f"{emit.scalar(access.indices[0], PRODUCT, 'place')} * {unit} + {lane}"
    else:
        which, within = emit.lane_of_element(lane, unit)
        index = f"{emit.at_lane(access.indices[0], which, PRODUCT)} * {unit} + {within}"
    return pointer_to(emit, buffer.data, buffer.dtype.element), index


def pointer_to(emit: CommonValues[Any], var: Var, dtype: DataType) -> str:
    """Return a pointer variable as a pointer to elements of a dtype."""
    name = emit.names.get(var)
    if name is None:
        raise emit.out.unsupported(f"buffer '{var.name}' is not defined here")
    known = emit.pointer_types.get(var)
    kind = emit.dialect.memory_type(dtype)
    if var in emit.volatile:
        return f"((volatile {emit.spaces.get(var, '')}{kind}*){name})"
    if known is not None and emit.dialect.memory_type(known) == kind:
        return name
    const = "const " if var in emit.read_only else ""
    emit.file.use(dtype)
    return f"(({const}{emit.spaces.get(var, '')}{kind}*){name})"


def offset_of_pointer(emit: CommonValues[Any], call: Call) -> str:
    """Return the offset of `tvm_access_ptr` in elements of the pointer that is asked for."""
    unit, offset = call.args[0].dtype, emit.text(call.args[2], PRODUCT)
    if unit.lanes > 1:
        offset = f"{offset} * {unit.lanes}"
    return f"({offset}) / {8 // unit.bits}" if is_packed(unit) else offset


def pointer_space(emit: CommonValues[Any], expr: PrimExpr) -> tuple[str, bool]:
    """Return the address space of a pointer expression, and whether it points to constants."""
    if isinstance(expr, Var):
        return emit.spaces.get(expr, ""), expr in emit.read_only
    if isinstance(expr, BufferLoad):
        return emit.spaces.get(expr.buffer.data, ""), expr.buffer.data in emit.read_only
    if isinstance(expr, Call):
        for arg in expr.args:
            if arg.dtype.is_handle or isinstance(arg, BufferLoad):
                return pointer_space(emit, arg)
    return "", False


def pointed_dtype(var: Var) -> DataType | None:
    """Return the element type of a pointer variable; None for `void*`."""
    annotation = var.type_annotation
    if isinstance(annotation, PointerType) and isinstance(annotation.element_type, PrimType):
        dtype = annotation.element_type.dtype.element
        return None if dtype.is_void else dtype
    return None


def overlaps(stmt: BufferStore) -> bool:
    """True if a vector store reads its own buffer at other indices than those it writes."""
    index = stmt.indices[0] if stmt.indices else None
    for load in loads(stmt.value):
        if load.buffer.data is stmt.buffer.data:
            if load.buffer is not stmt.buffer or not structural_equal(load.indices[0], index):
                return True
    return False
