"""Writes accesses to several neighbouring elements as one load or store, where index and alignment
allow it: up to 128 bits in CUDA C, a vector of up to 16 lanes in OpenCL C.

Such a kernel relies on the alignment of the memory that it is given, which `kernel_alignments` of
`module` tells to the launching side.
"""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c_family.memory import element, overlaps, place, pointer_to
from tilesmith.codegen.c_family.pieces import SUM
from tilesmith.codegen.gpu.memory import packed_helper
from tilesmith.codegen.gpu.values import LoadedVector, Values, whole_choice
from tilesmith.ir import And, Broadcast, Call, IntImm, Or, PrimExpr, Ramp, Select
from tilesmith.ir.queries import is_call
from tilesmith.ir.structural import structural_equal
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import BufferStore

__all__ = ["access_alignment", "load_vectors", "store_vector"]


def _first_place(access: BufferLoad | BufferStore) -> PrimExpr | None:
    """Return the index of the first of neighbouring elements, in units of the buffer's dtype; None
    where they are not neighbours.
    """
    if len(access.indices) != 1:
        return None
    index = access.indices[0]
    if index.dtype.lanes == 1:
        return index
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1:
        return index.base
    return None


def _lanes(access: BufferLoad | BufferStore) -> int:
    value = access.value if isinstance(access, BufferStore) else access
    return value.dtype.lanes


def access_alignment(emit: Values, access: BufferLoad | BufferStore) -> int:
    """Return the bytes to which a vector access is aligned; 0 where lanes are accessed one by
    one.
    """
    buffer = access.buffer
    element, lanes = buffer.dtype.element, _lanes(access)
    scope = buffer.data.storage_scope.partition(".")[0]
    is_whole = not is_packed(element) and not element.is_bool and lanes & (lanes - 1) == 0
    if lanes < 2 or not is_whole or scope not in ("", "global", "shared"):
        return 0
    if access.predicate is not None or buffer.data in emit.volatile:
        return 0
    first = _first_place(access)
    if first is None:
        return 0
    multiple = emit.facts.multiple_of(first) * buffer.dtype.lanes
    size = lanes * element.nbytes
    if multiple == 0:
        return min(size, emit.dialect.access_bytes)
    step = (multiple & -multiple) * element.nbytes
    return min(step, size, emit.dialect.access_bytes)


def _pieces(emit: Values, dtype: DataType, alignment: int) -> tuple[str, int] | None:
    """Return the type of one access to lanes of a vector, and how many it holds; None where lanes
    are accessed one by one.
    """
    element = dtype.element
    lanes = min(dtype.lanes, alignment // element.nbytes)
    if emit.dialect.name == "opencl":
        lanes = min(16, dtype.lanes)  # vloadn needs no alignment
        return emit.dialect.vector_type(element.with_lanes(lanes)), lanes
    if lanes < 2:
        return None
    native = emit.dialect.vector_type(element.with_lanes(lanes))
    if native:
        return native, lanes
    size = lanes * element.nbytes
    if size > 16:
        lanes, size = lanes * 16 // size, 16
        native = emit.dialect.vector_type(element.with_lanes(lanes))
    words = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
    return (native or words[size]), lanes


def _address(emit: Values, access: BufferLoad | BufferStore, offset: int) -> str:
    """Return the text `A + i + 4` of a vector access's piece."""
    buffer = access.buffer
    first = _first_place(access)
    assert first is not None
    base = pointer_to(emit, buffer.data, buffer.dtype.element)
    unit = buffer.dtype.lanes
    if isinstance(first, IntImm):
        start = first.value * unit + offset
        return f"{base} + {start}" if start else base
    index = emit.scalar(first, SUM, "place") if unit == 1 and not offset else (
        emit.scalar(first, SUM if unit == 1 else 15, "place")
    )  # fmt: skip
    index = index if unit == 1 else f"{index} * {unit}"
    return f"{base} + {index}" + (f" + {offset}" if offset else "")


def _one_load(emit: Values, load: BufferLoad, kind: str, lanes: int, offset: int,
              alignment: int) -> str:  # fmt: skip
    address = _address(emit, load, offset)
    space = emit.spaces.get(load.buffer.data, "")
    size = lanes * load.dtype.element.nbytes
    if emit.dialect.name == "opencl" and alignment < size:
        return f"vload{lanes}(0, {address})"
    emit.rely_on_alignment(load.buffer.data, size)
    simple = address.replace("_", "").isalnum()
    return f"*(const {space}{kind}*){address if simple else f'({address})'}"


def load_vectors(emit: Values, *roots: PrimExpr) -> None:
    """Load the vectors that a statement reads into variables, which rules find in
    `emit.loaded`. What stands in a branch that may not be taken stays there.
    """
    waiting: list[Any] = list(roots)
    seen: set[int] = set()
    found: list[BufferLoad] = []
    guarded: list[Call] = []
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, PrimExpr):
            continue
        seen.add(id(node))
        if is_call(node, "tir.if_then_else") and _guarded_load(node) is not None:
            waiting.append(whole_choice(node)[0])
            guarded.append(node)
        elif isinstance(node, (Select, And, Or)) or is_call(node, "tir.if_then_else"):
            first = node.args[0] if isinstance(node, Call) else (
                node.condition if isinstance(node, Select) else node.a
            )  # fmt: skip
            waiting.append(first)
        elif is_call(node, "tir.address_of") or is_call(node, "tir.checked"):
            continue
        else:
            if isinstance(node, BufferLoad):
                found.append(node)
            node.for_each_child(waiting.append)
    for load in reversed(found):
        alignment = access_alignment(emit, load)
        if not alignment:
            continue
        same = [
            other for other in found
            if id(other) in emit.loaded and other.buffer is load.buffer
            and structural_equal(other.indices[0], load.indices[0])
        ]  # fmt: skip
        if same:
            emit.loaded[id(load)] = emit.loaded[id(same[0])]
            continue
        _load_vector(emit, load, alignment)
    for choice in guarded:
        _load_if(emit, choice)


