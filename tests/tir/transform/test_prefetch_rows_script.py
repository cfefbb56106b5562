"""PrefetchNextRun for rows that are looked up: which are fetched how far ahead, and when none."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply
from tilesmith.ir import assert_structural_equal
from tilesmith.ir.queries import calls
from tilesmith.script import tir as T
from tilesmith.tir import interpreter, transform


def hints(function):
    return len(list(calls(function, "tir.prefetch")))


def test_the_first_lines_of_a_later_row():
    @T.prim_func
    def before(A: T.Buffer((3200,), "float32"), B: T.Buffer((9,), "int32"), y: T.handle):
        T.func_attr({"global_symbol": "main"})
        Y = T.match_buffer(y, (288,))
        for i in T.serial(9, annotations={"prefetch_rows": 256}):
            for k in range(2):
                for v in T.vectorized(16):
                    Y[i * 32 + k * 16 + v] = A[B[i] * 32 + k * 16 + v]

    @T.prim_func
    def expected(A: T.Buffer((3200,), "float32"), B: T.Buffer((9,), "int32"), y: T.handle):
        Y = T.match_buffer(y, (288,))
        for i in range(9):
            with T.LetStmt(B[T.min(i + 2, 8)] * 32) as row:
                T.prefetch(T.address_of(A[row]), 0, 3, 1)
                T.prefetch(T.address_of(A[row + 16]), 0, 3, 1)
            for k in range(2):
                for v in T.vectorized(16):
                    Y[i * 32 + k * 16 + v] = A[B[i] * 32 + k * 16 + v]

    got = apply(before, transform.PrefetchNextRun(), transform.Simplify())
    assert_structural_equal(got, expected.with_attr(before.attrs))
    x, places = np.arange(3200, dtype="float32"), np.array([7, 0, 99, 3, 3, 50, 98, 1, 99], "int32")
    y = np.zeros(288, "float32")
    interpreter.run(got, x, places, y)
    np.testing.assert_array_equal(y.reshape(9, 32), x.reshape(100, 32)[places])


def rows(kind):
    @T.prim_func
    def plain(A: T.Buffer((9000,), "float32"), B: T.Buffer((9,), "int32"), y: T.handle):
        Y = T.match_buffer(y, (2700,))
        for i in T.serial(9, annotations={"prefetch_rows": 4096}):
            for k in range(300):
                Y[i * 300 + k] = A[i * 300 + k]

    @T.prim_func
    def long(A: T.Buffer((9000,), "float32"), B: T.Buffer((9,), "int32"), y: T.handle):
        Y = T.match_buffer(y, (2700,))
        for i in T.serial(9, annotations={"prefetch_rows": 4096}):
            for k in range(300):
                Y[i * 300 + k] = A[B[i] * 300 + k]

    @T.prim_func
    def uneven(A: T.Buffer((9000,), "float32"), B: T.Buffer((9,), "int32"), y: T.handle):
        Y = T.match_buffer(y, (180,))
        for i in T.serial(9, annotations={"prefetch_rows": 4096}):
            for k, v in T.grid(2, 16):
                if k * 16 + v < 20:
                    Y[i * 20 + k * 16 + v] = A[B[i] * 20 + k * 16 + v]

    @T.prim_func
    def scattered(A: T.Buffer((9000,), "float32"), B: T.Buffer((9,), "int32"), y: T.handle):
        Y = T.match_buffer(y, (180,))
        for i in T.serial(9, annotations={"prefetch_rows": 4096}):
            for k in range(20):
                Y[i * 20 + k] = A[B[i] + k * 300]

    @T.prim_func
    def guarded(A: T.Buffer((9000,), "float32"), B: T.Buffer((9,), "int32"), y: T.handle):
        Y = T.match_buffer(y, (180,))
        for i in T.serial(9, annotations={"prefetch_rows": 4096}):
            for k in range(20):
                if i < 5:
                    Y[i * 20 + k] = A[B[i] * 20 + k]

    @T.prim_func
    def chosen(A: T.Buffer((9000,), "float32"), B: T.Buffer((9,), "int32"), y: T.handle):
        Y = T.match_buffer(y, (180,))
        for i in T.serial(9, annotations={"prefetch_rows": 4096}):
            for k in range(20):
                Y[i * 20 + k] = T.if_then_else(B[i] > 0, A[B[i] * 20 + k], T.float32(0))

    @T.prim_func
    def checked(A: T.Buffer((9000,), "float32"), B: T.Buffer((9,), "int32"), y: T.handle):
        Y = T.match_buffer(y, (180,))
        for i in T.serial(9, annotations={"prefetch_rows": 4096}):
            for k in range(20):
                Y[i * 20 + k] = A[T.checked(B[i], B[i] < 450, "wrong") * 20 + k]

    return locals()[kind]


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("plain", 0), ("long", 16), ("uneven", 2), ("scattered", 0), ("guarded", 0), ("chosen", 0),
        ("checked", 2),
    ],
)  # fmt: skip
def test_which_rows_are_fetched(kind, count):
    """Not those of places that follow each other, nor what a step may leave out."""
    got = apply(rows(kind), transform.PrefetchNextRun())
    assert hints(got) == count and "prefetch_rows" not in got.script()
    assert len(list(calls(got, "tir.checked"))) == (kind == "checked")
