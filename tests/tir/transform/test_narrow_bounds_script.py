"""Bounds of expressions in types of few bits, as passes over loops and blocks find them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arith.meaning import meaning
from tests.tir.transform.harness import apply, assert_same_results
from tilesmith.arith import Analyzer
from tilesmith.ir import Add, Cast, FloorDiv, FloorMod, Max, Min, Mul, Sub, Var, const
from tilesmith.ir.queries import nodes
from tilesmith.script import tir as T
from tilesmith.tir import PrimFunc, transform
from tilesmith.tir.stmt import Evaluate, For
from tilesmith.tir.transform.blocks.index_bounds import IndexBounds
from tilesmith.tir.transform.dtypes.intervals import Intervals
from tilesmith.tir.transform.dtypes.narrow_data_type import WIDE_INDICES

operations = st.sampled_from([Add, Sub, Mul, Min, Max, FloorDiv, FloorMod])


def test_casts_that_cut_bits_off_bound_nothing():
    @T.prim_func
    def func(A: T.Buffer((4,), "int64"), B: T.Buffer((4,), "int64")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            # -128, not 128: too little for 32 bits
            cut = T.Cast("int64", T.Cast("int32", T.Cast("int8", i + 128)))
            A[i] = (cut - T.int64(2147483700)) // T.int64(65536)
        for i in T.serial(T.int8(4)):
            cut = T.Cast("int64", T.Cast("int32", i * T.int8(60)))
            B[i] = (cut - T.int64(2147483600)) // T.int64(65536)

    assert_same_results(func, apply(func, transform.NarrowDataType(32)))


@settings(max_examples=300)
@given(st.data())
def test_bounds_hold_for_types_of_few_bits(data):
    """Casts and arithmetic of 8 bits wrap around; the bounds that passes find allow for it."""
    i = Var("i", "int32")
    low = data.draw(st.integers(-300, 300))
    values = range(low, low + data.draw(st.integers(1, 300)))
    expr = i
    for _ in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            expr = Cast(data.draw(st.sampled_from(["int8", "int16", "int32"])), expr)
        else:
            expr = data.draw(operations)(expr, const(data.draw(st.integers(1, 20)), expr.dtype))
    intervals = Intervals(32)
    intervals.learn(i, (values[0], values[-1]))
    found = intervals.of(expr)
    inner = IndexBounds(PrimFunc([], Evaluate(i)))
    inner.loops.append((i, const(values[0]), const(values[-1])))
    inner.depth_of[i] = 0
    ends = inner.bounds(expr, 0)
    if ends is not None:
        ends = [Analyzer().simplify(end).value for end in ends]
    for value in values:
        got = meaning(expr, {i: value})
        assert found is None or found[0] <= got <= found[1], (str(expr), found, value)
        if ends is not None:
            assert ends[0] <= got <= ends[1], (str(expr), ends, value)


def test_indices_that_divide_a_parallel_loop_stay_wide_in_unrolled_loops():
    """LLVM would compute the address of each unrolled step anew from a 32-bit quotient."""

    @T.prim_func
    def func(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for f in T.parallel(T.int64(12)):
            for r in T.unroll(T.int64(8)):
                B[f // T.int64(3) * T.int64(24) + f % T.int64(3) * T.int64(8) + r] = T.float32(2)
            for s in range(T.int64(8)):
                A[f * T.int64(8) + s] = A[f * T.int64(8) + s] + T.float32(1)

    narrowed = apply(func, transform.NarrowDataType(32))
    text = narrowed.script()
    assert "T.parallel(T.int64(12))" in text and "range(8)" in text
    assert_same_results(func, narrowed)

    @T.prim_func
    def undivided(B: T.Buffer((96,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for f in T.parallel(T.int64(12)):
            for r in T.unroll(T.int64(8)):
                B[f * T.int64(8) + r] = T.float32(2)

    assert "int64" not in apply(undivided, transform.NarrowDataType(32)).script()


@pytest.mark.parametrize("is_wide", [False, True])
def test_scalar_indices_stay_wide_on_request(is_wide):
    @T.prim_func
    def neighbours(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(T.int64(4)):
            for lane in T.vectorized(T.int64(16)):
                B[i * T.int64(16) + lane] = A[T.int64(48) - i * T.int64(16) + lane]

    @T.prim_func
    def vectors_of_indices(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(T.int64(4)):
            for lane in T.vectorized(T.int64(16)):
                B[i * T.int64(16) + lane] = A[(i + lane * T.int64(5)) % T.int64(64)]

    for func, stays in ((neighbours, is_wide), (vectors_of_indices, False)):
        func = func.with_attr(WIDE_INDICES, True) if is_wide else func
        narrowed = apply(func, transform.NarrowDataType(32))
        assert {str(loop.loop_var.dtype) for loop in nodes(narrowed.body, For)} == {
            "int64" if stays else "int32"
        }
        assert_same_results(func, narrowed)


@pytest.mark.parametrize("end, is_uniform", [(48, True), (50, False)])
def test_each_nest_of_loops_has_wide_or_narrow_indices(end, is_uniform):
    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((128,), "float32")):
        T.func_attr({"global_symbol": "main", "tir.wide_indices": True})
        for i in range(T.int64(4)):
            for lane in T.vectorized(T.int64(16)):
                B[i * T.int64(16) + lane] = A[(i + lane * T.int64(5)) % T.int64(64)]
        for i in range(T.int64(4)):
            for lane in T.vectorized(T.int64(16)):
                # the same for all lanes, if the end is a multiple of 16
                if i * T.int64(16) + lane < T.int64(end):
                    B[i * T.int64(16) + lane + T.int64(64)] = A[i * T.int64(16) + lane]

    narrowed = apply(func, transform.NarrowDataType(32))
    found = [str(loop.loop_var.dtype) for loop in nodes(narrowed.body, For)]
    assert sorted(found) == ["int32"] * 2 + ["int64" if is_uniform else "int32"] * 2
    assert_same_results(func, narrowed)
