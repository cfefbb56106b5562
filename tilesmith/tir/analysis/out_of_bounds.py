"""OOBChecker: finds accesses that are provably outside of their buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilesmith.arith import Analyzer, detect_linear_equation
from tilesmith.ir import (
    And,
    Call,
    IntImm,
    IRModule,
    Let,
    Node,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Var,
    Visitor,
    const,
)
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import any_node, is_call
from tilesmith.ir.transform import ModulePass, Pass, PassInfo
from tilesmith.support.errors import VerifyError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.analysis.variables import undefined_vars
from tilesmith.tir.expr import BufferLoad, IterVar, ProducerLoad, Reduce
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import (
    AssertStmt,
    AttrStmt,
    BlockRealize,
    BufferRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

__all__ = ["OOBChecker", "Outside", "find_out_of_bounds", "find_reads_outside"]


class Outside(NamedTuple):
    """An access outside of its buffer. ``is_reached``: it is known that some iteration makes it;
    loops around it may else be empty, or conditions never hold.
    """

    text: str
    span: Any
    is_reached: bool


class _BoundsFinder(Visitor):
    """Tracks the ranges of the loops and the conditions around an access."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.found: list[Outside] = []
        self.is_reached = True  # the loops around have iterations
        self.span: Any = None  # of the present statement
        # variables that take all values of a constant range, whatever values the others take
        self.ranged: dict[Var, tuple[int, int]] = {}
        self.values: dict[Var, PrimExpr] = {}  # of lets and of iterators of blocks
        self.narrowed: list[set[Any]] = []  # variables of the conditions around
        self.pointers: set[Var] = set()  # parameters that say nothing of what they point to
        self.realized: dict[Any, tuple[Any, ...]] = {}  # the parts of buffers that are there

    def visit(self, node: Any) -> None:
        span = getattr(node, "span", None) if isinstance(node, Stmt) else None
        if span is not None:
            outer, self.span = self.span, span
            super().visit(node)
            self.span = outer
        else:
            super().visit(node)

    def note_range(self, var: Var, low: PrimExpr, extent: PrimExpr) -> None:
        """Record that a variable takes all values of a range, if the range is constant."""
        if isinstance(low, IntImm) and isinstance(extent, IntImm):
            self.ranged[var] = (low.value, low.value + extent.value - 1)

    def visit_For(self, loop: For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        self.note_range(loop.loop_var, loop.min, loop.extent)
        if self.analyzer.can_prove(loop.extent <= 0):
            return
        outer = self.is_reached
        self.is_reached = (
            outer
            and self.analyzer.can_prove(loop.extent >= 1)
            and not any_node(loop.body, _leaves)  # an earlier iteration may be the last one
        )
        self.visit(loop.body)
        self.is_reached = outer

    def visit_While(self, loop: While) -> None:
        self.visit(loop.condition)
        outer, self.is_reached = self.is_reached, False
        self.visit(loop.body)
        self.is_reached = outer

    def visit_AttrStmt(self, attribute: AttrStmt) -> None:
        if attribute.attr_key in ("thread_extent", "virtual_thread"):
            var = attribute.node.var
            self.analyzer.bind(var, Range(attribute.value.astype(var.dtype)))
            self.note_range(var, const(0, var.dtype), attribute.value)
            if self.analyzer.can_prove(attribute.value <= 0):
                return
        self.visit(attribute.body)

    def visit_AssertStmt(self, check: AssertStmt) -> None:
        self.visit(check.condition)
        self.under(check.condition, check.body)

    def visit_SeqStmt(self, sequence: SeqStmt) -> None:
        """Visit the parts; what follows one that may leave the function need not be reached."""
        outer = self.is_reached
        for part in sequence.seq:
            self.visit(part)
            if any_node(part, _leaves):
                self.is_reached = False
        self.is_reached = outer

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        for value in realize.iter_values:
            self.visit(value)
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
            self.analyzer.bind(iterator.var, iterator.dom)
            self.values[iterator.var] = substitute(value, self.values)
        self.under(realize.predicate, realize.block)

    def visit_Block(self, block: Any) -> None:
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def under(self, condition: PrimExpr, node: Any) -> None:
        if self.analyzer.can_prove(condition):
            self.visit(node)
            return
        self.narrowed.append(set(undefined_vars(substitute(condition, self.values))))
        with self.analyzer.constraint_scope(condition):
            self.visit(node)
        self.narrowed.pop()

    def visit_BufferRealize(self, realize: BufferRealize) -> None:
        """Visit the body, in which the buffer has the elements of a region: a tile may reach beyond
        the end of the whole tensor.
        """
        outer = self.realized.get(realize.buffer)
        self.realized[realize.buffer] = realize.bounds
        self.visit_children(realize)
        if outer is None:
            del self.realized[realize.buffer]
        else:
            self.realized[realize.buffer] = outer

    def visit_IfThenElse(self, branch: IfThenElse) -> None:
        self.visit(branch.condition)
        self.under(branch.condition, branch.then_case)
        if branch.else_case is not None:
            self.under(Not(branch.condition), branch.else_case)

    def visit_Call(self, call: Call) -> None:
        if is_call(call, "tir.if_then_else"):
            self.visit(call.args[0])
            self.under(call.args[0], call.args[1])
            self.under(Not(call.args[0]), call.args[2])
        elif is_call(call, "tir.address_of") and isinstance(call.args[0], BufferLoad):
            self.visit_children(call.args[0])  # nothing is read
        elif not is_call(call, "tir.prefetch"):  # it may read beyond the end
            self.visit_children(call)

    def visit_And(self, expr: And) -> None:
        """Visit both conditions: the second one counts where the first one holds."""
        self.visit(expr.a)
        self.under(expr.a, expr.b)

    def visit_Or(self, expr: Or) -> None:
        self.visit(expr.a)
        self.under(Not(expr.a), expr.b)

    def visit_Select(self, expr: Select) -> None:
        """Visit a Select like a branch: RewriteUnsafeSelect makes its loads safe."""
        self.visit(expr.condition)
        self.under(expr.condition, expr.true_value)
        self.under(Not(expr.condition), expr.false_value)

    def visit_LetStmt(self, let: LetStmt | Let) -> None:
        self.visit(let.value)
        if let.var.dtype.is_integer and let.var.dtype.lanes == 1:
            self.analyzer.update(let.var, self.analyzer.const_int_bound(let.value))
            self.values[let.var] = substitute(let.value, self.values)
        self.visit(let.body)

    visit_Let = visit_LetStmt

    def visit_ProducerLoad(self, load: ProducerLoad) -> None:
        tensor: Any = load.producer  # its class stands on a floor above
        for axis, (index, size) in enumerate(zip(load.indices, tensor.shape)):
            self.check(f"tensor '{tensor.name}' is read", f"of its axis {axis}", index, size)
        self.visit_children(load)

    def visit_Reduce(self, reduce: Reduce) -> None:
        outer = self.is_reached
        for iterator in reduce.axis:
            self.iterate(iterator)
        for value in reduce.init:
            self.visit(value)
        self.visit(reduce.condition)
        for value in reduce.source:
            self.under(reduce.condition, value)
        self.is_reached = outer

    def iterate(self, iterator: IterVar) -> None:
        """Let an iterator of a tensor expression take the values of its domain."""
        self.analyzer.bind(iterator.var, iterator.domain)
        self.note_range(iterator.var, iterator.domain.min, iterator.domain.extent)
        is_filled = self.analyzer.can_prove(iterator.domain.extent >= 1)
        self.is_reached = self.is_reached and is_filled

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.access(load, "read")
        self.visit_children(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.access(store, "written")
        self.visit_children(store)

    def access(self, node: Any, what: str) -> None:
        if node.predicate is not None:
            return  # its lanes may be switched off
        shape = node.buffer.shape
        if node.buffer.data in self.pointers and len(shape) == 1 and is_const(shape[0], 1):
            return  # `ir_builder.pointer`: memory of unknown size
        access = f"buffer '{node.buffer.name}' is {what}"
        region = self.realized.get(node.buffer)
        if region is not None:
            for axis, (index, part) in enumerate(zip(node.indices, region)):
                if index.dtype.lanes == 1:
                    self.check(access, f"of its axis {axis}", index - part.min, part.extent)
            return
        for axis, (index, size) in enumerate(zip(node.indices, shape)):
            where = f"of its axis {axis}"
            if index.dtype.lanes == 1:
                self.check(access, where, index, size)
            elif isinstance(index, Ramp):
                last = index.base + index.stride * const(index.lanes - 1, index.stride.dtype)
                self.check(access, where, index.base, size)
                if axis > 0 and axis == len(shape) - 1 and not node.buffer.strides:
                    # a vector may run on into the next rows
                    self.check(access, "of its memory", *_in_memory(node, shape, last))
                else:
                    self.check(access, where, last, size)

    def check(self, access: str, where: str, index: PrimExpr, size: PrimExpr) -> None:
        """Record an index that is out of bounds in all iterations, or in some of those of loops
        with constant bounds.
        """
        bound = self.analyzer.const_int_bound(index)
        low, high = bound.min_value, bound.max_value
        limit = self.analyzer.const_int_bound(size)
        below = index < const(0, index.dtype)
        outside = self.analyzer.can_prove(below) or self.analyzer.can_prove(index >= size)
        ends = None if outside else self.reached(substitute(index, self.values))
        if ends is not None:
            low, high = ends
            outside = low < 0 or (limit.min_value == limit.max_value and high >= limit.max_value)
        if outside:
            text = (
                f"the {access} outside {where}: the index "
                f"{index} lies in [{low}, {high}], the size is {size}"
            )
            self.found.append(Outside(text, self.span, self.is_reached and not self.narrowed))

    def reached(self, index: PrimExpr) -> tuple[int, int] | None:
        """Return the least and the greatest value of an index that is linear in variables of loops
        with constant bounds, which no condition restricts; None for others.
        """
        variables = undefined_vars(index)
        if not self.ranged.keys() >= set(variables):
            return None
        if any(not known.isdisjoint(variables) for known in self.narrowed):
            return None
        parts = [self.analyzer.simplify(one) for one in detect_linear_equation(index, variables)]
        factors = [part.value for part in parts if isinstance(part, IntImm)]
        if not parts or len(factors) < len(parts):
            return None
        *steps, low = factors
        high = low
        for variable, step in zip(variables, steps):
            ends = [step * end for end in self.ranged[variable]]
            low, high = low + min(ends), high + max(ends)
        return low, high


def _leaves(node: Node) -> bool:
    """Return whether a node may end the function."""
    return isinstance(node, (AssertStmt, While)) or is_call(node, "tir.ret", "tir.checked")


def _in_memory(
    node: BufferLoad | BufferStore, shape: Sequence[PrimExpr], last: PrimExpr
) -> tuple[PrimExpr, PrimExpr]:
    """Return the place of an element in the memory of a compact buffer, given its last index, and
    the number of elements there.
    """
    place: PrimExpr = const(0, last.dtype)
    size: PrimExpr = const(1, last.dtype)
    for index, extent in zip((*node.indices[:-1], last), shape):
        place = place * extent + index
        size = size * extent
    return place, size


def find_out_of_bounds(func: PrimFunc) -> list[Outside]:
    """Return the accesses of a function that are outside of their buffers."""
    finder = _BoundsFinder()
    finder.pointers = {var for var in func.params if var not in func.buffer_map}
    with deep_recursion():
        finder.visit(func.body)
    return finder.found


def find_reads_outside(values: Sequence[PrimExpr], axes: Sequence[IterVar]) -> list[Outside]:
    """Return the reads of tensors that are outside of their shapes, of the values of a tensor
    expression over some iterators.
    """
    finder = _BoundsFinder()
    for iterator in axes:
        finder.iterate(iterator)
    with deep_recursion():
        for value in values:
            finder.visit(value)
    return finder.found


def OOBChecker() -> Pass:
    """Return the pass that raises VerifyError where an access is known to be outside of its
    buffer."""

    def check(mod: IRModule, ctx: Any) -> IRModule:
        for variable, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                found = find_out_of_bounds(func)
                if found:
                    raise VerifyError(
                        f"in the function '{variable.name_hint}' {found[0].text}",
                        notes=tuple([access.text for access in found[1:5]]),
                        span=found[0].span or func.span,
                    )
        return mod

    return ModulePass(check, PassInfo(0, "tir.analysis.OOBChecker"))
