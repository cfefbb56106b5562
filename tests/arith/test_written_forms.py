"""How results are written: the forms users know, of several that mean the same."""

from __future__ import annotations

import re

import pytest

from tests.arith.test_facts import Known, check_true, read
from tilesmith.ir import LE, LT, PrimExpr, const
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
    ("(x * 12 + y) % 8", "(x * 12 + y) % 8"),  # as in (x * 12 + y) // 8
]


def read_comparison(text: str) -> PrimExpr:
    """As `read`; Python itself turns ``3 < x`` around."""
    found = re.fullmatch(r"(-?\d+) (<=?) (.+)", text)
    if found is None:
        return read(text)
    return (LT if found[2] == "<" else LE)(const(int(found[1]), "int32"), read(found[3]))


@pytest.mark.parametrize("form", COMPARISONS + REMAINDERS, ids=": ".join)
def test_form(form: tuple[str, str]) -> None:
    before, after = read(form[0]), read_comparison(form[1])
    check_true(before, after, Known(""))
    (found,) = Known("").simplified(before)
    assert structural_equal(found, after), str(found)
    assert structural_equal(Known("").simplified(found)[0], found)
