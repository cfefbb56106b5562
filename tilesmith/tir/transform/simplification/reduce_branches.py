"""UseAssumeToReduceBranches, ReduceBranchingThroughOvercompute: drop branches that guard padding.

    T.assume(i < 14 or A[i] == 0.0)             (A is 0 from 14 on)
    B[i] = T.if_then_else(i < 14,               B[i] = A[i] * 2.0
                          A[i] * 2.0, 0.0)

* ``UseAssumeToReduceBranches`` uses what ``T.assume`` says about the contents of buffers that the
  function does not write, and drops choices inside of values.
* ``ReduceBranchingThroughOvercompute`` drops if statements as well: where one case, done without
  the condition, stores what the other case stores, or the value that memory is known to hold.

Guarded code then always runs, so it must not read outside of its buffers. Blocks are
left alone: lower them first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import EQ, Call, Not, Or, PrimExpr, Rewriter, Select, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.expr import BinaryOp
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import calls, is_call, variables
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import free_variables, has_side_effect, stores
from tilesmith.tir.stmt import Block, BufferStore, Evaluate, IfThenElse, Stmt
from tilesmith.tir.transform.scoped import ScopedAnalyzer
from tilesmith.tir.transform.simplification.known_values import with_known_values

__all__ = [
    "reduce_branches",
    "reduce_branching_through_overcompute",
    "use_assume_to_reduce_branches",
]


class _Assumption:
    """The fact that ``buffer[places] == value`` unless ``otherwise`` holds."""

    def __init__(self, places: tuple[PrimExpr, ...], otherwise: PrimExpr, value: PrimExpr) -> None:
        self.places = places
        self.otherwise = otherwise
        self.value = value


def _assumptions(body: Stmt) -> dict[Buffer, list[_Assumption]]:
    """Return the assumptions (``T.assume``) about the elements of each buffer."""
    found: dict[Buffer, list[_Assumption]] = {}
    for call in calls(body, "tir.assume"):
        assumption = _assumption(call.args[0])
        if assumption is not None:
            found.setdefault(assumption[0], []).append(assumption[1])
    return found


def _assumption(condition: PrimExpr) -> tuple[Buffer, _Assumption] | None:
    """Convert ``… or A[i] == value`` to a buffer and an assumption about it; None for other
    conditions.
    """
    parts = _disjuncts(condition)
    for number, part in enumerate(parts):
        if isinstance(part, EQ):
            for load, value in ((part.a, part.b), (part.b, part.a)):
                if isinstance(load, BufferLoad) and not isinstance(value, BufferLoad):
                    if not all(isinstance(index, Var) for index in load.indices):
                        return None
                    rest = [*parts[:number], *parts[number + 1 :]]
                    otherwise = ops.any_of(*rest) if rest else const(False, "bool")
                    return load.buffer, _Assumption(load.indices, otherwise, value)
    return None


def _written(body: Stmt) -> set[Var]:
    """Return the pointers of memory that is stored to, or whose address is passed on."""
    pointers = {var for var in variables(body) if var.dtype.is_handle}
    pointers |= {store.buffer.data for store in stores(body)}
    places = [call.args[0] for call in calls(body, "tir.address_of")]
    return pointers | {place.buffer.data for place in places if isinstance(place, BufferLoad)}


def _disjuncts(condition: PrimExpr) -> list[PrimExpr]:
    if isinstance(condition, Or):
        return [*_disjuncts(condition.a), *_disjuncts(condition.b)]
    return [condition]


class _KnownLoads(Rewriter):
    """Replaces loads by values from assumptions that the analyzer proves to apply."""

    def __init__(self, known: dict[Buffer, list[_Assumption]], analyzer: Analyzer) -> None:
        self.known = known
        self.analyzer = analyzer

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        for assumption in self.known.get(load.buffer, ()):
            mapping = dict(zip(assumption.places, load.indices))
            otherwise = substitute(assumption.otherwise, mapping)
            if not mapping.keys() >= set(free_variables(assumption.value, sizes=False)):
                continue
            if self.analyzer.can_prove(ops.logical_not(otherwise)):
                return substitute(assumption.value, mapping)
        return self.children(load)


class _Reducer(ScopedAnalyzer, Rewriter):
    def __init__(self, known: dict[Buffer, list[_Assumption]], statements: bool) -> None:
        super().__init__()
        self.known = known
        self.statements = statements

    def visit_Block(self, block: Block) -> Block:
        """Leave inner blocks unchanged: their declared regions depend on their conditions."""
        return block

    def visit_Call(self, call: Call) -> PrimExpr:
        if not is_call(call, "tir.if_then_else"):
            return self.children(call)
        new = self.children(call)
        found = self.without_choice(*new.args)
        return new if found is None else found

    def visit_Select(self, expr: Select) -> PrimExpr:
        new = self.children(expr)
        found = self.without_choice(new.condition, new.true_value, new.false_value)
        return new if found is None else found

    def without_choice(
        self, condition: PrimExpr, true: PrimExpr, false: PrimExpr
    ) -> PrimExpr | None:
        """Return one of two values if it equals the other wherever that one is chosen, else
        None.
        """
        if self.agrees(Not(condition), true, false):
            return true
        return false if self.agrees(condition, false, true) else None

    def agrees(self, condition: PrimExpr, value: PrimExpr, wanted: PrimExpr) -> bool:
        """Return whether ``value`` is safe to compute and equals ``wanted`` where a condition
        holds.
        """
        if has_side_effect(value) or not _is_safe(value, self.analyzer):
            return False
        with self.analyzer.constraint_scope(condition):
            known = _Folder(self.known, self.analyzer).visit(value)
            other = _Folder(self.known, self.analyzer).visit(wanted)
        return structural_equal(known, other)

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        new = super().visit_IfThenElse(branch)
        if not self.statements or not isinstance(new, IfThenElse):
            return new
        then_case, else_case = new.then_case, new.else_case
        if isinstance(then_case, BufferStore) and isinstance(else_case, BufferStore):
            same = then_case.buffer is else_case.buffer and all(
                structural_equal(a, b) for a, b in zip(then_case.indices, else_case.indices)
            )
            if same:
                value = self.without_choice(new.condition, then_case.value, else_case.value)
                return new if value is None else then_case.with_fields(value=value)
        if else_case is None and isinstance(then_case, BufferStore):
            if self.stores_what_lies_there(new.condition, then_case):
                return then_case
        return new

    def stores_what_lies_there(self, condition: PrimExpr, store: BufferStore) -> bool:
        """Return whether a store writes the value already in memory wherever its condition
        fails.
        """
        load = BufferLoad(store.buffer, store.indices)
        if store.predicate is not None or not _is_safe(load, self.analyzer):
            return False
        with self.analyzer.constraint_scope(Not(condition)):
            present = _KnownLoads(self.known, self.analyzer).visit(load)
        if isinstance(present, BufferLoad):
            return False
        return self.agrees(Not(condition), store.value, present)


class _Folder(_KnownLoads):
    """Replaces known loads, and folds the resulting expressions."""

    def visit_default(self, node: Any) -> Any:
        new = node.map_children(self.visit)
        return _folded(new, self.analyzer) if isinstance(new, PrimExpr) else new


def _folded(expr: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """Return an expression over constants as a constant, and products with zero as zero.

    A product of floats with zero is zero unless the other factor is infinite or NaN; users of these
    passes accept that, since padding with zeros stands for absent elements.
    """
    name = type(expr).__name__
    if expr.dtype.is_integer or expr.dtype.is_bool:
        return analyzer.simplify(expr)
    function = _FOLDING.get(name)
    if function is not None and isinstance(expr, BinaryOp):
        a, b = expr.a, expr.b
        if name == "Mul" and (ops.is_const(a, 0) or ops.is_const(b, 0)):
            return a if ops.is_const(a, 0) else b
        return function(a, b)
    return expr


_FOLDING = {"Add": ops.add, "Sub": ops.subtract, "Mul": ops.multiply, "Max": ops.maximum,
            "Min": ops.minimum}  # fmt: skip


def _is_safe(expr: Any, analyzer: Analyzer) -> bool:
    """Return whether the loads of an expression are in bounds even where a condition fails."""
    if isinstance(expr, BufferLoad):
        for index, size in zip(expr.indices, expr.buffer.shape):
            if index.dtype.lanes > 1 or expr.predicate is not None:
                return False
            if not analyzer.can_prove(index >= 0) or not analyzer.can_prove(index < size):
                return False
    if type(expr).__name__ in ("Div", "Mod", "FloorDiv", "FloorMod") and expr.dtype.is_integer:
        if not ops.is_const(expr.b) or ops.is_const(expr.b, 0):
            return False
    for child in expr.children():
        if isinstance(child, PrimExpr) and not _is_safe(child, analyzer):
            return False
    return True


def reduce_branches(func: PrimFunc, statements: bool) -> PrimFunc:
    """Return ``func`` without choices that its assumptions make redundant.

    ``statements``: drop if statements as well, not only choices inside of values.
    """
    written = _written(func.body)
    known = {
        buffer: found
        for buffer, found in _assumptions(func.body).items()
        if buffer.data not in written or statements and _is_stable(func, buffer, found)
    }
    return func.with_body(_Reducer(known, statements).visit(func.body))


def _is_stable(func: PrimFunc, buffer: Buffer, found: list[_Assumption]) -> bool:
    """Return whether an assumption about a buffer still holds after the function's own stores: each
    store is under a condition that excludes the assumed part."""
    checker = _StoreChecker(buffer, found)
    checker.visit(func.body)
    return checker.stable


class _StoreChecker(ScopedAnalyzer, Rewriter):
    def __init__(self, buffer: Buffer, found: list[_Assumption]) -> None:
        super().__init__()
        self.buffer = buffer
        self.assumptions = found
        self.stable = True

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        return evaluation

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if store.buffer.data is self.buffer.data:
            for assumption in self.assumptions:
                mapping = dict(zip(assumption.places, store.indices))
                otherwise = substitute(assumption.otherwise, mapping)
                if not self.analyzer.can_prove(otherwise):
                    self.stable = False
        return store


@compiler_pass(
    "tir.ReduceBranchingThroughOvercompute",
    options={"use_dataflow_analysis": False},
)
def reduce_branching_through_overcompute(func: PrimFunc, options: Mapping[str, Any]) -> PrimFunc:
    """Removes branches where computing the guarded case always does not change the result."""
    if options["use_dataflow_analysis"]:  # stored values count like assumptions
        func = with_known_values(func, False, True)
    return reduce_branches(func, True)


@compiler_pass("tir.UseAssumeToReduceBranches")
def use_assume_to_reduce_branches(func: PrimFunc) -> PrimFunc:
    """Removes choices that assumptions about padding make redundant."""
    return reduce_branches(func, False)
