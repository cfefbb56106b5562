"""BF16ComputeLegalize, FP8ComputeLegalize: compute narrow floats in a wider type.

    C[i] = A[i] + B[i]                          C[i] = T.Cast("bfloat16", T.Cast("float32", A[i])
                                                              + T.Cast("float32", B[i]))

An expression is rounded once, when it is stored. Memory that the function allocates for itself
becomes wide as well, so that sums do not lose digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    FloatImm,
    Let,
    PointerType,
    PrimExpr,
    PrimType,
    Select,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import called_name, calls, is_call, nodes
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ConfigError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.stmt import (
    Allocate,
    Block,
    BufferStore,
    DeclBuffer,
    LetStmt,
    MatchBufferRegion,
    Stmt,
)

__all__ = [
    "Float8ComputeLegalizer",
    "is_bfloat16",
    "is_float8",
    "legalize_bfloat16_compute",
    "legalize_compute",
]


def is_bfloat16(dtype: DataType) -> bool:
    """Return whether a dtype is bfloat16, in any number of lanes."""
    return str(dtype.element) == "bfloat16"


def is_float8(dtype: DataType) -> bool:
    """Return whether a dtype is one of the floats of 8 bits, in any number of lanes."""
    return str(dtype.element).startswith("float8_")


class _Promoter(BufferRemapper):
    """Widens values before arithmetic; values that are only moved stay narrow."""

    def __init__(self, is_narrow: Callable[[DataType], bool], wide: DataType) -> None:
        super().__init__()
        self.is_narrow = is_narrow
        self.element = wide
        self.variables: dict[Var, Var] = {}
        self.fixed: set[Var] = set()  # pointers whose memory keeps its dtype

    # -- conversions

    def wide_dtype(self, dtype: DataType) -> DataType:
        return self.element.with_lanes(dtype.lanes)

    def widened(self, expr: PrimExpr) -> PrimExpr:
        """Return a value in the wide type, in which it can be computed with."""
        if not self.is_narrow(expr.dtype):
            return expr
        return ops.cast(self.wide_dtype(expr.dtype), expr)

    def as_dtype(self, expr: PrimExpr, dtype: DataType) -> PrimExpr:
        return expr if expr.dtype is dtype else ops.cast(dtype, expr)

    # -- expressions

    def visit_Var(self, var: Var) -> Var:
        return self.variables.get(var, var)

    def visit_FloatImm(self, number: FloatImm) -> PrimExpr:
        if not self.is_narrow(number.dtype):
            return number
        rounded = number.dtype.numpy().type(number.value)
        return const(float(rounded), self.wide_dtype(number.dtype))

    def visit_BinaryOp(self, expr: BinaryOp) -> PrimExpr:
        a, b = self.visit(expr.a), self.visit(expr.b)
        if self.is_narrow(expr.a.dtype):
            return type(expr)(self.widened(a), self.widened(b))
        return expr if a is expr.a and b is expr.b else type(expr)(a, b)

    def visit_CompareOp(self, expr: CompareOp) -> PrimExpr:
        return self.visit_BinaryOp(expr)

    def visit_Select(self, expr: Select) -> PrimExpr:
        condition = self.visit(expr.condition)
        true, false = self.alike(self.visit(expr.true_value), self.visit(expr.false_value))
        if condition is expr.condition and true is expr.true_value and false is expr.false_value:
            return expr
        return Select(condition, true, false)

    def alike(self, a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Convert two values to a common dtype: the wide one if either is wide."""
        return (a, b) if a.dtype is b.dtype else (self.widened(a), self.widened(b))

    def visit_Broadcast(self, expr: Broadcast) -> PrimExpr:
        value = self.visit(expr.value)
        return expr if value is expr.value else Broadcast(value, expr.lanes)

    def visit_Cast(self, expr: Cast) -> PrimExpr:
        value = self.visit(expr.value)
        return expr if value is expr.value else ops.cast(expr.dtype, value)

    def visit_Let(self, let: Let) -> PrimExpr:
        var, value = self.bind(let.var, self.visit(let.value))
        body = self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return Let(var, value, body)

    def bind(self, var: Var, value: PrimExpr) -> tuple[Var, PrimExpr]:
        """Return the variable of a let, widened if its value is wide."""
        self.variables.pop(var, None)  # another let may have bound it before
        if value.dtype is not var.dtype:
            self.variables[var] = Var(var.name, value.dtype, var.span)
        return self.variables.get(var, var), value

    def visit_Call(self, call: Call) -> PrimExpr:
        arguments = [self.visit(argument) for argument in call.args]
        name = called_name(call)
        if name == "tir.if_then_else":
            true, false = self.alike(arguments[1], arguments[2])
            return _rebuilt(call, true.dtype, [arguments[0], true, false])
        is_math = name and call.op.get_attr("TVectorizable", False) and name != "tir.reinterpret"
        if not is_math:  # others take what they are declared for
            kept = [self.as_dtype(new, old.dtype) if isinstance(old, PrimExpr) else new
                    for new, old in zip(arguments, call.args)]  # fmt: skip
            return _rebuilt(call, call.dtype, kept)
        arguments = [self.widened(argument) for argument in arguments]
        dtype = self.wide_dtype(call.dtype) if self.is_narrow(call.dtype) else call.dtype
        return _rebuilt(call, dtype, arguments)

    # -- memory

    def remap_buffer(self, node: Buffer) -> Buffer:
        new = super().remap_buffer(node)
        if self.is_narrow(new.dtype) and node.data in self.variables:
            return new.with_fields(dtype=self.wide_dtype(new.dtype))
        return new

    def own(self, pointer: Var) -> None:
        """Widen memory that is allocated inside the function."""
        annotation = pointer.type_annotation
        if pointer in self.fixed or not isinstance(annotation, PointerType):
            return
        element = annotation.element_type
        if isinstance(element, PrimType) and self.is_narrow(DataType(element.dtype)):
            wide = PrimType(self.wide_dtype(DataType(element.dtype)))
            self.variables[pointer] = Var(
                pointer.name, PointerType(wide, annotation.storage_scope), pointer.span
            )

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
        value = self.as_dtype(value, buffer.dtype.with_lanes(store.value.dtype.lanes))
        if buffer is store.buffer and value is store.value and predicate is store.predicate:
            if all(a is b for a, b in zip(indices, store.indices)):
                return store
        return BufferStore(buffer, value, indices, predicate, store.span)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        if self.is_narrow(allocation.dtype):
            self.own(allocation.buffer_var)
        new = self.children(allocation)
        pointer = self.visit(allocation.buffer_var)
        if pointer is allocation.buffer_var:
            return new
        return new.with_fields(buffer_var=pointer, dtype=self.wide_dtype(allocation.dtype))

    def visit_Block(self, node: Block) -> Block:
        for buffer in node.alloc_buffers:
            self.own(buffer.data)
        return super().visit_Block(node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        return super().visit_DeclBuffer(node)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        var, value = self.bind(let.var, self.visit(let.value))
        body = self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return LetStmt(var, value, body, let.span)


def _rebuilt(call: Call, dtype: DataType, arguments: list[Any]) -> PrimExpr:
    if dtype is call.dtype and all(a is b for a, b in zip(arguments, call.args)):
        return call
    return Call(dtype, call.op, tuple(arguments))


def _opaque_pointers(func: PrimFunc) -> set[Var]:
    """Return the pointers that are passed to calls: the memory behind them keeps its dtype."""
    found: set[Var] = {match.source.buffer.data for match in nodes(func.body, MatchBufferRegion)}
    for call in calls(func.body):
        found.update([arg for arg in call.args if isinstance(arg, Var) and arg.dtype.is_handle])
        if is_call(call, "tir.address_of"):
            found.add(call.args[0].buffer.data)  # type: ignore[attr-defined]
        if is_call(call, "tir.tvm_thread_allreduce"):  # its results are elements of buffers
            found.update([arg.buffer.data for arg in call.args if isinstance(arg, BufferLoad)])
    return found


def legalize_compute(
    func: PrimFunc, is_narrow: Callable[[DataType], bool], promote_dtype: str = "float32"
) -> PrimFunc:
    """Return ``func`` with arithmetic on the dtypes ``is_narrow`` done in ``promote_dtype``."""
    promoter = _Promoter(is_narrow, DataType(promote_dtype))
    promoter.fixed = _opaque_pointers(func)
    return func.with_body(promoter.visit(func.body))


@compiler_pass("tir.BF16ComputeLegalize")
def legalize_bfloat16_compute(func: PrimFunc) -> PrimFunc:
    """Computes bfloat16 arithmetic in float32."""
    return legalize_compute(func, is_bfloat16, "float32")


@compiler_pass("tir.FP8ComputeLegalize")
class Float8ComputeLegalizer:
    """Computes float8 arithmetic in ``promote_dtype_str``."""

    def __init__(self, promote_dtype_str: str = "float16") -> None:
        if promote_dtype_str not in ("float16", "float32", "bfloat16"):
            raise ConfigError(
                f"floats of 8 bits are computed in float16, bfloat16 or float32, not in"
                f" {promote_dtype_str!r}"
            )
        self.promote_dtype = promote_dtype_str

    def transform(self, func: PrimFunc) -> PrimFunc:
        """Legalizes one function."""
        return legalize_compute(func, is_float8, self.promote_dtype)
