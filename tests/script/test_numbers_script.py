"""Numbers without a dtype, and values that are stored in buffers of another dtype."""

from __future__ import annotations

import numpy
import pytest

from tilesmith.ir import assert_structural_equal
from tilesmith.runtime import nd
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
        if T.Cast("int32", B[i]) < T.int32(100):
            B[i] = T.int8(-1)
        A[i] = T.float16(1.5)


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
