"""LowerCustomDatatypes: replaces operations on custom data types by calls of their library.

    C[i] = A[i] + B[i]      ("custom[posit]16")     C[i] = T.call_pure_extern("uint16",
                                                        "Posit16Add", A[i], B[i])

What an operation becomes is registered with ``target.datatype.register_op``. Values and buffers
hold unsigned integers afterwards; callers pass arrays of these.
"""

from __future__ import annotations

from tilesmith.ir import (
    BinaryOp,
    Call,
    Cast,
    FloatImm,
    Let,
    PrimExpr,
    Select,
)
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import called_name
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.target.datatype import find_lower_func, stored_dtype
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, BufferStore, LetStmt, Stmt
from tilesmith.tir.transform.dtypes.retyped_variables import RetypesVariables

__all__ = ["lower_custom_datatypes"]


def _name(dtype: DataType) -> str:
    return dtype.code[len("custom[") : -1] if dtype.is_custom else dtype.code


class _CustomLowerer(RetypesVariables):
    def __init__(self, target: str) -> None:
        super().__init__()
        self.target = target

    # -- variables and memory

    def changed(self, dtype: DataType) -> DataType:
        return stored_dtype(dtype) if dtype.is_custom else dtype

    def remap_buffer(self, node: Buffer) -> Buffer:
        new = super().remap_buffer(node)
        return new.with_fields(dtype=stored_dtype(new.dtype)) if new.dtype.is_custom else new

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        buffer = self.visit(load.buffer)
        if buffer is load.buffer:
            return self.children(load)
        predicate = None if load.predicate is None else self.visit(load.predicate)
        return BufferLoad(buffer, [self.visit(i) for i in load.indices], predicate, load.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        buffer, value = self.visit(store.buffer), self.visit(store.value)
        if buffer is store.buffer and value is store.value:
            return self.children(store)
        predicate = None if store.predicate is None else self.visit(store.predicate)
        indices = [self.visit(index) for index in store.indices]
        return BufferStore(buffer, value, indices, predicate, store.span)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        pointer = self.visit(allocation.buffer_var)
        new = self.children(allocation)
        if not allocation.dtype.is_custom:
            return new
        return new.with_fields(buffer_var=pointer, dtype=stored_dtype(allocation.dtype))

    def visit_Let(self, let: Let) -> PrimExpr:
        var, value, body = self.visit(let.var), self.visit(let.value), self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return Let(var, value, body)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        var, value, body = self.visit(let.var), self.visit(let.value), self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return LetStmt(var, value, body, let.span)

    # -- operations

    def lowered(self, operation: PrimExpr, *key: str) -> PrimExpr:
        """Return the registered lowering of an operation, whose operands are lowered already."""
        lower = find_lower_func(self.target, *key)
        if lower is None:
            raise UnsupportedError(
                f"nothing is registered for {' '.join(key)} on targets '{self.target}'",
                notes=("register it: target.datatype.register_op(function, name, target, type)",),
            )
        return lower(operation)

    def visit_Cast(self, expr: Cast) -> PrimExpr:
        value = self.visit(expr.value)
        source, result = expr.value.dtype, expr.dtype
        if not source.is_custom and not result.is_custom:
            return expr if value is expr.value else Cast(result, value)
        return self.lowered(Cast(result, value), "Cast", _name(source), _name(result))

    def visit_FloatImm(self, number: FloatImm) -> PrimExpr:
        if not number.dtype.is_custom:
            return number
        lower = find_lower_func(self.target, "FloatImm", _name(number.dtype))
        if lower is not None:
            return lower(number)
        single = FloatImm("float32", number.value)
        return self.visit_Cast(Cast(number.dtype, single))

    def visit_BinaryOp(self, expr: BinaryOp) -> PrimExpr:
        if not expr.a.dtype.is_custom:
            return self.children(expr)
        a, b = self.visit(expr.a), self.visit(expr.b)
        kind = type(expr)
        return self.lowered(kind(a, b), kind.__name__, _name(expr.a.dtype))

    visit_CompareOp = visit_BinaryOp

    def visit_Select(self, expr: Select) -> PrimExpr:
        new = [self.visit(part) for part in (expr.condition, expr.true_value, expr.false_value)]
        return Select(*new)

    def visit_Call(self, call: Call) -> PrimExpr:
        arguments = tuple([self.visit(argument) for argument in call.args])
        name = called_name(call)
        kinds = [argument.dtype for argument in call.args if isinstance(argument, PrimExpr)]
        custom = next((kind for kind in [call.dtype, *kinds] if kind.is_custom), None)
        if custom is None:
            same = all(a is b for a, b in zip(arguments, call.args))
            return call if same else Call(call.dtype, call.op, arguments)
        lower = find_lower_func(self.target, "Call", name, _name(custom))
        if lower is not None:
            return lower(Call(call.dtype, call.op, arguments))
        if name in ("tir.if_then_else", "tir.call_pure_extern", "tir.call_extern"):
            return Call(stored_dtype(call.dtype), call.op, arguments)
        new = Call(call.dtype, call.op, arguments)
        return self.lowered(new, "Call", name, _name(custom))


@compiler_pass("tir.LowerCustomDatatypes")
def lower_custom_datatypes(func: PrimFunc) -> PrimFunc:
    """Replaces operations on custom data types by calls of the library that defines them.

    Returns ``func`` without values of custom data types, for its target (by default "llvm").
    """
    target = func.attrs.get("target")
    lowerer = _CustomLowerer("llvm" if target is None else target.kind.name)
    params = [lowerer.visit(param) for param in func.params]
    buffers = {lowerer.visit(p): lowerer.visit(b) for p, b in func.buffer_map.items()}
    body = lowerer.visit(func.body)
    if body is func.body and all(buffers[p] is b for p, b in func.buffer_map.items()):
        if all(a is b for a, b in zip(params, func.params)):
            return func
    return func.with_fields(params=params, buffer_map=buffers, body=body)
