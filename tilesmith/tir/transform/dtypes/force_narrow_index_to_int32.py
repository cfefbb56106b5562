"""ForceNarrowIndexToInt32: narrows all 64-bit indices, loops, sizes and integer scalars to 32 bits.

    for i in range(T.int64(4)):                 for i in range(4):
        A[i] = B[i + n]                             A[i] = B[i + n]        (n: int32 now)

Unlike NarrowDataType it does not ask for bounds: the user promises that the values fit. Parameters
that are tensors of int64 cannot be narrowed, that is an error; constants that do not fit as well.
"""

from __future__ import annotations

from tilesmith.ir import Call, Cast, IntImm, Let, PrimExpr, Range, const
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, BufferStore, For, LetStmt, Stmt
from tilesmith.tir.transform.dtypes.retyped_variables import RetypesVariables

__all__ = ["force_narrow_index_to_int32"]


def _is_wide(dtype: DataType) -> bool:
    return dtype.is_int and dtype.bits == 64


def _narrow(dtype: DataType) -> DataType:
    return dtype.with_bits(32) if _is_wide(dtype) else dtype


class _Forcer(RetypesVariables):
    """Narrows all 64-bit integers to 32 bits; the operators follow their operands."""

    def changed(self, dtype: DataType) -> DataType:
        return _narrow(dtype)

    def visit_IntImm(self, number: IntImm) -> PrimExpr:
        if not _is_wide(number.dtype):
            return number
        if not -(2**31) <= number.value < 2**31:
            raise UnsupportedError(
                f"the constant {number.value} does not fit into 32 bits",
                notes=("use NarrowDataType, which narrows only what fits",),
            )
        return const(number.value, "int32")

    def visit_Cast(self, expr: Cast) -> PrimExpr:
        return ops.cast(_narrow(expr.dtype), self.visit(expr.value))

    def visit_Call(self, call: Call) -> PrimExpr:
        arguments = tuple([self.visit(argument) for argument in call.args])
        if all(a is b for a, b in zip(arguments, call.args)) and not _is_wide(call.dtype):
            return call
        return Call(_narrow(call.dtype), call.op, arguments)

    def visit_Let(self, let: Let) -> PrimExpr:
        return Let(self.visit(let.var), self.visit(let.value), self.visit(let.body))

    def remap_buffer(self, node: Buffer) -> Buffer:
        new = super().remap_buffer(node)
        return new.with_fields(dtype=_narrow(new.dtype)) if _is_wide(new.dtype) else new

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        predicate = None if load.predicate is None else self.visit(load.predicate)
        indices = [self.visit(index) for index in load.indices]
        return BufferLoad(self.visit(load.buffer), indices, predicate, load.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        buffer, value = self.visit(store.buffer), self.visit(store.value)
        predicate = None if store.predicate is None else self.visit(store.predicate)
        indices = [self.visit(index) for index in store.indices]
        return BufferStore(buffer, value, indices, predicate, store.span)

    def visit_IterVar(self, iterator: IterVar) -> IterVar:
        domain = iterator.dom
        if domain is not None:
            domain = Range.from_min_extent(self.visit(domain.min), self.visit(domain.extent))
        return iterator.with_fields(dom=domain, var=self.visit(iterator.var))

    def visit_For(self, loop: For) -> Stmt:
        binding = loop.thread_binding
        return loop.with_fields(
            loop_var=self.visit(loop.loop_var),
            min=self.visit(loop.min),
            extent=self.visit(loop.extent),
            body=self.visit(loop.body),
            thread_binding=None if binding is None else self.visit(binding),
        )

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        var, value = self.visit(let.var), self.visit(let.value)
        return LetStmt(var, value, self.visit(let.body), let.span)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        return allocation.with_fields(
            buffer_var=self.visit(allocation.buffer_var),
            dtype=_narrow(allocation.dtype),
            extents=tuple([self.visit(extent) for extent in allocation.extents]),
            condition=self.visit(allocation.condition),
            body=self.visit(allocation.body),
        )


@compiler_pass("tir.ForceNarrowIndexToInt32")
def force_narrow_index_to_int32(func: PrimFunc) -> PrimFunc:
    """Narrows all index arithmetic to 32 bits, whether the values fit or not.

    Returns ``func`` with integers of 32 bits in place of those of 64.

    Raises TypeMismatchError where a parameter is a tensor of int64.
    """
    for param, buffer in func.buffer_map.items():
        if _is_wide(buffer.dtype):
            raise TypeMismatchError(
                f"the parameter '{param.name}' is a tensor of int64 (buffer '{buffer.name}'), its "
                "elements cannot be narrowed",
                notes=("convert the tensor before the call, or use NarrowDataType",),
            )
    forcer = _Forcer()
    params = [forcer.visit(param) for param in func.params]
    buffers = {
        forcer.visit(param): forcer.visit(buffer) for param, buffer in func.buffer_map.items()
    }
    return func.with_fields(params=params, buffer_map=buffers, body=forcer.visit(func.body))
