"""Answers questions about integer expressions from facts about their variables.

    analyzer = Analyzer()
    analyzer.bind(i0, Range(0, 8))
    analyzer.bind(i1, Range(0, 16))
    analyzer.simplify((i0 * 16 + i1) // 16)        # i0
    analyzer.can_prove(i0 * 16 + i1 < 128)         # True
    with analyzer.constraint_scope(i0 < 4):
        analyzer.const_int_bound(i0 * 2)           # [0, 6]

Signed 32 and 64 bit integers do not overflow; narrower and unsigned ones wrap around. Division
by zero is never folded. An analyzer answers the same question twice out of a memory that lasts as
long as nothing new is learnt, so that one analyzer should serve a whole pass.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, IntEnum
from math import gcd
from types import TracebackType
from typing import Any, NamedTuple

from tilesmith.arith.const_int_bound import ConstIntBound
from tilesmith.arith.engine import Engine
from tilesmith.arith.forms import NORMAL, Atom, is_index, magnitude, plus
from tilesmith.arith.interval_set import IntervalSet, evaluate
from tilesmith.arith.intervals import dtype_interval, union
from tilesmith.arith.modular_set import ModularSet, reduced, union_residue
from tilesmith.ir import Broadcast, Call, IntImm, PrimExpr, Ramp, Range, Var, const, convert
from tilesmith.ir import Rewriter as NodeRewriter
from tilesmith.ir.operators import equal, is_const, match_types
from tilesmith.ir.queries import calls, is_call
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = ["Analyzer", "ConstraintScope", "Extension", "ProofStrength", "RewriteStatistics"]


class ProofStrength(IntEnum):
    """Selects how much work ``can_prove`` does."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(Flag):
    """Names optional abilities of an analyzer.

    ``TransitivelyProveInequalities``: ``a < c`` from ``a < b`` and ``b < c``; always on here.
    ``ConvertBooleanToAndOfOrs``: conditions are multiplied out to conjunctions of disjunctions.
    ``ApplyConstraintsToBooleanBranches``: each part of a conjunction is simplified where the other
    parts hold, each part of a disjunction where they fail.
    ``ComparisonOfProductAndSum``: ``x * y < a + b`` from the bounds of the variables; always on
    """

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4
    ComparisonOfProductAndSum = 8


class RewriteStatistics(NamedTuple):
    """Counts the work of an analyzer since the last reset.

    ``nodes_visited``: expressions brought into normal form; ``rewrites_attempted``: calls of
    ``simplify``, of which ``rewrites_performed`` changed something; ``constraints_entered``: scopes
    of conditions; ``atoms``: distinct parts of sums met so far.
    """

    nodes_visited: int
    rewrites_attempted: int
    rewrites_performed: int
    constraints_entered: int
    atoms: int


class ConstraintScope:
    """Holds a constraint in a ``with`` block: ``fenter`` adds it and returns the function that
    removes it.
    """

    def __init__(self, fenter: Callable[[], Callable[[], Any]]) -> None:
        self._enter = fenter
        self._exit: Callable[[], Any] | None = None

    def __enter__(self) -> ConstraintScope:
        self._exit = self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._exit is not None:
            self._exit()
            self._exit = None


