"""Loads and stores as LLVM text: scalars, vectors, strided and scattered lanes, masks.

The alignment that is written is the true one: what is known of the pointer and of the index. A
boolean is a byte in memory. Lanes that a predicate switches off touch no memory.
"""

from __future__ import annotations

from math import gcd

from tilesmith.codegen.llvm import packed_elements
from tilesmith.codegen.llvm.dtypes import element_bytes, memory_type, register_type
from tilesmith.codegen.llvm.expressions import ExpressionEmitter, constant_value
from tilesmith.ir import Broadcast, PrimExpr, Ramp, Var
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import BufferStore

_INT32 = DataType("int32")


class MemoryEmitter(ExpressionEmitter):
    """Adds access to buffers; `pointer_alignment` is what is known of pointers in scope."""

    def __init__(self, module, name: str) -> None:  # noqa: ANN001 - see ExpressionEmitter
        super().__init__(module, name)
        self.pointer_alignment: dict[Var, int] = {}

    # -- addresses

    def flat_index(self, access: BufferLoad | BufferStore) -> PrimExpr | None:
        """The one index of an access; None for a buffer without dimensions."""
        if len(access.indices) > 1:
            raise self.unsupported(
                f"buffer '{access.buffer.name}' is accessed with {len(access.indices)} indices",
                "FlattenBuffer has to run before code is generated",
            )
        return access.indices[0] if access.indices else None

    def address(
        self, buffer: Buffer, index: PrimExpr | None, moved: int = 0, safe: bool = True
    ) -> tuple[str, int]:
        """Pointer and alignment of the element `index + moved`; `index` is scalar, in elements of
        the buffer. `safe` says that the address lies inside the buffer."""
        size = element_bytes(buffer.dtype)
        scale = buffer.dtype.lanes
        alignment = self.pointer_alignment.get(buffer.data, size)
        base = self.variables.get(buffer.data) or self.visit_Var(buffer.data)
        constant = 0 if index is None else constant_value(index)
        if constant is not None:
            offset = str((constant + moved) * scale)
            known = abs((constant + moved) * scale)
        else:
            assert index is not None
            offset = self.index64(index)
            known = gcd(self.facts.multiple_of(index), moved) * scale
            if moved:
                offset = self.define(f"add nsw i64 {offset}, {moved}")
            if scale > 1:
                offset = self.define(f"mul nsw i64 {offset}, {scale}")
        alignment = gcd(alignment, known * size) or alignment
        if offset == "0":
            return base, alignment
        bounds = " inbounds" if safe else ""
        kind = memory_type(buffer.dtype.element)
        return self.define(f"getelementptr{bounds} {kind}, ptr {base}, i64 {offset}"), alignment

    def addresses(self, buffer: Buffer, index: PrimExpr) -> tuple[str, int]:
        """A vector of pointers, one for each lane of a vector index, and their alignment."""
        size = element_bytes(buffer.dtype)
        alignment = gcd(
            self.pointer_alignment.get(buffer.data, size), self.facts.multiple_of(index) * size
        )
        value, kind = self.index(index), register_type(index.dtype)
        if index.dtype.is_uint and index.dtype.bits < 64:  # a vector index is read as signed
            wide = register_type(DataType("int64").with_lanes(index.dtype.lanes))
            value, kind = self.define(f"zext {kind} {value} to {wide}"), wide
        base = self.visit_Var(buffer.data)
        element = memory_type(buffer.dtype.element)
        pointers = self.define(f"getelementptr {element}, ptr {base}, {kind} {value}")
        return pointers, max(alignment, 1)

    # -- loads

    def visit_BufferLoad(self, load: BufferLoad) -> str:
        index, buffer, dtype = self.flat_index(load), load.buffer, load.dtype
        if dtype.bits < 8 and is_packed(dtype):
            return packed_elements.load(self, load, index)
        predicate = self.predicate_of(load.predicate, dtype.lanes)
        if dtype.lanes > 1:
            self.uses_vectors = True
        if index is None or index.dtype.lanes == 1:
            return self._load_row(buffer, index, dtype, predicate, 0)
        if isinstance(index, Broadcast):
            return self._load_equal(load, index, predicate)
        if isinstance(index, Ramp):
            stride = constant_value(index.stride)
            if stride == 1:
                return self._load_row(buffer, index.base, dtype, predicate, 0)
            if stride == -1 and buffer.dtype.lanes == 1 and not dtype.is_scalable:
                lanes = dtype.lanes
                picked = list(range(lanes))[::-1]
                mask = predicate and self.shuffle(f"<{lanes} x i1>", predicate, "poison", picked)
                row = self._load_row(buffer, index.base, dtype, mask, 1 - lanes)
                return self.shuffle(register_type(dtype), row, "poison", picked)
        if buffer.dtype.lanes > 1:
            return self._load_vectors(load, index, predicate)
        return self._gather(buffer, index, dtype, predicate)

    def predicate_of(self, predicate: PrimExpr | None, lanes: int) -> str | None:
        """Which of `lanes` lanes are on: the access's own predicate and the mask around it."""
        found = None
        if predicate is not None and constant_value(predicate) != 1:
            found = self.value(predicate)
            if predicate.dtype.lanes == 1 and lanes > 1:
                found = self.broadcast(found, DataType("bool").with_lanes(lanes))
        if self.mask is None:
            return found
        mask, mask_lanes = self.mask
        if mask_lanes != lanes:
            if lanes % mask_lanes == 0 and lanes > mask_lanes:
                repeat = lanes // mask_lanes
                picked = [lane // repeat for lane in range(lanes)]
                mask = self.shuffle(f"<{mask_lanes} x i1>", mask, "poison", picked)
            else:
                mask = self.broadcast(self.any_lane(), DataType("bool").with_lanes(lanes))
        if found is None:
            return mask
        return self.define(
            f"and {register_type(DataType('bool').with_lanes(lanes))} {mask}, {found}"
        )

    def _load_row(
        self,
        buffer: Buffer,
        base: PrimExpr | None,
        dtype: DataType,
        predicate: str | None,
        moved: int,
    ) -> str:
        """Elements next to each other (or one)."""
        kind = memory_type(dtype)
        pointer, alignment = self.address(buffer, base, moved, safe=predicate is None)
        if predicate is None:
            return self.from_memory(
                self.define(f"load {kind}, ptr {pointer}, align {alignment}"), dtype
            )
        if dtype.lanes == 1:
            # an element that is not wanted is read from a place where reading is harmless
            harmless = self.module.zero_bytes(element_bytes(dtype))
            chosen = self.define(f"select i1 {predicate}, ptr {pointer}, ptr {harmless}")
            size = element_bytes(dtype)
            return self.from_memory(self.define(f"load {kind}, ptr {chosen}, align {size}"), dtype)
        loaded = self.define(
            f"call {kind} @llvm.masked.load(ptr align {alignment} {pointer}, "
            f"<{dtype.lanes} x i1> {predicate}, {kind} zeroinitializer)"
        )
        return self.from_memory(loaded, dtype)

    def _load_equal(self, load: BufferLoad, index: Broadcast, predicate: str | None) -> str:
        """One element in all lanes."""
        if predicate is not None:
            lanes = load.dtype.lanes
            predicate = self.define(
                f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {predicate})"
            )
        unit = load.buffer.dtype
        if predicate is not None and unit.lanes > 1:
            predicate = self.broadcast(predicate, DataType("bool").with_lanes(unit.lanes))
        one = self._load_row(load.buffer, index.value, unit, predicate, 0)
        if unit.lanes == 1:
            return self.broadcast(one, load.dtype)
        picked = list(range(unit.lanes)) * (load.dtype.lanes // unit.lanes)
        return self.shuffle(register_type(unit), one, "poison", picked)

    def _load_vectors(self, load: BufferLoad, index: PrimExpr, predicate: str | None) -> str:
        """Vector elements of a buffer of vectors from several places."""
        unit = load.buffer.dtype
        flags = DataType("bool").with_lanes(load.dtype.lanes)
        elements: list[str] = []
        for number in range(index.dtype.lanes):
            single = self._lane_of(index, number)
            mask = None
            if predicate is not None:
                picked = list(range(number * unit.lanes, (number + 1) * unit.lanes))
                mask = self.shuffle(register_type(flags), predicate, "poison", picked)
            row = self._load_row(load.buffer, single, unit, mask, 0)
            elements += [self.lane(row, unit, lane) for lane in range(unit.lanes)]
        return self.from_lanes(elements, load.dtype)

    def _lane_of(self, index: PrimExpr, number: int) -> PrimExpr:
        """One lane of a vector index as a scalar expression (a variable bound to its value)."""
        lane = Var("lane", index.dtype.element)
        self.variables[lane] = self.lane(self.index(index), index.dtype, number)
        if self.facts.is_non_negative(index):
            self.facts.non_negative.add(lane)
        return lane

    def _gather(
        self, buffer: Buffer, index: PrimExpr, dtype: DataType, predicate: str | None
    ) -> str:
        pointers, alignment = self.addresses(buffer, index)
        lanes, kind = dtype.lanes, memory_type(dtype)
        mask = predicate or "splat (i1 true)"
        loaded = self.define(
            f"call {kind} @llvm.masked.gather(<{lanes} x ptr> align {alignment} {pointers}, "
            f"<{lanes} x i1> {mask}, {kind} zeroinitializer)"
        )
        return self.from_memory(loaded, dtype)

    def from_memory(self, value: str, dtype: DataType) -> str:
        """A loaded value in a register: bytes become booleans."""
        if not dtype.is_bool:
            return value
        zero = "0" if dtype.lanes == 1 else "zeroinitializer"
        return self.define(f"icmp ne {memory_type(dtype)} {value}, {zero}")

    def to_memory(self, value: str, dtype: DataType) -> str:
        """A value as it is stored."""
        if not dtype.is_bool:
            return value
        return self.define(f"zext {register_type(dtype)} {value} to {memory_type(dtype)}")

    # -- stores

    def visit_BufferStore(self, store: BufferStore) -> str:
        self.forget()
        index, buffer, dtype = self.flat_index(store), store.buffer, store.value.dtype
        if dtype.bits < 8 and is_packed(dtype):
            return packed_elements.store(self, store, index)
        value = self.to_memory(self.value(store.value), dtype)
        predicate = self.predicate_of(store.predicate, dtype.lanes)
        if dtype.lanes > 1:
            self.uses_vectors = True
        if index is None or index.dtype.lanes == 1:
            self._store_row(buffer, index, value, dtype, predicate, 0)
            return ""
        stride = constant_value(index.stride) if isinstance(index, Ramp) else None
        if stride == 1:
            self._store_row(buffer, index.base, value, dtype, predicate, 0)  # type: ignore[attr-defined]
        elif stride == -1 and buffer.dtype.lanes == 1 and not dtype.is_scalable:
            picked = list(range(dtype.lanes))[::-1]
            reverse = self.shuffle(memory_type(dtype), value, "poison", picked)
            mask = predicate and self.shuffle(f"<{dtype.lanes} x i1>", predicate, "poison", picked)
            self._store_row(buffer, index.base, reverse, dtype, mask, 1 - dtype.lanes)  # type: ignore[attr-defined]
        elif buffer.dtype.lanes > 1:
            self._store_vectors(store, index, value, predicate)
        else:
            pointers, alignment = self.addresses(buffer, index)
            self.write(
                f"call void @llvm.masked.scatter({memory_type(dtype)} {value}, "
                f"<{dtype.lanes} x ptr> align {alignment} {pointers}, "
                f"<{dtype.lanes} x i1> {predicate or 'splat (i1 true)'})"
            )
        return ""

    def _store_row(
        self,
        buffer: Buffer,
        base: PrimExpr | None,
        value: str,
        dtype: DataType,
        predicate: str | None,
        moved: int,
    ) -> None:
        kind = memory_type(dtype)
        if predicate is None:
            pointer, alignment = self.address(buffer, base, moved)
            self.write(f"store {kind} {value}, ptr {pointer}, align {alignment}")
            return
        if dtype.lanes > 1:
            pointer, alignment = self.address(buffer, base, moved, safe=False)
            self.write(
                f"call void @llvm.masked.store({kind} {value}, ptr align {alignment} {pointer}, "
                f"<{dtype.lanes} x i1> {predicate})"
            )
            return
        wanted, after = self.label("store"), self.label("stored")
        self.write(f"br i1 {predicate}, label %{wanted}, label %{after}")
        self.begin_block(wanted)
        self.forget()
        pointer, alignment = self.address(buffer, base, moved)
        self.write(f"store {kind} {value}, ptr {pointer}, align {alignment}")
        self.write(f"br label %{after}")
        self.begin_block(after)
        self.forget()

    def _store_vectors(
        self, store: BufferStore, index: PrimExpr, value: str, predicate: str | None
    ) -> None:
        unit, whole = store.buffer.dtype, memory_type(store.value.dtype)
        for number in range(index.dtype.lanes):
            picked = list(range(number * unit.lanes, (number + 1) * unit.lanes))
            part = self.shuffle(whole, value, "poison", picked)
            mask = predicate and self.shuffle(
                f"<{store.value.dtype.lanes} x i1>", predicate, "poison", picked
            )
            self._store_row(store.buffer, self._lane_of(index, number), part, unit, mask, 0)
