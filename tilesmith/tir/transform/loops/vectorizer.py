"""Rewrites the body of one vectorized loop as vector code; ``VectorizeLoop`` finds the loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.arith.pattern import conjuncts
from tilesmith.ir import (
    LT,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    CallEffectKind,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Mul,
    Not,
    PrimExpr,
    Ramp,
    Rewriter,
    Select,
    StringImm,
    Sub,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.call_intrinsics import get_active_lane_mask
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import called_name, is_call
from tilesmith.ir.structural import structural_equal
from tilesmith.runtime.dtype import DataType, ScalableLanes
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import reads_memory, uses_variable
from tilesmith.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)

__all__ = ["NeedsLanes", "Vectorizer"]

_VECTORS = "it is made of vectors already"
_ROUNDING = {FloorDiv: ops.floordiv, FloorMod: ops.floormod}


class NeedsLanes(Exception):
    """Raised where a piece of code has no vector form, with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Vectorizer(Rewriter):
    """Rewrites the body of one loop for all its iterations at once.

    An expression that does not depend on the lane stays scalar until a vector needs it. Lanes are
    switched off by ``predicates`` of accesses; unless that may happen ``freely``, only where all
    accesses are to the very elements that a condition ``index < limit`` is about.
    """

    def __init__(
        self,
        var: Var,
        low: PrimExpr,
        lanes: int,
        analyzer: Analyzer,
        predicates: bool = True,
        freely: bool = True,
    ) -> None:
        self.predicates = predicates  # whether accesses may switch lanes off
        self.freely = freely
        self.guarded: PrimExpr | None = None  # the indices that the present condition is about
        self.var = var
        self.low = low
        self.lanes = lanes
        self.is_scalable = isinstance(lanes, ScalableLanes)
        self.analyzer = analyzer
        self.values: dict[Var, PrimExpr] = {var: Ramp(low, const(1, low.dtype), lanes)}
        self.private: set[Var] = set()  # pointers to memory with one copy per lane
        self.private_buffers: dict[Buffer, Buffer] = {}
        self.mask: PrimExpr | None = None
        self.conditions: list[PrimExpr] = []  # the mask as a condition on the loop variable
        self.bound = 0  # enclosing scopes that have no fallback to single lanes

    # -- helpers

    def wide(self, expr: PrimExpr) -> PrimExpr:
        """Return a value broadcast to all lanes."""
        return expr if expr.dtype.lanes > 1 else Broadcast(expr, self.lanes)

    def linear(self, expr: PrimExpr) -> tuple[PrimExpr, PrimExpr | None] | None:
        """Return base and stride of an integer vector of evenly spaced lanes (no stride: equal)."""
        if isinstance(expr, Ramp):
            return expr.base, expr.stride
        if isinstance(expr, Broadcast):
            return expr.value, None
        return (expr, None) if expr.dtype.lanes == 1 else None

    def ramp(self, base: PrimExpr, stride: PrimExpr | None) -> PrimExpr:
        return base if stride is None or ops.is_const(stride, 0) else Ramp(base, stride, self.lanes)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Enter code in which falling back to single lanes is not possible."""
        self.bound += 1
        try:
            yield
        finally:
            self.bound -= 1

    @contextmanager
    def masked(self, mask: PrimExpr, condition: PrimExpr | None = None) -> Iterator[None]:
        """Enter code that only some lanes run."""
        outer = self.mask
        self.mask = mask if outer is None else And(outer, mask)
        if condition is not None:
            self.conditions.append(condition)
        try:
            yield
        finally:
            self.mask = outer
            if condition is not None:
                self.conditions.pop()

    # -- expressions

    def visit_Var(self, var: Var) -> PrimExpr:
        if var in self.private:
            raise NeedsLanes(f"the address of '{var.name}' is taken; each lane has its own")
        return self.values.get(var, var)

    def visit_default(self, node: Any) -> Any:
        if not isinstance(node, PrimExpr):
            return node.map_children(self.visit)
        new = node.map_children(self.visit_same)
        return new

    def visit_same(self, node: Any) -> Any:
        """Visit a part that must not depend on the lane."""
        new = self.visit(node)
        if new is not node and isinstance(new, PrimExpr) and new.dtype is not node.dtype:
            raise NeedsLanes("a part that all lanes share differs between them")
        return new

    def operands(self, expr: BinaryOp) -> tuple[PrimExpr, PrimExpr]:
        return self.visit(expr.a), self.visit(expr.b)

    def visit_BinaryOp(self, expr: BinaryOp) -> PrimExpr:
        a, b = self.operands(expr)
        if a is expr.a and b is expr.b:
            return expr
        if expr.a.dtype.lanes > 1:
            raise NeedsLanes(_VECTORS)
        if a.dtype.lanes == 1 and b.dtype.lanes == 1:
            return type(expr)(a, b)
        if isinstance(expr, (Div, Mod, FloorDiv, FloorMod)):
            return self.division(type(expr), a, b)
        if expr.a.dtype.is_integer and isinstance(expr, (Add, Sub, Mul)):
            found = self.linear_operation(type(expr), a, b)
            if found is not None:
                return found
        return type(expr)(self.wide(a), self.wide(b))

    visit_CompareOp = visit_BinaryOp

    def linear_operation(self, kind: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """Return a sum, difference or product as a Ramp where it is one."""
        left, right = self.linear(a), self.linear(b)
        if left is None or right is None:
            return None
        zero = const(0, left[0].dtype)
        if kind is Mul:
            if left[1] is None:
                left, right = right, left
            if right[1] is not None:
                return None
            if left[1] is not None and not self.freely:
                if not self.analyzer.can_prove(right[0] > 0):
                    return None
            stride = None if left[1] is None else left[1] * right[0]
            return self.ramp(left[0] * right[0], stride)
        if not self.freely and left[1] is not None and right[1] is not None:
            return None
        combine = ops.add if kind is Add else ops.subtract
        strides = combine(
            zero if left[1] is None else left[1], zero if right[1] is None else right[1]
        )
        return self.ramp(combine(left[0], right[0]), strides)

    def division(self, kind: type, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Simplify a division whose lanes agree, or whose remainders are evenly spaced."""
        rounding = kind in _ROUNDING and self.freely
        if rounding and isinstance(a, Ramp) and isinstance(b, IntImm) and b.value > 0:
            stride = a.stride
            if isinstance(stride, IntImm) and stride.value % b.value == 0:
                quotient = self.ramp(a.base // b, const(stride.value // b.value, stride.dtype))
                return quotient if kind is FloorDiv else a.base % b
            if isinstance(stride, IntImm) and stride.value > 0 and not self.is_scalable:
                last = a.base % b + stride.value * (self.lanes - 1)
                if self.analyzer.can_prove(last < b):
                    return a.base // b if kind is FloorDiv else self.ramp(a.base % b, stride)
        if (
            self.mask is not None
            and not a.dtype.is_float
            and not (ops.is_const(b) and not ops.is_const(b, 0))
        ):
            # Masked lanes must not divide by undefined values.
            b = Select(self.mask, self.wide(b), const(1, a.dtype.with_lanes(self.lanes)))
        return kind(self.wide(a), self.wide(b))

    def visit_Not(self, expr: Not) -> PrimExpr:
        a = self.visit(expr.a)
        return expr if a is expr.a else Not(a)

    def visit_Cast(self, expr: Cast) -> PrimExpr:
        value = self.visit(expr.value)
        if value is expr.value:
            return expr
        if expr.dtype.lanes > 1:
            raise NeedsLanes(_VECTORS)
        if isinstance(value, Ramp) and expr.dtype.is_integer:
            # Dropping upper bits keeps the lanes evenly spaced; so does widening what does not
            # overflow, as indices do not.
            bits = value.dtype.bits
            if expr.dtype.bits <= bits or (value.dtype.is_int and bits >= 32):
                base, stride = ops.cast(expr.dtype, value.base), ops.cast(expr.dtype, value.stride)
                return Ramp(base, stride, self.lanes)
        return Cast(expr.dtype.with_lanes(value.dtype.lanes), value)

    def visit_Select(self, expr: Select) -> PrimExpr:
        condition = self.visit(expr.condition)
        true, false = self.visit(expr.true_value), self.visit(expr.false_value)
        return self.choice(expr, condition, true, false)

    def choice(
        self, expr: PrimExpr, condition: PrimExpr, true: PrimExpr, false: PrimExpr
    ) -> PrimExpr:
        if expr.dtype.lanes > 1:
            raise NeedsLanes(_VECTORS)
        if condition.dtype.lanes > 1 or true.dtype.lanes > 1 or false.dtype.lanes > 1:
            true, false = self.wide(true), self.wide(false)
        return Select(condition, true, false)

    def visit_Let(self, let: Let) -> PrimExpr:
        value = self.visit(let.value)
        var = let.var
        if value.dtype is not var.dtype:
            if var.dtype.lanes > 1:
                raise NeedsLanes(_VECTORS)
            var = self.values[let.var] = Var(var.name, value.dtype)
        body = self.visit(let.body)
        if value is let.value and body is let.body:
            return let
        return Let(var, value, body)

    def visit_Ramp(self, expr: Ramp) -> PrimExpr:
        return expr.map_children(self.visit_same)

    visit_Broadcast = visit_Ramp
    visit_Shuffle = visit_Ramp

    def visit_Call(self, call: Call) -> PrimExpr:
        name = called_name(call)
        if name == "tir.if_then_else":
            return self.if_then_else(call)
        if name == "tir.likely":
            value = self.visit(call.args[0])
            if value is call.args[0]:
                return call
            return value if self.freely else Call(value.dtype, call.op, (value,))
        if effect_of(call) not in (CallEffectKind.Pure, CallEffectKind.ExprAnnotation):
            raise NeedsLanes(f"the call of '{name}' has effects")
        if name == "" or not call.op.get_attr("TVectorizable", False):
            return call.map_children(self.visit_same)
        args = [self.visit(arg) for arg in call.args]
        if all(new is old for new, old in zip(args, call.args)):
            return call
        if call.dtype.lanes > 1:
            raise NeedsLanes(_VECTORS)
        if all(arg.dtype.lanes == 1 for arg in args):
            return Call(call.dtype, call.op, tuple(args))
        wide = [arg if isinstance(arg, StringImm) else self.wide(arg) for arg in args]
        return Call(call.dtype.with_lanes(self.lanes), call.op, tuple(wide))

    def if_then_else(self, call: Call) -> PrimExpr:
        condition = self.visit(call.args[0])
        if condition.dtype.lanes == 1:
            true, false = self.visit(call.args[1]), self.visit(call.args[2])
            if condition is call.args[0] and true is call.args[1] and false is call.args[2]:
                return call
            if true.dtype.lanes > 1 or false.dtype.lanes > 1:
                true, false = self.wide(true), self.wide(false)
            return Call(true.dtype, call.op, (condition, true, false))
        if not self.freely:
            raise NeedsLanes("an operand may be read only where a condition holds")
        with self.masked(condition):
            true = self.visit(call.args[1])
        with self.masked(Not(condition)):
            false = self.visit(call.args[2])
        return self.choice(call, condition, true, false)

    # -- memory

    def index(self, buffer: Buffer, old: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Return the indices of an access; in private memory, for the copies of all lanes."""
        new = [self.visit(index) for index in old]
        for index in new[:-1]:
            if index.dtype.lanes > 1:
                raise NeedsLanes("an index other than the last one differs between lanes")
        if buffer.data in self.private:
            number = const(self.lanes, new[-1].dtype.element)
            own = Ramp(const(0, number.dtype), const(1, number.dtype), self.lanes)
            scaled = self.linear_operation(Mul, new[-1], number)
            if scaled is None:
                scaled = Mul(new[-1], self.wide(number))
            place = self.linear_operation(Add, scaled, own)
            new[-1] = Add(self.wide(scaled), own) if place is None else place
        if new[-1:] and new[-1].dtype.lanes > 1 and buffer.dtype.lanes > 1:
            raise NeedsLanes(_VECTORS)
        return tuple(new)

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer with a copy for each lane, where it needs one."""
        if buffer.data not in self.private:
            return buffer
        found = self.private_buffers.get(buffer)
        if found is None:
            shape = (*buffer.shape[:-1], buffer.shape[-1] * self.lanes)
            found = self.private_buffers[buffer] = buffer.with_fields(shape=shape)
        return found

    def predicate(self, old: PrimExpr | None, buffer: Buffer, index: PrimExpr) -> PrimExpr | None:
        """Return the mask of lanes that an access is for."""
        own = None if old is None else self.visit(old)
        mask = self.mask
        if self.guarded is not None:
            self.require_guarded(index)
        elif mask is not None and self.is_inside(buffer, index):
            mask = None
        if mask is not None and not self.predicates:
            raise NeedsLanes("only some lanes take part, and the code may have no masks")
        if mask is None:
            return own if own is None or own is old and index.dtype.lanes == 1 else self.wide(own)
        return mask if own is None else And(self.wide(own), mask)

    def require_guarded(self, index: PrimExpr) -> None:
        """Refuse an access at other indices than the condition's: its lanes may be on."""
        if self.guarded is not None and not structural_equal(index, self.guarded):
            raise NeedsLanes("an access is elsewhere than where the condition looks")

    def is_inside(self, buffer: Buffer, index: PrimExpr) -> bool:
        """Return whether a load stays inside of the buffer whatever the mask is."""
        if len(buffer.shape) != 1 or self.is_scalable:
            return False
        parts = self.linear(index)
        if parts is None:
            return False
        first, last = parts[0], parts[0]
        if parts[1] is not None:
            if not isinstance(parts[1], IntImm):
                return False
            reach = parts[1].value * (self.lanes - 1)
            first, last = (first, last + reach) if reach > 0 else (first + reach, last)
        return self.analyzer.can_prove(first >= 0) and self.analyzer.can_prove(
            last < ops.cast(last.dtype, buffer.shape[0])
        )

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        if load.dtype.lanes > 1:
            if self.mask is not None or load.buffer.data in self.private:
                raise NeedsLanes(_VECTORS)
            return load.map_children(self.visit_same)
        indices = self.index(load.buffer, load.indices)
        if not indices:
            return load
        predicate = self.predicate(load.predicate, load.buffer, indices[-1])
        if indices[-1].dtype.lanes == 1:
            if predicate is None or predicate is load.predicate:
                if all(new is old for new, old in zip(indices, load.indices)):
                    return load
                return BufferLoad(load.buffer, indices, predicate, load.span)
            indices = (*indices[:-1], self.wide(indices[-1]))
        return BufferLoad(self.buffer(load.buffer), indices, predicate, load.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if store.value.dtype.lanes > 1:
            raise NeedsLanes(_VECTORS)
        indices, value = self.index(store.buffer, store.indices), self.visit(store.value)
        place = indices[-1] if indices else None
        if place is None or place.dtype.lanes == 1:
            # All lanes write one element. Once is enough if all write the same, whatever it was.
            if value.dtype.lanes > 1 or self.mask is not None or store.predicate is not None:
                raise NeedsLanes("lanes write different values to one element")
            if uses_variable(store.value, {store.buffer.data}):
                raise NeedsLanes("all lanes read and write one element")
            if value is store.value and all(a is b for a, b in zip(indices, store.indices)):
                return store
            return BufferStore(store.buffer, value, indices, None, store.span)
        distinct = isinstance(place, Ramp) and ops.is_const(place.stride)
        if not distinct and uses_variable(store.value, {store.buffer.data}):
            raise NeedsLanes("lanes may write what other lanes read")
        predicate = None if store.predicate is None else self.wide(self.visit(store.predicate))
        if self.mask is not None and not self.predicates:
            raise NeedsLanes("only some lanes take part, and the code may have no masks")
        self.require_guarded(place)
        if self.mask is not None:
            predicate = self.mask if predicate is None else And(predicate, self.mask)
        return BufferStore(
            self.buffer(store.buffer), self.wide(value), indices, predicate, store.span
        )

    # -- statements

    def statement(self, stmt: Stmt) -> Stmt:
        """Return a statement as vector code, or else lane by lane."""
        if self.bound:
            return self.visit(stmt)
        try:
            return self.visit(stmt)
        except NeedsLanes as refusal:
            record_fallback("vectorization", f"loop '{self.var.name}'", refusal.reason)
            return self.lane_by_lane(stmt)

    def lane_by_lane(self, stmt: Stmt) -> Stmt:
        """Return a serial loop over the lanes."""
        for condition in reversed(self.conditions):
            stmt = IfThenElse(condition, stmt)
        lane = Var(self.var.name, self.var.dtype)
        body = substitute(stmt, {self.var: self.low + lane})
        count: Any = self.lanes
        if self.is_scalable:
            count = Call(lane.dtype, "tir.vscale", ()) * int(self.lanes)
        return For(lane, 0, count, ForKind.SERIAL, body)

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        return sequence.map_children(self.statement)

    def visit_For(self, loop: For) -> Stmt:
        low, extent = self.visit_same(loop.min), self.visit_same(loop.extent)
        body = self.statement(loop.body)
        return loop.with_fields(min=low, extent=extent, body=body)

    def visit_While(self, loop: While) -> Stmt:
        if not self.freely:
            raise UnsupportedError(
                "A while loop inside a vectorized loop not supported.", span=loop.span
            )
        condition = self.visit(loop.condition)
        if condition is not loop.condition or self.mask is not None:
            raise NeedsLanes("the condition of a while loop differs between lanes")
        with self.scope():
            return While(condition, self.visit(loop.body), loop.span)

    def guarded_branch(self, branch: IfThenElse) -> Stmt:
        """Rewrite a branch on ``index < limit`` whose accesses all have that index."""
        condition = self.visit(branch.condition)
        if condition.dtype.lanes == 1:
            then_case = self.statement_under(condition, branch.then_case)
            else_case = branch.else_case and self.statement(branch.else_case)
            return IfThenElse(condition, then_case, else_case, branch.span)
        if not (self.predicates and isinstance(condition, LT) and self.mask is None):
            raise NeedsLanes("only some lanes take part, and the code may have no masks")
        index, limit = condition.a, condition.b
        if branch.else_case is not None or not isinstance(index, Ramp):
            raise NeedsLanes("its condition is not of the form index < limit")
        if not (ops.is_const(index.stride, 1) and isinstance(limit, Broadcast)):
            raise NeedsLanes("its condition is not of the form index < limit")
        mask_dtype = DataType("uint1").with_lanes(self.lanes)
        mask = get_active_lane_mask(mask_dtype, index.base, limit.value)
        self.guarded = index
        try:
            with self.scope(), self.masked(mask):
                return self.visit(branch.then_case)
        finally:
            self.guarded = None

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        if not self.freely:
            return self.guarded_branch(branch)
        uniform: list[PrimExpr] = []  # a condition that is equal in all lanes stays a branch
        varying: list[PrimExpr] = []
        own: list[PrimExpr] = []
        for part in conjuncts(branch.condition):
            condition = self.visit(part)
            if condition.dtype.lanes == 1:
                uniform.append(condition)
            else:
                varying.append(condition)
                own.append(part)
        if not varying:
            condition = self.visit(branch.condition)
            then_case = self.statement_under(condition, branch.then_case)
            else_case = branch.else_case and self.statement(branch.else_case)
            return IfThenElse(condition, then_case, else_case, branch.span)
        if branch.else_case is not None or not uniform:
            return self.masked_branch(branch, self.visit(branch.condition))
        inner = IfThenElse(ops.all_of(*own), branch.then_case, None, branch.span)
        mask = varying[0]
        for condition in varying[1:]:
            mask = And(mask, condition)
        outer = ops.all_of(*uniform)
        with self.analyzer.constraint_scope(outer):
            return IfThenElse(outer, self.masked_branch(inner, mask), None, branch.span)

    def statement_under(self, condition: PrimExpr, stmt: Stmt) -> Stmt:
        """Return a statement under a condition that holds for all lanes."""
        with self.analyzer.constraint_scope(condition):
            return self.statement(stmt)

    def masked_branch(self, branch: IfThenElse, condition: PrimExpr) -> Stmt:
        if reads_memory(condition):
            # Writes of the branch must not change its own mask.
            mask = Var("mask", condition.dtype)
            with self.scope():
                return LetStmt(mask, condition, self.branches(branch, mask))
        return self.branches(branch, condition)

    def branches(self, branch: IfThenElse, mask: PrimExpr) -> Stmt:
        with self.masked(mask, branch.condition):
            then_case = self.statement(branch.then_case)
        if branch.else_case is None:
            return then_case
        with self.masked(Not(mask), Not(branch.condition)):
            return stmt_seq(then_case, self.statement(branch.else_case))

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        value = self.visit(let.value)
        if value.dtype is let.var.dtype:
            return LetStmt(let.var, value, self.statement(let.body), let.span)
        if let.var.dtype.lanes > 1:
            raise NeedsLanes(_VECTORS)
        var = self.values[let.var] = Var(let.var.name, value.dtype)
        with self.scope():
            return LetStmt(var, value, self.visit(let.body), let.span)

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        if self.is_scalable:
            raise NeedsLanes(
                "memory for lanes of unknown number"
            )  # a copy for each lane would need memory of unknown size
        extents = tuple([self.visit_same(extent) for extent in allocation.extents])
        self.visit_same(allocation.condition)
        self.private.add(allocation.buffer_var)
        with self.scope():
            body = self.visit(allocation.body)
        extents = (*extents[:-1], extents[-1] * self.lanes)
        return allocation.with_fields(extents=extents, body=body)

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> Stmt:
        body = self.statement(declaration.body)
        return DeclBuffer(self.buffer(declaration.buffer), body, declaration.span)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        value = self.visit_same(attribute.value)
        return attribute.with_fields(value=value, body=self.statement(attribute.body))

    def visit_AssertStmt(self, check: AssertStmt) -> Stmt:
        condition = self.visit_same(check.condition)
        if self.mask is not None:
            raise NeedsLanes("an assertion stands under a condition")
        return check.with_fields(condition=condition, body=self.statement(check.body))

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        value = evaluation.value
        if is_call(value, "tir.prefetch"):
            # One cache line holds all lanes: prefetch the first one.
            return substitute(evaluation, {self.var: self.low})
        if ops.is_const(value):
            return evaluation
        raise NeedsLanes("a call has effects")

    def visit_Stmt(self, stmt: Stmt) -> Stmt:
        raise NeedsLanes(f"{type(stmt).__name__} has no vector form")
