"""Numbers without a dtype, and values that are stored in buffers of another dtype."""

from __future__ import annotations

import numpy
import pytest

from tilesmith.ir import assert_structural_equal
from tilesmith.runtime import nd
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.tir import interpreter


@T.prim_func
def bare(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "int8"), C: T.Buffer((8,), "uint8")):
    for i in range(8):
        A[i] = A[i] * 0.5 + 1
        B[i] = (B[i] + 1) // 2
        C[i] = T.max(C[i], 3)
        A[i] = T.if_then_else(i < 3, A[i], 0.0)
        if B[i] < 100:
            B[i] = -1
        A[i] = 1.5


@T.prim_func
def explicit(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "int8"), C: T.Buffer((8,), "uint8")):
    for i in range(8):
        A[i] = T.Cast("float16", T.Cast("float32", A[i]) * T.float32(0.5) + T.float32(1))
        B[i] = T.Cast("int8", (T.Cast("int32", B[i]) + T.int32(1)) // T.int32(2))
        C[i] = T.Cast("uint8", T.max(T.Cast("int32", C[i]), T.int32(3)))
        A[i] = T.Cast("float16", T.if_then_else(i < 3, T.Cast("float32", A[i]), T.float32(0)))
        if B[i] < T.int8(100):
            B[i] = T.int8(-1)
        A[i] = T.float16(1.5)


ARITHMETIC = [
    # buffer that is stored to, value as it is written, the same with all dtypes
    ("A", "A[i] + 1", 'T.Cast("int8", T.Cast("int32", A[i]) + 1)'),
    ("A", "A[i] + 300", 'T.Cast("int8", T.Cast("int32", A[i]) + 300)'),
    ("H", "H[i] + 1.0", 'T.Cast("float16", T.Cast("float32", H[i]) + T.float32(1.0))'),
    ("H", "H[i] * 2", "H[i] * T.float16(2.0)"),
    ("H", "H[i] + 1e10", 'T.Cast("float16", T.Cast("float32", H[i]) + T.float32(10000000000.0))'),
    ("O", "U[i] - 1", 'T.Cast("int32", U[i] - T.uint32(1))'),
    ("L", "O[i] + 2**40", 'T.Cast("int64", O[i]) + T.int64(1099511627776)'),
    ("O", "Bo[i] + 1", 'T.Cast("int32", Bo[i]) + 1'),
    ("A", "A[i] << 1", "T.shift_left(A[i], T.int8(1))"),
    ("A", "A[i] & 1", "T.bitwise_and(A[i], T.int8(1))"),
    ("A", "T.max(A[i], 0)", 'T.Cast("int8", T.max(T.Cast("int32", A[i]), 0))'),
    ("O", "T.truncdiv(A[i], 2)", 'T.Div(T.Cast("int32", A[i]), 2)'),
    ("A", "A[i] ^ 1", "T.bitwise_xor(A[i], T.int8(1))"),
    ("O", "A[i] + U8[i]", 'T.Cast("int32", T.Cast("uint8", A[i]) + U8[i])'),
    ("A", "A[i] > 1", 'T.Cast("int8", A[i] > T.int8(1))'),
    ("Bo", "A[i] > 1", "A[i] > T.int8(1)"),
    ("Bo", "A[i] == 1", "A[i] == T.int8(1)"),
    ("Bo", "H[i] > 1", "H[i] > T.float16(1.0)"),
    ("Bo", "1 < A[i]", "T.int8(1) < A[i]"),
    ("U8", "U8[i] / 2", 'T.Cast("uint8", T.Div(T.Cast("int32", U8[i]), 2))'),
    ("U8", "U8[i] - 1", 'T.Cast("uint8", T.Cast("int32", U8[i]) - 1)'),
    ("A", "1 << A[i]", "T.shift_left(T.int8(1), A[i])"),
    ("A", "T.truncdiv(A[i], 2)", 'T.Cast("int8", T.Div(T.Cast("int32", A[i]), 2))'),
    ("H", "T.pow(H[i], 2.0)", 'T.Cast("float16", T.pow(T.Cast("float32", H[i]), T.float32(2.0)))'),
    ("F", "F[i] + True", "F[i] + T.float32(1.0)"),
    ("A", "A[i] + i", 'T.Cast("int8", T.Cast("int32", A[i]) + i)'),
    ("Bo", "Bo[i] == 1", "Bo[i] == T.bool(True)"),
    ("A", "A[i] * -1", 'T.Cast("int8", T.Cast("int32", A[i]) * -1)'),
]
NUMBERS = """
@T.prim_func
def f(
    A: T.Buffer((4,), "int8"), H: T.Buffer((4,), "float16"), U: T.Buffer((4,), "uint32"),
    O: T.Buffer((4,), "int32"), Bo: T.Buffer((4,), "bool"), L: T.Buffer((4,), "int64"),
    U8: T.Buffer((4,), "uint8"), F: T.Buffer((4,), "float32"),
):
    for i in range(4):
        {buffer}[i] = {value}
"""


@pytest.mark.parametrize(("buffer", "value", "explicit"), ARITHMETIC)
def test_dtypes_of_arithmetic(buffer: str, value: str, explicit: str):
    """Numbers of arithmetic have their own dtypes, those of comparisons, shifts and bitwise
    operators that of the other operand.
    """
    short, long = [
        from_source(NUMBERS.format(buffer=buffer, value=text), {"T": T})
        for text in (value, explicit)
    ]
    assert_structural_equal(short, long)
    assert str(short).splitlines()[-1].strip() == f"{buffer}[i] = {explicit}"


def test_bare_numbers_are_int32_and_float32():
    assert_structural_equal(bare.with_attr("global_symbol", "explicit"), explicit)


def test_nothing_overflows_on_the_way():
    @T.prim_func
    def mean(A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "int8")):
        for i in range(4):
            B[i] = (A[i] + 127) // 2

    given = nd.array(numpy.array([127, -128, 0, 5], "int8"))
    result = nd.array(numpy.zeros(4, "int8"))
    interpreter.run(mean, given, result)
    assert result.numpy().tolist() == [127, -1, 63, 66]


@pytest.mark.parametrize(
    ("source", "target"),
    [("int32", "float32"), ("bool", "int32"), ("float32", "float16"), ("int64", "int8")],
)
def test_stores_convert(source: str, target: str):
    @T.prim_func
    def copy(A: T.Buffer((8,), source), B: T.Buffer((8,), target)):
        for i in range(4):
            B[i] = A[i]
        B[4:8] = A[4:8]

    assert copy.body.seq[0].body.value.dtype == target
    assert copy.body.seq[1].value.dtype == target + "x4"
    values = numpy.array([0, 1, 2, 3, -4, 5, -6, 7]).astype(source)
    result = nd.array(numpy.zeros(8, target))
    interpreter.run(copy, nd.array(values), result)
    assert result.numpy().tolist() == values.tolist()
