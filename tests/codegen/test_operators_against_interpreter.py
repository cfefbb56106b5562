"""Every operator on every dtype and all pairs of edge values gives what the interpreter gives."""

import numpy as np
import pytest

from tests.codegen.differential import Differential, all_pairs, edge_values
from tests.codegen.harness import HOST, like
from tilesmith import tir
from tilesmith.codegen.c import find_compiler
from tilesmith.ir import Call, Cast, Not, Select
from tilesmith.runtime.dtype import DataType
from tilesmith.target import Target

SIGNED = ["int8", "int16", "int32", "int64"]
INTEGERS = [*SIGNED, "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
FLOAT8 = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
          "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]  # fmt: skip
ARITHMETIC = ["Add", "Sub", "Mul", "Min", "Max"]
COMPARISONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
DIVISIONS = ["Div", "Mod", "FloorDiv", "FloorMod"]
EXACT = ["floor", "ceil", "trunc", "nearbyint", "round", "fabs", "sqrt"]

C_COMPILER = pytest.param(
    "c", marks=pytest.mark.skipif(find_compiler() is None, reason="no C compiler here")
)
both = pytest.mark.parametrize("target", [HOST, C_COMPILER], ids=["llvm", "c"])


def call(name, dtype=None):
    """`tir.NAME` of its arguments, in the dtype of the first or another one."""

    def make(*args):
        kind = args[0].dtype if dtype is None else DataType(dtype).with_lanes(args[0].dtype.lanes)
        return Call(kind, "tir." + name, args)

    return make


def differential(target):
    return Target(target) if target == "c" else target


@both
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, *FLOAT8[:-1]])
def test_arithmetic_and_comparisons(dtype, target):
    batch, (a, b) = Differential(), all_pairs(edge_values(dtype), edge_values(dtype))
    for name in ARITHMETIC:
        batch.add(name, getattr(tir, name), [a, b], dtype)
    for name in COMPARISONS:
        batch.add(name, getattr(tir, name), [a, b], "bool")
    batch.add("Select", lambda x, y: Select(tir.LT(x, y), x, y), [a, b], dtype)
    batch.check(differential(target))


@both
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_divisions(dtype, target):
    batch, (a, b) = Differential(), all_pairs(edge_values(dtype), edge_values(dtype))
    kind = DataType(dtype)
    if not kind.is_float:  # what has no value in C has none here
        good = b != 0
        if kind.is_int:
            good &= ~((a == kind.min_value) & (b == np.array(-1, b.dtype)))
        a, b = a[good], b[good]
    for name in DIVISIONS:
        batch.add(name, getattr(tir, name), [a, b], dtype)
    if kind.is_float:
        batch.add("fmod", call("fmod"), [a, b], dtype)
    batch.check(differential(target))


@both
@pytest.mark.parametrize("dtype", [*SIGNED, "uint8", "uint32", "uint64"])
def test_divisions_by_constants(dtype, target):
    batch, a, kind = Differential(), edge_values(dtype), DataType(dtype)
    divisors = [1, 2, 3, 7, 16, kind.max_value] + ([-1, -3, -16] if kind.is_int else [])
    for divisor in divisors:
        values = a[a != kind.min_value] if divisor == -1 else a
        for name in DIVISIONS:
            operator = getattr(tir, name)
            batch.add(
                f"{name} by {divisor}",
                lambda x, op=operator, d=divisor: op(x, like(d, x)), [values], dtype,
            )  # fmt: skip
    batch.check(differential(target))


@both
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_bits(dtype, target):
    batch, (a, b) = Differential(), all_pairs(edge_values(dtype), edge_values(dtype))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        batch.add(name, call(name), [a, b], dtype)
    batch.add("bitwise_not", call("bitwise_not"), [a], dtype)
    if dtype != "bool":
        kind = DataType(dtype)
        amounts = np.array([0, 1, kind.bits // 2, kind.bits - 1], kind.numpy())
        c, amount = all_pairs(edge_values(dtype), amounts)
        batch.add("shift_left", call("shift_left"), [c, amount], dtype)
        batch.add("shift_right", call("shift_right"), [c, amount], dtype)
        batch.add("popcount", call("popcount"), [a], dtype)
        batch.add("clz", call("clz", "int32"), [a], "int32")
        small = np.array([0, 1, 2, 3, 5], kind.numpy())
        base, power = all_pairs(edge_values(dtype), small)
        batch.add("pow", call("pow"), [base, power], dtype)
        batch.add("abs", tir.abs, [a], dtype)
    batch.check(differential(target))


@both
def test_logic(target):
    batch, (a, b) = Differential(), all_pairs(edge_values("bool"), edge_values("bool"))
    for name in ("And", "Or", "Add", "Sub", "Mul", "Min", "Max", "EQ", "NE", "LT", "GE"):
        batch.add(name, getattr(tir, name), [a, b], "bool")
    batch.add("Not", Not, [a], "bool")
    batch.check(differential(target))


@both
@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_functions_of_floats(dtype, target):
    batch, a = Differential(), edge_values(dtype)
    for name in EXACT:
        batch.add(name, call(name), [a], dtype)
    for name in ("isnan", "isinf", "isfinite"):
        batch.add(name, call(name, "bool"), [a], "bool")
    first, second = all_pairs(a, a)
    for name in ("copysign", "nextafter") if dtype in ("float32", "float64") else ("copysign",):
        batch.add(name, call(name), [first, second], dtype)
    value, power = all_pairs(a, np.array([-300, -30, -1, 0, 1, 20, 300], "i4"))
    batch.add("ldexp", call("ldexp"), [value, power], dtype)
    batch.check(differential(target))


def castable(values, target):
    """Values that the target has: a float that does not fit an integer has no value there."""
    source, target = DataType(values.dtype), DataType(target)
    if not source.is_float or not target.is_integer:
        return values
    wide = np.trunc(values.astype("f8"))
    return values[(wide >= float(target.min_value)) & (wide < float(target.max_value) + 1.0)]


@both
@pytest.mark.parametrize("source", ["bool", *INTEGERS, *FLOATS, *FLOAT8])
def test_all_casts(source, target):
    batch, values = Differential(), edge_values(source)
    for kind in ["bool", *INTEGERS, *FLOATS, *FLOAT8]:
        given = castable(values, kind)
        batch.add(
            f"{source} to {kind}",
            lambda x, kind=kind: Cast(DataType(kind).with_lanes(x.dtype.lanes), x), [given], kind,
        )  # fmt: skip
    batch.check(differential(target))


@both
def test_reinterpret(target):
    batch = Differential()
    for source, result in [
        ("float32", "int32"), ("int64", "float64"), ("uint16", "float16"), ("bfloat16", "uint16"),
        ("float16", "bfloat16"), ("uint8", "int8"), ("uint8", "float8_e4m3fn"),
        ("uint32", "float32"),
    ]:  # fmt: skip
        batch.add(
            f"{source} as {result}", call("reinterpret", result), [edge_values(source)], result
        )
    batch.check(differential(target))
