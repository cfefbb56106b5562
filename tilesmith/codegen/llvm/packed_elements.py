"""Loads and stores elements of fewer than 8 bits, several of which share a byte.

Element 0 lies in the lowest bits of byte 0. Rows that begin and end with a byte are moved as
vectors of bytes; other accesses go element by element. Storing an element changes its own bits
only, also while other threads change their neighbours in the same byte.
"""

from __future__ import annotations

from tilesmith.codegen.facts import constant_value
from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Broadcast, IntImm, PrimExpr, Ramp
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import BufferStore

_BOOL = DataType("bool")


def load(emit: Values, node: BufferLoad, index: PrimExpr | None, predicate: str | None) -> str:
    """Return the value of a load from a buffer of packed elements. `predicate`: the active
    lanes.
    """
    dtype, buffer = node.dtype, node.buffer
    if dtype.lanes > 1:
        emit.scope.uses_vectors = True
    if isinstance(index, Broadcast) and buffer.dtype.lanes == 1 and predicate is None:
        one = _load_one(emit, buffer, emit.index64(index.value), dtype.element, None)
        return emit.out.broadcast(one, dtype)
    if predicate is None and _is_row_of_bytes(emit, index, dtype, buffer.dtype.lanes):
        pointer = byte_place(emit, buffer, _elements(emit, index, buffer.dtype.lanes)[0], dtype)
        return _load_row(emit, pointer, dtype)
    places = _elements(emit, index, buffer.dtype.lanes)
    lanes = []
    for number, place in enumerate(places):
        wanted = None if predicate is None else _lane_of_mask(emit, predicate, dtype.lanes, number)
        lanes.append(_load_one(emit, buffer, place, dtype.element, wanted))
    return emit.out.from_lanes(lanes, dtype)


def store(
    emit: Values, node: BufferStore, index: PrimExpr | None, value: str, predicate: str | None
) -> None:
    """Write a store into a buffer of packed elements. `predicate`: the active lanes."""
    dtype, buffer = node.value.dtype, node.buffer
    if dtype.lanes > 1:
        emit.scope.uses_vectors = True
    places = _elements(emit, index, buffer.dtype.lanes)
    if predicate is None and _is_row_of_bytes(emit, index, dtype, buffer.dtype.lanes):
        _store_row(emit, byte_place(emit, buffer, places[0], dtype), value, dtype)
        return
    for number, place in enumerate(places):
        wanted = None if predicate is None else _lane_of_mask(emit, predicate, dtype.lanes, number)
        _store_one(emit, buffer, place, emit.out.lane(value, dtype, number), dtype.element, wanted)


def _lane_of_mask(emit: Values, predicate: str, lanes: int, number: int) -> str:
    return emit.out.lane(predicate, _BOOL.with_lanes(lanes), number)


def _elements(emit: Values, index: PrimExpr | None, unit: int) -> list[str]:
    """Return the positions (i64) of the elements of an access, one for each lane; `unit`: lanes of
    one element of the buffer.
    """
    if index is None:
        starts = ["0"]
    elif index.dtype.lanes == 1:
        starts = [emit.index64(index)]
    else:
        vector, dtype = emit.index(index), index.dtype
        operation = "zext" if dtype.is_uint else "sext"
        starts = []
        for number in range(dtype.lanes):
            lane = emit.out.lane(vector, dtype, number)
            if dtype.bits < 64:
                lane = emit.define(f"{operation} {register_type(dtype.element)} {lane} to i64")
            starts.append(lane)
    if unit == 1:
        return starts
    found = []
    for start in starts:
        first = emit.define(f"mul i64 {start}, {unit}")
        found += [emit.define(f"add i64 {first}, {lane}") for lane in range(unit)]
    return found


def _is_row_of_bytes(emit: Values, index: PrimExpr | None, dtype: DataType, unit: int) -> bool:
    """True if the lanes of an access are neighbours that fill whole bytes."""
    if dtype.lanes == 1 or dtype.lanes * dtype.bits % 8:
        return False
    if index is None or index.dtype.lanes == 1:
        start = IntImm("int32", 0) if index is None else index
        return emit.facts.multiple_of(start) * unit * dtype.bits % 8 == 0
    if unit > 1 or not isinstance(index, Ramp) or constant_value(index.stride) != 1:
        return False
    return emit.facts.multiple_of(index.base) * dtype.bits % 8 == 0


