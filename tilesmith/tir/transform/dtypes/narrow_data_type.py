"""NarrowDataType: narrows 64-bit index arithmetic to 32 bits where bounds allow it.

    for i in range(T.int64(16)):                for i in range(16):
        B[i * T.int64(4)] = A[i]                    B[i * 4] = A[i]

Bounds come from constants and from the extents of loops; what depends on loaded values or on sizes
that are known at run time only keeps its type. So do the loop variables in an index that does not
fit, and in one that divides the variable of a parallel loop inside of an unrolled loop.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    GE,
    LT,
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
    Visitor,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call, mentions, nodes, variables
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper, substitute
from tilesmith.tir.stmt import AttrStmt, BlockRealize, BufferStore, For, ForKind, LetStmt, Stmt
from tilesmith.tir.transform.dtypes.intervals import Interval, Intervals, of_loop, of_operation

__all__ = ["WIDE_INDICES", "narrow_data_type"]

WIDE_INDICES = "tir.wide_indices"
"""The attribute of functions whose scalar indices stay wide, for CPUs that address memory by them:
LLVM optimises these in two thirds of the time. Vectors of indices are narrowed all the same."""

_OPERATORS = {Add: ops.add, Sub: ops.subtract, Mul: ops.multiply, Min: ops.minimum,
              Max: ops.maximum, FloorDiv: ops.floordiv, FloorMod: ops.floormod,
              Div: ops.truncdiv, Mod: ops.truncmod}  # fmt: skip


class _Narrower(BufferRemapper):
    """Narrows bottom-up: a wide value that fits becomes ``Cast(wide, narrow)``, and an operation on
    such values whose result fits is computed on the narrow ones.
    """

    def __init__(self, bits: int, kept: set[Var]) -> None:
        super().__init__()
        self.bits = bits
        self.intervals = Intervals(bits)
        self.kept = kept  # loop variables that keep their type
        self.values: dict[Var, PrimExpr] = {}
        self.threads: dict[IterVar, IterVar] = {}

    def is_wide(self, dtype: DataType) -> bool:
        return dtype.is_int and dtype.bits > self.bits

    def narrow(self, expr: PrimExpr) -> PrimExpr | None:
        """Return a wide value in the narrow type; None where it is not known to fit."""
        dtype = expr.dtype.with_bits(self.bits)
        if isinstance(expr, IntImm):
            return const(expr.value, dtype) if self.intervals.fits((expr.value,) * 2) else None
        if isinstance(expr, Cast):
            return expr.value if expr.value.dtype is dtype else None
        if isinstance(expr, Broadcast):
            value = self.narrow(expr.value)
            return None if value is None else Broadcast(value, expr.lanes)
        if isinstance(expr, Ramp) and self.intervals.fits(self.intervals.of(expr)):
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
                if self.intervals.fits(self.result_interval(kind, small_a, small_b)):
                    return ops.cast(expr.dtype, result)
        return expr if a is expr.a and b is expr.b else kind(a, b)

    def result_interval(self, kind: type, a: PrimExpr, b: PrimExpr) -> Interval | None:
        return of_operation(kind, self.intervals.of(a), self.intervals.of(b))

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
                self.intervals.learn(var, self.intervals.of(value))
            return var, value
        small = self.narrow(value)
        if small is None:
            return var, value
        new = Var(var.name, small.dtype, var.span)
        self.intervals.learn(new, self.intervals.of(small))
        self.values[var] = Cast(var.dtype, new)
        return new, small

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
        count = self.intervals.of(extent)
        if count is not None and self.intervals.fits((0, count[1])):
            small = self.narrow(extent) if self.is_wide(extent.dtype) else None
            if small is not None and thread.var.dtype is extent.dtype:
                extent, thread = small, self.narrow_thread(thread, small)
            self.intervals.learn(thread.var, (0, max(count[1] - 1, 0)))
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
        inside = of_loop(self.intervals.of(low), self.intervals.of(extent))
        var = loop.loop_var
        self.values.pop(var, None)  # another loop may have had it before
        if self.is_wide(var.dtype) and var not in self.kept and self.fits_with_end(inside):
            small_low, small_extent = self.narrow(low), self.narrow(extent)
            if small_low is not None and small_extent is not None:
                var = Var(var.name, var.dtype.with_bits(self.bits), var.span)
                self.values[loop.loop_var] = Cast(loop.loop_var.dtype, var)
                low, extent = small_low, small_extent
        self.intervals.learn(var, inside)
        body = self.visit(loop.body)
        if var is loop.loop_var and body is loop.body and low is loop.min and extent is loop.extent:
            return loop
        return loop.with_fields(loop_var=var, min=low, extent=extent, body=body)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        """Narrow iterators whose domain and value both fit."""
        values, iterators = [], []
        for given, value in zip(realize.block.iter_vars, realize.iter_values):
            new, bound = self.iterator(given, self.visit(value))
            iterators.append(new)
            values.append(bound)
        predicate = self.visit(realize.predicate)
        block = realize.block
        if any(new is not old for new, old in zip(iterators, block.iter_vars)):
            block = block.with_fields(iter_vars=tuple(iterators))
        block = self.visit(block)
        if block is realize.block and predicate is realize.predicate:
            if all(new is old for new, old in zip(values, realize.iter_values)):
                return realize
        return realize.with_fields(iter_values=tuple(values), predicate=predicate, block=block)

    def iterator(self, given: IterVar, value: PrimExpr) -> tuple[IterVar, PrimExpr]:
        """Return an iterator of a block and its value, narrow ones if they fit."""
        var, domain = given.var, given.dom
        assert domain is not None  # of an iterator of a block
        inside = of_loop(self.intervals.of(domain.min), self.intervals.of(domain.extent))
        small = self.narrow(value) if self.is_wide(var.dtype) and var not in self.kept else None
        low, extent = self.narrow(domain.min), self.narrow(domain.extent)
        if small is None or low is None or extent is None or not self.fits_with_end(inside):
            self.intervals.learn(var, inside)
            return given, value
        new = Var(var.name, small.dtype, var.span)
        self.intervals.learn(new, inside)
        self.values[var] = Cast(var.dtype, new)
        domain = Range.from_min_extent(low, extent)
        return IterVar(domain, new, given.iter_type, given.thread_tag, given.span), small

    def fits_with_end(self, inside: Interval | None) -> bool:
        """Return whether the values of a loop variable and the one after the last fit."""
        return inside is not None and self.intervals.fits((inside[0], inside[1] + 1))

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        """Narrow what a block declares like its accesses."""
        ranges = [self.range(dim) for dim in region.region]
        buffer = self.visit(region.buffer)
        if buffer is region.buffer and all(a is b for a, b in zip(ranges, region.region)):
            return region
        return BufferRegion(buffer, ranges)

    def range(self, dim: Range) -> Range:
        low, extent = self.index(dim.min), self.index(dim.extent)
        if low is dim.min and extent is dim.extent:
            return dim
        if low.dtype is not extent.dtype:
            low, extent = self.visit(dim.min), self.visit(dim.extent)
        return Range.from_min_extent(low, extent)


class _LargeIndices(Visitor):
    """Collects the variables in indices that do not fit into some bits: they keep their type, so
    that nothing is cast inside of such an index."""

    def __init__(self, bits: int) -> None:
        self.intervals = Intervals(bits)
        self.variables: set[Var] = set()
        self.parallel: set[Var] = set()
        self.unrolled: set[Var] = set()

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.look(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.look(store)

    def look(self, access: BufferLoad | BufferStore) -> None:
        for index in access.indices:
            inside = self.intervals.of(index)
            is_large = inside is not None and not self.intervals.fits(inside)
            if is_large or self.is_divided(index):
                self.variables.update(variables(index))
        self.visit_children(access)

    def is_divided(self, index: PrimExpr) -> bool:
        """Return whether an index in an unrolled loop divides the variable of a parallel one.

        LLVM cannot move the constants of the unrolled loop out of a widened 32-bit quotient: each
        step would compute its address anew.
        """
        if not self.parallel or not mentions(index, self.unrolled):
            return False
        divisions = [*nodes(index, FloorDiv), *nodes(index, FloorMod)]
        return any(mentions(one.a, self.parallel) for one in divisions)

    def visit_For(self, loop: For) -> None:
        if loop.kind is ForKind.PARALLEL:
            self.parallel.add(loop.loop_var)
        elif loop.kind is ForKind.UNROLLED:
            self.unrolled.add(loop.loop_var)
        first, count = self.intervals.of(loop.min), self.intervals.of(loop.extent)
        self.intervals.learn(loop.loop_var, of_loop(first, count))
        self.visit_children(loop)

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        for iterator in realize.block.iter_vars:
            domain = iterator.dom
            assert domain is not None  # of an iterator of a block
            first, count = self.intervals.of(domain.min), self.intervals.of(domain.extent)
            self.intervals.learn(iterator.var, of_loop(first, count))
        self.visit_children(realize)
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
            if iterator.var in self.variables:
                self.variables.update(variables(value))

    def visit_LetStmt(self, let: LetStmt) -> None:
        self.intervals.learn(let.var, self.intervals.of(let.value))
        self.visit_children(let)


def _may_have_index_vectors(body: Stmt) -> bool:
    """Return whether index arithmetic may become vectors: without loops marked as vectors, or where
    their variables do more than select neighbouring elements.
    """
    vectors = [one for one in nodes(body, For) if one.kind is ForKind.VECTORIZED]
    lanes = {one.loop_var: one.extent for one in vectors}
    if not lanes:
        return True
    stack: list[Any] = [body]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (BufferLoad, BufferStore)):
            if not all(_selects_neighbours(index, lanes) for index in node.indices):
                return True
            stack.extend([node.value] if isinstance(node, BufferStore) else [])
            stack.extend([] if node.predicate is None else [node.predicate])
        elif isinstance(node, Var):
            if node in lanes:
                return True
        elif not isinstance(node, (LT, GE)) or not _is_uniform(node, lanes):
            node.push_children(stack)
    return False


def _is_uniform(condition: LT | GE, lanes: Mapping[Var, PrimExpr]) -> bool:
    """Return whether a condition is the same for all lanes of a vector: ``16 * i + lane < 48``."""
    used = {one for one in variables(condition) if one in lanes}
    lane = next(iter(used)) if len(used) == 1 else None
    size = None if lane is None else lanes[lane]
    if lane is None or not isinstance(size, IntImm) or mentions(condition.b, used):
        return False
    if not _selects_neighbours(condition.a, used):
        return False
    first = substitute(condition.a, {lane: const(0, lane.dtype)})
    found = [Analyzer().modular_set(one) for one in (first, condition.b)]
    return all(one.coeff % size.value == 0 and one.base % size.value == 0 for one in found)


def _variables_without_vectors(body: Stmt) -> set[Var]:
    """Return the variables of the outermost loops, and of those in them, that compute no vectors of
    indices.
    """
    found: set[Var] = set()
    stack: list[Any] = [body]
    while stack:
        node = stack.pop()
        if not isinstance(node, For):
            node.push_children(stack)
        elif not _may_have_index_vectors(node):
            found.update([one.loop_var for one in nodes(node, For)])
    return found


def _selects_neighbours(index: PrimExpr, lanes: Container[Var]) -> bool:
    """Return whether an index is ``base + lane``, or does not depend on lanes at all."""
    terms = [index]
    while terms:
        term = terms.pop()
        if isinstance(term, Add):
            terms += [term.a, term.b]
        elif isinstance(term, Sub) and not mentions(term.b, lanes):
            terms.append(term.a)
        elif isinstance(term, Ramp) and ops.is_const(term.stride, 1):
            terms.append(term.base)
        elif term.dtype.lanes > 1 or (term not in lanes and mentions(term, lanes)):
            return False
    return True


@compiler_pass("tir.NarrowDataType")
def narrow_data_type(func: PrimFunc, target_bits: int = 32) -> PrimFunc:
    """Narrows index arithmetic whose values fit into fewer bits.

    Returns ``func`` with index arithmetic in ``target_bits`` bits wherever its values fit; if it
    has the attribute ``tir.wide_indices``, only in nests of loops that compute vectors of indices.
    """
    kept: set[Var] = set()
    if func.attrs.get(WIDE_INDICES):
        if not _may_have_index_vectors(func.body):
            return func
        kept = _variables_without_vectors(func.body)
    too_large = _LargeIndices(target_bits)
    too_large.visit(func.body)
    return func.with_body(_Narrower(target_bits, too_large.variables | kept).visit(func.body))
