"""NarrowDataType: narrows 64-bit index arithmetic to 32 bits where bounds allow it.

    for i in range(T.int64(16)):                for i in range(16):
        B[i * T.int64(4)] = A[i]                    B[i * 4] = A[i]

Bounds come from constants and from the extents of loops; what depends on loaded values or on sizes
that are known at run time only keeps its type.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    Add,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    LogicalOp,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Sub,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call, mentions
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.stmt import AttrStmt, BufferStore, For, LetStmt, Stmt

__all__ = ["narrow_data_type"]

Interval = tuple[int, int]
_OPERATORS = {Add: ops.add, Sub: ops.subtract, Mul: ops.multiply, Min: ops.minimum,
              Max: ops.maximum, FloorDiv: ops.floordiv, FloorMod: ops.floormod,
              Div: ops.truncdiv, Mod: ops.truncmod}  # fmt: skip


def _corners(a: Interval, b: Interval, function: Any) -> Interval:
    values = [function(x, y) for x in a for y in b]
    return min(values), max(values)


def _truncated(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


def _remainder(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _truncated_remainder(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    return (0 if a[0] >= 0 else 1 - b[1], 0 if a[1] <= 0 else b[1] - 1)


_INTERVALS: dict[type, Any] = {
    Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    Mul: lambda a, b: _corners(a, b, lambda x, y: x * y),
    Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    FloorDiv: lambda a, b: _corners(a, b, lambda x, y: x // y) if b[0] > 0 else None,
    FloorMod: _remainder,
    Div: lambda a, b: _corners(a, b, _truncated) if b[0] > 0 else None,
    Mod: _truncated_remainder,
}


class _Narrower(BufferRemapper):
    """Narrows bottom-up: a wide value that fits becomes ``Cast(wide, narrow)``, and an operation on
    such values whose result fits is computed on the narrow ones.
    """

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.low, self.high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        self.values: dict[Var, PrimExpr] = {}
        self.ranges: dict[Var, Interval] = {}
        self.known: dict[int, tuple[PrimExpr, Interval | None]] = {}
        self.threads: dict[IterVar, IterVar] = {}

    # -- what is known

    def fits(self, interval: Interval | None) -> bool:
        return interval is not None and self.low <= interval[0] and interval[1] <= self.high

    def interval(self, expr: PrimExpr) -> Interval | None:
        """Return the bounds of an integer expression (of all its lanes)."""
        found = self.known.get(id(expr))
        if found is None:
            found = self.known[id(expr)] = (expr, self.compute_interval(expr))
        return found[1]

    def compute_interval(self, expr: PrimExpr) -> Interval | None:
        if isinstance(expr, IntImm):
            return expr.value, expr.value
        if isinstance(expr, Var):
            return self.ranges.get(expr)
        if isinstance(expr, (Cast, Broadcast)):
            inner = self.interval(expr.value)
            return inner if expr.dtype.is_int else None
        if isinstance(expr, Ramp):
            return self.spread(expr)
        rule = _INTERVALS.get(expr.__class__)
        if rule is not None and expr.dtype.is_int:
            a, b = self.interval(expr.a), self.interval(expr.b)  # type: ignore[attr-defined]
            return None if a is None or b is None else rule(a, b)
        if isinstance(expr, Select):
            return _union(self.interval(expr.true_value), self.interval(expr.false_value))
        if is_call(expr, "tir.if_then_else"):
            return _union(self.interval(expr.args[1]), self.interval(expr.args[2]))
        return None

    def spread(self, ramp: Ramp) -> Interval | None:
        base, stride = self.interval(ramp.base), self.interval(ramp.stride)
        if base is None or stride is None:
            return None
        reach = _corners(stride, (0, ramp.lanes - 1), lambda x, y: x * y)
        return base[0] + reach[0], base[1] + reach[1]

    def is_wide(self, dtype: DataType) -> bool:
        return dtype.is_int and dtype.bits > self.bits

    def narrow(self, expr: PrimExpr) -> PrimExpr | None:
        """Return a wide value in the narrow type; None where it is not known to fit."""
        dtype = expr.dtype.with_bits(self.bits)
        if isinstance(expr, IntImm):
            return const(expr.value, dtype) if self.low <= expr.value <= self.high else None
        if isinstance(expr, Cast):
            return expr.value if expr.value.dtype is dtype else None
        if isinstance(expr, Broadcast):
            value = self.narrow(expr.value)
            return None if value is None else Broadcast(value, expr.lanes)
        if isinstance(expr, Ramp) and self.fits(self.interval(expr)):
            base, stride = self.narrow(expr.base), self.narrow(expr.stride)
            if base is not None and stride is not None:
                return Ramp(base, stride, expr.lanes)
        return None

    def index(self, expr: PrimExpr) -> PrimExpr:
        """Return an index in the narrow type if it fits; accesses accept either type."""
        new = self.visit(expr)
        if not self.is_wide(new.dtype):
            return new
        narrow = self.narrow(new)
        return new if narrow is None else narrow

    # -- expressions

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def visit_BinaryOp(self, expr: BinaryOp) -> PrimExpr:
        a, b = self.visit(expr.a), self.visit(expr.b)
        kind = expr.__class__
        if self.is_wide(expr.dtype) and kind in _OPERATORS:
            small_a, small_b = self.narrow(a), self.narrow(b)
            if small_a is not None and small_b is not None:
                result = _OPERATORS[kind](small_a, small_b)
                if self.fits(self.result_interval(kind, small_a, small_b)):
                    return ops.cast(expr.dtype, result)
        return expr if a is expr.a and b is expr.b else kind(a, b)

    def result_interval(self, kind: type, a: PrimExpr, b: PrimExpr) -> Interval | None:
        left, right = self.interval(a), self.interval(b)
        return None if left is None or right is None else _INTERVALS[kind](left, right)

    def visit_CompareOp(self, expr: CompareOp) -> PrimExpr:
        a, b = self.visit(expr.a), self.visit(expr.b)
        if self.is_wide(expr.a.dtype):
            small_a, small_b = self.narrow(a), self.narrow(b)
            if small_a is not None and small_b is not None:
                return type(expr)(small_a, small_b)
        return expr if a is expr.a and b is expr.b else type(expr)(a, b)

    def visit_LogicalOp(self, expr: LogicalOp) -> PrimExpr:
        return self.children(expr)

    def visit_Select(self, expr: Select) -> PrimExpr:
        expr = self.children(expr)
        if self.is_wide(expr.dtype):
            true, false = self.narrow(expr.true_value), self.narrow(expr.false_value)
            if true is not None and false is not None:
                return Cast(expr.dtype, Select(expr.condition, true, false))
        return expr

    def visit_Call(self, call: Call) -> PrimExpr:
        given, call = call, self.children(call)
        if is_call(call, "tir.tvm_thread_allreduce") and call is not given:
            # the last arguments name threads: the variables themselves, not their values
            args = [
                new.value if isinstance(old, Var) and isinstance(new, Cast) else new
                for old, new in zip(given.args, call.args)
            ]
            return call.with_fields(args=tuple(args))
        if self.is_wide(call.dtype) and is_call(call, "tir.if_then_else"):
            true, false = self.narrow(call.args[1]), self.narrow(call.args[2])
            if true is not None and false is not None:
                return Cast(call.dtype, Call(true.dtype, call.op, (call.args[0], true, false)))
        return call

    def visit_Cast(self, expr: Cast) -> PrimExpr:
        value = self.visit(expr.value)
        if self.is_wide(value.dtype) and not expr.dtype.is_handle:
            narrow = self.narrow(value)
            if narrow is not None:
                return ops.cast(expr.dtype, narrow)
        return expr if value is expr.value else ops.cast(expr.dtype, value)

    def visit_Let(self, let: Let) -> PrimExpr:
        value = self.visit(let.value)
        var, value = self.bind(let.var, value)
        body = self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return Let(var, value, body)

    def bind(self, var: Var, value: PrimExpr) -> tuple[Var, PrimExpr]:
        """Return the variable of a let, a narrow one where the value is narrow."""
        self.values.pop(var, None)  # another let may have bound it before
        if not self.is_wide(var.dtype):
            if var.dtype.is_int:
                self.learn(var, self.interval(value))
            return var, value
        small = self.narrow(value)
        if small is None:
            return var, value
        new = Var(var.name, small.dtype, var.span)
        self.learn(new, self.interval(small))
        self.values[var] = Cast(var.dtype, new)
        return new, small

    def learn(self, var: Var, interval: Interval | None) -> None:
        known = self.ranges.pop(var, interval)
        if known != interval:
            self.known.clear()  # bounds of what mentions the variable were for another binding
        if interval is not None:
            self.ranges[var] = interval

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        indices = [self.index(index) for index in load.indices]
        predicate = None if load.predicate is None else self.visit(load.predicate)
        buffer = self.visit(load.buffer)
        if buffer is load.buffer and predicate is load.predicate:
            if all(a is b for a, b in zip(indices, load.indices)):
                return load
        return BufferLoad(buffer, indices, predicate, load.span)

    # -- statements

    def remap_buffer(self, node: Buffer) -> Buffer:
        """Return a buffer whose shape, strides and offset name the narrow variables."""
        if not mentions([*node.shape, *node.strides, node.elem_offset], self.values):
            return node
        return super().remap_buffer(node)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        indices = [self.index(index) for index in store.indices]
        value = self.visit(store.value)
        predicate = None if store.predicate is None else self.visit(store.predicate)
        buffer = self.visit(store.buffer)
        if buffer is store.buffer and value is store.value and predicate is store.predicate:
            if all(a is b for a, b in zip(indices, store.indices)):
                return store
        return BufferStore(buffer, value, indices, predicate, store.span)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        value = self.visit(let.value)
        var, value = self.bind(let.var, value)
        body = self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return LetStmt(var, value, body, let.span)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        """Narrow the iterators of device threads as well."""
        thread = attribute.node
        if attribute.attr_key not in ("thread_extent", "virtual_thread") or not isinstance(
            thread, IterVar
        ):
            return self.children(attribute)
        extent = self.visit(attribute.value)
        count = self.interval(extent)
        if count is not None and self.fits((0, count[1])):
            small = self.narrow(extent) if self.is_wide(extent.dtype) else None
            if small is not None and thread.var.dtype is extent.dtype:
                extent, thread = small, self.narrow_thread(thread, small)
            self.learn(thread.var, (0, max(count[1] - 1, 0)))
        body = self.visit(attribute.body)
        if thread is attribute.node and extent is attribute.value and body is attribute.body:
            return attribute
        return attribute.with_fields(node=thread, value=extent, body=body)

    def narrow_thread(self, thread: IterVar, extent: PrimExpr) -> IterVar:
        found = self.threads.get(thread)
        if found is None:
            var = Var(thread.var.name, extent.dtype, thread.var.span)
            found = IterVar(Range(extent), var, thread.iter_type, thread.thread_tag, thread.span)
            self.threads[thread] = found
            self.values[thread.var] = Cast(thread.var.dtype, var)
        return found

    def visit_For(self, loop: For) -> Stmt:
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        first, count = self.interval(low), self.interval(extent)
        var = loop.loop_var
        if first is not None and count is not None:
            inside = (first[0], max(first[0], first[1] + count[1] - 1))
            small_low, small_extent = None, None
            if self.is_wide(var.dtype) and self.fits((inside[0], inside[1] + 1)):
                small_low, small_extent = self.narrow(low), self.narrow(extent)
            if small_low is not None and small_extent is not None:
                var = Var(var.name, var.dtype.with_bits(self.bits), var.span)
                self.values[loop.loop_var] = Cast(loop.loop_var.dtype, var)
                low, extent = small_low, small_extent
            self.learn(var, inside)
        body = self.visit(loop.body)
        if var is loop.loop_var and body is loop.body and low is loop.min and extent is loop.extent:
            return loop
        return loop.with_fields(loop_var=var, min=low, extent=extent, body=body)


def _union(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


@compiler_pass("tir.NarrowDataType")
def narrow_data_type(func: PrimFunc, target_bits: int = 32) -> PrimFunc:
    """Narrows index arithmetic whose values fit into fewer bits.

    Returns ``func`` with index arithmetic in ``target_bits`` bits wherever its values fit.
    """
    return func.with_body(_Narrower(target_bits).visit(func.body))