def byte_place(emit: Values, buffer: Buffer, element: str, dtype: DataType) -> str:
    """Return the address of the byte that holds an element."""
    base = emit.written(buffer.data)
    each = 8 // dtype.bits
    if element.isdigit():
        offset = str(int(element) // each)
    else:
        offset = emit.define(f"ashr i64 {element}, {each.bit_length() - 1}")
    return base if offset == "0" else emit.define(f"getelementptr i8, ptr {base}, i64 {offset}")


def _shift(emit: Values, element: str, bits: int) -> str:
    """Return the offset (an i8) of an element's lowest bit in its byte."""
    each = 8 // bits
    if element.isdigit():
        return str(int(element) % each * bits)
    inside = emit.define(f"and i64 {element}, {each - 1}")
    scaled = emit.define(f"mul i64 {inside}, {bits}") if bits > 1 else inside
    return emit.define(f"trunc i64 {scaled} to i8")


def _load_one(
    emit: Values, buffer: Buffer, element: str, dtype: DataType, wanted: str | None
) -> str:
    pointer = byte_place(emit, buffer, element, dtype)
    if wanted is not None:
        zero = emit.text.zero_bytes(1)
        pointer = emit.define(f"select i1 {wanted}, ptr {pointer}, ptr {zero}")
    byte = emit.define(f"load i8, ptr {pointer}, align 1")
    moved = emit.define(f"lshr i8 {byte}, {_shift(emit, element, dtype.bits)}")
    return emit.define(f"trunc i8 {moved} to {register_type(dtype)}")


def _store_one(
    emit: Values, buffer: Buffer, element: str, value: str, dtype: DataType, wanted: str | None
) -> None:
    pointer = byte_place(emit, buffer, element, dtype)
    if wanted is not None:
        nowhere = emit.out.stack_space(1, 1)
        pointer = emit.define(f"select i1 {wanted}, ptr {pointer}, ptr {nowhere}")
    shift = _shift(emit, element, dtype.bits)
    mask = emit.define(f"shl i8 {(1 << dtype.bits) - 1}, {shift}")
    others = emit.define(f"xor i8 {mask}, -1")
    wide = emit.define(f"zext {register_type(dtype)} {value} to i8")
    placed = emit.define(f"shl i8 {wide}, {shift}")
    if emit.scope.in_parallel:
        emit.define(f"atomicrmw and ptr {pointer}, i8 {others} monotonic")
        emit.define(f"atomicrmw or ptr {pointer}, i8 {placed} monotonic")
        return
    old = emit.define(f"load i8, ptr {pointer}, align 1")
    kept = emit.define(f"and i8 {old}, {others}")
    emit.write(f"store i8 {emit.define(f'or i8 {kept}, {placed}')}, ptr {pointer}, align 1")


def _load_row(emit: Values, pointer: str, dtype: DataType) -> str:
    lanes, bits = dtype.lanes, dtype.bits
    each, size = 8 // bits, lanes * bits // 8
    rows = emit.define(f"load <{size} x i8>, ptr {pointer}, align 1")
    spread = emit.out.shuffle(
        f"<{size} x i8>", rows, "poison", [lane // each for lane in range(lanes)]
    )
    shifts = ", ".join([f"i8 {lane % each * bits}" for lane in range(lanes)])
    moved = emit.define(f"lshr <{lanes} x i8> {spread}, <{shifts}>")
    return emit.define(f"trunc <{lanes} x i8> {moved} to {register_type(dtype)}")


def _store_row(emit: Values, pointer: str, value: str, dtype: DataType) -> None:
    lanes, bits = dtype.lanes, dtype.bits
    each, size = 8 // bits, lanes * bits // 8
    wide = emit.define(f"zext {register_type(dtype)} {value} to <{lanes} x i8>")
    joined = ""
    for part in range(each):
        picked = list(range(part, lanes, each))
        rows = emit.out.shuffle(f"<{lanes} x i8>", wide, "poison", picked)
        if part:
            rows = emit.define(f"shl <{size} x i8> {rows}, splat (i8 {part * bits})")
            rows = emit.define(f"or <{size} x i8> {joined}, {rows}")
        joined = rows
    emit.write(f"store <{size} x i8> {joined}, ptr {pointer}, align 1")
