"""The analyzer: what is known of variables, and the questions that can be asked about expressions.

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

from tilesmith.arith.const_int_bound import ConstIntBound, dtype_interval, intersect, union
from tilesmith.arith.forms import plus, shifted, times
from tilesmith.arith.modular_set import ModularSet, intersect_residue, reduced, union_residue
from tilesmith.arith.simplify import Simplifier
from tilesmith.arith.state import is_index
from tilesmith.ir import Broadcast, IntImm, PrimExpr, Ramp, Range, Var, convert
from tilesmith.ir.operators import equal, is_const, match_types
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = ["Analyzer", "ConstraintScope", "Extension", "ProofStrength", "RewriteStatistics"]


class ProofStrength(IntEnum):
    """How hard ``can_prove`` tries."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(Flag):
    """What an analyzer does beyond the usual.

    ``TransitivelyProveInequalities``: ``a < c`` from ``a < b`` and ``b < c``; always on here.
    ``ConvertBooleanToAndOfOrs``: conditions are multiplied out to conjunctions of disjunctions.
    ``ApplyConstraintsToBooleanBranches``: each part of a conjunction is simplified where the other
    parts hold, each part of a disjunction where they fail.
    ``ComparisonOfProductAndSum``: ``x * y < a + b`` from the bounds of both sides; always on here.
    """

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4
    ComparisonOfProductAndSum = 8


