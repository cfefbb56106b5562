"""Tests `tile_with_tensor_intrin` and `verify_trace_roundtrip`."""

import numpy as np
import pytest

from tests.tir.schedule.harness import main_of, schedule_of
from tilesmith import tir
from tilesmith.ir import assert_structural_equal
from tilesmith.schedule_rules.intrinsics.x86 import VNNI_DOT_16x4_INTRIN
from tilesmith.script import tir as T
from tilesmith.support.errors import UnknownNameError
from tilesmith.testing.schedules import (
    assert_structural_equal_ignore_global_symbol,
    verify_trace_roundtrip,
)
from tilesmith.tir.interpreter import run
from tilesmith.tir.schedule.transform import tile_with_tensor_intrin


def product(rows, columns, depth):
    @T.prim_func
    def main(
        A: T.Buffer((rows, depth), "uint8"),
        B: T.Buffer((columns, depth), "int8"),
        C: T.Buffer((rows, columns), "int32"),
    ):
        for i, j, k in T.grid(rows, columns, depth):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vj, vk], "int32")

    return main


@pytest.mark.parametrize(
    "rows, columns, depth, allow_padding",
    [(3, 32, 8, False), (1, 16, 4, False), (3, 33, 7, True)],
)
def test_tiles_as_the_intrinsic_wants(rows, columns, depth, allow_padding):
    program = product(rows, columns, depth)
    sch = schedule_of(program)
    block = sch.get_block("C")
    outermost = tile_with_tensor_intrin(sch, block, VNNI_DOT_16x4_INTRIN, allow_padding)
    inner = sch.get_loops(block)[-2:]
    assert [int(sch.get(loop).extent) for loop in inner] == [16, 4]
    assert sch.get_sref(inner[0]) == sch.get_sref(outermost)
    numbers = np.random.default_rng(0)
    a = numbers.integers(0, 9, (rows, depth), "uint8")
    b = numbers.integers(-9, 9, (columns, depth), "int8")
    c = np.zeros((rows, columns), "int32")
    run(main_of(sch), a, b, c)
    assert (c == a.astype(int) @ b.T.astype(int)).all()
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    sch.tensorize(outermost, VNNI_DOT_16x4_INTRIN)
    verify_trace_roundtrip(sch, program)


def test_what_does_not_fit_is_left():
    program = product(3, 33, 7)
    sch = schedule_of(program)
    assert tile_with_tensor_intrin(sch, sch.get_block("C"), VNNI_DOT_16x4_INTRIN) is None
    assert_structural_equal(main_of(sch), program)


def test_roundtrip_refuses():
    program = product(3, 32, 8)
    sch = schedule_of(program)
    sch.unroll(sch.get_loops("C")[0])
    assert isinstance(verify_trace_roundtrip(sch, program, text_format="json"), tir.Schedule)
    with pytest.raises(UnknownNameError, match="'python' or 'json', got 'yaml'"):
        verify_trace_roundtrip(sch, program, text_format="yaml")
    with pytest.raises(ValueError):
        verify_trace_roundtrip(sch, product(4, 32, 8))


def test_global_symbols_are_ignored():
    one = product(3, 32, 8)
    other = one.with_attr("global_symbol", "another")
    with pytest.raises(ValueError):
        assert_structural_equal(one, other)
    assert_structural_equal_ignore_global_symbol(one, other)
    with pytest.raises(ValueError):
        assert_structural_equal_ignore_global_symbol(one, product(4, 32, 8))
