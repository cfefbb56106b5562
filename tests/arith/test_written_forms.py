"""How results are written: the forms users know, of several that mean the same."""

from __future__ import annotations

import re

import pytest

from tests.arith.test_facts import Known, check_true, read
from tilesmith.ir import LE, LT, PrimExpr, const
from tilesmith.ir.operators import all_of
from tilesmith.ir.structural import structural_equal

COMPARISONS = [
    ("x + 5 < y + 3", "x + 2 < y"),
    ("x < y - 2", "x + 2 < y"),
    ("x - 2 < y", "x < y + 2"),
    ("x <= y - 2", "x + 2 <= y"),
    ("x <= y - 1", "x < y"),
    ("x + 1 > y", "y <= x"),
    ("x - 4 < z + c", "x < z + c + 4"),
    ("x + y < z + c - 4", "x + y + 4 < z + c"),
    ("x * -1 < 3", "-3 < x"),
    ("x * -2 < 7", "-4 < x"),
    ("3 - x < y", "3 < y + x"),
    ("0 - x <= 0", "0 <= x"),
    ("2 - x % 4 < y", "2 < y + x % 4"),
    ("x - 3 < 0", "x < 3"),
    ("0 < x - 3", "3 < x"),
    ("x + y + 3 < 0", "x + y < -3"),
    ("0 < x + y + 3", "-3 < x + y"),
    ("x + 3 == 0", "x == -3"),
    ("x + y + 3 == 1", "x + y == -2"),
    ("x - y < 5", "x - y < 5"),
    ("x < z - y", "x < z - y"),
    ("x - 4 == y", "x - 4 == y"),
]
REMAINDERS = [
    ("x * 3 % 2 * 2", "x % 2 * 2"),
    ("x * 16 % 7", "x * 2 % 7"),
    ("x * 7 % 8", "x * 7 % 8"),
    ("x * -9 % 8", "x * 7 % 8"),
    ("x * 9 % 8 // 2", "x % 8 // 2"),
    ("x * 9 // 2 % 4", "x % 8 // 2"),
    ("x * 9 // 8 * 8 + x * 9 % 8", "x * 9"),
    ("x * 9 // 8 * 16 + x * 9 % 8 * 2", "x * 18"),
    ("x * 9 - x * 9 // 8 * 8", "x % 8"),
    ("x * 9 % 8 - x % 8", "0"),
    ("l * 9 % 8", "l % 8"),
    ("u * uint8(9) % uint8(7)", "u * uint8(9) % uint8(7)"),  # may wrap around before
    ("(x * 12 + y) % 8", "(x * 4 + y) % 8"),
]

MINIMA = [
    ("max(x - 1, 0)", "max(x - 1, 0)"),
    ("min(x - 1, 7)", "min(x - 1, 7)"),
    ("min(3, x + 1)", "min(3, x + 1)"),
    ("max(x, 1) - 1", "max(x - 1, 0)"),
    ("max(x - 1, 0) + 1", "max(x, 1)"),
    ("5 - min(x, 5)", "max(5 - x, 0)"),
    ("max(x - 1, 0) + y", "max(x - 1, 0) + y"),
    ("y - max(x - 1, 0) + 1", "y + 1 - max(x - 1, 0)"),
    ("min(x + 2, 7) - 1", "min(x + 2, 7) - 1"),
    ("min(x + 1, y + 1)", "min(x, y) + 1"),
    ("min(x + 1, y + 2)", "min(x + 1, y + 2)"),
    ("min(x, x + y)", "min(x, x + y)"),
    ("min(x + y, x + 1)", "min(y, 1) + x"),
    ("min(x - y, x - z)", "x - max(y, z)"),
    ("min(3 - x, 5)", "3 - max(x, -2)"),
    ("min(3 - x * 2, 5)", "3 - max(x, -1) * 2"),
    ("min(5, 3 - x)", "min(5, 3 - x)"),
    ("min(x * 4, 8)", "min(x, 2) * 4"),
    ("min(8, x * 4)", "min(8, x * 4)"),
    ("min(x * 4, 6)", "min(x * 4, 6)"),
    ("min(x * 4 + 4, 8)", "min(x + 1, 2) * 4"),
    ("min(x * 4, y * 4 + 8)", "min(x * 4, y * 4 + 8)"),
    ("min(x * -4, y * -4)", "max(x, y) * -4"),
    ("min(n - x * 8, 8) + x * 8", "min(x * 8 + 8, n)"),
    ("min(min(x, 3), y)", "min(min(x, y), 3)"),
    ("min(x, min(y, z))", "min(x, min(y, z))"),
    ("min(x // 4, y // 4)", "min(x, y) // 4"),
    ("min(x // 4 * 4, (x + 3) // 4 * 4)", "x // 4 * 4"),
    ("max(min(x, y), min(x, z))", "min(max(y, z), x)"),
    ("z + min(x, y)", "min(x, y) + z"),
    ("min(x, y) + x // 4 + z", "x // 4 + min(x, y) + z"),
]
SUMS = [
    ("x - x * 2", "0 - x"),
    ("x * -1", "x * -1"),
    ("x * y + y", "(x + 1) * y"),
    ("y - x * y", "(1 - x) * y"),
    ("x * y * 4 - y * 4", "(x - 1) * y * 4"),
    ("y * 2 + x * y", "(x + 2) * y"),
    ("x * y + z * y + m", "(x + z) * y + m"),
    ("x * n * m + y * m", "(x * n + y) * m"),
]
DIVISIONS = [
    ("(x * 4 + 4) % 16", "(x * 4 + 4) % 16"),
    ("(x * 8 + y * 4 + 3) % 16", "(x * 8 + y * 4 + 3) % 16"),
    ("(x * 8 + 4) % 16", "x % 2 * 8 + 4"),
    ("(x * 4 + 4) % 16 + y * 16", "y * 16 + (x * 4 + 4) % 16"),
    ("x * 6 % 8", "x * 6 % 8"),
    ("(x * 6 + 4) // 8", "(x * 6 + 4) // 8"),
    ("(x * 4 + 4) // 8", "(x + 1) // 2"),
    ("x // -4", "x // -4"),
    ("(x + 1) % -4", "(x + 1) % -4"),
    ("x * y // (y * 4)", "x // 4"),
    ("x * y % (y * 4)", "x % 4 * y"),
    ("truncmod(x, -4)", "truncmod(x, 4)"),
    ("truncdiv(x * 4, 8)", "truncdiv(x, 2)"),
    ("truncmod(x * 4, 8)", "truncmod(x, 2) * 4"),
]
CONDITIONS = [
    ("x % 4 != 0", "0 < x % 4"),
    ("x % 4 <= 0", "x % 4 == 0"),
    ("x < x * 4 + y", "x < x * 4 + y"),
    ("x % 4 <= x + y", "x % 4 <= x + y"),
    ("x * 4 <= x - 1", "x < 0"),
    ("x + 1 <= x * 4", "0 < x"),
    ("x == min(x, y)", "x == min(x, y)"),
    ("Or(x < y, x == y)", "x <= y"),
    ("Or(x < y, y < x)", "x != y"),
    ("Or(x < 3, x == 3)", "x <= 3"),
    ("And(x != 3, x != 3)", "x != 3"),
    ("And(p, And(q, x < y))", "And(And(p, q), x < y)"),
    ("Select(x == 3, x + 1, x + 1)", "x + 1"),
]