def _guarded_load(choice: Call) -> tuple[PrimExpr, BufferLoad, Broadcast] | None:
    """Return condition and arms of a choice that loads a vector or takes one value for all lanes;
    None for other choices.
    """
    condition, load, other = whole_choice(choice)
    is_plain = condition.dtype.lanes == 1
    if is_plain and isinstance(load, BufferLoad) and isinstance(other, Broadcast):
        return condition, load, other
    return None


def _load_if(emit: Values, choice: Call) -> None:
    """Load a vector as a whole where a condition holds."""
    found = _guarded_load(choice)
    if found is None:
        return
    condition, load, other = found
    alignment = access_alignment(emit, load)
    chosen = _pieces(emit, load.dtype, alignment) if alignment else None
    dtype = load.dtype
    if chosen is None or chosen[1] != dtype.lanes or emit.dialect.vector_type(dtype) != chosen[0]:
        return
    kind, lanes = chosen
    emit.file.use(dtype)
    others = [emit.at_lane(other, lane) for lane in range(lanes)]
    test = emit.text(condition)
    name = emit.out.fresh(load.buffer.name.rstrip("0123456789_") + "_value")
    lines, text = emit.in_branch(lambda: _one_load(emit, load, kind, lanes, 0, alignment))
    emit.out.write(f"{kind} {name} = {emit.built(kind, others)};")
    emit.out.write(f"if ({test}) {{")
    emit.out.lines += lines
    emit.out.write(f"  {name} = {text};")
    emit.out.write("}")
    emit.loaded[id(choice)] = LoadedVector([emit.part(name, dtype, i) for i in range(lanes)], name)


def _load_vector(emit: Values, load: BufferLoad, alignment: int) -> None:
    chosen = _pieces(emit, load.dtype, alignment)
    if chosen is None:
        return
    kind, lanes = chosen
    emit.file.use(load.dtype)
    dtype, element = load.dtype, load.dtype.element
    hint = load.buffer.name.rstrip("0123456789_") + "_value"
    piece = element.with_lanes(lanes)
    if emit.dialect.vector_type(piece) == kind:
        parts: list[str] = []
        for start in range(0, dtype.lanes, lanes):
            text = _one_load(emit, load, kind, lanes, start, alignment)
            name = emit.out.fresh(hint)
            emit.out.write(f"const {kind} {name} = {text};")
            parts += [emit.part(name, piece, lane) for lane in range(lanes)]
        emit.loaded[id(load)] = LoadedVector(parts, name if lanes == dtype.lanes else "")
        return
    name = emit.out.fresh(hint)
    emit.out.write(f"{emit.aligned(dtype)}{emit.type(element)} {name}[{dtype.lanes}];")
    for start in range(0, dtype.lanes, lanes):
        text = _one_load(emit, load, kind, lanes, start, alignment)
        there = f"({name} + {start})" if start else name
        emit.out.write(f"*({kind}*){there} = {text};")
    parts = [f"{name}[{lane}]" for lane in range(dtype.lanes)]
    emit.loaded[id(load)] = LoadedVector(parts, name)


