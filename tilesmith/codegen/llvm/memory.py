"""Defines rules of loads and stores: scalars, vectors, strided and scattered lanes, masks.

The alignment that is written follows from the known alignment of the pointer and multiples of the
index. A boolean is a byte in memory. Inactive lanes of a predicate do not access memory. Accesses
of volatile memory are written as such; LLVM has none for some of the lanes, or for scattered ones.
"""

from __future__ import annotations

from math import gcd

from tilesmith.codegen.facts import constant_value
from tilesmith.codegen.llvm import packed_elements
from tilesmith.codegen.llvm.arithmetic import any_lane
from tilesmith.codegen.llvm.dtypes import element_bytes, memory_type, register_type
from tilesmith.codegen.llvm.operations import from_memory, to_memory
from tilesmith.codegen.llvm.rules import handles_node
from tilesmith.codegen.llvm.values import Values
from tilesmith.codegen.llvm.windows import pick, window_of
from tilesmith.ir import Broadcast, PrimExpr, Ramp, Var
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import BufferStore

__all__ = ["address", "flat_index", "predicate_of", "store"]


_LINE_BYTES = 64  # of a cache

# -- addresses


def flat_index(emit: Values, access: BufferLoad | BufferStore) -> PrimExpr | None:
    """Return the one index of an access; None for a buffer without dimensions."""
    if len(access.indices) > 1:
        raise emit.out.unsupported(
            f"buffer '{access.buffer.name}' is accessed with {len(access.indices)} indices",
            "FlattenBuffer has to run before code is generated",
        )
    return access.indices[0] if access.indices else None


def address(
    emit: Values, buffer: Buffer, index: PrimExpr | None, moved: int = 0, safe: bool = True
) -> tuple[str, int]:
    """Return pointer and alignment of the element `index + moved`; `index` is scalar, in elements
    of the buffer. `safe` says that the address is inside the buffer.
    """
    size = element_bytes(buffer.dtype)
    scale = buffer.dtype.lanes
    alignment = emit.pointers.alignment.get(buffer.data, size)
    base = emit.variables.get(buffer.data) or emit.written(buffer.data)
    constant = 0 if index is None else constant_value(index)
    if constant is not None:
        offset = str((constant + moved) * scale)
        known = abs((constant + moved) * scale)
    else:
        assert index is not None
        offset = emit.index64(index)
        known = gcd(emit.facts.multiple_of(index), moved) * scale
        if moved:
            offset = emit.define(f"add nsw i64 {offset}, {moved}")
        if scale > 1:
            offset = emit.define(f"mul nsw i64 {offset}, {scale}")
    alignment = gcd(alignment, known * size) or alignment
    if offset == "0":
        return base, alignment
    bounds = " inbounds" if safe else ""
    kind = memory_type(buffer.dtype.element)
    return emit.define(f"getelementptr{bounds} {kind}, ptr {base}, i64 {offset}"), alignment


def addresses(emit: Values, buffer: Buffer, index: PrimExpr) -> tuple[str, int]:
    """Return a vector of pointers, one for each lane of a vector index, and their alignment."""
    size = element_bytes(buffer.dtype)
    alignment = gcd(
        emit.pointers.alignment.get(buffer.data, size), emit.facts.multiple_of(index) * size
    )
    value, kind = emit.index(index), register_type(index.dtype)
    if index.dtype.is_uint and index.dtype.bits < 64:  # a vector index is read as signed
        wide = register_type(DataType("int64").with_lanes(index.dtype.lanes))
        value, kind = emit.define(f"zext {kind} {value} to {wide}"), wide
    base = emit.written(buffer.data)
    element = memory_type(buffer.dtype.element)
    pointers = emit.define(f"getelementptr {element}, ptr {base}, {kind} {value}")
    return pointers, max(alignment, 1)


def _volatile(emit: Values, buffer: Buffer) -> str:
    """Return the word, and a blank, that marks accesses of a buffer if it is volatile."""
    return "volatile " if buffer.data in emit.pointers.volatile else ""


def _require_not_volatile(emit: Values, buffer: Buffer, what: str) -> None:
    """Raise CodegenError for an access that LLVM cannot make to volatile memory."""
    if buffer.data in emit.pointers.volatile:
        raise emit.out.unsupported(
            f"it {what} of '{buffer.name}', which is volatile",
            "access single elements, or whole vectors of adjacent ones, under an `if`",
        )


