"""Describes sets of elements of buffers: what loops write, and what is known to be stored there.

for i in range(16):             elements A[i], for i in [0, 16) where i < n, that hold i * 2
    if i < n:
        A[i] = i * 2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer, IterMapLevel, detect_iter_map, inverse_affine_iter_map
from tilesmith.ir import Broadcast, IntImm, Not, PrimExpr, Ramp, Range, Var, const
from tilesmith.ir.operators import all_of, any_of, cast, equal, logical_not
from tilesmith.ir.queries import conjuncts, mentions
from tilesmith.support.errors import TilesmithError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import reads_memory

__all__ = ["Elements", "conditions_of"]

_MOST_CONDITIONS = 8  # of one set; more are not worth their proofs


def conditions_of(condition: PrimExpr) -> list[PrimExpr] | None:
    """Return the parts of a condition; None if it depends on memory, which may change."""
    parts = conjuncts(condition, through_likely=True)
    return None if any(reads_memory(part) for part in parts) else parts


class Elements:
    """Stands for ``buffer[indices]`` for all values of ``iterators`` for which ``conditions`` hold.

    ``value``: what they hold, if that is known. ``indices`` None: any elements of the buffer.
    """

    __slots__ = ("_inverse", "buffer", "conditions", "indices", "iterators", "value")

    def __init__(
        self,
        buffer: Buffer,
        indices: Sequence[PrimExpr] | None,
        value: PrimExpr | None = None,
        conditions: Sequence[PrimExpr] = (),
        iterators: Mapping[Var, Range] | None = None,
    ) -> None:
        self.buffer = buffer
        self.indices = None if indices is None else tuple(indices)
        self.value = value
        self.conditions = tuple(conditions)
        self.iterators = dict(iterators or {})
        self._inverse: tuple[list[Var], dict[Var, PrimExpr]] | None | bool = False

    @staticmethod
    def of_access(
        buffer: Buffer, indices: Sequence[PrimExpr], value: PrimExpr | None = None
    ) -> Elements:
        """Return the elements of one access; the lanes of a vector are elements of their own."""
        if any(reads_memory(index) for index in indices):
            return Elements(buffer, None)
        wide = [index for index in indices if index.dtype.lanes != 1]
        if not wide:
            return Elements(buffer, indices, value)
        vector = wide[0]
        if len(wide) > 1 or not isinstance(vector, Ramp) or vector.dtype.is_scalable:
            return Elements(buffer, None)
        lane = Var("lane", vector.base.dtype)
        scalar = [_in_lane(index, lane) if index is vector else index for index in indices]
        held = None if value is None else _in_lane(value, lane)
        return Elements(buffer, scalar, held, (), {lane: Range(0, vector.lanes)})

    def _made(self, **changes: Any) -> Elements:
        fields = {name: getattr(self, name) for name in Elements.__slots__ if name != "_inverse"}
        return Elements(**{**fields, **changes})

    def mentions(self, var: Var) -> bool:
        """Return whether a variable occurs."""
        ranges = [part for r in self.iterators.values() for part in (r.min, r.extent)]
        value = [] if self.value is None else [self.value]
        return mentions([*(self.indices or ()), *self.conditions, *ranges, *value], {var})

    # -- other sets

    def where(self, conditions: Sequence[PrimExpr] | None) -> Elements | None:
        """Return the elements where conditions hold. Unknown conditions: what is written may be all
        of them, what is known none."""
        if conditions is None or len(self.conditions) + len(conditions) > _MOST_CONDITIONS:
            return self if self.value is None else None
        made = self._made(conditions=(*self.conditions, *conditions))
        made._inverse = self._inverse
        return made

    def replaced(self, var: Var, value: PrimExpr) -> Elements | None:
        """Return the same elements, out of the scope of a variable that has a value."""
        if not self.mentions(var):
            return self
        if reads_memory(value):
            return Elements(self.buffer, None) if self.value is None else None
        return self._substituted({var: value})

    def _substituted(self, mapping: Mapping[Var, PrimExpr]) -> Elements:
        def new(expr: Any) -> Any:
            return None if expr is None else substitute(expr, mapping)

        ranges = {
            var: Range.from_min_extent(new(r.min), new(r.extent))
            for var, r in self.iterators.items()
        }
        return Elements(
            self.buffer,
            None if self.indices is None else [new(index) for index in self.indices],
            new(self.value),
            [new(condition) for condition in self.conditions],
            ranges,
        )

    def over(self, var: Var, low: PrimExpr, extent: PrimExpr) -> Elements | None:
        """Return the elements of all iterations of a loop."""
        if not self.mentions(var):
            return self if self.value is None else self.where([extent > 0])
        if self.value is None:
            if self.indices is None or not mentions(self.indices, {var}):
                kept = [part for part in self.conditions if not mentions(part, {var})]
                made = self._made(conditions=kept)
                return Elements(self.buffer, None) if made.mentions(var) else made
        fresh = Var(var.name, var.dtype)
        renamed = self._substituted({var: fresh})
        made = renamed._made(
            iterators={fresh: Range.from_min_extent(low, extent), **renamed.iterators}
        )
        return made if self.value is None or made.inverse() is not None else None

    def without(self, written: Elements, analyzer: Analyzer) -> Elements | None:
        """Return the known elements that are not among the written ones; None if there is none.

        Memory behind different pointers is different memory.
        """
        if written.buffer.data is not self.buffer.data:
            return self
        if written.buffer is not self.buffer or self.indices is None:
            return None
        membership = written.membership(self.indices)
        if membership is None:
            return None
        for var, range_ in self.iterators.items():
            analyzer.bind(var, range_)
        kept = []
        with analyzer.constraint_scope(all_of(*self.conditions, const(True, "bool"))):
            for part in membership[0]:
                simple = analyzer.simplify(part)
                if isinstance(simple, IntImm):
                    if not simple.value:
                        return self
                else:
                    kept.append(logical_not(simple))
        return self.where([analyzer.simplify(any_of(*kept))]) if kept else None

    # -- questions

    def inverse(self) -> tuple[list[Var], dict[Var, PrimExpr]] | None:
        """Return variables for the indices, and what the iterators are in terms of them; None if
        two values of the iterators may mean one element."""
        if self._inverse is False:
            self._inverse = self._inverted()
        return self._inverse  # type: ignore[return-value]

    def _inverted(self) -> tuple[list[Var], dict[Var, PrimExpr]] | None:
        if self.indices is None:
            return None
        found = detect_iter_map(
            self.indices, self.iterators, True, IterMapLevel.NoCheck,
            simplify_trivial_iterators=False,
        )  # fmt: skip
        if not found.indices:
            return None
        points = [Var(f"x{axis}", index.dtype) for axis, index in enumerate(self.indices)]
        try:
            inverse = inverse_affine_iter_map(found.indices, points)
        except TilesmithError:
            return None
        if any(var not in inverse for var in self.iterators):
            return None
        analyzer = Analyzer()
        for var, range_ in self.iterators.items():
            analyzer.bind(var, range_)
        there = dict(zip(points, self.indices))
        for var in self.iterators:
            if not analyzer.can_prove_equal(substitute(inverse[var], there), var):
                return None
        return points, {var: cast(var.dtype, inverse[var]) for var in self.iterators}

    def membership(
        self, indices: Sequence[PrimExpr]
    ) -> tuple[list[PrimExpr], dict[Var, PrimExpr]] | None:
        """Return when an element is among these, and of which values of the iterators it is; None
        if that is not known."""
        if self.indices is None:
            return None
        values: dict[Var, PrimExpr] = {}
        if self.iterators:
            inverse = self.inverse()
            if inverse is None:
                return None
            there = {x: cast(x.dtype, index) for x, index in zip(inverse[0], indices)}
            values = {var: substitute(value, there) for var, value in inverse[1].items()}
        parts = [equal(substitute(own, values), index) for own, index in zip(self.indices, indices)]
        for var, range_ in self.iterators.items():
            low, size = substitute(range_.min, values), substitute(range_.extent, values)
            parts += [values[var] >= low, values[var] < low + size]
        return [*parts, *[substitute(part, values) for part in self.conditions]], values

    def value_at(self, indices: Sequence[PrimExpr], analyzer: Analyzer) -> PrimExpr | None:
        """Return the value that an element is proven to hold, else None."""
        if self.value is None:
            return None
        wide = [index for index in indices if index.dtype.lanes != 1]
        if wide:
            return self._vector_at(indices, wide, analyzer)
        membership = self.membership(indices)
        if membership is None:
            return None
        for part in membership[0]:
            if not analyzer.can_prove(part):
                return None
        return substitute(self.value, membership[1])

    def _vector_at(
        self, indices: Sequence[PrimExpr], wide: list[PrimExpr], analyzer: Analyzer
    ) -> PrimExpr | None:
        vector = wide[0]
        if len(wide) > 1 or not isinstance(vector, Ramp) or vector.dtype.is_scalable:
            return None
        lane = Var("lane", vector.base.dtype)
        analyzer.bind(lane, Range(0, vector.lanes))
        held = self.value_at(
            [_in_lane(index, lane) if index is vector else index for index in indices], analyzer
        )
        if held is None or held.dtype.lanes != 1:
            return None
        if not mentions(held, {lane}):
            return Broadcast(held, vector.lanes)
        first, second = (substitute(held, {lane: const(n, lane.dtype)}) for n in (0, 1))
        stride = analyzer.simplify(second - first)
        if not analyzer.can_prove_equal(held, first + stride * cast(held.dtype, lane)):
            return None
        return Ramp(analyzer.simplify(first), stride, vector.lanes)


def _in_lane(vector: PrimExpr, lane: Var) -> Any:
    """Return the value of one lane; None if it has no formula."""
    if isinstance(vector, Ramp):
        return vector.base + vector.stride * cast(vector.base.dtype, lane)
    if isinstance(vector, Broadcast):
        return vector.value
    return None


def negated(condition: PrimExpr) -> PrimExpr:
    """Return the opposite of a condition, whose hints are dropped."""
    return Not(all_of(*conjuncts(condition, through_likely=True)))
