"""What constants accept, and what functions of constants fold to."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from tilesmith import tir
from tilesmith.error import TVMError
from tilesmith.ir import assert_structural_equal

i = tir.Var("i", "int32")
x = tir.Var("x", "float32")
flag = tir.Var("flag", "bool")


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", -129), ("int8", 128), ("uint8", -1), ("uint8", 256), ("int16", 1 << 15),
        ("uint16", -1), ("int32", 1 << 31), ("int64", 1 << 63), ("uint64", 1 << 64),
        ("float16", 65505.0 + 100), ("float32", 1e40), ("float16", -1e6),
    ],
)  # fmt: skip
def test_constants_that_do_not_fit(dtype: str, value: Any):
    with pytest.raises(TVMError):
        tir.const(value, dtype)
    with pytest.raises(ValueError):
        (tir.FloatImm if dtype.startswith("float") else tir.IntImm)(dtype, value)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", -128), ("int8", 127), ("uint8", 255), ("uint64", (1 << 64) - 1),
        ("int64", -(1 << 63)),
        ("float16", 65504.0), ("float32", float("inf")), ("float16", float("-inf")), ("bool", 1),
    ],
)  # fmt: skip
def test_constants_that_fit(dtype: str, value: Any):
    made = tir.const(value, dtype)
    assert made.value == value and made.dtype == dtype


def test_other_mistakes():
    with pytest.raises(TypeError):
        tir.IntImm("int32", 1.5)
    with pytest.raises(ValueError):
        tir.IntImm("bool", 2)
    with pytest.raises(TypeError):
        tir.Var(1, "int32")
    with pytest.raises(TVMError):
        tir.infinity("int32")
    with pytest.raises(TVMError):
        tir.Shuffle([], [0])
    with pytest.raises(TVMError):
        tir.Shuffle([i, x], [0, 1])
    with pytest.raises(TVMError):
        tir.reinterpret("int64", x)
    for wrong in (lambda: ~x, lambda: x << 1, lambda: i << 32, lambda: i >> -1):
        with pytest.raises(TVMError):
            wrong()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (tir.floor(1.5), tir.const(1.0, "float32")),
        (tir.floor(tir.const(-1.5, "float64")), tir.const(-2.0, "float64")),
        (tir.ceil(1.5), tir.const(2.0, "float32")),
        (tir.ceil(tir.const(-0.5, "float32")), tir.const(-0.0, "float32")),
        (tir.trunc(-1.7), tir.const(-1.0, "float32")),
        (tir.nearbyint(2.5), tir.const(2.0, "float32")),
        (tir.round(-2.5), tir.const(-3.0, "float32")),  # as the machine rounds it
        (tir.abs(-3), tir.const(3)),
        (tir.abs(-3.5), tir.const(3.5, "float32")),
        (tir.isnan(1.0), tir.const(False, "bool")),
        (tir.isnan(float("nan")), tir.const(True, "bool")),
        (tir.if_then_else(True, i, 3), i),
        (tir.if_then_else(False, i, 3), tir.const(3)),
        (tir.reinterpret("int32", i), i),
        (tir.const(1.5, "float32").astype("float16"), tir.const(1.5, "float16")),
        (tir.const(127, "int8") + tir.const(1, "int8"), tir.const(-128, "int8")),
        (-i, tir.Mul(i, -1)),
        (-x, tir.Mul(x, -1.0)),
        (tir.abs(i), tir.Select(i >= 0, i, tir.Sub(0, i))),
        (tir.ceildiv(i, 2), tir.FloorDiv(tir.Sub(tir.Add(i, 2), 1), 2)),
        (tir.const(numpy.float64(2.5)), tir.const(2.5, "float64")),
        (tir.const(numpy.uint8(3)), tir.const(3, "uint8")),
    ],
)
def test_folding(found: Any, expected: Any):
    assert_structural_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("operation", ["__add__", "__sub__", "__mul__", "__truediv__"])
def test_sums_of_constants_are_those_of_the_machine(dtype: str, operation: str):
    random = numpy.random.default_rng(3)
    kind = numpy.dtype(dtype).type
    for left, right in random.uniform(-10, 10, (50, 2)):
        made = getattr(tir.const(float(left), dtype), operation)(tir.const(float(right), dtype))
        assert made.value == getattr(kind(left), operation)(kind(right))


def test_no_folding_where_the_rounding_is_left_to_run_time():
    assert isinstance(tir.const(0.1, "float32").astype("float16"), tir.Cast)
    assert isinstance(tir.floor(tir.const(0.99999, "float16")), tir.Call)


@pytest.mark.parametrize("divide", [tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod])
def test_vectors_divided_by_zero(divide: Any):
    lanes = tir.Ramp(i, 1, 4)
    for zero in (0, tir.Broadcast(0, 4)):
        with pytest.raises(ZeroDivisionError, match="all lanes of T.Ramp"):
            divide(lanes, zero)
    index = divide(i, 0)  # of an empty tensor, in a loop that never runs
    assert index.b.value == 0
