"""Provisional: integer analysis that is small and sound, until the full one stands."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import Any

from tilesmith.ir import (
    EQ, GE, GT, LE, LT, NE, Add, And, BinaryOp, Broadcast, Call, Cast, CompareOp, FloorDiv, FloorMod, IntImm, Max,
    Min, Mul, Not, Or, PrimExpr, Ramp, Range, Rewriter, Select, Sub, Var, const,
)  # fmt: skip
from tilesmith.ir import operators as op

INF = math.inf


class Bound:
    def __init__(self, low: float, high: float) -> None:
        self.min_value, self.max_value = low, high


class Linear:
    """const + sum coefficient * atom; atoms by key."""

    __slots__ = ("const", "terms")

    def __init__(self, constant: int = 0, terms: dict | None = None) -> None:
        self.const = constant
        self.terms = terms or {}

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        terms = dict(self.terms)
        for key, value in other.terms.items():
            total = terms.get(key, 0) + factor * value
            if total:
                terms[key] = total
            else:
                terms.pop(key, None)
        return Linear(self.const + factor * other.const, terms)

    def times(self, factor: int) -> Linear:
        if factor == 0:
            return Linear()
        return Linear(self.const * factor, {k: v * factor for k, v in self.terms.items()})


class Analyzer:
    def __init__(self) -> None:
        self.ranges: dict[Var, tuple[float, float]] = {}
        self.replaced: dict[Var, PrimExpr] = {}
        self.atoms: dict[Any, PrimExpr] = {}
        self.numbers: dict[Any, int] = {}
        self.facts: list[PrimExpr] = []

    def bind(self, var: Var, value: Any, allow_override: bool = True) -> None:
        if isinstance(value, Range):
            low = self.const_int_bound(value.min).min_value
            high = self.const_int_bound(value.min + value.extent - 1).max_value
            self.ranges[var] = (low, high)
            if op.is_const(value.extent, 1):
                self.replaced[var] = value.min
        else:
            self.replaced[var] = value

    def update(self, var: Var, info: Any, override: bool = False) -> None:
        self.ranges[var] = (info.min_value, info.max_value)

    @contextmanager
    def constraint_scope(self, condition: PrimExpr) -> Any:
        saved = dict(self.ranges)
        self._learn(condition)
        yield
        self.ranges = saved

    def _learn(self, condition: PrimExpr) -> None:
        if isinstance(condition, And):
            self._learn(condition.a)
            self._learn(condition.b)
        elif isinstance(condition, (LT, LE, GT, GE)) and isinstance(condition.a, Var):
            low, high = self.ranges.get(condition.a, (-INF, INF))
            other = self.const_int_bound(condition.b)
            if isinstance(condition, LT):
                high = min(high, other.max_value - 1)
            elif isinstance(condition, LE):
                high = min(high, other.max_value)
            elif isinstance(condition, GT):
                low = max(low, other.min_value + 1)
            else:
                low = max(low, other.min_value)
            self.ranges[condition.a] = (low, high)

    # bounds
    def const_int_bound(self, e: Any) -> Bound:
        if isinstance(e, int):
            return Bound(e, e)
        return Bound(*self._bound(e))

    def _bound(self, e: Any) -> tuple[float, float]:
        if isinstance(e, IntImm):
            return e.value, e.value
        if isinstance(e, Var):
            if e in self.ranges:
                return self.ranges[e]
            if type(e).__name__ == "SizeVar":
                return 0, INF
            return -INF, INF
        if isinstance(e, (Add, Sub, Mul, Min, Max)):
            (a, b), (c, d) = self._bound(e.a), self._bound(e.b)
            if isinstance(e, Add):
                return a + c, b + d
            if isinstance(e, Sub):
                return a - d, b - c
            if isinstance(e, Min):
                return min(a, c), min(b, d)
            if isinstance(e, Max):
                return max(a, c), max(b, d)
            products = [0 if 0 in (x, y) else x * y for x in (a, b) for y in (c, d)]
            return min(products), max(products)
        if isinstance(e, (FloorDiv, FloorMod)) and isinstance(e.b, IntImm) and e.b.value > 0:
            low, high = self._bound(e.a)
            n = e.b.value
            if isinstance(e, FloorDiv):
                return (low if low == -INF else low // n), (high if high == INF else high // n)
            if low >= 0 and high < n:
                return low, high
            return 0, n - 1
        if isinstance(e, Select):
            (a, b), (c, d) = self._bound(e.true_value), self._bound(e.false_value)
            return min(a, c), max(b, d)
        if isinstance(e, Cast) and e.dtype.is_int and e.value.dtype.is_int:
            return self._bound(e.value)
        return -INF, INF

    def modular_set(self, e: PrimExpr) -> Any:
        linear = self._linear(e)
        coefficient = 0
        for value in linear.terms.values():
            coefficient = math.gcd(coefficient, value)
        return type(
            "ModularSet",
            (),
            {
                "coeff": coefficient,
                "base": linear.const % coefficient if coefficient else linear.const,
            },
        )

    # linear forms
    def _atom(self, e: PrimExpr) -> Linear:
        return Linear(0, {self._number(e): 1})

    def _number(self, e: PrimExpr) -> int:
        key = self._key(e)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.numbers)
            self.atoms[number] = e
        return number

    def _key(self, e: PrimExpr) -> Any:
        if isinstance(e, Var):
            return e
        if isinstance(e, IntImm):
            return (e.value, e.dtype)
        if isinstance(e, BinaryOp):
            return (type(e), self._number(e.a), self._number(e.b))
        if (
            isinstance(e, Call)
            and all(isinstance(a, PrimExpr) for a in e.args)
            and not e.op.get_attr("TCallEffectKind", 1) > 1
            if isinstance(e, Call) and hasattr(e.op, "get_attr")
            else False
        ):
            return (Call, e.op, *[self._number(a) for a in e.args])
        return id(e), self._keep(e)

    def _keep(self, e: Any) -> int:
        self.atoms[("kept", id(e))] = e
        return 0

    def _linear(self, e: PrimExpr) -> Linear:
        if isinstance(e, IntImm):
            return Linear(e.value)
        if isinstance(e, Var):
            if e in self.replaced:
                return self._linear(op.cast(e.dtype, self.replaced[e]))
            low, high = self.ranges.get(e, (-INF, INF))
            return Linear(int(low)) if low == high else self._atom(e)
        if isinstance(e, Add):
            return self._linear(e.a).plus(self._linear(e.b))
        if isinstance(e, Sub):
            return self._linear(e.a).plus(self._linear(e.b), -1)
        if isinstance(e, Mul):
            a, b = self._linear(e.a), self._linear(e.b)
            if not a.terms:
                return b.times(a.const)
            if not b.terms:
                return a.times(b.const)
            return self._atom(Mul(self._expr(a, e.dtype), self._expr(b, e.dtype)))
        if isinstance(e, (FloorDiv, FloorMod)):
            return self._division(e)
        if isinstance(e, (Min, Max)):
            a, b = self._linear(e.a), self._linear(e.b)
            low, high = self._bound_of(a.plus(b, -1), e.dtype)
            if high <= 0:
                return a if isinstance(e, Min) else b
            if low >= 0:
                return b if isinstance(e, Min) else a
            return self._atom(type(e)(self._expr(a, e.dtype), self._expr(b, e.dtype)))
        return self._atom(self._other(e))

    def _division(self, e: Any) -> Linear:
        a, b = self._linear(e.a), self._linear(e.b)
        if b.terms or b.const <= 0:
            return self._atom(type(e)(self._expr(a, e.dtype), self._expr(b, e.dtype)))
        n = b.const
        whole, rest = Linear(), Linear()
        for key, value in a.terms.items():
            if value % n == 0:
                whole.terms[key] = value // n
            else:
                rest.terms[key] = value
        whole.const, rest.const = a.const // n, a.const % n
        low, high = self._bound_of(rest, e.dtype)
        is_div = isinstance(e, FloorDiv)
        if low >= 0 and high < n:
            return whole if is_div else rest
        factor = n
        for value in rest.terms.values():
            factor = math.gcd(factor, value)
        if factor > 1:
            remainder = rest.const % factor
            inner = Linear(rest.const // factor, {k: v // factor for k, v in rest.terms.items()})
            expr = self._expr(inner, e.dtype)
            if factor == n:
                return whole.plus(inner) if is_div else Linear(remainder)
            made = self._division_atom(type(e), inner, expr, n // factor, e.dtype)
            return whole.plus(made) if is_div else made.times(factor).plus(Linear(remainder))
        made = self._division_atom(type(e), rest, self._expr(rest, e.dtype), n, e.dtype)
        return whole.plus(made) if is_div else made

    def _division_atom(
        self, kind: type, form: Linear, expr: PrimExpr, n: int, dtype: Any
    ) -> Linear:
        low, high = self._bound_of(form, dtype)
        if low >= 0 and high < n:
            return Linear() if kind is FloorDiv else form
        if len(form.terms) == 1 and form.const == 0:
            ((key, value),) = form.terms.items()
            atom = self.atoms[key]
            if (
                value == 1
                and isinstance(atom, FloorDiv)
                and isinstance(atom.b, IntImm)
                and kind is FloorDiv
            ):
                return self._division(FloorDiv(atom.a, const(atom.b.value * n, dtype)))
            if (
                value == 1
                and isinstance(atom, FloorMod)
                and isinstance(atom.b, IntImm)
                and atom.b.value % n == 0
                and kind is FloorMod
            ):
                return self._division(FloorMod(atom.a, const(n, dtype)))
        return self._atom(kind(expr, const(n, dtype)))

    def _bound_of(self, form: Linear, dtype: Any) -> tuple[float, float]:
        form = self._joined(form)
        low: float = form.const
        high: float = form.const
        for key, value in form.terms.items():
            a, b = self._bound(self.atoms[key])
            low += value * (a if value > 0 else b)
            high += value * (b if value > 0 else a)
        return low, high

    def _joined(self, form: Linear) -> Linear:
        """c * n * (x // n) + c * (x % n) -> c * x."""
        changed = True
        while changed:
            changed = False
            for key, value in list(form.terms.items()):
                atom = self.atoms[key]
                if isinstance(atom, FloorMod) and isinstance(atom.b, IntImm):
                    quotient = self._linear(FloorDiv(atom.a, atom.b))
                    scaled = quotient.times(value * atom.b.value)
                    if scaled.terms and all(
                        form.terms.get(k) == v for k, v in scaled.terms.items()
                    ):
                        form = form.plus(scaled, -1).plus(self._atom(atom), -value)
                        form = form.plus(self._linear(atom.a).times(value))
                        changed = True
                        break
        return form

    def _expr(self, form: Linear, dtype: Any) -> PrimExpr:
        form = self._joined(form)
        result: PrimExpr | None = None
        negative = []
        for key, value in form.terms.items():
            if value < 0:
                negative.append((key, -value))
                continue
            term = self.atoms[key] * const(value, dtype) if value != 1 else self.atoms[key]
            result = term if result is None else result + term
        if result is None and form.const >= 0 and negative:
            result = const(form.const, dtype)
            rest = 0
        else:
            rest = form.const
        for key, value in negative:
            term = self.atoms[key] * const(value, dtype) if value != 1 else self.atoms[key]
            result = const(0, dtype) - term if result is None else result - term
        if result is None:
            return const(form.const, dtype)
        if rest > 0:
            return result + const(rest, dtype)
        return result - const(-rest, dtype) if rest < 0 else result

    def _other(self, e: PrimExpr) -> PrimExpr:
        return _Parts(self).children(e)

    def simplify(self, e: Any, steps: int = 2) -> PrimExpr:
        if isinstance(e, (Var, IntImm)) and not (
            isinstance(e, Var) and (e in self.replaced or e in self.ranges)
        ):
            return e
        if e.dtype.is_int and e.dtype.lanes == 1 and e.dtype.bits >= 32:
            made = self._expr(self._linear(e), e.dtype)
            return made
        if isinstance(e, CompareOp) and e.a.dtype.is_int and e.a.dtype.lanes == 1:
            low, high = self._bound_of(self._linear(e.a).plus(self._linear(e.b), -1), e.a.dtype)
            answers = {LT: (high < 0, low >= 0), LE: (high <= 0, low > 0), GT: (low > 0, high <= 0),
                       GE: (low >= 0, high < 0), EQ: (low == high == 0, low > 0 or high < 0),
                       NE: (low > 0 or high < 0, low == high == 0)}  # fmt: skip
            yes, no = answers[type(e)]
            if yes or no:
                return const(bool(yes), "bool")
        if isinstance(e, And):
            return op.logical_and(self.simplify(e.a), self.simplify(e.b))
        if isinstance(e, Or):
            return op.logical_or(self.simplify(e.a), self.simplify(e.b))
        if isinstance(e, Not):
            return op.logical_not(self.simplify(e.a))
        return self._other(e)

    rewrite_simplify = canonical_simplify = simplify

    def can_prove(self, condition: Any, strength: Any = None) -> bool:
        if isinstance(condition, bool):
            return condition
        return op.is_const(self.simplify(condition), 1)

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        a, b = op.match_types(a, b)
        if not (a.dtype.is_int and a.dtype.lanes == 1):
            return a is b
        form = self._joined(self._linear(a).plus(self._linear(b), -1))
        return not form.terms and form.const == 0

    def can_prove_greater_equal(self, e: PrimExpr, value: int) -> bool:
        return self.const_int_bound(self.simplify(e)).min_value >= value

    def can_prove_less(self, e: PrimExpr, value: int) -> bool:
        return self.const_int_bound(self.simplify(e)).max_value < value

    def int_set(self, e: PrimExpr, dom_map: Any = None) -> IntSet:
        return eval_set(e, dom_map or {})


class _Parts(Rewriter):
    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def visit_PrimExpr(self, e: PrimExpr) -> PrimExpr:
        return self.analyzer.simplify(e)

    visit_Var = visit_PrimExpr

    def visit_default(self, node: Any) -> Any:
        return node if not hasattr(node, "dtype") else self.analyzer.simplify(node)

    def visit_Select(self, e: Any) -> Any:
        return self.children(e)

    def children(self, e: Any) -> Any:
        new = e.map_children(lambda c: self.analyzer.simplify(c) if isinstance(c, PrimExpr) else c)
        if isinstance(new, Select) and isinstance(new.condition, IntImm):
            return new.true_value if new.condition.value else new.false_value
        if (
            isinstance(new, Call)
            and getattr(new.op, "name", "") == "tir.if_then_else"
            and isinstance(new.args[0], IntImm)
        ):
            return new.args[1] if new.args[0].value else new.args[2]
        return new


class IntSet:
    def __init__(self, low: Any, high: Any) -> None:
        self.min_value, self.max_value = low, high

    def has_lower_bound(self) -> bool:
        return self.min_value is not None

    def has_upper_bound(self) -> bool:
        return self.max_value is not None

    def is_everything(self) -> bool:
        return self.min_value is None and self.max_value is None

    @staticmethod
    def single_point(point: Any) -> IntSet:
        return IntSet(point, point)

    @staticmethod
    def interval(low: Any, high: Any) -> IntSet:
        return IntSet(low, high)


IntervalSet = IntSet


def eval_set(e: PrimExpr, domain: dict) -> IntSet:
    def bounds(node: PrimExpr) -> tuple[Any, Any]:
        if isinstance(node, Var):
            found = domain.get(node)
            if found is None:
                return node, node
            if isinstance(found, Range):
                return found.min, found.min + found.extent - 1
            return found.min_value, found.max_value
        if isinstance(node, IntImm):
            return node, node
        if isinstance(node, (Add, Sub, Min, Max)):
            (a, b), (c, d) = bounds(node.a), bounds(node.b)
            if isinstance(node, Sub):
                c, d = d, c
            function = {Add: op.add, Sub: op.subtract, Min: op.minimum, Max: op.maximum}[type(node)]
            return (
                None if a is None or c is None else function(a, c),
                None if b is None or d is None else function(b, d),
            )
        if isinstance(node, Mul):
            (a, b), (c, d) = bounds(node.a), bounds(node.b)
            for (x, y), k in (((a, b), c), ((c, d), a)):
                if (
                    isinstance(k, IntImm)
                    and x is not None
                    and y is not None
                    and (k is d or k is b or isinstance(d if k is c else b, IntImm))
                ):
                    if k is c and c is not d and not (isinstance(d, IntImm) and d.value == k.value):
                        continue
                    return (x * k, y * k) if k.value >= 0 else (y * k, x * k)
            if a is b and c is d:
                return node, node
            return None, None
        if (
            isinstance(node, (FloorDiv, FloorMod))
            and isinstance(node.b, IntImm)
            and node.b.value > 0
        ):
            a, b = bounds(node.a)
            if isinstance(node, FloorDiv):
                return (
                    None if a is None else op.floordiv(a, node.b),
                    None if b is None else op.floordiv(b, node.b),
                )
            if a is b and a is not None:
                return (op.floormod(a, node.b),) * 2
            return const(0, node.dtype), node.b - 1
        if isinstance(node, Cast) and node.value.dtype.is_integer:
            a, b = bounds(node.value)
            return (
                None if a is None else op.cast(node.dtype, a),
                None if b is None else op.cast(node.dtype, b),
            )
        uses: list = []
        from tilesmith.ir import post_order_visit

        post_order_visit(
            node, lambda n: uses.append(n) if isinstance(n, Var) and n in domain else None
        )
        return (None, None) if uses else (node, node)

    return IntSet(*bounds(e))


class IterMapResult:
    def __init__(self, indices: list, errors: list) -> None:
        self.indices, self.errors = indices, errors
        self.padding_predicate = const(False, "bool")


def detect_iter_map(
    indices: list,
    input_iters: dict,
    predicate: Any = True,
    check_level: Any = None,
    require_bijective: bool = False,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """By counting where domains are small, by mixed radix forms elsewhere."""
    analyzer = Analyzer()
    sizes = {}
    for var, dom in input_iters.items():
        if not isinstance(dom.extent, IntImm):
            return IterMapResult([], ["symbolic"])
        sizes[var] = dom.extent.value
        analyzer.bind(var, dom)
    covered: dict[Var, list[tuple[int, int]]] = {}
    for index in indices:
        linear = analyzer._joined(analyzer._linear(index))
        parts = []
        for key, scale in linear.terms.items():
            atom = analyzer.atoms[key]
            var, lower, extent = _split_of(atom, sizes)
            if var is None:
                return IterMapResult([], [f"{index} is not affine"])
            parts.append((abs(scale), extent))
            for other_lower, other_extent in covered.get(var, ()):
                if lower < other_lower * other_extent and other_lower < lower * extent:
                    return IterMapResult([], [f"{index} overlaps"])
            covered.setdefault(var, []).append((lower, extent))
        reach = 1
        for scale, extent in sorted(parts):
            if scale < reach:
                return IterMapResult([], [f"{index} overlaps itself"])
            reach = scale * extent
    return IterMapResult(list(indices), [])


def _split_of(atom: PrimExpr, sizes: dict) -> tuple:
    if isinstance(atom, Var) and atom in sizes:
        return atom, 1, sizes[atom]
    if isinstance(atom, FloorMod) and isinstance(atom.b, IntImm):
        var, lower, extent = _split_of(atom.a, sizes)
        if var is not None:
            return var, lower, min(extent, atom.b.value)
    if isinstance(atom, FloorDiv) and isinstance(atom.b, IntImm):
        var, lower, extent = _split_of(atom.a, sizes)
        if var is not None:
            return var, lower * atom.b.value, -(-extent // atom.b.value)
    return None, 0, 0
