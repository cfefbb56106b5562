"""Inverts index maps with symbols as sizes and divisors: ``i -> i // n, i % n`` of size ``m * n``.

Sizes, divisors and factors are products of numbers and symbols, all positive. An index is a sum of
digits of the old indices in mixed radix, as in ``index_map_digits``; here each division has to come
out even, so that there is no padding and no comparison of symbols is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilesmith.ir import (
    Add,
    Cast,
    Dispatcher,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Var,
    const,
)
from tilesmith.ir.operators import cast, floordiv, floormod
from tilesmith.tir.index_map_digits import NotPlainError

__all__ = ["EvenDigits", "Product"]


class Product(NamedTuple):
    """A number times symbols, each as often as it occurs, in the order of their first use."""

    number: int
    symbols: tuple[Var, ...] = ()

    @staticmethod
    def of(expr: PrimExpr, indices: Mapping[Var, Any]) -> Product:
        """Return an expression as a product; raises NotPlainError where it is not one."""
        if isinstance(expr, IntImm) and expr.value > 0:
            return Product(expr.value)
        if isinstance(expr, Cast):
            return Product.of(expr.value, indices)
        if isinstance(expr, Var) and expr not in indices:
            return Product(1, (expr,))
        if isinstance(expr, Mul):
            return Product.of(expr.a, indices).times(Product.of(expr.b, indices))
        raise NotPlainError

    def times(self, other: Product) -> Product:
        """Return the product of both."""
        return Product(self.number * other.number, self.symbols + other.symbols)

    def divided_by(self, other: Product) -> Product | None:
        """Return the quotient; None where the division does not come out even for all symbols."""
        if self.number % other.number:
            return None
        left = list(self.symbols)
        for symbol in other.symbols:
            place = next((k for k, one in enumerate(left) if one is symbol), None)
            if place is None:
                return None
            del left[place]
        return Product(self.number // other.number, tuple(left))

    def equals(self, other: Product) -> bool:
        """Return whether both are the same product."""
        quotient = self.divided_by(other)
        return quotient is not None and quotient.is_one()

    def is_one(self) -> bool:
        """Return whether this is the number 1."""
        return self.number == 1 and not self.symbols

    def expression(self, dtype: Any) -> PrimExpr:
        """Return the product as an expression."""
        result: PrimExpr = const(self.number, dtype)
        for number, symbol in enumerate(self.symbols):
            factor = cast(dtype, symbol)
            result = factor if number == 0 and self.number == 1 else result * factor
        return result


_ONE = Product(1)


class _Digit(NamedTuple):
    """``scale * ((variable // lower) % extent)``."""

    variable: Var
    lower: Product
    extent: Product
    scale: Product

    def end(self) -> Product:
        """Return the scale of a digit that would come next."""
        return self.extent.times(self.scale)


_Digits = list[_Digit]


class EvenDigits:
    """The digits of old indices that new indices consist of."""

    def __init__(
        self, indices: Sequence[Var], sizes: Sequence[PrimExpr], final: Sequence[PrimExpr]
    ) -> None:
        """Raises NotPlainError where a new index is not a sum of digits without gaps."""
        own = dict.fromkeys(indices)
        self.sizes = {v: Product.of(size, own) for v, size in zip(indices, sizes)}
        splitter = _Splitter(self.sizes)
        self.rows = [_chain(splitter.visit(index)) for index in final]

    def extent(self, number: int, dtype: Any) -> PrimExpr:
        """Return the number of values of a new index."""
        row = self.rows[number]
        return (row[-1].end() if row else _ONE).expression(dtype)

    def inverse(self, outputs: Sequence[Var]) -> list[PrimExpr]:
        """Return the old indices in terms of the new ones; raises NotPlainError where a new index
        leaves places unused, or elements share places."""
        found: dict[Var, list[tuple[_Digit, PrimExpr]]] = {v: [] for v in self.sizes}
        for row, output in zip(self.rows, outputs):
            for number, digit in enumerate(row):
                value: PrimExpr = output
                if number:
                    value = floordiv(value, digit.scale.expression(output.dtype))
                if number + 1 < len(row):
                    value = floormod(value, digit.extent.expression(output.dtype))
                found[digit.variable].append((digit, value))
        return [self._value(variable, digits) for variable, digits in found.items()]

    def _value(self, variable: Var, digits: list[tuple[_Digit, PrimExpr]]) -> PrimExpr:
        """Return an old index as the sum of its digits, which have to be all of them, each once."""
        terms: list[PrimExpr] = []
        covered = _ONE
        left = list(digits)
        while left:
            fitting = [item for item in left if item[0].lower.equals(covered)]
            if len(fitting) != 1:
                raise NotPlainError
            digit, part = fitting[0]
            left = [item for item in left if item is not fitting[0]]
            terms.append(cast(variable.dtype, part) * covered.expression(variable.dtype))
            covered = digit.extent.times(covered)
        if not covered.equals(self.sizes[variable]):
            raise NotPlainError
        value: PrimExpr = const(0, variable.dtype)
        for term in reversed(terms):
            value = value + term
        return value


def _chain(digits: _Digits) -> _Digits:
    """Return digits from the lowest one on, each beginning where the one before it ends."""
    left = [digit for digit in digits if not digit.extent.is_one()]
    chain: _Digits = []
    below = _ONE
    while left:
        fitting = [digit for digit in left if digit.scale.equals(below)]
        if len(fitting) != 1:
            raise NotPlainError
        left = [digit for digit in left if digit is not fitting[0]]
        chain.append(fitting[0])
        below = fitting[0].end()
    return chain


class _Splitter(Dispatcher[_Digits]):
    """Splits an index into digits of the variables."""

    def __init__(self, sizes: dict[Var, Product]) -> None:
        self.sizes = sizes

    def visit_default(self, node: Any) -> _Digits:
        raise NotPlainError

    def visit_IntImm(self, node: IntImm) -> _Digits:
        if node.value:
            raise NotPlainError
        return []

    def visit_Var(self, node: Var) -> _Digits:
        if node not in self.sizes:
            raise NotPlainError
        return [_Digit(node, _ONE, self.sizes[node], _ONE)]

    def visit_Cast(self, node: Cast) -> _Digits:
        return self.visit(node.value)

    def visit_Add(self, node: Add) -> _Digits:
        return self.visit(node.a) + self.visit(node.b)

    def visit_Mul(self, node: Mul) -> _Digits:
        try:
            value, factor = node.a, Product.of(node.b, self.sizes)
        except NotPlainError:
            value, factor = node.b, Product.of(node.a, self.sizes)
        return [digit._replace(scale=digit.scale.times(factor)) for digit in self.visit(value)]

    def visit_FloorDiv(self, node: FloorDiv) -> _Digits:
        return self.cut(node)[1]

    def visit_FloorMod(self, node: FloorMod) -> _Digits:
        return self.cut(node)[0]

    def cut(self, node: FloorDiv | FloorMod) -> tuple[_Digits, _Digits]:
        """Return the digits below a divisor and those from it on, divided by it."""
        by = Product.of(node.b, self.sizes)
        below: _Digits = []
        above: _Digits = []
        for digit in _chain(self.visit(node.a)):
            quotient = digit.scale.divided_by(by)
            if quotient is not None:
                above.append(digit._replace(scale=quotient))
                continue
            if by.divided_by(digit.end()) is not None:
                below.append(digit)
                continue
            low = by.divided_by(digit.scale)
            high = None if low is None else digit.extent.divided_by(low)
            if low is None or high is None:
                raise NotPlainError
            below.append(digit._replace(extent=low))
            above.append(digit._replace(lower=digit.lower.times(low), extent=high, scale=_ONE))
        return below, above