# -- stores


def store_vector(emit: Values, stmt: BufferStore) -> None:
    """Write a store of several lanes. Statement and loads have begun."""
    alignment = access_alignment(emit, stmt)
    dtype = stmt.value.dtype
    chosen = _pieces(emit, dtype, alignment) if alignment else None
    if chosen is None:
        _store_lanes(emit, stmt)
        return
    kind, lanes = chosen
    loaded = emit.loaded.get(id(stmt.value))
    if emit.dialect.vector_type(dtype.element.with_lanes(lanes)) == kind:
        _store_vectors(emit, stmt, kind, lanes, alignment)
        return
    if loaded is not None and loaded.name:
        name = loaded.name
    else:
        parts = [emit.at_lane(stmt.value, lane) for lane in range(dtype.lanes)]
        name = emit.out.fresh("values")
        emit.define_array(name, dtype, parts)
    for start in range(0, dtype.lanes, lanes):
        value = f"*({kind}*)({name} + {start})" if start else f"*({kind}*){name}"
        _one_store(emit, stmt, kind, lanes, _address(emit, stmt, start), value, alignment)


def _store_vectors(emit: Values, stmt: BufferStore, kind: str, lanes: int, alignment: int) -> None:
    """Store a vector in pieces that have a type of the dialect."""
    dtype = stmt.value.dtype
    loaded = emit.loaded.get(id(stmt.value))
    if loaded is not None and loaded.name and lanes == dtype.lanes:
        address = _address(emit, stmt, 0)
        _one_store(emit, stmt, kind, lanes, address, loaded.name, alignment)
        return
    ready: list[str] = []
    if lanes < dtype.lanes and overlaps(stmt):
        name = emit.define_vector("values", stmt.value)
        ready = [emit.part(name, dtype, lane) for lane in range(dtype.lanes)]
    for start in range(0, dtype.lanes, lanes):
        address = _address(emit, stmt, start)
        there = range(start, start + lanes)
        parts = [ready[lane] if ready else emit.at_lane(stmt.value, lane) for lane in there]
        _one_store(emit, stmt, kind, lanes, address, emit.built(kind, parts), alignment)


def _one_store(emit: Values, stmt: BufferStore, kind: str, lanes: int, address: str, value: str,
               alignment: int) -> None:  # fmt: skip
    space = emit.spaces.get(stmt.buffer.data, "")
    if emit.dialect.name == "opencl" and alignment < lanes * stmt.value.dtype.element.nbytes:
        emit.out.write(f"vstore{lanes}({value}, 0, {address});")
        return
    emit.rely_on_alignment(stmt.buffer.data, lanes * stmt.value.dtype.element.nbytes)
    simple = address.replace("_", "").isalnum()
    emit.out.write(f"*({space}{kind}*){address if simple else f'({address})'} = {value};")


def _store_lanes(emit: Values, stmt: BufferStore) -> None:
    """Store lane by lane; all are read before one is written where the store reads its buffer."""
    dtype = stmt.value.dtype
    values: list[str] = []
    if overlaps(stmt):
        name = emit.define_vector("values", stmt.value)
        values = [emit.part(name, dtype, lane) for lane in range(dtype.lanes)]
    for lane in range(dtype.lanes):
        value = values[lane] if values else emit.at_lane(stmt.value, lane)
        emit.lane = lane
        store_lane(emit, stmt, value)
        emit.lane = None


def store_lane(emit: Values, stmt: BufferStore, value: str) -> None:
    """Write the store of one lane, or of a scalar."""
    condition = f"if ({emit.text(stmt.predicate)}) " if stmt.predicate is not None else ""
    if is_packed(stmt.buffer.dtype):
        base, index = place(emit, stmt)
        helper = packed_helper(emit, "store", stmt)
        emit.out.write(f"{condition}{helper}({base}, {index}, {value});")
    else:
        emit.out.write(f"{condition}{element(emit, stmt)} = {value};")
