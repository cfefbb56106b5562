"""Vectors as slices of buffers, in the text and as arguments of functions."""

from __future__ import annotations

import pytest

from tilesmith.ir import assert_structural_equal
from tilesmith.script import from_source
from tilesmith.script import tir as T


@T.prim_func
def slices(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(4):
        A[i * 4 : i * 4 + 4] = T.exp(B[i * 4 : i * 4 + 4]) + B[0:4]
        A[0:8:2] = T.Select(T.Broadcast(n < 3, 4), B[n : n + 4], T.max(B[0:4], B[4:8]))
        A[T.Ramp(8, -1, 4)] = T.Cast("float32x4", T.Cast("int32x4", B[4:8]))


@T.prim_func
def ramps(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(4):
        A[T.Ramp(i * 4, 1, 4)] = T.exp(B[T.Ramp(i * 4, 1, 4)]) + B[T.Ramp(0, 1, 4)]
        A[T.Ramp(0, 2, 4)] = T.Select(
            T.Broadcast(n < 3, 4), B[T.Ramp(n, 1, 4)], T.max(B[T.Ramp(0, 1, 4)], B[T.Ramp(4, 1, 4)])
        )
        A[T.Ramp(8, -1, 4)] = T.Cast("float32x4", T.Cast("int32x4", B[T.Ramp(4, 1, 4)]))


def test_slices_are_vectors():
    assert_structural_equal(slices.with_attr("global_symbol", "ramps"), ramps)
    assert_structural_equal(from_source(ramps.script()), ramps)


@pytest.mark.parametrize(
    "line",
    [
        "A[i * 4:i * 4 + 4] = T.exp(B[i * 4:i * 4 + 4]) + B[0:4]",
        "A[0:8:2] = T.Select(T.Broadcast(n < 3, 4), B[n:n + 4], T.max(B[0:4], B[4:8]))",
        "A[T.Ramp(8, -1, 4)] = ",
    ],
)
def test_text(line: str):
    assert line in ramps.script()