class Analyzer:
    """Answers questions about integer expressions from the facts that it was given; see the
    module's docstring.
    """

    def __init__(self) -> None:
        self.engine = Engine()
        self._rewriter = self.engine.rewriter
        self._caches = self.engine.facts.caches
        self._extensions = Extension.NoExtensions
        self.reset_rewrite_simplify_stats()

    @property
    def enabled_extensions(self) -> Extension:
        """The optional abilities that are on; assign to change them."""
        return self._extensions

    @enabled_extensions.setter
    def enabled_extensions(self, flags: Extension | int) -> None:
        self._extensions = flags = Extension(flags)
        self._rewriter.applies_branches = Extension.ApplyConstraintsToBooleanBranches in flags
        self.engine.facts.forget()

    # What is known

    def bind(self, var: Var, expr: Any, allow_override: bool = True) -> None:
        """Records that ``var`` lies in a range (which is not empty), or that it equals an
        expression."""
        if not isinstance(var, Var):
            raise TypeMismatchError(f"bind needs a variable, got {type(var).__name__}")
        assumptions = self.engine.assumptions
        if isinstance(expr, Range) and assumptions.bind_constants(var, expr):
            return
        with deep_recursion():
            if isinstance(expr, Range):
                if is_index(var.dtype):
                    assumptions.bind_range(var, expr)
            else:
                assumptions.bind_value(var, self._rewriter.rewrite(_expression(expr)))

    def update(self, var: Var, info: Any, override: bool = False) -> None:
        """Adds a constant bound or a residue of a variable to the known facts; with ``override`` it
        replaces them.
        """
        facts = self.engine.facts
        if isinstance(info, ModularSet):
            facts.learn_var_residue(var, reduced(info.coeff, info.base), override)
        elif hasattr(info, "min_value") and hasattr(info, "max_value"):
            interval = ConstIntBound(info.min_value, info.max_value).interval()
            facts.learn_var_bounds(var, interval, override)
        else:
            raise TypeMismatchError(
                f"update needs a ConstIntBound or a ModularSet, got {type(info).__name__}"
            )

    def constraint_scope(self, constraint: Any) -> ConstraintScope:
        """Returns a ``with`` block in which ``constraint`` holds. Conditions on loaded values are
        ignored: memory may change.
        """
        engine, expr = self.engine, _expression(constraint)

        @deep_recursion
        def enter() -> Callable[[], Any]:
            condition = engine.rewriter.rewrite(expr)
            saved = engine.facts.open_layer()
            # what is known in many steps is known in one now
            engine.assumptions.assume(expr if is_const(condition, 1) else condition)
            self._constraints += 1
            return lambda: engine.facts.close_layer(saved)

        return ConstraintScope(enter)

    # Simplification

    def simplify(self, expr: Any, steps: int = 2) -> PrimExpr:
        """Returns the expression in its simplest form; the same object if it is already simple.

        ``steps`` is how often other simplifiers go over an expression; a normal form is found in
        one go, and 0 leaves the expression alone.
        """
        if expr.__class__ is IntImm:
            self._attempted += 1
            return expr
        known = self._caches.rewritten.get(id(expr))
        if known is not None and steps > 0 and not self._extensions:  # asked before
            self._attempted += 1
            self._performed += known[1] is not expr
            return known[1]
        return self._simplified(expr, steps)

    @deep_recursion
    def _simplified(self, value: Any, steps: int) -> PrimExpr:
        expr = _expression(value)
        if steps <= 0:
            return expr
        engine = self.engine
        engine.trim()
        self._attempted += 1
        result = self._rewriter.rewrite(expr)
        if self._extensions and result.dtype.is_bool and result.dtype.lanes == 1:
            if Extension.ConvertBooleanToAndOfOrs in self._extensions:
                result = engine.connectives.and_of_ors(result)
        if result is not expr:
            self._performed += 1
        if id(expr) in self._caches.forms:  # an integer whose value does not change
            self._caches.rewritten[id(expr)] = (expr, result)
        return result

    def rewrite_simplify(self, expr: Any) -> PrimExpr:
        """Does the same as ``simplify``: there is one normal form, not a rewriting and a canonical
        one."""
        return self.simplify(expr)

    def canonical_simplify(self, expr: Any) -> PrimExpr:
        """Does the same as ``simplify``."""
        return self.simplify(expr)

    @property
    def rewrite_simplify_stats(self) -> RewriteStatistics:
        """Returns counters of the work done."""
        return RewriteStatistics(
            self.engine.normalizer.visited,
            self._attempted,
            self._performed,
            self._constraints,
            self.engine.table.size,
        )

    def reset_rewrite_simplify_stats(self) -> None:
        """Resets the counters to zero, except that of the atoms, which are kept."""
        self.engine.normalizer.visited = 0
        self._attempted = self._performed = self._constraints = 0

    @deep_recursion
    def difference(self, a: Any, b: Any) -> PrimExpr | None:
        """Returns ``a - b`` of integers for a comparison to be solved; None where a side may wrap
        around, or where the constants are so large that sums with them may overflow.
        """
        engine = self.engine
        found = engine.difference(*match_types(_expression(a), _expression(b)))
        if found is None or magnitude(found) != NORMAL:
            return None
        return engine.writer.to_expr(found)

    # Questions

    @deep_recursion
    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """Returns the smallest and the largest value that the expression, in each of its lanes, can
        have.
        """
        expr = _expression(expr)
        if expr.dtype.lanes == 1:
            return ConstIntBound.from_interval(self.engine.bounds.of_expr(expr))
        ends = self._lane_ends(expr)
        if ends is None:
            return ConstIntBound.from_interval(dtype_interval(expr.dtype.element))
        bounds = [self.engine.bounds.of_expr(end) for end in ends]
        return ConstIntBound.from_interval(union(bounds[0], bounds[-1]))

    def _lane_ends(self, expr: PrimExpr) -> list[PrimExpr] | None:
        """Returns the first and the last lane of a vector (all others lie between); None if they
        are not known.
        """
        expr = self._rewriter.rewrite(expr)
        if isinstance(expr, Broadcast):
            return [expr.value]
        if isinstance(expr, Ramp) and is_index(expr.base.dtype) and not expr.dtype.is_scalable:
            return [expr.base, expr.base + expr.stride * (expr.lanes - 1)]
        return None

    @deep_recursion
    def modular_set(self, expr: Any) -> ModularSet:
        """Finds ``coeff`` and ``base`` such that every value, in each lane, is
        ``coeff * k + base``."""
        expr, residues = _expression(expr), self.engine.residues
        if expr.dtype.lanes == 1:
            return ModularSet(*residues.of_expr(expr))
        expr = self._rewriter.rewrite(expr)
        if isinstance(expr, Broadcast):
            return ModularSet(*residues.of_expr(expr.value))
        if isinstance(expr, Ramp) and is_index(expr.base.dtype):
            base, stride = residues.of_expr(expr.base), residues.of_expr(expr.stride)
            return ModularSet(*union_residue(base, reduced(gcd(*stride), base[1])))
        return ModularSet(1, 0)

    @deep_recursion
    def int_set(self, expr: Any, dom_map: dict[Var, Any] | None = None) -> IntervalSet:
        """Returns an interval around all values, where the variables of ``dom_map`` range over
        their sets.
        """
        return evaluate(self.engine, expr, dom_map or {})

    @deep_recursion
    def can_prove(self, expr: Any, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Returns True if a condition is proven to hold in each of its lanes.

        Symbolic bounds are always used, whatever the ``strength``. What is not proven of the length
        of scalable registers (``vscale``) as such is tried for each length that there is.
        """
        if isinstance(expr, bool):
            return expr
        goal = _expression(expr)
        if is_const(self._rewriter.rewrite(goal), 1):
            return True
        length = self.engine.table.register_length
        return length is not None and self._proven_for_each(length, goal)

    def _proven_for_each(self, length: Atom, goal: PrimExpr) -> bool:
        """Returns True if a condition on the length of scalable registers is proven for each."""
        engine = self.engine
        if goal.dtype.lanes != 1 or next(calls(goal, "tir.vscale"), None) is None:
            return False
        low, high = engine.bounds.of_atom(length)
        for value in range(int(low), int(high) + 1):
            saved = engine.facts.open_layer()
            try:
                engine.assumptions.assume_value(length, value)
                if not is_const(self._rewriter.rewrite(_AtLength(value).visit(goal)), 1):
                    return False
            finally:
                engine.facts.close_layer(saved)
        return True

    @deep_recursion
    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Returns True if both values are proven to be equal."""
        if lhs is rhs and isinstance(lhs, (int, float)):
            return True
        lhs, rhs = match_types(_expression(lhs), _expression(rhs))
        rewrite, engine = self._rewriter.rewrite, self.engine
        if is_index(lhs.dtype):
            normal = engine.normalizer.normal
            difference = engine.terms.combine(plus(normal(lhs), normal(rhs), -1))
            if not difference.terms:
                return difference.const == 0
            return is_const(rewrite(equal(lhs, rhs)), 1)
        number = engine.numbering.number
        return number(rewrite(lhs)) == number(rewrite(rhs))

    @deep_recursion
    def can_prove_greater_equal(self, expr: Any, lower_bound: int) -> bool:
        """Returns True if ``expr >= lower_bound`` is proven."""
        expr = _expression(expr)
        if isinstance(expr, IntImm):
            return expr.value >= lower_bound
        return self.engine.is_at_least(expr, int(lower_bound))

    @deep_recursion
    def can_prove_less(self, expr: Any, upper_bound: int) -> bool:
        """Returns True if ``expr < upper_bound`` is proven."""
        expr = _expression(expr)
        if isinstance(expr, IntImm):
            return expr.value < upper_bound
        return self.engine.is_at_most(expr, int(upper_bound) - 1)


class _AtLength(NodeRewriter):
    """Puts a number in place of the length of scalable registers."""

    def __init__(self, length: int) -> None:
        self.length = length

    def visit_Call(self, call: Call) -> PrimExpr:
        if is_call(call, "tir.vscale"):
            return const(self.length, call.dtype)
        return self.children(call)


def _expression(value: Any) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else convert(value)
