"""What a statement touches of a buffer."""

from __future__ import annotations

import pytest

from tilesmith import arith
from tilesmith.arith import Analyzer
from tilesmith.script import tir as T


@T.prim_func
def stencil(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 64), "float32")
    B = T.match_buffer(b, (n, 64), "float32")
    for i in range(n - 2):
        for j in range(3, 35):
            B[i, j] = A[i + 1, j - 3] + A[i, j * 2 - 6]


@T.prim_func
def threads(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (128,), "float32")
    B = T.match_buffer(b, (128,), "float32")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.serial(8):
            k: T.int32 = i * 8 + j
            B[k] = A[k + 2]


def touched(func, name: str, loads: bool = True, stores: bool = True) -> list:
    buffer = next(found for found in func.buffer_map.values() if found.name == name)
    return arith.domain_touched(func.body, buffer, loads, stores)


def check(found: list, *expected: tuple) -> None:
    analyzer = Analyzer()
    assert len(found) == len(expected)
    for one, (low, extent) in zip(found, expected):
        assert analyzer.can_prove_equal(one.min, low), (str(one), low)
        assert analyzer.can_prove_equal(one.extent, extent), (str(one), extent)


def test_loads_and_stores() -> None:
    n = stencil.params[2]
    check(touched(stencil, "A"), (0, n - 1), (0, 63))
    check(touched(stencil, "B"), (0, n - 2), (3, 32))
    check(touched(stencil, "A", loads=False))
    check(touched(stencil, "B", stores=False))


@pytest.mark.parametrize("name, low", [("A", 2), ("B", 0)])
def test_loops_lets_and_threads(name: str, low: int) -> None:
    check(touched(threads, name), (low, 32))
