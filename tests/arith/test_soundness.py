"""Simplifications that were wrong once, found by the property tests; each keeps its values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.arith.meaning import meaning, same
from tilesmith.arith import Analyzer, ConstIntBound, ModularSet, detect_iter_map, eval_set
from tilesmith.ir import (
    EQ,
    LE,
    LT,
    Add,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    PrimExpr,
    Range,
    Select,
    Sub,
    Var,
    const,
)  # fmt: skip
from tilesmith.ir import operators as op

LOWEST, LARGEST = -(1 << 31), (1 << 31) - 1
x, y, z = (Var(name, "int32") for name in "xyz")

wide, other = Var("wide", "int64"), Var("other", "int64")
b8, u8, u64 = Var("b8", "int8"), Var("u8", "uint8"), Var("u64", "uint64")
u16, v16, u32 = Var("u16", "uint16"), Var("v16", "uint16"), Var("u32", "uint32")


def data(dtype: str, name: str = "data") -> Call:
    return Call(dtype, "tir.call_pure_extern", (name,))


def number(value: int, dtype: str = "int32") -> IntImm:
    return IntImm(dtype, value)


i32 = data("int32")
CASES: list[tuple[PrimExpr, dict[Any, Any]]] = [
    # constants of narrow dtypes wrap before they are cast
    (Cast("uint64", Sub(number(1, "uint8"), number(4, "uint8"))), {}),
    (Cast("uint64", Mul(number(65534, "uint16"), number(2, "uint16"))), {}),
    # numbers that do not fit their dtype
    (LE(number((1 << 62) - 1, "int64"), FloorDiv(wide, number(32, "int64"))), {wide: 25}),
    (FloorMod(x, number(LOWEST)), {x: 19}),
    (FloorDiv(x, number(LOWEST)), {x: -17}),
    (Mod(Add(number(LOWEST), x), 3), {x: 12}),
    (FloorDiv(Add(Mul(x, number(LOWEST)), y + y), 4), {x: 1, y: 3}),
    (LE(Add(number(LOWEST + 2), x), Min(y, z) * 8), {x: 17, y: 11, z: 83}),
    (Max(Add(x, number(LOWEST)), Sub(y, number(LARGEST))), {x: 3, y: 0}),
    (FloorMod(FloorDiv(x, 65536), 65536), {x: -5}),
    (FloorMod(FloorDiv(b8, number(16, "int8")), number(8, "int8")), {b8: -100}),
    # data near the limits is not moved
    (FloorDiv(i32, -3), {"data": LOWEST}),
    (LT(i32 - x, 5), {"data": LARGEST, x: LARGEST - 2}),
    (LT(x - i32, 5), {"data": LARGEST - 2, x: LARGEST}),
    (LE(wide, Min(data("int64"), other) * 4), {wide: 1, other: 5, "data": 1 << 62}),
    (Max(i32, data("int32", "second") - 5), {"data": LOWEST + 2, "second": LOWEST + 6}),
    # unsigned 64 bits wrap
    (LE(u64, Add(u64, number(1, "uint64"))), {u64: (1 << 64) - 1}),
    (Cast("int64", Add(u64, data("uint64"))), {u64: 13, "data": (1 << 64) - 16}),
    (
        FloorDiv(
            Add(Mul(u64, number(1 << 62, "uint64")), number(16, "uint64")), number(4, "uint64")
        ),
        {u64: 6},
    ),
    # digits of a cast keep the dtype of the cast
    (FloorMod(Cast("int32", FloorMod(wide, number(8, "int64"))), 2), {wide: 13}),
    (Max(Cast("int64", Max(i32, 1)), wide) + 0, {"data": 5, wide: 3}),
    # digits of numbers that wrap are not bounds of the numbers
    (LT(0, Cast("int32", FloorDiv(data("uint16"), number(4, "uint16")))), {"data": 1}),
    # all operands of a select are evaluated
    (
        Select(
            Or(EQ(x, 0), EQ(x, number(-5))), Cast("float32", FloorDiv(x, x)), Var("f", "float32")
        ),
        {},
    ),
    (Let(z, x * 4, FloorDiv(z, 4) - x), {x: 7}),
    # quotients and minima of another dtype
    (Div(Cast("int32", Div(Var("b16", "int16"), number(3, "int16"))), 4), {}),
    (Max(Cast("int32", FloorDiv(wide, number(2, "int64"))), FloorDiv(x, 2)), {wide: 9}),
    (LE(number(0), Cast("int32", FloorDiv(b8 + number(8, "int8"), number(16, "int8")))), {}),
    # products that wrap before they are cast, beside a factor
    (
        Mul(Cast("uint32", Mul(u16, data("uint16"))), FloorMod(u32, number(4, "uint32"))),
        {u16: 5, u32: 10, "data": 21922},
    ),
    # an unsigned factor is not positive
    (LE(Mul(Cast("int64", u32), Max(wide, number(3, "int64"))), number(0, "int64")), {u32: 0}),
    # products beyond the dtype whose difference fits
    (FloorDiv(Mod(Mul(8 - x, number(LOWEST)), 5), 3), {x: 7}),
    (LT(x, Mul(i32 - number(LOWEST), 16)), {x: 15, "data": LOWEST + 1}),
    # remainders of large numbers are as large
    (LT(FloorMod(x - y, number(-LARGEST)), Add(z, x * 8 + y)), {x: 65, y: 23, z: -19}),
    (LT(FloorMod(wide, number(-(1 << 63) + 1, "int64")) + 16, other), {wide: 24, other: 32}),
    # so are casts of data that wrap around, and their multiples
    (LT(x - 5, Cast("int32", FloorDiv(u32, number(2, "uint32")))), {x: 3, u32: (1 << 32) - 1}),
    (LT(x - 100000, Mul(Cast("int32", u16), 32767)), {x: 3, u16: 65535}),
    (
        LT(x - 60000, Mul(Cast("int32", u16), Cast("int32", v16))),
        {x: 3, u16: 65535, v16: 32768},
    ),
    # constants that do not fit are not written wrapped around: they would be read as others
    (Select(LT(y, 5), Sub(Add(number(LOWEST), x), number(3)), number(0)), {x: 9}),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_values_survive(case: int) -> None:
    expr, env = CASES[case]
    env = {y: 0, z: 0, x: 1, "data": 0, **env}
    for var in _variables(expr):
        env.setdefault(var, 1.5 if var.dtype.is_float else 1)
    before = meaning(expr, env)
    after = Analyzer().simplify(expr)
    assert after.dtype == expr.dtype
    assert before is not None and same(before, meaning(after, env, strict=False)), str(after)
    if expr.dtype.is_integer:
        for made in (expr, after):
            bound = Analyzer().const_int_bound(made)
            assert bound.min_value <= before
            assert before <= bound.max_value or bound.max_value == bound.POS_INF


def _variables(expr: Any) -> list[Var]:
    if isinstance(expr, Var):
        return [expr]
    return [var for child in expr.children() for var in _variables(child)]


def test_products_that_wrap_have_no_sign() -> None:
    analyzer = Analyzer()
    a, b, c = (Var(name, "int8") for name in "abc")
    analyzer.update(a, ConstIntBound(0, 99))
    analyzer.update(b, ConstIntBound(3, 15))
    analyzer.update(c, ConstIntBound(-7, -3))
    analyzer.update(b, ModularSet(4, 3))
    assert not analyzer.can_prove(LE(c, b * a))


def test_data_is_not_parted_by_residues() -> None:
    analyzer = Analyzer()
    analyzer.update(x, ModularSet(4, 3))
    expr = FloorDiv(y - (x + i32), 4)
    env = {x: 59, y: -60, "data": LOWEST + 1}
    after = analyzer.simplify(expr)
    assert meaning(expr, env) == meaning(after, env, strict=False), str(after)


def test_proofs_end() -> None:
    """Sums that a proof makes ask for proofs of their own."""
    analyzer = Analyzer()
    with analyzer.constraint_scope(LT(x, y)), analyzer.constraint_scope(LT(16, i32)):
        for value in (Max(z - x, FloorMod(z, 3)), Min(x - z, Max(y, z - y))):
            analyzer.simplify(LT(Max(x, FloorMod(y, 5)), value))
            analyzer.simplify(LT(value - x, Max(y, value)))


@pytest.mark.parametrize(
    "expr, domains, value, env",
    [
        (op.moved(u8, 250), {u8: Range(const(0, "uint8"), const(10, "uint8"))}, 2, {u8: 8}),
        (Cast("int32", b8) * x, {x: Range(2, 12)}, -254, {b8: -127, x: 2}),
        (Add(number(LARGEST), FloorMod(x, 5)), {x: Range(0, 9)}, LARGEST, {x: 5}),
    ],
)
def test_sets_hold_what_wraps(expr: PrimExpr, domains: dict, value: int, env: dict) -> None:
    found = eval_set(expr, domains)
    low, high = found.min_value, found.max_value
    assert low.dtype.is_handle or meaning(low, env) <= value
    assert high.dtype.is_handle or value <= meaning(high, env)


def test_a_digit_in_use_twice() -> None:
    """The same object in two indices counts twice."""
    index = x // 4
    assert detect_iter_map([index, index], {x: Range(0, 16)}).errors
    assert detect_iter_map([x, x], {x: Range(0, 16)}, True, "bijective").errors


def test_products_that_wrap_keep_their_factors() -> None:
    analyzer = Analyzer()
    a, b, n = (Var(name, "uint8") for name in "abn")
    analyzer.update(n, ConstIntBound(1, 255))
    for claim in (
        EQ(Cast("int32", a * b), const(0)),
        LE(Cast("int32", a * n), Cast("int32", b * n)),
    ):
        simple = analyzer.simplify(claim)
        for env in ({a: 16, b: 16, n: 1}, {a: 1, b: 128, n: 2}, {a: 3, b: 4, n: 64}):
            assert meaning(claim, env) == meaning(simple, env), str(simple)


def whole(expr: Any, env: dict[Any, int]) -> int:
    """The value over the whole numbers, without a dtype."""
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return env[expr]
    a, b = whole(expr.a, env), whole(expr.b, env)
    return {Add: a + b, Sub: a - b, Mul: a * b}[type(expr)]


@pytest.mark.parametrize(
    "expr",
    [
        x - number(LARGEST) - 5,
        number(LOWEST) + x - number(3),
        3 - x + (y - number(-LARGEST)),
        x * (1 << 20) * (1 << 20) + y * 7,
        x * number(LOWEST) * 3 + y + number(LARGEST) * 3,
        y - x * number(LOWEST),
        x * y * number(LARGEST) - y * number(LARGEST) * 5,
    ],
)
def test_numbers_that_do_not_fit_are_written_whole(expr: PrimExpr) -> None:
    """Wrapped around, they would keep the value, but not the bounds of what is read again."""
    after = Analyzer().simplify(expr)
    for env in ({x: 0, y: 0}, {x: 3, y: -8}, {x: -5, y: 7}):
        assert whole(after, env) == whole(expr, env), str(after)
