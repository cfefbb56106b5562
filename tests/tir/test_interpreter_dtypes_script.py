"""Data types in the interpreter: arithmetic rounds as the type says; transfers and atomics."""

import numpy as np
import pytest

from tilesmith.ir import Call, PrimType, Var
from tilesmith.runtime.dtype import DataType
from tilesmith.script import tir as T
from tilesmith.support.errors import ExecutionError
from tilesmith.tir import Evaluate, PrimFunc, stmt_seq
from tilesmith.tir.interpreter import Options, run

FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"]
INTEGERS = ["int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]


def arithmetic(dtype):
    @T.prim_func
    def func(A: T.Buffer((64,), dtype), B: T.Buffer((64,), dtype), C: T.Buffer((4, 64), dtype)):
        for i in range(64):
            C[0, i] = A[i] + B[i]
            C[1, i] = A[i] * B[i] - A[i]
            C[2, i] = T.max(A[i], B[i])
            C[3, i] = T.Cast(dtype, T.Cast("float32", A[i]) * T.float32(0.5))

    return func


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_round_after_each_operation(dtype):
    kind = DataType(dtype).numpy()
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(64).astype("float32").astype(kind) for _ in range(2))
    c = np.zeros((4, 64), kind)
    run(arithmetic(dtype), a, b, c)

    def rounded(value):
        return np.asarray(value).astype(kind)

    wide = [x.astype("float64") for x in (a, b)]
    np.testing.assert_array_equal(c[0], rounded(wide[0] + wide[1]))
    product = rounded(wide[0] * wide[1]).astype("float64")
    np.testing.assert_array_equal(c[1], rounded(product - wide[0]))
    np.testing.assert_array_equal(c[2], np.where(wide[1] > wide[0], b, a))
    np.testing.assert_array_equal(c[3], rounded(a.astype("float32") * np.float32(0.5)))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around(dtype):
    dtype = DataType(dtype)
    kind = dtype.numpy()
    random = np.random.default_rng(0)
    low, high = max(dtype.min_value, -(2**40)), min(dtype.max_value, 2**40)
    a, b = (random.integers(low, high + 1, 64) for _ in range(2))
    c = np.zeros((4, 64), kind)
    run(arithmetic(dtype), a.astype(kind), b.astype(kind), c)

    def wrapped(value):
        value = int(value) & ((1 << dtype.bits) - 1)
        return value - (1 << dtype.bits) if value > dtype.max_value else value

    for i in range(64):
        x, y = int(a[i]), int(b[i])
        assert int(c[0, i]) == wrapped(x + y)
        assert int(c[1, i]) == wrapped(wrapped(x * y) - x)
        assert int(c[2, i]) == max(x, y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int8", "int4", "bool"])
def test_vectors_and_switched_off_lanes(dtype):
    @T.prim_func
    def func(A: T.Buffer((16,), dtype), B: T.Buffer((16,), dtype), n: T.int32):
        for i in range(4):
            mask = T.get_active_lane_mask("boolx4", i * 4, n)
            B.vstore([T.Ramp(i * 4, 1, 4)], A.vload([T.Ramp(i * 4, 1, 4)], predicate=mask), mask)

    kind = DataType(dtype).numpy()
    a = np.random.default_rng(0).integers(0, 2, 16).astype(kind)
    b = np.ones(16, kind)
    run(func, a, b, 10)
    np.testing.assert_array_equal(b[:10], a[:10])
    assert (b[10:] == np.ones(6, kind)).all()


def test_dot_products_of_bytes_and_halves_of_vectors():
    @T.prim_func
    def func(A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "int8"), C: T.Buffer((6,), "int32")):
        C[0] = T.dp4a(A[T.Ramp(0, 1, 4)], B[T.Ramp(0, 1, 4)], 7)
        C[T.Ramp(2, 1, 4)] = T.Cast(
            "int32x4",
            T.vectorcombine(
                "int8x4",
                T.vectorhigh("int8x2", A[T.Ramp(0, 1, 4)]),
                T.vectorlow("int8x2", A[T.Ramp(0, 1, 4)]),
            ),
        )

    a, b = np.array([1, -2, 3, -128], "int8"), np.array([5, 6, 7, 8], "int8")
    c = np.zeros(6, "int32")
    run(func, a, b, c)
    assert c[0] == 7 + 5 - 12 + 21 - 1024
    assert c[2:].tolist() == [3, -128, 1, -2]


