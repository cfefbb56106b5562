"""PointerValueTypeRewrite: gives vector elements to memory that is accessed in vectors only.

    A = T.decl_buffer((64,), "float32")         A = T.decl_buffer((16,), "float32x4")
    for i in range(16):                         for i in range(16):
        B[i * 4:i * 4 + 4] = A[i * 4:i * 4 + 4]     B[i] = A[i]

It works on flat memory behind pointers (parameters without a declared buffer, and allocations).
All accesses have to be rows of the same number of lanes, a power of two, that begin at a multiple
of it.
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    Call,
    IntImm,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Range,
    Var,
    Visitor,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.stmt import Allocate, BufferStore, DeclBuffer, For, Stmt

__all__ = ["pointer_value_type_rewrite", "with_vector_elements"]


class _AccessTypes(Visitor):
    """The lanes in which each pointer's memory is accessed; 0 where its elements cannot be
    vectors."""

    def __init__(self, owned: set[Var]) -> None:
        self.analyzer = Analyzer()
        self.lanes: dict[Var, int] = {}
        self.owned = owned

    def visit_For(self, loop: For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        self.visit(loop.body)

    def visit_Allocate(self, allocation: Allocate) -> None:
        self.owned.add(allocation.buffer_var)
        size = allocation.extents[-1]
        if len(allocation.extents) != 1 or not isinstance(size, IntImm):
            self.lanes[allocation.buffer_var] = 0
        self.visit(allocation.body)
        if isinstance(size, IntImm):
            lanes = self.lanes.get(allocation.buffer_var, 0)
            if lanes and size.value % lanes:
                self.lanes[allocation.buffer_var] = 0

    def visit_Var(self, var: Var) -> None:
        if var.dtype.is_handle:
            self.lanes[var] = 0  # the pointer itself escapes

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> None:
        self.visit(declaration.body)

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.access(load)
        self.visit_children(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.access(store)
        self.visit_children(store)

    def visit_Call(self, call: Call) -> None:
        if is_call(call, "tir.address_of"):
            place = call.args[0]
            assert isinstance(place, BufferLoad)
            self.lanes[place.buffer.data] = 0
        self.visit_children(call)

    def access(self, node: Any) -> None:
        buffer: Buffer = node.buffer
        lanes = self.lanes_of(node)
        if self.lanes.setdefault(buffer.data, lanes) != lanes:
            self.lanes[buffer.data] = 0

    def lanes_of(self, node: Any) -> int:
        """Return the lanes of a row that begins at a multiple of them, else 0."""
        buffer: Buffer = node.buffer
        if buffer.data not in self.owned or len(node.indices) != 1 or node.predicate is not None:
            return 0
        if buffer.strides or not ops.is_const(buffer.elem_offset, 0) or buffer.dtype.lanes > 1:
            return 0
        index = node.indices[0]
        if not isinstance(index, Ramp) or not ops.is_const(index.stride, 1):
            return 0
        lanes = index.lanes
        if not isinstance(lanes, int) or lanes & (lanes - 1):
            return 0
        if buffer.dtype.is_bool or buffer.dtype.bits < 8:
            return 0  # vectors of them are packed in memory, single elements are not
        return lanes if self.analyzer.can_prove_equal(index.base % lanes, 0) else 0


class _Retyper(BufferRemapper):
    def __init__(self, lanes: dict[Var, int]) -> None:
        super().__init__()
        self.analyzer = Analyzer()
        self.lanes = lanes
        self.pointers: dict[Var, Var] = {}
        for old, number in lanes.items():
            annotation = old.type_annotation
            if isinstance(annotation, PointerType) and isinstance(
                annotation.element_type, PrimType
            ):
                element = DataType(annotation.element_type.dtype).with_lanes(number)
                kind = PointerType(PrimType(element), annotation.storage_scope)
                self.pointers[old] = Var(old.name, kind, old.span)

    def visit_Var(self, node: Var) -> Var:
        return self.pointers.get(node, node)

    def remap_buffer(self, node: Buffer) -> Buffer:
        lanes = self.lanes.get(node.data) if node.data in self.pointers else None
        new = super().remap_buffer(node)
        if lanes is None:
            return new
        size = self.analyzer.simplify(ops.floordiv(new.shape[0], lanes))
        return new.with_fields(dtype=new.dtype.with_lanes(lanes), shape=(size,))

    def index(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        new = [self.visit(index) for index in indices]
        if buffer.data in self.pointers:
            row = new[0]
            assert isinstance(row, Ramp)
            return [self.analyzer.simplify(ops.floordiv(row.base, row.lanes))]
        return new

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        buffer, predicate = self.visit(load.buffer), self.predicate(load)
        return BufferLoad(buffer, self.index(load.buffer, load.indices), predicate, load.span)

    def predicate(self, access: BufferLoad | BufferStore) -> PrimExpr | None:
        """Return the condition of an access, which may read memory, too."""
        return None if access.predicate is None else self.visit(access.predicate)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        buffer, value = self.visit(store.buffer), self.visit(store.value)
        indices = self.index(store.buffer, store.indices)
        return BufferStore(buffer, value, indices, self.predicate(store), store.span)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        new = self.children(allocation)
        pointer = self.pointers.get(allocation.buffer_var)
        if pointer is None:
            return new
        lanes = self.lanes[allocation.buffer_var]
        extent = new.extents[0]
        assert isinstance(extent, IntImm)
        size = const(extent.value // lanes, extent.dtype)
        return new.with_fields(
            buffer_var=pointer, dtype=new.dtype.with_lanes(lanes), extents=(size,)
        )


def with_vector_elements(func: PrimFunc, parameters: bool = True) -> PrimFunc:
    """Return ``func`` with vectors as elements of memory that is accessed in vectors only: of what
    it allocates, and of ``parameters`` that are pointers.
    """
    pointers = [param for param in func.params if param.dtype.is_handle] if parameters else []
    finder = _AccessTypes({param for param in pointers if param not in func.buffer_map})
    finder.visit(func.body)
    lanes = {var: n for var, n in finder.lanes.items() if n > 1}
    if not lanes:
        return func
    retyper = _Retyper(lanes)
    if not retyper.pointers:
        return func
    params = [retyper.visit(param) for param in func.params]
    return func.with_fields(params=params, body=retyper.visit(func.body))


@compiler_pass("tir.PointerValueTypeRewrite")
def pointer_value_type_rewrite(func: PrimFunc) -> PrimFunc:
    """Gives memory the element type in which it is accessed.

    Returns ``func`` with vectors as elements of memory that is accessed in vectors only.
    """
    return with_vector_elements(func)
