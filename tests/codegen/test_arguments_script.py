"""What the wrapper of a public function accepts and refuses."""

import ctypes

import numpy as np
import pytest

import tilesmith
from tests.codegen.harness import compile_strictly
from tilesmith.codegen.c_compiler import find_compiler
from tilesmith.script import tir as T
from tilesmith.support.errors import (
    ExecutionError,
    OutOfBoundsError,
    ShapeError,
    TilesmithError,
    TypeMismatchError,
    UnknownFunctionError,
)


@T.prim_func
def add_one(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] + T.float32(1)


@T.prim_func
def fixed(A: T.Buffer((0, 5), "float32"), B: T.Buffer((0, 5), "float32")):
    for i, j in T.grid(0, 5):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w]


@pytest.fixture(scope="module")
def compiled():
    return tilesmith.build(add_one, target="llvm")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 3), (3, 1)])
@pytest.mark.parametrize("make", [np.ascontiguousarray, np.asfortranarray, tilesmith.nd.array])
def test_tensors_without_elements_are_compact(compiled, shape, make):
    source, target = make(np.zeros(shape, "f4")), make(np.zeros(shape, "f4"))
    compiled(source, target)
    assert (np.asarray(target) == 1).all()


def test_tensors_without_elements_of_a_fixed_shape():
    module = tilesmith.build(fixed, target="llvm")
    module(np.zeros((0, 5), "f4"), np.zeros((0, 5), "f4")[:, ::-1])


def test_strides_are_still_looked_at(compiled):
    with pytest.raises(ValueError, match=r"must be compact .*, got stride 6 along axis 0"):
        compiled(np.zeros((4, 6), "f4")[:, ::2], np.zeros((4, 3), "f4"))