def test_the_length_of_scalable_vectors_is_an_option():
    @T.prim_func
    def func(A: T.Buffer((1,), "int32")):
        A[0] = T.vscale() * 4

    a = np.zeros(1, "int32")
    run(func, a, options=Options(vscale=2))
    assert a[0] == 8


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_atomic_additions_do_not_race(dtype):
    @T.prim_func
    def func(A: T.Buffer((2,), dtype)):
        tx = T.launch_thread("threadIdx.x", 40)
        T.evaluate(
            T.call_intrin(dtype, "tir.atomic_add", T.address_of(A[tx % 2]), T.Cast(dtype, tx))
        )

    a = np.zeros(2, dtype)
    run(func, a, options=Options(check_races=True))
    want = [sum(range(0, 40, 2)), sum(range(1, 40, 2))]
    assert [int(x) for x in a] == [int(np.asarray(x).astype(dtype)) for x in want]


@pytest.mark.parametrize("grouped", [False, True])
def test_transfers_show_when_waited_for(grouped):
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((3, 4), "float32")):
        X = T.decl_buffer((8,), "float32")
        if grouped:
            T.evaluate(T.call_intrin("int32", "tir.dma_start_group", 0))
        for i in range(2):
            T.evaluate(
                T.call_intrin(
                    "int32",
                    "tir.dma_copy",
                    0,
                    T.address_of(X[i * 4]),
                    T.address_of(A[i * 4]),
                    16,
                    0,
                )
            )
        if grouped:
            T.evaluate(T.call_intrin("int32", "tir.dma_end_group", 0))
        for i in range(4):
            B[0, i] = X[i]
        T.evaluate(T.call_intrin("int32", "tir.dma_wait", 0, 1))
        for i in range(4):
            B[1, i] = X[i]
        T.evaluate(T.call_intrin("int32", "tir.dma_wait", 0, 0))
        for i in range(4):
            B[2, i] = X[i + 4]

    a, b = np.arange(8, dtype="float32"), np.zeros((3, 4), "float32")
    run(func, a, b)
    assert np.isnan(b[0]).all()
    assert np.isnan(b[1]).all() == grouped
    np.testing.assert_array_equal(b[2], a[4:])


def test_lists_of_values():
    items, name = Var("items", "handle"), "tests.double"
    body = stmt_seq(
        Evaluate(Call("int32", "tir.anylist_setitem_call_packed", (items, 1, name, 21))),
        Evaluate(Call("int32", "tir.anylist_resetitem", (items, 0))),
        Evaluate(Call("int32", "tir.ret", (Call("int32", "tir.anylist_getitem", (items, 1)),))),
    )
    func = PrimFunc([items], body, PrimType("int32"))
    values = [5, None]
    assert run(func, values, externs={name: lambda x: 2 * x}) == 42
    assert values == [None, 42]


def test_leaving_with_an_error():
    with pytest.raises(ExecutionError, match="error that was set last"):
        run(PrimFunc([], Evaluate(Call("handle", "tir.tvm_throw_last_error", ()))))


def test_flat_views_of_parts_of_arrays():
    """A part of an array is followed by the rest of it: whole rows are there, the last one too."""

    @T.prim_func
    def func(A: T.Buffer((3, 4), "int32", strides=(10, 1)), B: T.Buffer((3, 4), "int32")):
        F = T.decl_buffer((30,), "int32", data=A.data)
        for i, j in T.grid(3, 4):
            B[i, j] = F[i * 10 + j]

    whole, b = np.arange(30, dtype="int32").reshape(3, 10), np.zeros((3, 4), "int32")
    run(func, whole[:, :4], b)
    np.testing.assert_array_equal(b, whole[:, :4])


def test_addresses_are_those_of_the_machine():
    @T.prim_func
    def func(A: T.Buffer((64,), "uint8"), B: T.Buffer((1,), "uint64")):
        B[0] = T.reinterpret("uint64", T.address_of(A[3]))

    a, b = np.zeros(64, "uint8"), np.zeros(1, "uint64")
    run(func, a, b)
    assert b[0] == a.ctypes.data + 3
