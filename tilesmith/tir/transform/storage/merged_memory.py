"""Replaces several allocations by parts of one piece of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tilesmith.ir import Call, PrimExpr, Ramp, Var, const
from tilesmith.ir.intrinsics import handle_add_byte_offset
from tilesmith.ir.queries import called_name
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import Allocate, Stmt

__all__ = ["MergedMemory", "Part"]


class Part(NamedTuple):
    """An allocation, and where it begins in the merged memory, in bytes."""

    allocation: Allocate
    offset: int | PrimExpr


class MergedMemory(AccessRedirection):
    """Replaces allocations by parts of one: accesses of flat buffers, ``tvm_access_ptr``, and
    pointers themselves are moved by where a part begins.
    """

    def __init__(self, memory: Var, parts: Mapping[Var, Part]) -> None:
        self.memory = memory
        self.parts = parts
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_Allocate(self, node: Allocate) -> Stmt:
        if node.buffer_var in self.parts:
            return self.visit(node.body)
        return self.children(node)

    def start(self, pointer: Var, nbytes: int, dtype: Any) -> PrimExpr:
        """Return the offset of an allocation in elements of a size."""
        offset = self.parts[pointer].offset
        if isinstance(offset, int):
            return const(offset // nbytes, dtype)
        found = offset // nbytes
        return found if found.dtype is dtype else found.astype(dtype)

    def redirected(self, buffer: Buffer) -> Buffer | None:
        if buffer.data not in self.parts:
            return None
        found = self.buffers.get(buffer)
        if found is None:
            size, *others = buffer.shape
            size = size + self.start(buffer.data, buffer.dtype.nbytes, size.dtype)
            found = buffer.with_fields(data=self.memory, shape=(size, *others))
            self.buffers[buffer] = found
        return found

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        first = indices[0]
        start = self.start(buffer.data, buffer.dtype.nbytes, first.dtype.element)
        if isinstance(first, Ramp):  # stays one, so that the access stays one of a whole vector
            return (Ramp(first.base + start, first.stride, first.lanes), *indices[1:])
        return (first + start, *indices[1:])

    def visit_Call(self, node: Call) -> PrimExpr:
        name = called_name(node)
        if name == "tir.tvm_access_ptr" and node.args[1] in self.parts:
            annotation, data, offset, extent, mask = node.args
            offset = self.visit(offset)
            start = self.start(data, annotation.dtype.nbytes, offset.dtype)  # type: ignore[arg-type]
            return node.with_fields(args=(annotation, self.memory, offset + start, extent, mask))
        args = [self.visit(arg) for arg in node.args]
        for number in (0, 2) if name == "tir.ptx_cp_async" else ():
            pointer = node.args[number]
            if isinstance(pointer, Var) and pointer in self.parts:
                # Offsets count elements of the pointer, which are bytes now.
                size = self.parts[pointer].allocation.dtype.nbytes
                offset = args[number + 1]
                args[number] = self.memory
                args[number + 1] = offset * size + self.start(pointer, 1, offset.dtype)
        return node.with_fields(args=tuple(args))

    def visit_Var(self, node: Var) -> Any:
        if node not in self.parts:
            return node
        return handle_add_byte_offset(self.memory, self.start(node, 1, "int32"))
