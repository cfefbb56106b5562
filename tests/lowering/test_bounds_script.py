"""Accesses outside of buffers: refused where that is known, checked at run time where asked for."""

import numpy as np
import pytest

import tilesmith
from tilesmith.codegen.c_compiler import find_compiler
from tilesmith.lowering.checking import take_counts
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, OutOfBoundsError
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.knobs import knobs


@T.prim_func
def beyond(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = A[i + 1]


@T.prim_func
def unreached(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        if i > 20:
            B[i] = A[i]
        B[i] = T.if_then_else(i < 15, A[i + 1], T.float32(0))


@T.prim_func
def shifted(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (m,))
    for i in range(m):
        B[i] = A[i]


def test_known_mistakes_are_refused():
    with pytest.raises(OutOfBoundsError) as caught:
        tilesmith.build(beyond)
    text = str(caught.value)
    assert "'beyond'" in text and "the buffer 'A' is read outside of its axis 0" in text
    assert "test_bounds_script.py" in text and "B[i] = A[i + 1]" in text
    tilesmith.build(unreached)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_checks_at_run_time(target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    with collect_fallbacks() as report:
        module = tilesmith.build(shifted, target=target, bounds="check")
    assert [row.kind for row, _ in report.rows()] == ["bounds"]
    assert "A[i]" in report.rows()[0][0].subject
    source, result = np.arange(6, dtype="float32"), np.zeros(4, "float32")
    module(source, result)
    np.testing.assert_array_equal(result, source[:4])
    with pytest.raises(OutOfBoundsError) as caught:
        module(source[:3], result)
    assert "buffer 'A' of shape (3) is read outside of axis 0: index 3 of 3" in str(caught.value)
    assert "test_bounds_script.py:" in str(caught.value)


def test_proven_accesses_cost_nothing():
    with collect_fallbacks() as report:
        tilesmith.build(unreached, bounds="check")
    assert not report.rows()
    with pytest.raises(ConfigError, match="bounds"):
        tilesmith.build(unreached, bounds="prove")


def test_check_mode_says_what_it_is():
    with knobs.override(check=True), pytest.raises(OutOfBoundsError, match="outside of the buffer"):
        tilesmith.lower(beyond)
    take_counts()
    with knobs.override(check=True):
        tilesmith.lower(unreached)
    take_counts()
