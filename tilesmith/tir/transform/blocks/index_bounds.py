"""Bounds of the indices of accesses, over the loops further inside than an allocation.

for i in range(16):                         C[i + j]: from i to i + 7
    # C is allocated here
    for j in range(8):
        C[i + j] = ...
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tilesmith.arith import Analyzer, ConstIntBound
from tilesmith.ir import (
    Add,
    Broadcast,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.queries import is_call
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.dtypes.intervals import Interval, holds, of_operation
from tilesmith.tir.transform.simplification.touched_elements import (
    has_pointer_names,
    written_pointers,
)

__all__ = ["Bounds", "IndexBounds", "Loop"]

Bounds = tuple[PrimExpr, PrimExpr]
Loop = tuple[Var, PrimExpr, PrimExpr]  # variable, first, last
_COMBINE = {Add: ops.add, Min: ops.minimum, Max: ops.maximum}


class IndexBounds:
    """Bounds expressions over the loops from a depth inwards.

    ``loops``: those around the present statement; ``guards``: what conditions let be at most 0.
    ``relaxed``: variables of threads that count as loops inside, however far outside they are.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.analyzer = Analyzer()
        self.loops: list[Loop] = []
        self.depth_of: dict[Var, int] = {}
        self.guards: list[PrimExpr] = []
        self.relaxed: set[Var] = set()

    def bounds(self, expr: PrimExpr, depth: int) -> Bounds | None:
        """Return the least and the greatest value over the loops from ``depth`` inwards."""
        if isinstance(expr, IntImm):
            return expr, expr
        if isinstance(expr, Var):
            number = self.depth_of.get(expr, -1)
            if number < depth and (expr not in self.relaxed or number < 0):
                return expr, expr
            _, first, last = self.loops[number]
            low, high = self.bounds(first, depth), self.bounds(last, depth)
            return None if low is None or high is None else (low[0], high[1])
        if isinstance(expr, (Add, Sub, Min, Max)):
            a, b = self.bounds(expr.a, depth), self.bounds(expr.b, depth)
            if a is None or b is None:
                return None
            if a[0] is a[1] and b[0] is b[1]:
                return self.same(expr, a[0], b[0])
            if self.may_wrap(expr, a, b):
                return None
            if isinstance(expr, Sub):
                return a[0] - b[1], a[1] - b[0]
            combine = _COMBINE[type(expr)]
            return combine(a[0], b[0]), combine(a[1], b[1])
        if isinstance(expr, (Mul, FloorDiv, FloorMod)):
            return self.scaled(expr, depth)
        if isinstance(expr, Cast) and expr.dtype.is_int and expr.value.dtype.is_int:
            inner = self.bounds(expr.value, depth)
            if inner is None:
                return None
            least = ops.cast(expr.dtype, inner[0])
            if inner[0] is inner[1]:
                return least, least
            if expr.dtype.bits < expr.value.dtype.bits:
                ends = self.constant_bounds(inner)
                if ends is None or not holds(expr.dtype, ends):
                    return None  # the cast cuts bits off
            return least, ops.cast(expr.dtype, inner[1])
        if isinstance(expr, BufferLoad):
            places = [self.constant_inside(index, depth) for index in expr.indices]
            fixed = expr.predicate is None and None not in places
            return (expr, expr) if fixed and expr.buffer.data in self.read_only else None
        if isinstance(expr, Select):
            return self.either(expr.true_value, expr.false_value, depth)
        if is_call(expr, "tir.if_then_else"):
            return self.either(expr.args[1], expr.args[2], depth)
        return None

    def constant_bounds(self, bounds: Bounds) -> Interval | None:
        """Return constants around bounds, as the loops outside tell; None where they do not."""
        least = self.analyzer.const_int_bound(bounds[0]).min_value
        most = self.analyzer.const_int_bound(bounds[1]).max_value
        known = ConstIntBound.NEG_INF < least and most < ConstIntBound.POS_INF
        return (least, most) if known else None

    def may_wrap(self, expr: Any, a: Bounds, b: Bounds) -> bool:
        """Return whether an operation in a type of few bits, or an unsigned one, may wrap around;
        indices of 32 and more bits are assumed not to.
        """
        dtype = expr.dtype
        if dtype.is_int and dtype.bits >= 32:
            return False
        found = of_operation(expr.__class__, self.constant_bounds(a), self.constant_bounds(b))
        return found is None or not holds(dtype, found)

    def same(self, expr: Any, a: PrimExpr, b: PrimExpr) -> Bounds:
        """Return equal lower and upper bounds for a value that is constant inside the scope."""
        value = expr if a is expr.a and b is expr.b else type(expr)(a, b)
        return value, value

    def either(self, a: PrimExpr, b: PrimExpr, depth: int) -> Bounds | None:
        first, second = self.bounds(a, depth), self.bounds(b, depth)
        if first is None or second is None:
            return None
        return ops.minimum(first[0], second[0]), ops.maximum(first[1], second[1])

    def scaled(self, expr: Any, depth: int) -> Bounds | None:
        a, b = self.bounds(expr.a, depth), self.bounds(expr.b, depth)
        if a is None or b is None or b[0] is not b[1]:
            if isinstance(expr, Mul) and a is not None and b is not None and a[0] is a[1]:
                a, b = b, a
            else:
                return None
        if a[0] is a[1]:
            return (
                self.same(expr, a[0], b[0]) if not isinstance(expr, Mul) else _single(a[0] * b[0])
            )
        factor = b[0]
        if not isinstance(factor, IntImm) or factor.value == 0:
            return None
        if self.may_wrap(expr, a, b):
            return None
        if isinstance(expr, Mul):
            ends = a[0] * factor, a[1] * factor
            return ends if factor.value > 0 else ends[::-1]
        if factor.value < 0:
            return None
        if isinstance(expr, FloorDiv):
            return a[0] // factor, a[1] // factor
        first, last = self.analyzer.simplify(a[0] // factor), self.analyzer.simplify(a[1] // factor)
        if ops.is_const(self.analyzer.simplify(last - first), 0):
            return a[0] - first * factor, a[1] - first * factor
        return const(0, factor.dtype), const(factor.value - 1, factor.dtype)

    @cached_property
    def read_only(self) -> set[Var]:
        """Return the pointers of parameters whose memory keeps its values."""
        params = {buffer.data for buffer in self.func.buffer_map.values()}
        written = written_pointers(self.func.body)
        if None in written or has_pointer_names(self.func):
            return set()
        if written & params and not self.func.attrs.get("tir.noalias", False):
            return set()
        return {param for param in params if param not in written}

    def guarded_bounds(self, index: PrimExpr, depth: int) -> Bounds | None:
        """Return the bounds of an index, or of all its lanes, under the conditions that hold."""
        if isinstance(index, Broadcast):
            index = index.value
        if isinstance(index, Ramp):
            inner = self.guarded_bounds(index.base, depth)
            if inner is None or not isinstance(index.stride, IntImm):
                return None
            reach = index.stride * (index.lanes - 1)
            if index.stride.value < 0:
                return inner[0] + reach, inner[1]
            return inner[0], inner[1] + reach
        found = None if index.dtype.lanes > 1 else self.bounds(index, depth)
        if found is None or found[0] is found[1]:
            return found
        low, high = found
        for excess in self.guards:
            most = self.constant_inside(index - excess, depth)
            if most is not None and self.is_less(most, high):
                high = most
            least = self.constant_inside(index + excess, depth)
            if least is not None and self.is_less(low, least):
                low = least
        return low, high

    def constant_inside(self, expr: PrimExpr, depth: int) -> PrimExpr | None:
        """Return the value of an expression that is the same in all loops inside the scope."""
        found = self.bounds(self.analyzer.simplify(expr), depth)
        return found[0] if found is not None and found[0] is found[1] else None

    def is_less(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Return whether ``a`` is less than ``b`` by a constant."""
        difference = self.analyzer.simplify(b - a)
        return isinstance(difference, IntImm) and difference.value > 0


def _single(value: PrimExpr) -> Bounds:
    return value, value