RETURNED = [
    ("int8", -128), ("uint8", 255), ("int32", -7), ("int64", 1 << 40), ("uint32", 4000000000),
    ("bool", True), ("float32", 1.5), ("float64", -2.25), ("float16", 0.5), ("bfloat16", 3.0),
]  # fmt: skip


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("dtype, value", RETURNED)
def test_scalars_are_taken_and_returned(dtype, value, target):
    parameter = tilesmith.tir.Var("x", dtype)
    body = tilesmith.tir.Evaluate(tilesmith.tir.ret(parameter))
    kind = tilesmith.ir.PrimType(dtype)
    function = tilesmith.tir.PrimFunc([parameter], body, kind, attrs={"global_symbol": "same"})
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    got = tilesmith.build(function, target=target)["same"](value)
    assert got == value and isinstance(got, type(value))


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16"])
def test_small_integers_arrive_as_wide_as_the_calling_convention_wants(dtype, target):
    """Who is called may use all 32 bits of the register."""
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    x, out = tilesmith.tir.Var("x", dtype), tilesmith.tir.decl_buffer((1,), dtype, "B")
    seven = tilesmith.ir.const(7, dtype)
    body = tilesmith.tir.BufferStore(out, tilesmith.tir.floordiv(x, seven), [0])
    handle = tilesmith.tir.Var("B", "handle")
    divided = tilesmith.tir.PrimFunc(
        [x, handle], body, buffer_map={handle: out}, attrs={"global_symbol": "divided"}
    )
    module = tilesmith.build(divided, target=target)
    limits = np.iinfo(dtype)
    for value in (limits.min, limits.min // 2 + 1, limits.max // 2 + 2, limits.max, 4):
        result = np.zeros(1, dtype)
        module(value, result)
        assert result[0] == value // 7


@pytest.mark.parametrize("value", ["text", None, np.zeros(3, "f4")])
def test_arguments_of_the_wrong_kind(value):
    @T.prim_func
    def store(x: T.int32, A: T.Buffer((4,), "int32")):
        A[0] = x

    module = tilesmith.build(store, target="llvm")
    with pytest.raises(TypeError, match=r"argument 1 \('x'\) must be an integer"):
        module(value, np.zeros(4, "i4"))
    with pytest.raises(TypeError, match=r"argument 2 \('A'\) must be a tensor|of dtype int32"):
        module(1, value)
    with pytest.raises(TypeError, match="expected 2 arguments, got 1"):
        module(1)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_accesses_out_of_bounds_are_errors_in_checked_code(target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")

    @T.prim_func
    def gather(A: T.Buffer((8,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = A[B[i]]

    with tilesmith.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        module = tilesmith.build(gather, target=target)
    places = np.array([3, 0, 7, 1], "i4")
    module(np.arange(8, dtype="i4") * 10, places)
    np.testing.assert_array_equal(places, [30, 0, 70, 10])
    for wrong in (8, -1, 1 << 30):
        places = np.array([3, 0, wrong, 1], "i4")
        with pytest.raises(OutOfBoundsError, match="outside of axis 0"):
            module(np.arange(8, dtype="i4"), places)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32", "float64"])
def test_atomic_addition(dtype, target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")

    @T.prim_func
    def count(A: T.Buffer((10000,), "int32"), B: T.Buffer((4,), dtype)):
        for i in T.parallel(10000):
            place = T.address_of(B[A[i]])
            T.evaluate(T.call_intrin(dtype, "tir.atomic_add", place, T.Cast(dtype, i % 3)))

    places = np.random.default_rng(0).integers(0, 4, 10000).astype("i4")
    sums = np.zeros(4, dtype)
    module = tilesmith.build(count, target=target)
    module(places, sums)
    expected = np.bincount(places, np.arange(10000) % 3, 4)
    np.testing.assert_array_equal(sums, expected.astype("int64").astype(dtype))
    if target == "c":
        compile_strictly(module.get_source("c"))


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_atomic_addition_gives_the_old_value(target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")

    @T.prim_func
    def number(A: T.Buffer((1,), "int32"), B: T.Buffer((100,), "int32")):
        for i in T.parallel(100):
            B[i] = T.call_intrin("int32", "tir.atomic_add", T.address_of(A[0]), 1)

    counter, found = np.zeros(1, "i4"), np.zeros(100, "i4")
    tilesmith.build(number, target=target)(counter, found)
    assert counter[0] == 100 and sorted(found) == list(range(100))


def test_copies_in_the_background_are_done_at_once():
    @T.prim_func
    def copy(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        T.evaluate(T.call_intrin("int32", "tir.dma_start_group", 0))
        source, target = T.address_of(A[0]), T.address_of(B[2])
        T.evaluate(T.call_intrin("int32", "tir.dma_copy", 0, target, source, 16, 0))
        T.evaluate(T.call_intrin("int32", "tir.dma_end_group", 0))
        T.evaluate(T.call_intrin("int32", "tir.dma_wait", 0, 0))

    a, b = np.arange(1, 9, dtype="i4"), np.zeros(8, "i4")
    tilesmith.build(copy, target="llvm")(a, b)
    np.testing.assert_array_equal(b, [0, 0, 1, 2, 3, 4, 0, 0])


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_errors_of_compiled_code_are_tilesmiths(target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")

    @T.prim_func
    def store(A: T.Buffer((4,), "int32"), n: T.int32):
        assert n > 0, "n must be positive"
        A[0] = n
        T.evaluate(T.call_packed("nobody.has.registered.this"))

    module = tilesmith.build(store, target=target)
    good = np.zeros(4, "i4")
    for arguments, kind, words in (
        ((good,), TypeMismatchError, "expected 2 arguments"),
        ((good, "x"), TypeMismatchError, r"must be an integer \(int32\), got a text(\n|$)"),
        ((good, 1.5), TypeMismatchError, r"must be an integer \(int32\), got a float(\n|$)"),
        ((good, None), TypeMismatchError, r"must be an integer \(int32\), got None(\n|$)"),
        ((good, good), TypeMismatchError, r"must be an integer \(int32\), got a tensor(\n|$)"),
        ((None, 1), TypeMismatchError, r"must be a tensor, got None(\n|$)"),
        ((7, 1), TypeMismatchError, r"must be a tensor, got an integer(\n|$)"),
        (([1, 2], 1), TypeMismatchError, r"must be a tensor, got a list(\n|$)"),
        ((object(), 1), TypeMismatchError, r"must be a tensor, got another object(\n|$)"),
        ((np.zeros(5, "i4"), 1), ShapeError, "must have size 4 along axis 0, got 5"),
        ((np.zeros(8, "i4")[::2], 1), ShapeError, "must be compact"),
        ((good, -1), ExecutionError, "n must be positive"),
        ((good, 1), UnknownFunctionError, "nobody.has.registered.this"),
    ):
        with pytest.raises(kind, match=words) as caught:
            module(*arguments)
        assert isinstance(caught.value, TilesmithError)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_pointers_to_numbers_take_the_elements_of_tensors(target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")

    @T.prim_func
    def double(p: T.handle("float32"), n: T.int32):
        P = T.Buffer((n,), "float32", data=p)
        for i in range(n):
            P[i] = P[i] * T.float32(2)

    module = tilesmith.build(double, target=target)
    tensor = tilesmith.nd.array(np.arange(6, dtype="f4"))
    part = tensor._create_view((2,), "float32", 16)
    module(tensor, 6)
    module(part, 2)
    module(ctypes.c_void_p(tensor.data_ptr()), 1)
    np.testing.assert_array_equal(tensor.numpy(), [0, 2, 4, 6, 16, 20])
