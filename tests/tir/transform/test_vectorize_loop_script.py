"""VectorizeLoop: the forms it gives, and that any loop computes what it computed serially."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tests.tir.transform.harness import apply, assert_same, assert_same_results, outputs
from tilesmith.ir import Call, Cast, Select, Var, assert_structural_equal, const
from tilesmith.ir.transform import PassContext
from tilesmith.lowering import build
from tilesmith.script import tir as T
from tilesmith.tir import BufferLoad, BufferStore, For, ForKind, IfThenElse, PrimFunc, transform
from tilesmith.tir import decl_buffer as declare
from tilesmith.tir.transform.loops.vectorize_loop import MAX_LANES


def check(before, after, sizes=None):
    got = apply(before, transform.VectorizeLoop(freely=True), transform.Simplify())
    assert_structural_equal(got, after.with_attr(before.attrs))
    assert_same_results(before, got, sizes)


def test_rows():
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            for j in T.vectorized(8):
                B[i * 8 + j] = A[i * 8 + j] * T.Cast("float32", n) + A[i]

    @T.prim_func
    def expected(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), n: T.int32):
        for i in range(4):
            B[T.Ramp(i * 8, 1, 8)] = A[T.Ramp(i * 8, 1, 8)] * T.Broadcast(
                T.Cast("float32", n), 8
            ) + T.Broadcast(A[i], 8)

    check(before, expected, {"n": 3})


def test_quotients_and_remainders_that_stay_even():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            for j in T.vectorized(8):
                B[i * 8 + j] = A[(i * 8 + j) // 16 * 16 + (i * 8 + j) % 16] + A[(i * 8 + j) // 16]

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(8):
            B[T.Ramp(i * 8, 1, 8)] = A[T.Ramp(i * 8, 1, 8)] + T.Broadcast(A[i // 2], 8)

    check(before, expected)


def test_lane_conditions_become_predicates():
    @T.prim_func
    def before(A: T.Buffer((13,), "float32"), B: T.Buffer((13,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(2):
            for j in T.vectorized(8):
                if T.likely(i * 8 + j < 13):
                    B[i * 8 + j] = A[i * 8 + j]

    @T.prim_func
    def expected(A: T.Buffer((13,), "float32"), B: T.Buffer((13,), "float32")):
        for i in range(2):
            B.vstore(
                [T.Ramp(i * 8, 1, 8)],
                A.vload([T.Ramp(i * 8, 1, 8)], predicate=T.Ramp(i * 8, 1, 8) < T.Broadcast(13, 8)),
                predicate=T.Ramp(i * 8, 1, 8) < T.Broadcast(13, 8),
            )

    check(before, expected)


def test_reductions_run_lane_by_lane():
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((2,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B[0] = T.float32(0)
        for j in T.vectorized(8):
            B[0] = B[0] + A[j]
            B[1] = T.float32(3)

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((2,), "float32")):
        B[0] = T.float32(0)
        for j in range(8):
            B[0] = B[0] + A[j]
        B[1] = T.float32(3)

    check(before, expected)


def test_loops_inside_stay():
    @T.prim_func
    def before(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for j in T.vectorized(8):
            B[j] = T.float32(0)
            for k in range(4):
                B[j] = B[j] + A[j, k]

    got = apply(before, transform.FlattenBuffer(), transform.VectorizeLoop(freely=True))
    text = got.script()
    assert "T.vectorized" not in text and "for k in range(4)" in text
    assert "B[0:8] = B[0:8] + " in text
    assert_same_results(before, got)


def test_memory_of_each_lane():
    @T.prim_func
    def before(A: T.Buffer((24,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for j in T.vectorized(8):
            X_data = T.allocate([3], "float32", "local")
            X = T.decl_buffer((3,), data=X_data, scope="local")
            for k in range(3):
                X[k] = A[j * 3 + k]
            B[j] = X[2] - X[0] * X[1]

    got = apply(before, transform.VectorizeLoop(freely=True))
    assert "for j" not in got.script()
    assert_same_results(before, got)


def test_calls_with_effects_run_lane_by_lane():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for j in T.vectorized(8):
            B[j] = T.call_extern("float32", "sqrtf", A[j])

    got = apply(func, transform.VectorizeLoop(freely=True))
    assert "for j in range(8)" in got.script()
    a = np.arange(8, dtype="float32")
    b = ts.nd.array(np.zeros(8, "float32"))
    build(func)(ts.nd.array(a), b)
    np.testing.assert_allclose(b.numpy(), np.sqrt(a), rtol=1e-6)


def test_what_the_branch_writes_does_not_change_who_takes_part():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for j in T.vectorized(8):
            if A[j] > T.float32(0.5):
                A[j] = T.float32(0)
                B[j] = T.float32(2)

    assert_same_results(func, apply(func, transform.VectorizeLoop(freely=True)))


@pytest.mark.parametrize("extent", [1, 2, 63, 64, 65, 128, 200])
def test_long_loops(extent):
    i, n = Var("i", "int32"), extent
    a, b = declare((n,), name="A"), declare((n,), name="B")
    body = For(i, 0, n, ForKind.VECTORIZED, BufferStore(b, a[n - 1 - i] + 1.0, (i,)))
    func = PrimFunc([a, b], body, attrs={"global_symbol": "main"})
    got = apply(func, transform.VectorizeLoop(freely=True))
    lanes = []

    def look(node):
        lanes.append(getattr(getattr(node, "dtype", None), "lanes", 1))
        if not node.is_leaf:
            for child in node.children():
                look(child)

    look(got.body)
    assert max(lanes) <= MAX_LANES
    assert_same_results(func, got)


def test_extents_that_are_no_constants_give_serial_loops():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for j in T.vectorized(n):
            A[j] = T.float32(1)

    got = apply(func, transform.VectorizeLoop(freely=True))
    assert got.body.kind is ForKind.SERIAL
    assert_same_results(func, got, {"n": 5})


def test_disabled():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for j in T.vectorized(8):
            A[j] = T.float32(1)

    with PassContext(config={"tir.disable_vectorize": True}):
        assert apply(func, transform.VectorizeLoop(freely=True)).body.kind is ForKind.SERIAL
    assert apply(func, transform.VectorizeLoop(False)).body.kind is ForKind.SERIAL


# Random loops.

N = 16


def index_expressions(lane, outer):
    base = st.sampled_from([lane, outer, const(3, "int32"), const(0, "int32")])
    return st.recursive(
        base,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
            st.tuples(inner, st.integers(-2, 4)).map(lambda p: p[0] * p[1]),
            st.tuples(inner, st.integers(1, 9)).map(lambda p: p[0] // p[1]),
            st.tuples(inner, st.integers(1, 9)).map(lambda p: p[0] % p[1]),
        ),
        max_leaves=5,
    )


@st.composite
def vector_loops(draw):
    """A loop over 8 lanes in a serial loop, with loads, conditions and choices of all kinds."""
    lane, outer = Var("j", "int32"), Var("i", "int32")
    a, n = declare((N,), name="A"), declare((N,), "int32", "N")
    b = declare((2 * N,), name="B")
    index = lambda: draw(index_expressions(lane, outer)) % N

    def condition():
        kind = draw(st.integers(0, 3))
        if kind == 0:
            return index() < draw(st.integers(0, N))
        if kind == 1:
            return BufferLoad(a, (index(),)) > 0.5
        if kind == 2:
            return outer < 1
        return lane + outer * 8 < 13

    def value(depth):
        kind = draw(st.integers(0, 6)) if depth else 0
        if kind == 0:
            return BufferLoad(a, (index(),))
        if kind == 1:
            return Cast("float32", index() * 2 - 1)
        if kind == 2:
            return value(depth - 1) + value(depth - 1)
        if kind == 3:
            # outside of the buffer unless the condition holds
            far = lane * 4 - 6
            inside = (far >= 0) & (far < N)
            return Call("float32", "tir.if_then_else", (inside, BufferLoad(a, (far,)), value(0)))
        if kind == 4:
            return Select(condition(), value(depth - 1), value(depth - 1))
        if kind == 5:
            divisor = BufferLoad(n, (index(),))
            quotient = Call("int32", "tir.if_then_else", (divisor > 0, 100 // divisor, 7 - divisor))
            return Cast("float32", quotient)
        return Call("float32", "tir.sqrt", (value(depth - 1) * value(depth - 1),))

    def statement(depth):
        kind = draw(st.integers(0, 4)) if depth else 0
        place = draw(
            st.sampled_from([outer * 8 + lane, lane * 2 + outer, const(5, "int32"), index()])
        )
        if kind <= 1:
            return BufferStore(b, value(2), (place,))
        if kind == 2:
            return BufferStore(b, BufferLoad(b, (place,)) + value(1), (place,))
        if kind == 3:
            other = statement(depth - 1) if draw(st.booleans()) else None
            return IfThenElse(condition(), statement(depth - 1), other)
        k = Var("k", "int32")
        extent = draw(st.sampled_from([const(3, "int32"), lane % 3 + 1]))
        return For(k, 0, extent, ForKind.SERIAL, statement(depth - 1))

    body = statement(2)
    vector = For(lane, 0, 8, ForKind.VECTORIZED, body)
    loop = For(outer, 0, 2, ForKind.SERIAL, vector)
    return PrimFunc([a, n, b], loop, attrs={"global_symbol": "main"})


def arrays():
    random = np.random.default_rng(3)
    return [
        random.random(N).astype("float32"),
        random.integers(-3, 4, N).astype("int32"),
        random.random(2 * N).astype("float32"),
    ]


@settings(max_examples=150)
@given(vector_loops())
def test_random_loops(func):
    given_arrays = arrays()
    want = outputs(func, given_arrays)
    got = apply(func, transform.VectorizeLoop(freely=True))
    assert "T.vectorized" not in got.script()
    assert_same(outputs(got, given_arrays), want)


@settings(max_examples=25)
@given(vector_loops())
def test_random_loops_compiled(func):
    given_arrays = arrays()
    want = outputs(func, given_arrays)
    tensors = [ts.nd.array(array) for array in given_arrays]
    build(func)(*tensors)
    assert_same([tensor.numpy() for tensor in tensors], want)
