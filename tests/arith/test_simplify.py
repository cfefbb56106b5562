"""What simplification gives, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from tests.arith.expressions import environments, evaluate
from tilesmith.arith import Analyzer
from tilesmith.ir import (
    EQ,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Op,
    Or,
    Ramp,
    Range,
    Select,
    SizeVar,
    Var,
    const,
)  # fmt: skip
from tilesmith.ir import operators as op
from tilesmith.ir.structural import assert_structural_equal

x, y, z, n, m, i, j, i0, i1, f = (Var(name, "int32") for name in "x y z n m i j i0 i1 f".split())
s = SizeVar("s", "int32")
p, q = Var("p", "bool"), Var("q", "bool")
u, v = Var("u", "float32"), Var("v", "float32")
b8, c8, TWO = Var("b8", "uint8"), Var("c8", "uint8"), const(2, "uint8")
wide = Var("wide", "int64")
fused = i0 * 16 + i1

DOMAINS = {
    i0: Range(0, 8), i1: Range(0, 16), f: Range(0, 128), i: Range(0, n), j: Range(0, m),
}  # fmt: skip
TRUE, FALSE = const(True, "bool"), const(False, "bool")


@pytest.fixture
def analyzer() -> Analyzer:
    made = Analyzer()
    for var, domain in DOMAINS.items():
        made.bind(var, domain)
    return made


SPLIT_AND_FUSE = [
    (fused // 16, i0),
    (fused % 16, i1),
    (fused < 128, TRUE),
    (fused <= 127, TRUE),
    (fused >= 128, FALSE),
    (fused // 16 * 16 + fused % 16, fused),
    (f // 16 * 16 + f % 16, f),
    ((f // 16 * 16 + f % 16) // 4, f // 4),
    (f // 16 % 8, f // 16),
    (fused // 32, i0 // 2),
    (fused % 32, i0 % 2 * 16 + i1),
    (fused // 4 % 4, i1 // 4),
    ((f // 64 * 4 + f // 16 % 4) * 16 + f % 16, f),
    (fused * 4 // 64, i0),
    ((fused + 16) // 16, i0 + 1),
    ((fused + 5) // 16, (i1 + 5) // 16 + i0),
    ((fused + 5) % 16, (i1 + 5) % 16),
    (f // 128, const(0, "int32")),
    (f % 200, f),
    (f // 4 // 8, f // 32),
    (f // 4 % 4, f % 16 // 4),
    (f % 16 % 4, f % 4),
    ((i0 * 16 + i1 * 3) // 16, i1 * 3 // 16 + i0),
    ((i * m + j) // m, i),
    ((i * m + j) % m, j),
    (i < n, TRUE),
    (i * m + j < n * m, TRUE),
    (0 <= i * m + j, TRUE),
    (i * 4 + 3 < n * 4, TRUE),
    (fused // 24, fused // 24),
    (Div(fused, 16), i0),
    (Mod(fused, 16), i1),
]

INTEGERS = [
    (x - x, const(0, "int32")),
    ((x + y) * 4 - x * 4, y * 4),
    ((x + 1) * n - n * x, n),
    (x // 4 * 4 + x % 4, x),
    (x // 4 * 8 + x % 4 * 2, x * 2),
    (x - x // 4 * 4, x % 4),
    ((x * 4 + 6) // 4, x + 1),
    (x * 6 // 4, x * 6 // 4),
    ((x * 4 + y) % 4, y % 4),
    (x * 2 % 2, const(0, "int32")),
    ((x * 2 + 1) % 2, const(1, "int32")),
    (x // 2 // 3, x // 6),
    (x // -4, x // -4),
    (x // n * n + x % n, x),
    (x - x // n * n, x % n),
    ((x * n + y) // n, x + y // n),
    ((x * n * 2) // (n * 2), x),
    (x // 0, x // 0),
    (op.minimum(x, y) + op.maximum(x, y), x + y),
    (op.minimum(fused, 128), fused),
    (op.minimum(x + 4, x), x),
    (op.minimum(x + y, y), op.minimum(x + y, y)),
    (op.minimum(x, y) - x, op.minimum(0, y - x)),
    (op.minimum(x * 4, y * 4), op.minimum(x, y) * 4),
    (op.minimum(i0 * 16 + 16, 128) - i0 * 16, const(16, "int32")),
    (op.maximum(op.minimum(x, y), y), y),
    (op.minimum(op.minimum(x, 5), 3), op.minimum(x, 3)),
    (op.minimum(x + 1, y), op.minimum(x + 1, y)),
    (Add(const(2, "int32"), x), x + 2),
    (Mul(const(2, "int32"), x), x * 2),
    (op.minimum(s, 0), const(0, "int32")),
    (op.cast("int64", x * 4 + 3) - op.cast("int64", x) * 4, const(3, "int64")),
    (op.cast("int32", op.cast("int64", x)), x),
    (Let(z, x + 1, z * 2), Let(z, x + 1, z * 2)),
    (Let(z, x, z * 2 - x), x),
    (Div(x * 4, 4), x),
    (Mod(x * 4, 4), const(0, "int32")),
    (Div(x, 4), Div(x, 4)),
]

CONDITIONS = [
    (x >= 0, op.less_equal(0, x)),
    (x - y > 0, y < x),
    (x + 3 == y + 3, EQ(x, y)),
    (EQ(x * 2, 5), FALSE),
    (NE(x * 2, 5), TRUE),
    (EQ(x * 4 + y * 6, 3), FALSE),
    (x * 16 < 128, x < 8),
    (x // 4 < 8, x < 32),
    (x // 4 >= 3, op.less_equal(12, x)),
    ((n + 15) // 16 * 16 >= n, TRUE),
    (x // 4 * 4 <= x, TRUE),
    (op.minimum(x, y) <= x, TRUE),
    (op.minimum(i0, x) < 8, TRUE),
    (op.minimum(i0 + 9, x) < 8, x < 8),
    (op.maximum(x, y) >= y, TRUE),
    (i + 1 <= n, TRUE),
    (And(x < 5, x < 3), x < 3),
    (And(x < 5, op.less_equal(5, x)), FALSE),
    (And(And(x < 5, y < 2), x < 9), And(x < 5, y < 2)),
    (And(x < 5, NE(x, 7)), x < 5),
    (Or(x < 5, op.less_equal(3, x)), TRUE),
    (Or(x < 5, x < 3), x < 5),
    (And(p, Not(p)), FALSE),
    (Or(p, p), p),
    (Not(And(x < 3, y < 3)), Or(op.less_equal(3, x), op.less_equal(3, y))),
    (Not(Not(p)), p),
    (Not(u < v), Not(u < v)),
    (EQ(p, TRUE), p),
    (EQ(p, FALSE), Not(p)),
]

CHOICES = [
    (Select(x < 5, op.minimum(x, 4), y), Select(x < 5, x, y)),
    (Select(fused < 128, x, y), x),
    (Select(p, x, x), x),
    (Select(p, TRUE, FALSE), p),
    (Select(x < 3, FALSE, TRUE), op.less_equal(3, x)),
    (Call("int32", "tir.if_then_else", (x < 5, Select(x < 9, x, y), z)),
     Call("int32", "tir.if_then_else", (x < 5, x, z))),
    (Call("bool", "tir.likely", (fused < 128,)), TRUE),
    (Call("int32", "tir.shift_left", (const(3, "int32"), const(2, "int32"))), const(12, "int32")),
]  # fmt: skip

FLOATS = [
    (Mul(u, FloatImm("float32", 1.0)), u),
    (Mul(u, FloatImm("float32", 0.0)), Mul(u, FloatImm("float32", 0.0))),
    (Add(u, v) - v, Add(u, v) - v),
    (op.minimum(u + v, u + v), u + v),
    (Select(fused < 128, u, v), u),
    (Cast("float32", fused // 16), Cast("float32", i0)),
]

WRAPPING = [
    (b8 + c8 - c8, b8),
    (op.less(op.moved(b8, 1), 1), op.less(op.moved(b8, 1), 1)),
    (b8 * TWO // TWO, b8 * TWO // TWO),
    (op.less_equal(b8, 255), TRUE),
    (op.cast("int32", b8) < 256, TRUE),
]


def ramp(base: Any, stride: Any = 1, lanes: int = 4) -> Ramp:
    return Ramp(op.convert(base) if not hasattr(base, "dtype") else base, stride, lanes)


def four(value: Any) -> Broadcast:
    return Broadcast(value, 4)


VECTORS = [
    (Add(ramp(x), four(y)), ramp(x + y)),
    (Mul(ramp(x), four(const(4, "int32"))), ramp(x * 4, 4)),
    (Add(ramp(x), ramp(y, 3)), ramp(x + y, 4)),
    (FloorDiv(ramp(x * 4), four(const(4, "int32"))), four(x)),
    (FloorMod(ramp(x * 4), four(const(4, "int32"))), Ramp(const(0, "int32"), 1, 4)),
    (FloorDiv(ramp(x * 8, 4), four(const(4, "int32"))), ramp(x * 2)),
    (FloorDiv(ramp(x), four(const(4, "int32"))), FloorDiv(ramp(x), four(const(4, "int32")))),
    (FloorDiv(ramp(x * 4 + 1), four(const(8, "int32"))), FloorDiv(ramp(x * 4 + 1), four(const(8,
    "int32")))),
    (FloorDiv(ramp(x * 4), four(const(8, "int32"))), four(x // 2)),
    (LT(ramp(i1), four(const(32, "int32"))), four(TRUE)),
    (LT(ramp(x * 4), four(n * 4)), four(x < n)),
    (Min(four(x), four(y)), four(Min(x, y))),
    (Max(ramp(i1), four(const(0, "int32"))), ramp(i1)),
    (Ramp(x, 0, 4), four(x)),
    (Select(four(p), four(x), four(y)), four(Select(p, x, y))),
    (Not(four(p)), four(Not(p))),
]  # fmt: skip

ALL = SPLIT_AND_FUSE + INTEGERS + CONDITIONS + CHOICES + FLOATS + WRAPPING + VECTORS


@pytest.mark.parametrize("case", range(len(ALL)))
def test_simplify(analyzer: Analyzer, case: int) -> None:
    before, after = ALL[case]
    found = analyzer.simplify(before)
    assert_structural_equal(found, after)
    assert analyzer.simplify(found) is found


@pytest.mark.parametrize("case", range(len(VECTORS)))
def test_vector_lanes(analyzer: Analyzer, case: int) -> None:
    before = VECTORS[case][0]
    after = analyzer.simplify(before)
    domains = {var: Range(0, 5) for var in (x, y, n)} | {i1: Range(0, 16)}
    for env in environments(domains, 60):
        env.update({p: env[x] % 2})
        assert evaluate(before, env) == evaluate(after, env)


def test_unchanged_is_the_same_object(analyzer: Analyzer) -> None:
    for expr in (
        i0 * 16 + i1,
        i0 * 16 + i1 < 100,
        x // 4,
        Select(x < 3, u, v),
        And(x < 3, p),
        Add(u, v),
    ):
        assert analyzer.simplify(expr) is expr


def test_terms_keep_their_order() -> None:
    analyzer = Analyzer()
    analyzer.simplify(y + x)
    expr = x + y + 0
    assert analyzer.simplify(expr) is expr


def test_constraints() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(And(x >= 0, x < 8)):
        assert analyzer.can_prove(x // 8 == 0)
        with analyzer.constraint_scope(EQ(x % 4, 1)):
            assert analyzer.modular_set(x).coeff == 4
            assert_structural_equal(analyzer.simplify((x + 3) % 4), const(0, "int32"))
            assert not analyzer.can_prove(x < 5)
        with analyzer.constraint_scope(x * 16 + y < 100):
            assert analyzer.can_prove(x * 16 + y < 101)
            assert analyzer.can_prove(y < 100)
        assert not analyzer.can_prove(y < 100)
    assert not analyzer.can_prove(x < 8)
    with analyzer.constraint_scope(EQ(x, 3)):
        assert_structural_equal(analyzer.simplify(x + 1), const(4, "int32"))
    with analyzer.constraint_scope(p):
        assert analyzer.can_prove(p)
        assert not analyzer.can_prove(q)
    with analyzer.constraint_scope(And(x < n, n <= y)):
        assert analyzer.can_prove(x < y)


def test_a_bound_loop_tells_nothing_about_its_size_elsewhere() -> None:
    """``for i in range(n)`` may run not at all: ``n > 0`` must not follow."""
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, n))
    assert analyzer.can_prove(i < n)
    assert not analyzer.can_prove(n > 0)
    assert not analyzer.can_prove(n >= 0)


def test_binding_replaces() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 4))
    assert analyzer.can_prove(x < 4)
    analyzer.bind(x, Range(0, 16))
    assert not analyzer.can_prove(x < 4)
    analyzer.bind(x, y + 1)
    assert analyzer.can_prove_equal(x - y, 1)
    analyzer.bind(x, Range(5, 6))
    assert_structural_equal(analyzer.simplify(x), const(5, "int32"))


def test_impure_calls_are_not_shared() -> None:
    analyzer = Analyzer()
    call = Call("int32", "tir.call_extern", ("f",))
    difference = call - call
    assert analyzer.simplify(difference) is difference
    assert Op.get("tir.call_extern") is call.op
    assert not analyzer.can_prove_equal(call, call)


def test_deep_expressions() -> None:
    analyzer = Analyzer()
    total = x
    for _ in range(20_000):
        total = Add(total, y)
    assert_structural_equal(analyzer.simplify(total), y * 20_000 + x)
    condition = x < 0
    for step in range(3_000):
        condition = Or(condition, EQ(y, step))
    analyzer.simplify(condition)


def test_bounds_and_residues() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 8))
    bound = analyzer.const_int_bound(x * 3 - 2)
    assert (bound.min_value, bound.max_value) == (-2, 19)
    everything = analyzer.const_int_bound(wide)
    assert (everything.min_value, everything.max_value) == (bound.NEG_INF, bound.POS_INF)
    assert analyzer.const_int_bound(s).min_value == 0
    residue = analyzer.modular_set(y * 12 + z * 8 + 3)
    assert (residue.coeff, residue.base) == (4, 3)
    residue = analyzer.modular_set(const(5, "int32"))
    assert (residue.coeff, residue.base) == (0, 5)
    analyzer.update(y, type(bound)(0, 3))
    assert analyzer.const_int_bound(y * 2).max_value == 6
    assert analyzer.can_prove_less(y, 4) and analyzer.can_prove_greater_equal(y, 0)


A, B, C = (Var(name, "int8") for name in "ABC")
a32, b32 = Cast("int32", A) - 5, Cast("int32", B) - 3
narrow = Cast("int64", x * 4 + y)

KEPT = [
    z + a32 * b32,
    a32 * b32 + z,
    z + Cast("int32", A) * b32,
    (x + 1) * n + y,
    narrow + wide,
    (x + n * m + y) * (x + 1) * (y + 2),
    Mul(A + B, C - A),
    ((x + 1) * n) // 4,
]


@pytest.mark.parametrize("expr", KEPT)
def test_products_are_not_multiplied_out_for_nothing(expr: Any) -> None:
    assert Analyzer().simplify(expr) is expr


def test_products_are_multiplied_out_where_terms_cancel() -> None:
    analyzer = Analyzer()
    assert analyzer.can_prove_equal((x + 1) * (y + 1) - x * y - x - y, 1)
    assert_structural_equal(analyzer.simplify((x + 1) * n + y - n), x * n + y)


@pytest.mark.parametrize("wide", ["int64", "uint64"])
def test_what_is_converted_is_simplified(wide: str) -> None:
    """Only the converted value differs: the conversion is not taken for the same as before."""
    x = Var("x", "int32")
    assert_structural_equal(Analyzer().simplify(Cast(wide, x + 1 - 1)), Cast(wide, x))