def read_comparison(text: str) -> PrimExpr:
    """As `read`; Python itself turns ``3 < x`` around."""
    found = re.fullmatch(r"(-?\d+) (<=?) (.+)", text)
    if found is None:
        return read(text)
    return (LT if found[2] == "<" else LE)(const(int(found[1]), "int32"), read(found[3]))


FORMS = COMPARISONS + REMAINDERS + MINIMA + SUMS + DIVISIONS + CONDITIONS


@pytest.mark.parametrize("form", FORMS, ids=": ".join)
def test_form(form: tuple[str, str]) -> None:
    before, after = read(form[0]), read_comparison(form[1])
    check_true(before, after, Known(""))
    (found,) = Known("").simplified(before)
    assert structural_equal(found, after), str(found)
    assert structural_equal(Known("").simplified(found)[0], found)


KNOWN = [
    ("truncdiv(x * 4 + y + 5, 4)", "truncdiv(y + 5, 4) + x", "x in 0 8, y in 0 9"),
    ("truncmod(x * 4 + y, 4) * 2", "truncmod(y, 4) * 2", "x in 0 8, y in 0 9"),
    ("truncdiv(x, 4) * 4 + truncmod(x, 4)", "x", "x in 0 100"),
    ("x != 0", "0 < x", "x in 0 8"),
    ("x != 7", "x < 7", "x in 0 8"),
    ("x <= 0", "x == 0", "x in 0 8"),
    ("x + y <= x", "y == 0", "y in 0 8"),
    ("x == 3", "False_", "x != 3"),
    ("x + y != 6", "True_", "x + y != 6"),
    ("x // y < 9", "True_", "x in -4 9, y != 0"),
    ("(x - 6) * 1073741824", "(x - 6) * 1073741824", "x in 5 7"),
    ("(x * 2 - y - 6) * 200000000", "(x * 2 - y - 6) * 200000000", "x in 5 7, y in 4 6"),
    ("(x - 6) * 1073741824 + y", "(x - 6) * 1073741824 + y", "x in 5 7, y in 4 6"),
    ("x * 1073741824 + 715827881", "x * 1073741824 + 715827881", "x in 0 2"),
]


@pytest.mark.parametrize("row", KNOWN, ids="; ".join)
def test_form_of_what_is_known(row: tuple[str, str, str]) -> None:
    before, after, known = read(row[0]), read_comparison(row[1]), Known(row[2])
    check_true(before, after, known)
    (found,) = known.simplified(before)
    assert structural_equal(found, after), str(found)


CONTRADICTIONS = [
    (("3 < x", "(x + 1) % 16 == 5", "(x + 1) % 16 == 14"), ("False_",)),
    (("3 < x", "x % 4 == 1", "x % 6 == 0"), ("4 < x", "x % 4 == 1", "x % 6 == 0")),
    (("x < 30", "x % 4 == 1", "x % 6 == 0"), ("x < 30", "x % 4 == 1", "x % 6 == 0")),
]


@pytest.mark.parametrize("row", CONTRADICTIONS, ids=str)
def test_bounds_beside_remainders_without_solution(row: tuple[tuple[str, ...], ...]) -> None:
    """A bound moves to the next solution; where there is none, it must not move for ever."""
    before, after = [all_of(*[read_comparison(part) for part in side]) for side in row]
    (found,) = Known("").simplified(before)
    assert structural_equal(found, after), str(found)