# -- loads


@handles_node(BufferLoad)
def _load(emit: Values, load: BufferLoad) -> str:
    index, buffer, dtype = flat_index(emit, load), load.buffer, load.dtype
    predicate = predicate_of(emit, load.predicate, dtype.lanes)
    if dtype.bits < 8 and is_packed(dtype):
        _require_not_volatile(emit, buffer, "loads parts of bytes")
        return packed_elements.load(emit, load, index, predicate)
    if dtype.lanes > 1:
        emit.scope.uses_vectors = True
    if index is None or index.dtype.lanes == 1:
        return _load_row(emit, buffer, index, dtype, predicate, 0)
    if isinstance(index, Broadcast):
        return _load_equal(emit, load, index, predicate)
    if isinstance(index, Ramp):
        stride = constant_value(index.stride)
        if stride == 1:
            return _load_row(emit, buffer, index.base, dtype, predicate, 0)
        if stride == -1 and buffer.dtype.lanes == 1 and not dtype.is_scalable:
            lanes = dtype.lanes
            picked = list(range(lanes))[::-1]
            mask = predicate and emit.out.shuffle(f"<{lanes} x i1>", predicate, "poison", picked)
            row = _load_row(emit, buffer, index.base, dtype, mask, 1 - lanes)
            return emit.out.shuffle(register_type(dtype), row, "poison", picked)
    if predicate is None and _may_load_between(emit, buffer, dtype):
        window = window_of(emit, buffer, index, dtype)
        if window is not None:
            kind = dtype.with_lanes(window.lanes)
            return pick(emit, window, dtype, _load_row(emit, buffer, window.base, kind, None, 0))
        if isinstance(index, Ramp) and constant_value(index.stride) == 2:
            return _load_every_second(emit, buffer, index.base, dtype)
    if buffer.dtype.lanes > 1:
        return _load_vectors(emit, load, index, predicate)
    return _gather(emit, buffer, index, dtype, predicate)


