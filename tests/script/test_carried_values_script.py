"""Names that are assigned again in a loop or branch, where that is what the program says."""

from __future__ import annotations

import numpy
import pytest

from tilesmith.runtime import nd
from tilesmith.script import tir as T
from tilesmith.support.errors import ScriptError
from tilesmith.tir import interpreter


def test_a_value_that_is_used_where_it_is_made():
    @T.prim_func
    def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        s = A[0]
        B[0] = s
        for i in range(3):
            s = A[i + 1]
            s = s * T.float32(2)
            B[i + 1] = s

    result = nd.array(numpy.zeros(4, "float32"))
    interpreter.run(twice, nd.array(numpy.arange(1, 5, dtype="float32")), result)
    assert result.numpy().tolist() == [1, 4, 6, 8]


def test_a_loop_over_python_values_carries_nothing_either():
    with pytest.raises(ScriptError, match="'s' is a value, made outside"):

        @T.prim_func
        def total(A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")):
            s = T.float32(0)
            for i in [0, 1, 2]:
                s = s + A[i]
            B[0] = s


def test_whole_numbers_of_python_are_integers():
    @T.prim_func
    def fill(B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = 2.0

    assert fill.body.body.value.value == 2
