"""Builds formulas whose parts have names, so that each part is computed once."""

from __future__ import annotations

from itertools import zip_longest

from tilesmith.ir import Broadcast, Call, FloatImm, IntImm, Let, PrimExpr, Var, const
from tilesmith.runtime.dtype import DataType

__all__ = ["Formula"]


class Formula:
    """A formula over vectors (or scalars) of one float dtype, written step by step.

    f = Formula(x.dtype)
    y = f.name(x * x, "y")          # from here on y is a variable
    return f.result(y * f(2.0) + y)
    """

    def __init__(self, dtype: DataType, scales: bool = False) -> None:
        self.dtype = dtype
        self.scales = scales
        """Whether the machine multiplies vectors by powers of two in one instruction."""
        self.integer = DataType(f"int{dtype.bits}").with_lanes(dtype.lanes)
        self.parts: list[tuple[Var, PrimExpr]] = []

    def wide(self) -> Formula:
        """Return the same formula continued in float64."""
        other = Formula(DataType("float64").with_lanes(self.dtype.lanes))
        other.parts = self.parts
        return other

    def __call__(self, value: float) -> PrimExpr:
        """Return a constant of the formula's dtype."""
        return const(value, self.dtype)

    def whole(self, value: int) -> PrimExpr:
        """Return an integer constant, as wide as the floats, in all lanes."""
        return const(value, self.integer)

    def name(self, value: PrimExpr, hint: str) -> PrimExpr:
        """Bind a part to a new variable, and return the variable."""
        if isinstance(value, (Var, IntImm, FloatImm)) or (
            isinstance(value, Broadcast) and isinstance(value.value, (IntImm, FloatImm))
        ):
            return value
        var = Var(hint, value.dtype)
        self.parts.append((var, value))
        return var

    def bits(self, value: PrimExpr) -> PrimExpr:
        """Return the bits of a float as an integer."""
        return Call(self.integer, "tir.reinterpret", (value,))

    def from_bits(self, value: PrimExpr) -> PrimExpr:
        """Return the float with the given bits."""
        return Call(self.dtype, "tir.reinterpret", (value,))

    def polynomial(self, x: PrimExpr, coefficients: tuple[float, ...]) -> PrimExpr:
        """Return the polynomial with coefficients from degree 0 upward, by Horner's rule."""
        value = self(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = value * x + self(coefficient)
        return value

    def polynomial_in_pairs(
        self, x: PrimExpr, square: PrimExpr, coefficients: tuple[float, ...]
    ) -> PrimExpr:
        """Return the same polynomial by Horner's rule in ``square = x * x``, whose coefficients are
        linear in x: half as many operations wait for each other."""
        pairs = []
        for low, high in zip_longest(coefficients[::2], coefficients[1::2]):
            pairs.append(self(low) if high is None else x * self(high) + self(low))
        value = pairs[-1]
        for pair in pairs[-2::-1]:
            value = value * square + pair
        return value

    def result(self, value: PrimExpr) -> PrimExpr:
        """Return the whole formula as one expression."""
        for var, part in reversed(self.parts):
            value = Let(var, part, value)
        return value
