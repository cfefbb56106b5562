"""BF16StorageLegalize, FP8StorageLegalize: store narrow floats as unsigned integers.

    B[i] = T.Cast("float32", A[i])              B[i] = T.reinterpret("float32",
                                                    T.shift_left(T.Cast("uint32", A_1[i]), 16))

``A_1`` is a view of A's memory with elements of uint16. Conversions are integer arithmetic. Buffers
of parameters keep their declared dtype, the body uses views of them; pointers and scalars among the
parameters (of functions that are lowered already) become such of integers. Arithmetic has to be
gone: run the pass for computing first.
"""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.ir import (
    BinaryOp,
    Call,
    Cast,
    FloatImm,
    Let,
    PrimExpr,
    Select,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import called_name
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    LetStmt,
    Stmt,
)
from tilesmith.tir.transform.dtypes.float_bits import decode, encode, storage_dtype
from tilesmith.tir.transform.dtypes.legalize_compute import is_bfloat16, is_float8
from tilesmith.tir.transform.dtypes.retyped_variables import RetypesVariables

__all__ = ["legalize_bfloat16_storage", "legalize_float8_storage", "legalize_storage"]


class _Storer(RetypesVariables):
    """Replaces values of a narrow dtype by their bit patterns."""

    def __init__(self, is_narrow: Callable[[DataType], bool], views: set[Buffer]) -> None:
        super().__init__()
        self.is_narrow = is_narrow
        self.views = views  # buffers of parameters, whose pointers stay
        self.kept = {buffer.data for buffer in views}

    # -- variables and buffers

    def changed(self, dtype: DataType) -> DataType:
        return storage_dtype(dtype) if self.is_narrow(dtype) else dtype

    def renewed(self, var: Var) -> Var:
        return var if var in self.kept else super().renewed(var)

    def remap_buffer(self, node: Buffer) -> Buffer:
        new = super().remap_buffer(node)
        if self.is_narrow(new.dtype):
            return new.with_fields(dtype=storage_dtype(new.dtype))
        return new

    # -- expressions

    def visit_FloatImm(self, number: FloatImm) -> PrimExpr:
        if not self.is_narrow(number.dtype):
            return number
        array = number.dtype.numpy().type(number.value)
        code = int(array.view(f"uint{number.dtype.bits}"))
        return const(code, storage_dtype(number.dtype))

    def visit_Cast(self, expr: Cast) -> PrimExpr:
        source, target = expr.value.dtype, expr.dtype
        value = self.visit(expr.value)
        if self.is_narrow(source):
            if target is source:
                return value
            single = decode(value, source)
            return (
                self.stored(single, target) if self.is_narrow(target) else ops.cast(target, single)
            )
        if self.is_narrow(target):
            return self.stored(value, target)
        return expr if value is expr.value else ops.cast(target, value)

    def stored(self, value: PrimExpr, dtype: DataType) -> PrimExpr:
        """Return the bit pattern of a value."""
        return encode(ops.cast(DataType("float32").with_lanes(dtype.lanes), value), dtype)

    def visit_BinaryOp(self, expr: BinaryOp) -> PrimExpr:
        if self.is_narrow(expr.a.dtype):
            raise UnsupportedError(
                f"there is still arithmetic on {expr.a.dtype}: {expr}",
                notes=("run BF16ComputeLegalize or FP8ComputeLegalize before",),
            )
        return self.children(expr)

    visit_CompareOp = visit_BinaryOp

    def visit_Select(self, expr: Select) -> PrimExpr:
        return self.children(expr)

    def visit_Let(self, let: Let) -> PrimExpr:
        value, var = self.visit(let.value), self.visit(let.var)
        body = self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return Let(var, value, body)

    def visit_Call(self, call: Call) -> PrimExpr:
        name = called_name(call)
        new = self.children(call)
        if name == "tir.reinterpret":
            source = call.args[0].dtype
            target = storage_dtype(call.dtype) if self.is_narrow(call.dtype) else call.dtype
            if new.args[0].dtype is target:
                return new.args[0]
            if self.is_narrow(source) or self.is_narrow(call.dtype):
                return Call(target, call.op, new.args)
            return new
        if not self.is_narrow(call.dtype):
            return new
        if name in ("tir.if_then_else", "tir.type_annotation", "tir.undef"):
            return Call(storage_dtype(call.dtype), call.op, new.args)
        raise UnsupportedError(
            f"a call gives {call.dtype}: {call}",
            notes=("run BF16ComputeLegalize or FP8ComputeLegalize before",),
        )

    # -- memory

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        buffer = self.visit(load.buffer)
        indices = [self.visit(index) for index in load.indices]
        predicate = None if load.predicate is None else self.visit(load.predicate)
        if buffer is load.buffer and predicate is load.predicate:
            if all(a is b for a, b in zip(indices, load.indices)):
                return load
        return BufferLoad(buffer, indices, predicate, load.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        buffer, value = self.visit(store.buffer), self.visit(store.value)
        indices = [self.visit(index) for index in store.indices]
        predicate = None if store.predicate is None else self.visit(store.predicate)
        if buffer is store.buffer and value is store.value and predicate is store.predicate:
            if all(a is b for a, b in zip(indices, store.indices)):
                return store
        return BufferStore(buffer, value, indices, predicate, store.span)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        pointer = self.visit(allocation.buffer_var)
        new = self.children(allocation)
        if not self.is_narrow(allocation.dtype):
            return new
        return new.with_fields(buffer_var=pointer, dtype=storage_dtype(allocation.dtype))

    def visit_AllocateConst(self, allocation: AllocateConst) -> Stmt:
        pointer = self.visit(allocation.buffer_var)
        new = self.children(allocation)
        if not self.is_narrow(allocation.dtype):
            return new
        data = new.data_or_idx
        if hasattr(data, "numpy"):
            data = data.numpy()
        if hasattr(data, "view"):
            data = data.view(f"uint{allocation.dtype.bits}")
        return new.with_fields(
            buffer_var=pointer, dtype=storage_dtype(allocation.dtype), data_or_idx=data
        )

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        value, var = self.visit(let.value), self.visit(let.var)
        body = self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return LetStmt(var, value, body, let.span)


def legalize_storage(func: PrimFunc, is_narrow: Callable[[DataType], bool]) -> PrimFunc:
    """Return ``func`` without values of the dtypes ``is_narrow`` in its body."""
    declared = [buffer for buffer in func.buffers if is_narrow(buffer.dtype)]
    storer = _Storer(is_narrow, set(declared))
    body = storer.visit(func.body)
    params = [param if param in func.buffer_map else storer.visit(param) for param in func.params]
    views = [storer.buffers[buffer] for buffer in declared if buffer in storer.buffers]
    root = body.block if isinstance(body, BlockRealize) else None
    for view in reversed(views):
        body = DeclBuffer(view, body)
    if body is func.body and all(a is b for a, b in zip(params, func.params)):
        return func
    if root is not None and views:
        raise UnsupportedError(
            "this pass works on functions without blocks",
            notes=("run LowerOpaqueBlock (or tilesmith.lower) before",),
        )
    return func.with_fields(params=params, body=body)


@compiler_pass("tir.BF16StorageLegalize")
def legalize_bfloat16_storage(func: PrimFunc) -> PrimFunc:
    """Stores bfloat16 as uint16."""
    return legalize_storage(func, is_bfloat16)


@compiler_pass("tir.FP8StorageLegalize")
def legalize_float8_storage(func: PrimFunc) -> PrimFunc:
    """Stores floats of 8 bits as uint8."""
    return legalize_storage(func, is_float8)
