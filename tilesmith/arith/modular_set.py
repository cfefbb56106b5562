"""Defines residues: an integer is known to have the form ``coeff * k + base``."""

from __future__ import annotations

from math import gcd

__all__ = ["ModularSet"]

Residue = tuple[int, int]
"""(coeff, base): the values ``coeff * k + base``; a coefficient of 0 means the constant base."""

ANY: Residue = (1, 0)


class ModularSet:
    """Stands for the integers ``coeff * k + base``; ``coeff`` 0 means exactly ``base``."""

    __slots__ = ("base", "coeff")

    def __init__(self, coeff: int, base: int) -> None:
        self.coeff = int(coeff)
        self.base = int(base)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModularSet):
            return NotImplemented
        return (self.coeff, self.base) == (other.coeff, other.base)

    def __hash__(self) -> int:
        return hash((self.coeff, self.base))

    def __repr__(self) -> str:
        return f"ModularSet(coeff={self.coeff}, base={self.base})"


def reduced(coeff: int, base: int) -> Residue:
    """Returns a residue with a non-negative coefficient and a base below it."""
    coeff = abs(coeff)
    return coeff, (base % coeff if coeff else base)


def union_residue(a: Residue, b: Residue) -> Residue:
    """Returns the finest residue that contains both."""
    return reduced(gcd(gcd(a[0], b[0]), a[1] - b[1]), a[1])


def intersect_residue(a: Residue, b: Residue) -> Residue:
    """Returns the intersection: the finer residue if one contains the other, else by the Chinese
    remainder theorem.
    """
    if a[0] == 0 or b[0] == 0:
        return a if a[0] == 0 else b
    common = gcd(a[0], b[0])
    if (a[1] - b[1]) % common:
        return a  # cannot be: the code is unreachable
    modulus = a[0] // common * b[0]
    step = (b[1] - a[1]) // common * pow(a[0] // common, -1, b[0] // common)
    return reduced(modulus, a[1] + a[0] * step)


def product_residue(a: Residue, b: Residue) -> Residue:
    """Multiplies residues: (pk + q)(rl + s) is a multiple of gcd(pr, ps, qr), plus qs."""
    return reduced(gcd(gcd(a[0] * b[0], a[0] * b[1]), a[1] * b[0]), a[1] * b[1])