def predicate_of(emit: Values, predicate: PrimExpr | None, lanes: int) -> str | None:
    """Return which of `lanes` lanes are active: the access's own predicate and the enclosing
    mask.
    """
    found = None
    if predicate is not None and constant_value(predicate) != 1:
        found = emit.value(predicate)
        if predicate.dtype.lanes == 1 and lanes > 1:
            found = emit.out.broadcast(found, DataType("bool").with_lanes(lanes))
    if emit.scope.mask is None:
        return found
    mask, mask_lanes = emit.scope.mask
    if mask_lanes != lanes:
        if lanes % mask_lanes == 0 and lanes > mask_lanes:
            repeat = lanes // mask_lanes
            picked = [lane // repeat for lane in range(lanes)]
            mask = emit.out.shuffle(f"<{mask_lanes} x i1>", mask, "poison", picked)
        else:
            mask = emit.out.broadcast(any_lane(emit), DataType("bool").with_lanes(lanes))
    if found is None:
        return mask
    return emit.define(f"and {register_type(DataType('bool').with_lanes(lanes))} {mask}, {found}")


def _load_row(
    emit: Values,
    buffer: Buffer,
    base: PrimExpr | None,
    dtype: DataType,
    predicate: str | None,
    moved: int,
) -> str:
    """Load elements next to each other (or one)."""
    kind = memory_type(dtype)
    pointer, alignment = address(emit, buffer, base, moved, safe=predicate is None)
    if emit.scope.prefetch_bytes and buffer.scope() == "global":
        _fetch_ahead(emit, pointer, dtype.nbytes)
    if predicate is None:
        loaded = emit.define(
            f"load {_volatile(emit, buffer)}{kind}, ptr {pointer}, align {alignment}"
        )
        return from_memory(emit.out, loaded, dtype)
    _require_not_volatile(emit, buffer, "loads elements under a predicate")
    if dtype.lanes == 1:
        # an inactive element is read from an address that is safe to read
        harmless = emit.text.zero_bytes(element_bytes(dtype))
        chosen = emit.define(f"select i1 {predicate}, ptr {pointer}, ptr {harmless}")
        size = element_bytes(dtype)
        return from_memory(emit.out, emit.define(f"load {kind}, ptr {chosen}, align {size}"), dtype)
    loaded = emit.define(
        f"call {kind} @llvm.masked.load(ptr align {alignment} {pointer}, "
        f"<{dtype.lanes} x i1> {predicate}, {kind} zeroinitializer)"
    )
    return from_memory(emit.out, loaded, dtype)


def _fetch_ahead(emit: Values, pointer: str, size: int) -> None:
    """Fetch the lines that a later iteration loads. The address may lie behind the buffer: then
    the instruction does nothing.
    """
    if size < _LINE_BYTES // 2:
        return
    for start in range(0, size, _LINE_BYTES):
        ahead = emit.scope.prefetch_bytes + start
        place = emit.define(f"getelementptr i8, ptr {pointer}, i64 {ahead}")
        emit.write(f"call void @llvm.prefetch(ptr {place}, i32 0, i32 3, i32 1)")


def _may_load_between(emit: Values, buffer: Buffer, dtype: DataType) -> bool:
    """True if elements between those of a vector may be loaded as well."""
    is_whole = dtype.bits % 8 == 0 and buffer.dtype.lanes == 1 and not dtype.is_scalable
    return is_whole and buffer.data not in emit.pointers.volatile


def _load_every_second(emit: Values, buffer: Buffer, base: PrimExpr, dtype: DataType) -> str:
    """Load every second element: two rows, of which the second one ends with the last element.

    That is several times faster than gathering them.
    """
    lanes = dtype.lanes
    first = _load_row(emit, buffer, base, dtype, None, 0)
    second = _load_row(emit, buffer, base, dtype, None, lanes - 1)
    picked = [place if place < lanes else place + 1 for place in range(0, 2 * lanes, 2)]
    return emit.out.shuffle(register_type(dtype), first, second, picked)


def _load_equal(emit: Values, load: BufferLoad, index: Broadcast, predicate: str | None) -> str:
    """Load one element into all lanes."""
    if predicate is not None:
        lanes = load.dtype.lanes
        predicate = emit.define(
            f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {predicate})"
        )
    unit = load.buffer.dtype
    if predicate is not None and unit.lanes > 1:
        predicate = emit.out.broadcast(predicate, DataType("bool").with_lanes(unit.lanes))
    one = _load_row(emit, load.buffer, index.value, unit, predicate, 0)
    if unit.lanes == 1:
        return emit.out.broadcast(one, load.dtype)
    picked = list(range(unit.lanes)) * (load.dtype.lanes // unit.lanes)
    return emit.out.shuffle(register_type(unit), one, "poison", picked)


def _load_vectors(emit: Values, load: BufferLoad, index: PrimExpr, predicate: str | None) -> str:
    """Load several vector elements of a buffer of vectors."""
    unit = load.buffer.dtype
    flags = DataType("bool").with_lanes(load.dtype.lanes)
    elements: list[str] = []
    for number in range(index.dtype.lanes):
        single = _lane_of(emit, index, number)
        mask = None
        if predicate is not None:
            picked = list(range(number * unit.lanes, (number + 1) * unit.lanes))
            mask = emit.out.shuffle(register_type(flags), predicate, "poison", picked)
        row = _load_row(emit, load.buffer, single, unit, mask, 0)
        elements += [emit.out.lane(row, unit, lane) for lane in range(unit.lanes)]
    return emit.out.from_lanes(elements, load.dtype)


def _lane_of(emit: Values, index: PrimExpr, number: int) -> PrimExpr:
    """Return one lane of a vector index as a scalar expression (a variable bound to its value)."""
    lane = Var("lane", index.dtype.element)
    emit.variables[lane] = emit.out.lane(emit.index(index), index.dtype, number)
    if emit.facts.is_non_negative(index):
        emit.facts.non_negative.add(lane)
    return lane


def _gather(
    emit: Values, buffer: Buffer, index: PrimExpr, dtype: DataType, predicate: str | None
) -> str:
    _require_gathers(emit, dtype)
    _require_not_volatile(emit, buffer, "loads scattered elements")
    pointers, alignment = addresses(emit, buffer, index)
    lanes, kind = dtype.lanes, memory_type(dtype)
    mask = predicate or "splat (i1 true)"
    loaded = emit.define(
        f"call {kind} @llvm.masked.gather(<{lanes} x ptr> align {alignment} {pointers}, "
        f"<{lanes} x i1> {mask}, {kind} zeroinitializer)"
    )
    return from_memory(emit.out, loaded, dtype)


def _require_gathers(emit: Values, dtype: DataType) -> None:
    """Raise CodegenError where vectors of this type have no elements apart from each other in
    memory; LLVM cannot take a scalable vector to pieces.
    """
    if dtype.is_scalable and emit.machine.uses_streaming_mode:
        raise emit.out.unsupported(
            f"it loads or stores elements of a scalable vector ({dtype}) that are not next to each "
            "other, which Arm CPUs cannot do in the streaming mode of SME",
            "use vectors of a fixed length, or a stride of 1",
            "code without SME runs in the normal mode where the target also has -mattr=+sve",
        )


# -- stores


def store(emit: Values, node: BufferStore) -> None:
    """Write a store."""
    emit.forget()
    index, buffer, dtype = flat_index(emit, node), node.buffer, node.value.dtype
    value = to_memory(emit.out, emit.value(node.value), dtype)
    predicate = predicate_of(emit, node.predicate, dtype.lanes)
    if dtype.bits < 8 and is_packed(dtype):
        _require_not_volatile(emit, buffer, "stores parts of bytes")
        packed_elements.store(emit, node, index, value, predicate)
        return
    if dtype.lanes > 1:
        emit.scope.uses_vectors = True
    if index is None or index.dtype.lanes == 1:
        _store_row(emit, buffer, index, value, dtype, predicate, 0)
        return
    stride = constant_value(index.stride) if isinstance(index, Ramp) else None
    if stride == 1:
        _store_row(emit, buffer, index.base, value, dtype, predicate, 0)  # type: ignore[attr-defined]
    elif stride == -1 and buffer.dtype.lanes == 1 and not dtype.is_scalable:
        picked = list(range(dtype.lanes))[::-1]
        reverse = emit.out.shuffle(memory_type(dtype), value, "poison", picked)
        mask = predicate and emit.out.shuffle(f"<{dtype.lanes} x i1>", predicate, "poison", picked)
        _store_row(emit, buffer, index.base, reverse, dtype, mask, 1 - dtype.lanes)  # type: ignore[attr-defined]
    elif buffer.dtype.lanes > 1:
        _store_vectors(emit, node, index, value, predicate)
    else:
        _require_gathers(emit, dtype)
        _require_not_volatile(emit, buffer, "stores scattered elements")
        pointers, alignment = addresses(emit, buffer, index)
        emit.write(
            f"call void @llvm.masked.scatter({memory_type(dtype)} {value}, "
            f"<{dtype.lanes} x ptr> align {alignment} {pointers}, "
            f"<{dtype.lanes} x i1> {predicate or 'splat (i1 true)'})"
        )


def _store_row(
    emit: Values,
    buffer: Buffer,
    base: PrimExpr | None,
    value: str,
    dtype: DataType,
    predicate: str | None,
    moved: int,
) -> None:
    kind = memory_type(dtype)
    if predicate is None:
        pointer, alignment = address(emit, buffer, base, moved)
        access = f"store {_volatile(emit, buffer)}{kind} {value}"
        emit.write(f"{access}, ptr {pointer}, align {alignment}")
        return
    _require_not_volatile(emit, buffer, "stores elements under a predicate")
    if dtype.lanes > 1:
        pointer, alignment = address(emit, buffer, base, moved, safe=False)
        emit.write(
            f"call void @llvm.masked.store({kind} {value}, ptr align {alignment} {pointer}, "
            f"<{dtype.lanes} x i1> {predicate})"
        )
        return
    wanted, after = emit.out.label("store"), emit.out.label("stored")
    emit.write(f"br i1 {predicate}, label %{wanted}, label %{after}")
    emit.out.begin_block(wanted)
    emit.forget()
    pointer, alignment = address(emit, buffer, base, moved)
    emit.write(f"store {kind} {value}, ptr {pointer}, align {alignment}")
    emit.write(f"br label %{after}")
    emit.out.begin_block(after)
    emit.forget()


def _store_vectors(
    emit: Values, store: BufferStore, index: PrimExpr, value: str, predicate: str | None
) -> None:
    unit, whole = store.buffer.dtype, memory_type(store.value.dtype)
    for number in range(index.dtype.lanes):
        picked = list(range(number * unit.lanes, (number + 1) * unit.lanes))
        part = emit.out.shuffle(whole, value, "poison", picked)
        mask = predicate and emit.out.shuffle(
            f"<{store.value.dtype.lanes} x i1>", predicate, "poison", picked
        )
        _store_row(emit, store.buffer, _lane_of(emit, index, number), part, unit, mask, 0)