class RewriteStatistics(NamedTuple):
    """Counters of the work of an analyzer since the last reset.

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
    """A ``with`` block; ``fenter`` starts what holds inside and gives the function that ends it."""

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
    """Answers questions about integer expressions from what it was told; see the module's text."""

    def __init__(self) -> None:
        self._engine = Simplifier()
        self._extensions = Extension.NoExtensions
        self.reset_rewrite_simplify_stats()

    @property
    def enabled_extensions(self) -> Extension:
        """What is done beyond the usual; assign to change it."""
        return self._extensions

    @enabled_extensions.setter
    def enabled_extensions(self, flags: Extension | int) -> None:
        self._extensions = flags = Extension(flags)
        self._engine.applies_branches = Extension.ApplyConstraintsToBooleanBranches in flags
        self._engine.forget()

    # What is known

    def bind(self, var: Var, expr: Any, allow_override: bool = True) -> None:
        """Tell that ``var`` lies in a range (which is not empty), or that it equals an
        expression."""
        if not isinstance(var, Var):
            raise TypeMismatchError(f"bind needs a variable, got {type(var).__name__}")
        if isinstance(expr, Range) and self._engine.bind_constants(var, expr):
            return
        with deep_recursion():
            if isinstance(expr, Range):
                if is_index(var.dtype):
                    self._engine.bind_range(var, expr)
            else:
                self._engine.bind_value(var, self._engine.rewrite(_expression(expr)))

    def update(self, var: Var, info: Any, override: bool = False) -> None:
        """Tell a constant bound or a residue of a variable; without ``override`` it is added to
        what is known."""
        engine = self._engine
        engine.forget()
        if isinstance(info, ModularSet):
            residue = reduced(info.coeff, info.base)
            known = engine.var_modular.get(var)
            if known is not None and not override:
                residue = intersect_residue(known, residue)
            engine.var_modular[var] = residue
        elif hasattr(info, "min_value") and hasattr(info, "max_value"):
            interval = ConstIntBound(info.min_value, info.max_value).interval()
            known = engine.var_bounds.get(var)
            if known is not None and not override:
                interval = intersect(known, interval)
            if override:
                engine.values.pop(var, None)
            engine.var_bounds[var] = interval
        else:
            raise TypeMismatchError(
                f"update needs a ConstIntBound or a ModularSet, got {type(info).__name__}"
            )

    def constraint_scope(self, constraint: Any) -> ConstraintScope:
        """A ``with`` block in which ``constraint`` holds. Loads in it count for nothing: they may
        change."""
        engine, expr = self._engine, _expression(constraint)

        @deep_recursion
        def enter() -> Callable[[], Any]:
            condition = engine.rewrite(expr)
            saved = engine.open_layer()
            engine.assume(condition)
            self._constraints += 1
            return lambda: engine.close_layer(saved)

        return ConstraintScope(enter)

    # Simplification

    def simplify(self, expr: Any, steps: int = 2) -> PrimExpr:
        """The expression in its simplest form; the same object if it is that already.

        ``steps`` is how often other simplifiers go over an expression; a normal form is found in
        one go, and 0 leaves the expression alone.
        """
        known = self._engine.rewritten.get(id(expr))
        if known is not None and steps > 0 and not self._extensions:  # asked before
            self._attempted += 1
            self._performed += known[1] is not expr
            return known[1]
        return self._simplified(expr, steps)

    @deep_recursion
    def _simplified(self, expr: Any, steps: int) -> PrimExpr:
        if not isinstance(expr, PrimExpr):
            expr = convert(expr)
        if steps <= 0:
            return expr
        engine = self._engine
        engine.trim()
        self._attempted += 1
        result = engine.rewrite(expr)
        if self._extensions and result.dtype.is_bool and result.dtype.lanes == 1:
            if Extension.ConvertBooleanToAndOfOrs in self._extensions:
                result = engine.and_of_ors(result)
        if result is not expr:
            self._performed += 1
        if id(expr) in engine.memo:  # an integer whose value does not change
            engine.rewritten[id(expr)] = (expr, result)
        return result

    def rewrite_simplify(self, expr: Any) -> PrimExpr:
        """The same as ``simplify``: there is one normal form, not a rewriting and a canonical
        one."""
        return self.simplify(expr)

    def canonical_simplify(self, expr: Any) -> PrimExpr:
        """The same as ``simplify``."""
        return self.simplify(expr)

    @property
    def rewrite_simplify_stats(self) -> RewriteStatistics:
        """Counters of the work done."""
        engine = self._engine
        return RewriteStatistics(
            engine.visited, self._attempted, self._performed, self._constraints, engine.table.size
        )

    def reset_rewrite_simplify_stats(self) -> None:
        """Start counting from zero (but for the atoms, which are kept)."""
        self._engine.visited = self._attempted = self._performed = self._constraints = 0

    # Questions

    @deep_recursion
    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """The smallest and the largest value that the expression, in each of its lanes, can
        have."""
        expr = _expression(expr)
        if expr.dtype.lanes == 1:
            return ConstIntBound.from_interval(self._engine.expr_bounds(expr))
        ends = self._lane_ends(expr)
        if ends is None:
            return ConstIntBound.from_interval(dtype_interval(expr.dtype.element))
        bounds = [self._engine.expr_bounds(end) for end in ends]
        return ConstIntBound.from_interval(union(bounds[0], bounds[-1]))

    def _lane_ends(self, expr: PrimExpr) -> list[PrimExpr] | None:
        """The first and the last lane of a vector, between which the others lie; None if not
        known."""
        expr = self._engine.rewrite(expr)
        if isinstance(expr, Broadcast):
            return [expr.value]
        if isinstance(expr, Ramp) and is_index(expr.base.dtype) and not expr.dtype.is_scalable:
            return [expr.base, expr.base + expr.stride * (expr.lanes - 1)]
        return None

    @deep_recursion
    def modular_set(self, expr: Any) -> ModularSet:
        """``coeff`` and ``base`` such that every value, in each lane, is ``coeff * k + base``."""
        expr, engine = _expression(expr), self._engine
        if expr.dtype.lanes == 1:
            return ModularSet(*engine.expr_modular(expr))
        expr = engine.rewrite(expr)
        if isinstance(expr, Broadcast):
            return ModularSet(*engine.expr_modular(expr.value))
        if isinstance(expr, Ramp) and is_index(expr.base.dtype):
            base, stride = engine.expr_modular(expr.base), engine.expr_modular(expr.stride)
            return ModularSet(*union_residue(base, reduced(gcd(*stride), base[1])))
        return ModularSet(1, 0)

    def int_set(self, expr: Any, dom_map: dict[Var, Any] | None = None) -> Any:
        """An interval around all values, where the variables of ``dom_map`` range over their
        sets."""
        from tilesmith.arith.int_set import eval_set

        return eval_set(expr, dom_map or {}, self)

    @deep_recursion
    def can_prove(self, expr: Any, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Whether a condition certainly holds, in each of its lanes.

        Symbolic bounds are always used, whatever the ``strength``.
        """
        if isinstance(expr, bool):
            return expr
        return is_const(self._engine.rewrite(_expression(expr)), 1)

    @deep_recursion
    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether both have certainly the same value."""
        if lhs is rhs and isinstance(lhs, (int, float)):
            return True
        lhs, rhs = match_types(_expression(lhs), _expression(rhs))
        engine = self._engine
        if is_index(lhs.dtype):
            difference = engine.tidy(plus(engine.normal(lhs), engine.normal(rhs), -1))
            if not difference.terms:
                return difference.const == 0
            return is_const(engine.rewrite(equal(lhs, rhs)), 1)
        return engine.number(engine.rewrite(lhs)) == engine.number(engine.rewrite(rhs))

    @deep_recursion
    def can_prove_greater_equal(self, expr: Any, lower_bound: int) -> bool:
        """Whether ``expr >= lower_bound``."""
        expr = _expression(expr)
        if isinstance(expr, IntImm):
            return expr.value >= lower_bound
        form = self._engine.normal(expr)
        if not is_index(form.dtype):
            return self._engine.bounds(form)[0] >= lower_bound
        return self._engine.prove(shifted(form, -int(lower_bound)))

    @deep_recursion
    def can_prove_less(self, expr: Any, upper_bound: int) -> bool:
        """Whether ``expr < upper_bound``."""
        expr = _expression(expr)
        if isinstance(expr, IntImm):
            return expr.value < upper_bound
        form = self._engine.normal(expr)
        if not is_index(form.dtype):
            return self._engine.bounds(form)[1] < upper_bound
        return self._engine.prove(shifted(times(form, -1), int(upper_bound) - 1))


def _expression(value: Any) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else convert(value)
