"""Detects maps of iterators: whether indices over loops are independent, complete, and how to
invert them.

detect_iter_map([i * 16 + j], {i: Range(0, 8), j: Range(0, 16)}).indices     # one iterator over 128
detect_iter_map([i, i + j], ...)                                             # errors: i is used
twice
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.forms import Sum, factors_of, same_expression
from tilesmith.arith.iter_nodes import (
    IterMapExpr,
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    expression_of,
)  # fmt: skip
from tilesmith.arith.iter_parts import IterParts
from tilesmith.arith.iter_predicates import narrowed
from tilesmith.arith.iter_sizes import NotAffine, PaddingChanged
from tilesmith.ir import Add, PrimExpr, Range, Sub, Var, const, convert
from tilesmith.ir import operators as op
from tilesmith.ir.queries import variables
from tilesmith.support.errors import TilesmithError
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "IterMapExpr", "IterMapLevel", "IterMapResult", "IterMark", "IterSplitExpr", "IterSumExpr",
    "detect_iter_map", "find_iter_map",
    "inverse_affine_iter_map", "iter_map_simplify", "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
]  # fmt: skip


class IterMapResult:
    """Holds what ``detect_iter_map`` found.

    ``indices``: one `IterSumExpr` per index, empty if the map is not of the kind asked for;
    ``errors``: why
    not; ``padding_predicate``: where padded iterators are outside of what was given.
    """

    __slots__ = ("errors", "indices", "padding_predicate")

    def __init__(
        self, indices: Sequence[IterSumExpr], errors: Sequence[str], padding_predicate: PrimExpr
    ) -> None:
        self.indices = tuple(indices)
        self.errors = tuple(errors)
        self.padding_predicate = padding_predicate

    def __repr__(self) -> str:
        return f"IterMapResult({len(self.indices)} indices, errors={list(self.errors)})"


FALSE = const(False, "bool")


def domains_of(input_iters: Mapping[Var, Range]) -> dict[Var, Range]:
    """Returns the domains of iterators as ranges; a number stands for a range from zero."""
    return {
        var: dom if isinstance(dom, Range) else Range(0, dom) for var, dom in input_iters.items()
    }


def analyzer_of(domains: Mapping[Var, Range]) -> Analyzer:
    """Returns an analyzer that knows the domains of the iterators."""
    analyzer = Analyzer()
    for var, domain in domains.items():
        analyzer.bind(var, domain)
    return analyzer


def detect_iter_map(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """Writes each index as a sum of digits of the iterators, and checks that they are independent.

    The map goes from the points of ``input_iters`` where ``predicate`` holds to the box of the
    indices. ``Surjective``: every point of the box is hit, each index has its digits for itself.
    ``Bijective``:
    exactly once. A division that does not come out even pads the iterator, unless bijective.

    Each index is one digit of a sum that it is the whole of, ``split(mark(sum of digits))``.
    Unless bijective, the digits may overlap as in ``i + j``, which hits every point as well.
    """
    options = check_level, simplify_trivial_iterators, True
    found = find_iter_map(indices, input_iters, predicate, *options)
    wrapped = [_wrapped(index) for index in found.indices]
    return IterMapResult(wrapped, found.errors, found.padding_predicate)


def _wrapped(form: IterSumExpr) -> IterSumExpr:
    if len(form.args) != 1:
        return form
    (arg,) = form.args
    if isinstance(arg.source.source, IterSumExpr) and is_whole(arg):
        return form
    zero = form.base if op.is_const(form.base, 0) else const(0, arg.dtype)
    inner = arg
    if not op.is_const(arg.scale, 1):
        inner = IterSplitExpr(arg.source, arg.lower_factor, arg.extent)
    mark = IterMark(IterSumExpr((inner,), zero), arg.extent)
    return IterSumExpr((IterSplitExpr(mark, 1, arg.extent, arg.scale),), form.base)


def is_whole(arg: IterSplitExpr) -> bool:
    """Returns True if a digit is all of its iterator, in the same dtype."""
    return op.is_const(arg.lower_factor, 1) and same_expression(arg.extent, arg.source.extent)


@deep_recursion
def find_iter_map(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    overlaps: bool = False,
) -> IterMapResult:
    """Does the same as `detect_iter_map`, but returns an index that is one digit of an iterator as
    that digit, and allows digits that overlap only on request.
    """
    level = IterMapLevel.from_str(check_level)
    level = IterMapLevel.Surjective if level is None else level
    domains = domains_of(input_iters)
    exprs, condition = [convert(index) for index in indices], convert(predicate)
    overlaps = overlaps and level is not IterMapLevel.Bijective
    if level is not IterMapLevel.Bijective:
        domains = _used(domains, [*exprs, condition])
    options = level, simplify_trivial_iterators, overlaps
    first = _attempt(exprs, domains, condition, *options)
    if first.indices or not exprs:
        return first
    analyzer = analyzer_of(domains)
    simple = [analyzer.simplify(expr) for expr in exprs]
    simple_condition = analyzer.simplify(condition)
    if all(a is b for a, b in zip(simple, exprs)) and simple_condition is condition:
        return first
    second = _attempt(simple, domains, simple_condition, *options)
    return second if second.indices else first


def _used(domains: dict[Var, Range], exprs: list[PrimExpr]) -> dict[Var, Range]:
    """Returns the domains of the iterators that occur in expressions, and in each other's domains:
    unless a map is to be bijective, it does not matter that there are others.
    """
    found: set[Var] = set()
    left = variables(exprs)
    while left:
        more = [var for var in left if var in domains and var not in found]
        found.update(more)
        left = variables([domains[var] for var in more])
    return {var: domain for var, domain in domains.items() if var in found}


def _attempt(
    exprs: list[PrimExpr],
    domains: dict[Var, Range],
    predicate: PrimExpr,
    level: IterMapLevel,
    simplify_trivial: bool,
    overlaps: bool,
) -> IterMapResult:
    paddings: dict[Any, list[tuple[int, int]]] = {}
    domains, predicate = narrowed(domains, predicate)
    for _ in range(8):
        parts = IterParts(level is not IterMapLevel.Bijective, paddings, overlaps)
        try:
            for var, domain in domains.items():
                parts.iterators.add_iterator(var, domain, simplify_trivial)
            parts.predicates.add(predicate)
            sums = [parts.fuser.fuse(parts.rewriter.visit(expr)) for expr in exprs]
            if level is not IterMapLevel.NoCheck:
                parts.checker.check(sums, level)
            return IterMapResult(sums, (), _padding_predicate(parts))
        except NotAffine as error:
            return IterMapResult((), (str(error),), FALSE)
        except PaddingChanged:
            continue
    return IterMapResult((), ("the paddings of the iterators do not settle",), FALSE)


def _padding_predicate(parts: IterParts) -> PrimExpr:
    result: PrimExpr = FALSE
    for mark, left, end in parts.divider.padded:
        value = expression_of(mark)
        if not op.is_const(left, 0):
            result = op.logical_or(result, value < left)
        if not parts.sizes.equal(end, mark.extent):
            result = op.logical_or(result, value >= end)
    return result


@deep_recursion
def normalize_to_iter_sum(index: Any, input_iters: Mapping[Var, Range]) -> IterSumExpr:
    """Returns the index as a sum of digits, largest scales first, without fusing or checking
    them; terms that are no digits are part of the base.
    """
    domains = domains_of(input_iters)
    parts = IterParts(True, None)
    for var, domain in domains.items():
        parts.iterators.add_iterator(var, domain, True)
    try:
        form = parts.rewriter.visit(convert(index))
    except NotAffine:
        form = _digits_and_base(parts, analyzer_of(domains).simplify(convert(index)))
    args = parts.sums.joined(list(form.args))
    normal = parts.sizes.analyzer.engine.normalizer.normal
    ordered = [(_size_of_scale(normal(arg.scale)), arg) for arg in args]
    ordered.sort(key=lambda item: item[0], reverse=True)
    return IterSumExpr([arg for _, arg in ordered], form.base)


def _digits_and_base(parts: IterParts, expr: PrimExpr) -> IterSumExpr:
    """Returns a sum of digits with the other terms as its base."""
    try:
        return parts.rewriter.visit(expr)
    except NotAffine:
        if not isinstance(expr, (Add, Sub)):
            return IterSumExpr((), expr)
    sides = _digits_and_base(parts, expr.a), _digits_and_base(parts, expr.b)
    try:
        return parts.sums.add(sides[0], sides[1], 1 if isinstance(expr, Add) else -1)
    except NotAffine:  # its numbers wrap around
        return IterSumExpr((), expr)


def _size_of_scale(scale: Sum) -> tuple[int, int]:
    """Compares scales: by the number of symbolic factors, then by the constant one."""
    sizes = [(len(factors_of(atom)), abs(factor)) for atom, factor in scale.terms.items()]
    return max([(0, abs(scale.const)), *sizes])


def normalize_iter_map_to_expr(expr: Any) -> PrimExpr:
    """Returns the plain expression of a sum, digit or iterator."""
    analyzer = Analyzer()
    return _shorter(expression_of(expr, analyzer), analyzer)


def _shorter(built: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """Returns an expression as it was built from digits, or simplified if that is shorter."""
    simple = analyzer.simplify(built)
    return built if _size(built) <= _size(simple) else simple


@deep_recursion
def iter_map_simplify(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[PrimExpr]:
    """Returns the indices simplified under the ranges of the iterators."""
    domains = domains_of(input_iters)
    trivial = simplify_trivial_iterators
    analyzer = analyzer_of(
        {v: dom for v, dom in domains.items() if trivial or not op.is_const(dom.extent, 1)}
    )
    exprs = [convert(index) for index in indices]
    with analyzer.constraint_scope(convert(predicate)):
        simple = [analyzer.simplify(expr) for expr in exprs]
    options = check_level, simplify_trivial_iterators, True
    found = find_iter_map(simple, domains, predicate, *options)
    if not found.indices:
        return [a if _size(a) <= _size(b) else b for a, b in zip(exprs, simple)]
    written = [_shorter(expression_of(index), analyzer) for index in found.indices]
    return [a if _size(a) < _size(b) else b for a, b in zip(simple, written)]


def _size(expr: PrimExpr) -> int:
    return 1 + sum([_size(inner) for inner in expr.children() if isinstance(inner, PrimExpr)])


# Inverse


@deep_recursion
def inverse_affine_iter_map(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[Any]
) -> dict[Var, PrimExpr]:
    """Returns the input iterators as functions of the indices; ``iter_map`` is the result of a
    bijective ``detect_iter_map``.
    """
    inverse = _Inverse()
    outputs = [convert(output) for output in outputs]
    if len(outputs) != len(iter_map):
        raise TilesmithError(f"{len(iter_map)} indices and {len(outputs)} outputs do not match")
    for form, output in reversed(list(zip(iter_map, outputs))):
        inverse.note_sum(form, output, False)
    inverse.propagate()
    analyzer = Analyzer()
    return {var: _shorter(value, analyzer) for var, value in inverse.result.items()}


class _Inverse:
    """Propagates values from sums to their digits, and from digits to iterators."""

    def __init__(self) -> None:
        self.values: dict[int, PrimExpr] = {}
        self.marks: dict[int, IterMark] = {}
        self.result: dict[Var, PrimExpr] = {}

    def note_sum(self, form: IterSumExpr, value: PrimExpr, exact: bool) -> None:
        """Splits the value of a sum into the values of its digits."""
        dtype = value.dtype
        value = value - op.cast(dtype, form.base)
        if len(form.args) == 1:
            arg = form.args[0]
            self.note_digit(arg, op.floordiv(value, op.cast(dtype, arg.scale)))
            return
        _check_radix(form)
        for position, arg in enumerate(form.args):
            digit = op.floordiv(value, op.cast(dtype, arg.scale))
            if position:  # the highest digit comes first and needs no remainder
                digit = op.floormod(digit, op.cast(dtype, arg.extent))
            self.note_digit(arg, digit)

    def note_digit(self, arg: IterSplitExpr, digit: PrimExpr) -> None:
        """Adds a digit to the value of its iterator."""
        mark = arg.source
        part = op.cast(arg.lower_factor.dtype, digit) * arg.lower_factor
        known = self.values.get(id(mark))
        self.marks[id(mark)] = mark
        self.values[id(mark)] = part if known is None else known + part

    def propagate(self) -> None:
        """Propagates the values of iterators that are sums to their digits, outer iterators
        first.
        """
        done: set[int] = set()
        while True:
            ready = [key for key in self.marks if key not in done and not self._is_part(key, done)]
            if not ready:
                return
            for key in ready:
                done.add(key)
                self._settle(self.marks[key], self.values[key])

    def _is_part(self, key: int, done: set[int]) -> bool:
        """Returns True if another iterator that is not done yet consists of this one, so that more
        digits may follow.
        """
        for other, mark in self.marks.items():
            if other in done or other == key:
                continue
            if _consists_of(mark, key):
                return True
        return False

    def _settle(self, mark: IterMark, value: PrimExpr) -> None:
        source: Any = mark.source
        if isinstance(source, IterSumExpr):
            self.note_sum(source, value, True)
            return
        value = op.cast(source.dtype, value)
        if isinstance(source, Sub) and isinstance(source.a, Var):
            self.result[source.a] = value + source.b
        elif isinstance(source, Var):
            self.result[source] = value


def _check_radix(form: IterSumExpr) -> None:
    """Checks that each digit begins where the one below it ends."""
    analyzer = Analyzer()
    for high, low in zip(form.args, form.args[1:]):
        if not analyzer.can_prove_equal(high.scale, low.scale * low.extent):
            raise TilesmithError(f"{expression_of(form)} is not a bijective map of its iterators")


def _consists_of(mark: IterMark, key: int) -> bool:
    source = mark.source
    if not isinstance(source, IterSumExpr):
        return False
    return any(id(arg.source) == key or _consists_of(arg.source, key) for arg in source.args)
