"""Loads of close elements as one row: only of what the buffer has."""

import re

import pytest

from tilesmith.lowering import build
from tilesmith.script import tir as T

AVX512 = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"


def widest_loads(func):
    """Return the types of vectors that are loaded, and whether elements are gathered."""
    text = build(func, target=AVX512).get_source("ll")
    return set(re.findall(r"load (<\d+ x float>)", text)), "masked.gather" in text


@pytest.mark.parametrize("first, is_row", [(0, True), (4, False)])
def test_a_window_has_no_group_that_a_condition_keeps_out(first, is_row):
    """Lanes that move by 8 stay in the same two groups of 8, unless they begin inside of one."""
    groups = 8 if is_row else 4

    @T.prim_func
    def func(A: T.Buffer((72,), "float32"), B: T.Buffer((8, 8, 16), "float32")):
        T.func_attr({"global_symbol": "main"})
        for p, c in T.grid(8, 8):
            if first <= p * 8 + c:
                for lane in T.vectorized(16):
                    B[p, c, lane] = A[p * 8 + c - first + lane // 8 * groups]

    rows, is_gathered = widest_loads(func)
    assert (rows, is_gathered) == ({"<16 x float>"} if is_row else set(), not is_row)


@pytest.mark.parametrize("stride, row", [(16, 8), (8, 8), (9, 7)])
def test_a_window_ends_with_the_last_row_of_a_strided_buffer(stride, row):
    @T.prim_func
    def func(a: T.handle, B: T.Buffer((3, 16), "float32")):
        T.func_attr({"global_symbol": "main"})
        A = T.match_buffer(a, (3, 8), strides=(stride, 1))
        for p in range(3):
            for lane in T.vectorized(16):
                B[p, lane] = A[p, lane // 8 * 2 + lane // 12 * 4]

    assert widest_loads(func) == ({f"<{row} x float>"}, False)
